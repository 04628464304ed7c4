"""What a preset's name says, in words: its supervision, then what differs from the paper's main model."""

from collections.abc import Mapping
from typing import Any

from .settings import Settings

SUPERVISION = {
    "weak": "attention learns from a teacher's leave-one-out labels",
    "robust": "attention learns from leave-one-out labels without their noise, and is made to generalize",
    "supervised": "attention learns from the true attention",
    "unsupervised": "attention learns from the task alone",
    "global": "no attention, global pooling",
    "diffpool": "no attention, DiffPool",
    "upper-bound": "nodes are pooled by the true attention, an upper bound",
}
# What the presets `robust` add to `weak`.
ROBUST: dict[str, Any] = {"label_fraction": 0.2, "softmax": "sink", "renormalize": True}
VARIANTS = {"topk": "top-k pooling", "gin": "GIN", "gcn": "GCN"}


def describe(preset: str, variants: Mapping[str, str]) -> str:
    """Returns what a preset is, in words.

    Args:
      preset: its name, a key of `SUPERVISION` with suffixes.
      variants: what an experiment's own suffixes say.
    """
    supervision = max((name for name in SUPERVISION if f"{preset}-".startswith(f"{name}-")), key=len)
    suffixes = preset.removeprefix(supervision).split("-")[1:]
    return ", ".join([SUPERVISION[supervision], *({**VARIANTS, **variants}[suffix] for suffix in suffixes)])


def listing(presets: Mapping[str, Settings], default: str, variants: Mapping[str, str]) -> str:
    """Returns a line for each preset, with its name and what it is."""
    width = max(map(len, presets))
    lines = []
    for name, settings in presets.items():
        all_kept = {"topk": f"{VARIANTS['topk']} that keeps all nodes"} if settings.attention.ratio == 1 else {}
        words = describe(name, {**variants, **all_kept}) + " (default)" * (name == default)
        lines.append(f"  {name:<{width}}  {words}")
    return "\n".join(lines)
