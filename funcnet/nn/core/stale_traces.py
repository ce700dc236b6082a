"""Notes about which modules `jax.jit` has traced and which leaves have values. The notes are used only for warnings.

`init` and `apply` do not change the module itself. A user of torch expects that a change to a module takes effect at
once. Here, the values that `init` has made and the programs that `jax.jit` has compiled do not change, so a warning
reports a change that comes too late. The notes are weak references to the parts and are stored outside of them, so
copies and pickles of a part do not contain its notes.
"""

import warnings
import weakref
from collections.abc import Iterable
from typing import Any

import jax
import jax.extend.core

from funcnet.tree import PyTree

__all__ = ["STARTED", "TRACED", "Notes", "is_abstract", "warn_of_change", "warn_of_init"]

_concrete = getattr(jax.extend.core, "concrete_or_error", None) or jax.core.concrete_or_error


class Notes:
    """A set of objects, compared by identity. The set does not keep the objects alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def add(self, parts: Iterable[Any]) -> None:
        for part in parts:
            self._known[id(part)] = part

    def __contains__(self, part: object) -> bool:
        return self._known.get(id(part)) is part


TRACED = Notes()  # modules and leaves whose net was traced by jax.jit
STARTED = Notes()  # leaves whose values were made


def is_abstract(tree: PyTree) -> bool:
    """Return whether a tree contains a value that is unknown during tracing, as under `jax.jit`."""
    for leaf in jax.tree.leaves(tree):
        if isinstance(leaf, jax.core.Tracer):
            try:
                _concrete(None, leaf)
            except jax.errors.ConcretizationTypeError:
                return True
    return False


def warn_of_change(part: object, name: str) -> None:
    """Warn that the attribute `name` of a module or leaf was changed, if `jax.jit` has already traced the net."""
    if part in TRACED:
        warnings.warn(
            f"{type(part).__name__}: {name!r} was changed after jax.jit had traced the module. Functions that were "
            "jitted before the change may still run the program compiled before it. Call jax.jit again.",
            stacklevel=4,
        )


def warn_of_init(leaf: object) -> None:
    """Warn that the init function of a leaf was changed, if the values of the leaf have already been made."""
    if leaf in STARTED:
        warnings.warn(
            f"{type(leaf).__name__}: its init was changed after it had been used to create values. These values do not "
            "change. To create new values, use params = net.reinit(key, params, 'name.of.the.module').",
            stacklevel=4,
        )
