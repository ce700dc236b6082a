"""Replacements for parts of torch that take no tensors: `nn.modules.utils._pair`, and context managers that have no
effect in JAX."""

import contextlib
from collections.abc import Iterable
from typing import Any

__all__ = ["no_context", "ntuple"]


def ntuple(x: object, n: int) -> tuple[Any, ...]:
    """Return an iterable as a tuple, and any other value repeated n times.

    Args:
        x: a value, or an iterable of any length.
        n: number of repetitions of a value that is not iterable.

    Returns:
        The tuple.

    Reference: torch.nn.modules.utils._ntuple.

    >>> ntuple(3, 2), ntuple([1, 2, 3], 2)
    ((3, 3), (1, 2, 3))
    """
    return tuple(x) if isinstance(x, Iterable) else (x,) * n


def no_context(*args: object, **kwargs: object) -> contextlib.AbstractContextManager[None]:
    """Return a context manager that does nothing. The context manager replaces an object such as `torch.autocast(…)`.

    Args:
        args: ignored.
        kwargs: ignored.

    Returns:
        The context manager.

    >>> with no_context("cuda", enabled=False):
    ...     print("inside")
    inside
    """
    return contextlib.nullcontext()
