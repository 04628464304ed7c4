"""Counts what jax compiles."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax

COMPILED = "/jax/core/compile/backend_compile_duration"
MISSED = "/jax/compilation_cache/cache_misses"


@contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Within, the dictionary counts programs that are "compiled", and those of them that no cache on the disk has."""
    counts = {"compiled": 0, "missed": 0}

    def count_compiled(event: str, seconds: float, **about: object) -> None:
        counts["compiled"] += event == COMPILED

    def count_missed(event: str, **about: object) -> None:
        counts["missed"] += event == MISSED

    jax.monitoring.register_event_duration_secs_listener(count_compiled)
    jax.monitoring.register_event_listener(count_missed)
    try:
        yield counts
    finally:
        jax.monitoring.unregister_event_duration_listener(count_compiled)
        jax.monitoring.unregister_event_listener(count_missed)
