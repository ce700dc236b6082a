"""The axes of the mesh along which arrays vary inside a `shard_map`."""

from collections.abc import Hashable

import jax
from jax import lax

__all__ = ["vary_like"]


def vary_like(array: jax.Array, *others: jax.Array | None) -> jax.Array:
    """Return `array`, marked as varying over every mesh axis over which any of the other arrays varies.

    If the result of a loop varies over a mesh axis, the initial value of the loop must be marked as varying over this
    axis too. Outside a `shard_map`, or with check_vma=False, the array is returned unchanged.

    Example:
        >>> import jax.numpy as jnp
        >>> vary_like(jnp.zeros(2), jnp.ones(3))
        Array([0., 0.], dtype=float32)
    """
    wanted = frozenset[Hashable]().union(*(_varying(other) for other in others if other is not None))
    missing = tuple(sorted(wanted - _varying(array), key=str))
    return lax.pcast(array, missing, to="varying") if missing else array


def _varying(array: jax.Array) -> frozenset[Hashable]:
    aval = jax.typeof(array)
    kind = getattr(aval, "manual_axis_type", None)  # `vma` itself in older releases of JAX
    return kind.varying if kind is not None else getattr(aval, "vma", frozenset())
