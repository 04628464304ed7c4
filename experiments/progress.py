"""What a person sees while a stage trains: a progress bar in a terminal, a line now and then elsewhere."""

import sys
from collections.abc import Mapping
from typing import Any, Self

from tqdm import tqdm

LINES = 10  # lines of a stage where output is not a terminal


class Progress:
    """Shows the epochs of one stage on standard error; a context manager."""

    def __init__(self, stage: str, epochs: int):
        self.stage, self.epochs = stage, epochs
        self.auc = ""
        self.bar = tqdm(total=epochs, desc=stage, unit="epoch", disable=not sys.stderr.isatty())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def show(self, line: Mapping[str, Any]) -> None:
        """Shows a metric line; means over seeds, the AUC as it was last measured."""
        if "attention_auc" in line:
            self.auc = "".join(f", AUC {auc['mean']:.1f} %" for auc in line["attention_auc"])
        text = f"loss {line['loss']['mean']:.3g}, accuracy {line['accuracy']['mean']:.1f} %{self.auc}"
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update()
        epoch = line["epoch"]
        if self.bar.disable and (epoch % -(-self.epochs // LINES) == 0 or epoch == self.epochs):
            print(f"{self.stage}: epoch {epoch} of {self.epochs}, {line['seconds']:.1f} s, {text}", file=sys.stderr)
