"""Ready-made models: their list with scores, the card of one, and how to make them.

    python -m experiments.pretrained                  all models, with accuracy and attention AUC on test graphs
    python -m experiments.pretrained colors-weak      the card of one: data, settings, seeds, scores, how to train it
    python -m experiments.pretrained make RUN ...     makes the models of runs that were trained with --validation

`jattn.load_pretrained` loads one. Of the seeds of a run, the model is the one whose accuracy on the validation split is
the median.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ..run.command_line import call
from ..run.errors import fail, suggestion
from ..run.folder import RunError
from ..run.paths import local_path
from ..run.program import as_typed, program
from ..run.results import TOGETHER
from ..run.tables import as_text, title

if TYPE_CHECKING:  # a command line is read without jax
    from jattn.io import PretrainedCard


def show(name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[MODEL]")] = None) -> None:
    """Prints the list of models, or the card of one.

    Args:
      name: The model whose card is printed; by default all models are listed.
    """
    from jattn.io import pretrained_cards

    cards = pretrained_cards()
    if name is None:
        print(listing(cards.values()))
    elif name in cards:
        print(card_text(cards[name]))
    else:
        fail(f"there is no ready-made model {name!r}; {suggestion(name, cards)}")


def make_models(runs: Annotated[tuple[Path, ...], tyro.conf.Positional], out: Path | None = None) -> None:
    """Makes the models of finished runs.

    Args:
      runs: Folders of runs with --validation, or of one seed.
      out: Folder of the models; by default that of the package.
    """
    from jattn.io._pretrained import FOLDER

    from ..run.devices import configure_jax  # listing does not need what this and `making` import
    from .making import make

    if not runs:
        fail("runs: name the folder of at least one run")
    configure_jax()
    failures = []
    for run in runs:
        try:
            folder = local_path("--out", out) if out else FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            card = make(local_path("runs", run), folder)
            size = (folder / f"{card.name}.npz").stat().st_size
            print(f"{card.name}: seed {card.seed} of {len(card.seeds)}, {size / 1000:.0f} kB", flush=True)
        except (RunError, ValueError, OSError) as error:
            failures.append(str(error))
    if failures:
        print(*(f"error: {failure}" for failure in failures), sep="\n", file=sys.stderr)
        raise SystemExit(1)


def listing(cards: "Iterable[PretrainedCard]") -> str:
    """Returns a table of scores for each data set."""
    by_subsets: dict[tuple[str, ...], list[PretrainedCard]] = {}
    for card in cards:
        by_subsets.setdefault(tuple(name for name in card.scores if name != TOGETHER), []).append(card)
    tables = []
    for subsets, group in by_subsets.items():
        rows = [["%", *map(title, subsets), "AUC"]]
        rows += [[card.name, *(f"{card.scores[name].accuracy:.1f}" for name in subsets), _auc(card)] for card in group]
        tables.append(as_text(rows))
    return "\n\n".join(tables)


def _auc(card: "PretrainedCard") -> str:
    """The attention AUC of the first pooling, on all subsets together; "" if there is none."""
    first = next(iter(card.scores[TOGETHER].attention_auc), None)
    return "" if first is None else f"{first:.1f}"


def card_text(card: "PretrainedCard") -> str:
    """Returns a card as text."""
    chosen = f"{card.seed}, the only one trained"
    if len(card.seeds) > 1:
        validated = zip(card.seeds, card.validation_accuracy, strict=True)
        accuracies = ", ".join(f"{seed}: {accuracy:.2f}" for seed, accuracy in validated)
        chosen = f"{card.seed}, the median by validation accuracy ({accuracies})"
    scores = {
        title(name): f"{subset.accuracy:.2f} % of {subset.graphs} graphs"
        + "".join(f", AUC {auc:.2f} %" for auc in subset.attention_auc if auc is not None)
        for name, subset in card.scores.items()
    }
    files = [f"{name} (SHA-256 {digest})" for name, digest in card.data["files"].items()]
    parts: dict[str, str | Mapping[str, str]] = {
        "scores": scores,
        "features": card.features,
        **({"feature_mean": _numbers(card.feature_mean)} if card.feature_mean else {}),
        **({"feature_std": _numbers(card.feature_std)} if card.feature_std else {}),
        "seed": chosen,
        "trained by": card.command,
        "seconds": ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in card.seconds.items()),
        "data": ", ".join([f"{card.data['name']}, {card.data['source']}", *files]),
        "versions": ", ".join(f"{name} {number}" for name, number in card.versions.items()),
        "settings": {name: str(value) for name, value in card.settings.items()},
    }
    return "\n".join([f"{card.name}: {card.about}", *_lines(parts)])


def _lines(parts: Mapping[str, str | Mapping[str, str]]) -> Iterable[str]:
    for name, value in parts.items():
        if isinstance(value, str):
            yield f"{name}: {value}"
        else:
            yield f"{name}:"
            yield from (f"  {inner}: {text}" for inner, text in value.items())


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def main(arguments: Sequence[str]) -> None:
    """Lists models, prints a card or makes models, as a command line asks for."""
    about = as_typed(__doc__ or "")
    if arguments[:1] == ["make"]:
        call(make_models, arguments[1:], f"{program('pretrained')} make", about)
    else:
        call(show, arguments, program("pretrained"), about)


if __name__ == "__main__":
    main(sys.argv[1:])
