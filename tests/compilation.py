"""How tests compile: quickly, since a small program that runs a few times costs more to optimise than to run."""

import functools

import jax

jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
)
