"""Settings of training."""

from dataclasses import dataclass

from jattn._choices import Precision, Task
from jattn._options import as_int, expect_at_least, expect_one_of, set_numbers, setting


@dataclass(frozen=True)
class TrainConfig:
    """Settings of training.

    Attributes:
      task: "regression" (squared error, one output) or "classification" (cross entropy).
      attention_weight: beta, the weight of the attention loss; 0 leaves attention unsupervised.
      learning_rate: Adam's step size at the start.
      decay_epochs: epochs, counted from 1, at whose start the learning rate is divided by 10.
      weight_decay: factor of the weight that is added to its gradient (L2).
      precision: precision of convolutions in training: "highest", "default" or "bfloat16". None: that of the network.
        Weights and everything else stay float32.
      compact: leave out rows of dropped nodes, and rows without a gradient (`Network.__call__`). The seeds of a
        device then train one after another. The result is the same. No effect on GPUs and TPUs, unless their cost model
        (`use_cost_model`) has `compact=True`.

    >>> TrainConfig("classification", attention_weight=100.0, decay_epochs=(280,)).learning_rate
    0.001
    """

    task: Task = "regression"
    attention_weight: float = 0.0
    learning_rate: float = 1e-3
    decay_epochs: tuple[int, ...] = ()
    weight_decay: float = 1e-4
    precision: Precision | None = None
    compact: bool = setting(False, "nothing")

    def __post_init__(self) -> None:
        expect_one_of("task", self.task, Task)
        set_numbers(self, floats=("attention_weight", "learning_rate", "weight_decay"), bools=("compact",))
        epochs = tuple(as_int("decay_epochs", epoch) for epoch in self.decay_epochs)
        object.__setattr__(self, "decay_epochs", epochs)
        expect_at_least(0, learning_rate=self.learning_rate, weight_decay=self.weight_decay)
        expect_at_least(0, attention_weight=self.attention_weight)
        if min(self.decay_epochs, default=1) < 1:
            raise ValueError(f"decay_epochs: {self.decay_epochs} is not allowed, epochs count from 1")
        if len(set(epochs)) < len(epochs):
            raise ValueError(f"decay_epochs: {epochs} is not allowed, an epoch is given twice")
        if self.precision is not None:
            expect_one_of("precision", self.precision, Precision)
