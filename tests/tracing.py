"""How often a function is traced: what "no recompile" means, counted where it happens.

JAX's own count of the programs of one function, `_cache_size`, is 0 after some thousands in one process.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax


def traced(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[None]]:
    """The function under `jax.jit`, and a list that grows by one with every trace."""
    traces: list[None] = []

    def run(*args: Any, **kwargs: Any) -> Any:
        traces.append(None)
        return function(*args, **kwargs)

    return jax.jit(functools.wraps(function)(run)), traces
