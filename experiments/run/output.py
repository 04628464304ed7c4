"""What a run prints: a table on standard output (made in `tables.py`), progress and notes on standard error.

Progress is a bar in a terminal, or else a line now and then.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tqdm import tqdm

from jattn.training._devices import is_main_process

from .paper_scores import PaperScores
from .results import Results
from .tables import as_text, score_rows

LINES = 10  # lines per stage if the output is no terminal


def note(text: str, quiet: bool = False) -> None:
    """Prints a line on standard error, once for all processes of a run; nothing if `quiet`."""
    if is_main_process() and not quiet:
        tqdm.write(text, file=sys.stderr)


def print_results(
    folder: Path, results: Results, before: bool, paper: PaperScores, details: Sequence[str] = ()
) -> None:
    """Prints the table of a finished run, its seconds and its folder.

    Args:
      folder: the run's.
      results: as for `score_rows`, as `paper` and `details` are.
      before: whether an earlier command finished it, so that this one trained nothing.
      paper: the paper's scores.
      details: further scores, by name.
    """
    print(as_text(score_rows(results, paper, details)))
    seconds = f"{results.total_seconds:.0f} s"
    print(f"finished before, in {seconds}: {folder}" if before else f"{seconds}; the run is in {folder}")


class Progress:
    """Shows the epochs of one stage on standard error; a context manager."""

    def __init__(self, stage: str, epochs: int, trained: int = 0, quiet: bool = False):
        """Shows the beginning of a stage.

        Args:
          stage: its name.
          epochs: the number of its epochs.
          trained: epochs that were trained before.
          quiet: show nothing.
        """
        self.stage, self.epochs, self.quiet = stage, epochs, quiet or not is_main_process()
        self.auc = ""
        in_terminal = sys.stderr.isatty() and not self.quiet
        self.bar = tqdm(total=epochs, initial=trained, desc=stage, unit="epoch", disable=not in_terminal)
        if trained:
            note(f"{stage}: resumed after epoch {trained} of {epochs}", quiet)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def show(self, line: Mapping[str, Any]) -> None:
        """Shows a metric line: means over seeds, and the last AUC that was measured."""
        if "attention_auc" in line:
            self.auc = "".join(f", AUC {auc['mean']:.1f} %" for auc in line["attention_auc"])
        text = f"loss {line['loss']['mean']:.3g}, accuracy {line['accuracy']['mean']:.1f} %{self.auc}"
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update()
        epoch = line["epoch"]
        if self.bar.disable and not self.quiet and (epoch % -(-self.epochs // LINES) == 0 or epoch == self.epochs):
            note(f"{self.stage}: epoch {epoch} of {self.epochs}, {line['seconds']:.1f} s in all, {text}")


@contextmanager
def count_graphs(stage: str, graphs: int, quiet: bool = False) -> Iterator[Callable[[int], Any]]:
    """Shows the progress of a stage that processes graphs; yields a function that takes how many more are done."""
    quiet = quiet or not is_main_process()
    with tqdm(total=graphs, desc=stage, unit="graph", disable=quiet or not sys.stderr.isatty()) as bar:
        shown = 0

        def count(more: int) -> None:
            nonlocal shown
            bar.update(more)
            before, shown = shown, shown + more
            if bar.disable and not quiet and (shown == graphs or shown * LINES // graphs > before * LINES // graphs):
                note(f"{stage}: {shown} of {graphs} graphs")

        yield count
