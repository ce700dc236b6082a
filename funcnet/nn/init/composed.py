"""Init functions that are made from arrays and from other init functions: copies, changes and parts of initial values.

An *init* is a function `init(key, shape, dtype)` that returns an initial value. In torch, a constructor copies the
values of a parameter (`target.weight.data.copy_(source.weight.data)`). Here, leaves have no values in constructors, so
the init of the copy is a `Same`, which draws the same values as the source. `with_keys` gives the `Same` the random key
of the source.
"""

import copy
import functools
from collections.abc import Callable
from types import EllipsisType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from funcnet.nn.init.initialisers import Init

Index = int | slice | EllipsisType | jax.Array | np.ndarray | tuple[Any, ...] | None  # what selects a part of an array

__all__ = ["NamedKey", "Same", "bernoulli", "changed", "clamped", "copied", "dtype_in_jax", "filled", "fixed",
           "in_part", "in_place", "named", "operated", "parts_in", "reshaped", "with_keys"]  # fmt: skip


class NamedKey(NamedTuple):
    """The dotted name of a leaf of the net, and the random key of its initial value."""

    name: str
    key: jax.Array


class Same:
    """The init of a leaf that is a copy of another leaf, the source. The copy starts with the initial value that the
    source had at the time of copying.

    Args:
        source: a leaf, or a part of a leaf. `source.origin` is the entire leaf.
    """

    def __init__(self, source: Any):
        if not source.origin.can_be_copied:
            raise TypeError(
                f"{source.origin!r} is computed from other leaves, so its initial value cannot be copied; expected a "
                "parameter or a buffer. Copy it before the computation is added."
            )
        self.source, self.init, self.shape = source, source.origin.init, source.origin.size()
        self.known: NamedKey | None = None

    def __call__(self, key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
        """Return the initial value of the leaf that was copied (the source), drawn with the random key of the source.
        If the source is not in the net, its key is not known, and the value is drawn with `key`.

        Raises:
            ValueError: if the source had no init function when it was copied.
        """
        if self.init is None:
            name = self.source if self.known is None else repr(self.known.name)
            raise ValueError(
                f"init: a leaf is a copy of {name}, which had no init when it was copied. Initialise the source before "
                "the copy, for example with nn.init.normal_(p)."
            )
        drawn = dtype_in_jax(self.source.origin.dtype)
        whole = jnp.asarray(self.init(key if self.known is None else self.known.key, self.shape, drawn), drawn)
        return jnp.broadcast_to(self.source.within(whole).astype(dtype), shape)


def with_keys(init: Any, known: Callable[[Any], NamedKey | None]) -> Any:
    """Return a copy of an init function in which every `Same` knows the name and the random key of the leaf that it
    copies.

    Args:
        init: an init function. A `Same` may be this function, or may be inside another `Same` or in the keywords of a
            `functools.partial`.
        known: function that returns the name and key of a source leaf, or None if the leaf is not in the net.
    """
    if isinstance(init, Same):
        new = copy.copy(init)
        new.init, new.known = with_keys(init.init, known), known(init.source.origin)
        return new
    if isinstance(init, functools.partial):
        keywords = {name: with_keys(value, known) for name, value in init.keywords.items()}
        if any(value is not init.keywords[name] for name, value in keywords.items()):
            return functools.partial(init.func, *init.args, **keywords)
    return init


def dtype_in_jax(dtype: DTypeLike) -> Any:
    """Return the dtype that JAX uses instead of `dtype`. If x64 is disabled, it is int32 for int64. The dtype of random
    keys does not change.
    """
    return jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def copied(value: ArrayLike, dtype: DTypeLike) -> jax.Array:
    """Return a copy of `value`, cast to `dtype` as torch's `copy_` does. If x64 is disabled in JAX, int64 becomes
    int32.

    Raises:
        OverflowError: if a number fits `dtype` but not the narrower dtype that JAX uses instead.
    """
    narrow = dtype_in_jax(dtype)
    if narrow != dtype and np.issubdtype(narrow, np.integer) and not isinstance(value, jax.core.Tracer):
        wide, most = np.asarray(value).astype(dtype), np.iinfo(narrow)
        if (outside := wide[(wide < most.min) | (wide > most.max)]).size:
            raise OverflowError(
                f"holds {outside[0]}; expected integers from {most.min} to {most.max}, because JAX has no "
                f"{np.dtype(dtype).name} without x64. Enable x64: jax.config.update('jax_enable_x64', True)."
            )
        value = wide
    return jnp.array(value, narrow)


def fixed(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike, *, array: jax.Array | np.ndarray) -> jax.Array:
    """Return `array`, broadcast to `shape`, as the initial value."""
    wide = array.dtype if dtype_in_jax(array.dtype) == dtype else dtype
    return jnp.broadcast_to(copied(array, wide), shape)  # a copy: donating params must not delete `array`


def changed(
    key: jax.Array,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    *,
    before: Init,
    function: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Draw an initial value with the init function `before`, and return `function(value)`."""
    return function(before(key, shape, dtype)).astype(dtype)


def in_part(
    key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike, *, whole: Init, index: Index, part: Init, place: int = 1
) -> jax.Array:
    """Draw an initial value with the init function `whole`, and replace its part at `index` by a draw from the init
    `part`.
    """
    value = whole(key, shape, dtype)
    return value.at[index].set(part(jax.random.fold_in(key, place), value[index].shape, dtype))


def parts_in(init: Any) -> int:
    """Return how many parts of a leaf the function `init` initialises separately. The random key for one more part
    depends on this number.
    """
    keywords = init.keywords if isinstance(init, functools.partial) else {}
    before = next((keywords[name] for name in ("whole", "before", "init") if name in keywords), None)
    return 0 if before is None else parts_in(before) + (init.func is in_part)


def bernoulli(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike, *, p: float) -> jax.Array:
    """Draw an array whose entries are 1 with probability `p`, and 0 otherwise."""
    return jax.random.bernoulli(key, p, shape).astype(dtype)


def reshaped(
    key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike, *, init: Init, drawn: tuple[int, ...]
) -> jax.Array:
    """Draw a value of the shape `drawn`, and reshape it to `shape`."""
    return init(key, drawn, dtype).reshape(shape)


def clamped(value: jax.Array, *, min: ArrayLike | None, max: ArrayLike | None) -> jax.Array:
    """Return `value` with each entry limited to the range from `min` to `max`."""
    return jnp.clip(value, min, max)


def filled(initial: jax.Array, *, mask: ArrayLike, value: ArrayLike) -> jax.Array:
    """Return `initial` with `value` at the positions at which `mask` is True."""
    return jnp.where(mask, jnp.asarray(value, initial.dtype), initial)


def named(value: jax.Array, *, name: str, args: tuple[Any, ...]) -> jax.Array:
    """Return `jnp.<name>(value, *args)`."""
    return getattr(jnp, name)(value, *args)  # by name, because functions of jax.numpy cannot be pickled


def operated(value: jax.Array, *, operate: Callable[..., jax.Array], other: ArrayLike, alpha: float = 1) -> jax.Array:
    """Return `operate(value, alpha * other)`, with `other` and `alpha` cast to the dtype of `value`."""
    return operate(value, jnp.asarray(other, value.dtype) * jnp.asarray(alpha, value.dtype))


def in_place(whole: jax.Array, *, index: Index, function: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return the array `whole` with `function` applied to its part at `index`."""
    return whole.at[index].set(function(whole[index]))
