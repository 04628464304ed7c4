from ._config import TrainConfig
from ._epoch import Predictions, TrainFunctions, TrainState, make_predict, make_train
from ._losses import attention_loss, auxiliary_loss, expect_of_task, task_loss
from ._seeds import Epoch, Trainer, predict_seeds, prepare_seeds, train_seeds

__all__ = [
    "Epoch",
    "Predictions",
    "TrainConfig",
    "TrainFunctions",
    "TrainState",
    "Trainer",
    "attention_loss",
    "auxiliary_loss",
    "expect_of_task",
    "make_predict",
    "make_train",
    "predict_seeds",
    "prepare_seeds",
    "task_loss",
    "train_seeds",
]
