"""Operations on arrays that are sharded over Explicit mesh axes. Explicit is the default type of axes in
`jax.make_mesh`.

The sharding over Explicit axes is part of the type of an array, and JAX refuses operations whose result could be
sharded in several ways. The functions in this file specify the sharding of the result. If an array is not sharded over
Explicit axes, the functions add nothing to the program.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

__all__ = ["gathered", "partition", "placed", "replicated", "reshaped", "shards", "unchanged", "whole"]


def partition(array: jax.Array) -> tuple[Any, ...]:
    """Return, for every dimension of `array`, the mesh axis or axes over which this dimension is sharded. If the array
    is not sharded over Explicit axes, return ().

    Example:
        >>> import jax.numpy as jnp
        >>> partition(jnp.ones(3))
        ()
    """
    sharding = jax.typeof(array).sharding
    if not any(sharding.spec) or AxisType.Explicit not in sharding.mesh.axis_types:
        return ()
    return (*sharding.spec, *(None,) * (array.ndim - len(sharding.spec)))


def placed(array: jax.Array, like: jax.Array, axes: Sequence[int | None]) -> jax.Array:
    """Return `array` with dimension i sharded like dimension `axes[i]` of `like`. If `axes[i]` is None, dimension i is
    not sharded.

    Example:
        >>> import jax.numpy as jnp
        >>> placed(jnp.zeros(2), jnp.ones((3, 2)), [1])
        Array([0., 0.], dtype=float32)
    """
    spec = partition(like)
    wanted = [None if axis is None else spec[axis] for axis in axes] if spec else []
    return jax.sharding.reshard(array, _on_mesh(like, wanted)) if any(wanted) else array


def shards(array: jax.Array) -> int:
    """Return the number of parts into which Explicit mesh axes divide the first dimension of `array`.

    Example:
        >>> import jax.numpy as jnp
        >>> shards(jnp.ones(3))
        1
    """
    spec = partition(array)
    return math.prod(jax.typeof(array).sharding.mesh.shape[axis] for axis in _names(spec[0])) if spec else 1


def whole(array: jax.Array) -> jax.Array:
    """Return `array`, replicated on every device.

    Example:
        >>> import jax.numpy as jnp
        >>> whole(jnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    layout = replicated(array, jnp.ndim(array))
    return array if layout is None else jax.sharding.reshard(array, layout)


def unchanged(array: jax.Array) -> NamedSharding | None:
    """Return the value of `out_sharding` for a result that is sharded like `array`, or None without Explicit axes.

    Example:
        >>> import jax.numpy as jnp
        >>> unchanged(jnp.ones(3)) is None
        True
    """
    spec = partition(array)
    return _on_mesh(array, spec) if spec else None


def replicated(like: jax.Array, ndim: int) -> NamedSharding | None:
    """Return the value of `out_sharding` for a result with `ndim` dimensions that is replicated on all devices of the
    mesh of `like`. If `like` is not sharded over Explicit axes, return None.

    Example:
        >>> import jax.numpy as jnp
        >>> replicated(jnp.ones(3), 1) is None
        True
    """
    return _on_mesh(like, [None] * ndim) if partition(like) else None


def gathered(table: jax.Array, indices: jax.Array) -> NamedSharding | None:
    """Return the value of `out_sharding` for `table.at[indices].get(…)`, or None without Explicit axes. The rows of the
    result are sharded like the indices, and its columns like the columns of the table.

    Example:
        >>> import jax.numpy as jnp
        >>> gathered(jnp.ones((5, 2)), jnp.arange(3)) is None
        True
    """
    rows, columns = partition(indices), partition(table)[1:]
    if not rows and not any(columns):
        return None
    rows = rows or (None,) * indices.ndim
    used = {axis for entry in rows for axis in _names(entry)}
    free = [None if used & set(_names(entry)) else entry for entry in columns]
    return _on_mesh(indices if any(rows) else table, [*rows, *free])


def reshaped(array: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Return `array.reshape(shape)`. If dimensions are merged, the result keeps the mesh axes of the outermost merged
    dimension. If a dimension is split, the outermost of the new dimensions keeps its mesh axes. In both cases, the
    number of devices along the mesh axes must divide the size of the resulting dimension.

    Example:
        >>> import jax.numpy as jnp
        >>> reshaped(jnp.arange(4), (2, 2))
        Array([[0, 1],
               [2, 3]], dtype=int32)
    """
    spec = partition(array)
    wanted = _carried(array, spec, shape) if spec else None
    if wanted is None:
        return array.reshape(*shape)
    return jax.lax.reshape(array, tuple(shape), out_sharding=_on_mesh(array, wanted))


def _carried(array: jax.Array, spec: Sequence[Any], shape: Sequence[int]) -> list[Any] | None:
    """Return the mesh axes of each dimension of `array.reshape(shape)`, or None if some mesh axes cannot be kept."""
    if -1 in shape or 0 in shape:
        return None
    sizes, wanted, i, j = jax.typeof(array).sharding.mesh.shape, [None] * len(shape), 0, 0
    while i < array.ndim:
        first, outer = i, j  # the smallest runs of dimensions from here on with equal numbers of entries
        i, j = i + 1, j + 1
        while (old := math.prod(array.shape[first:i])) != (new := math.prod(shape[outer:j])):
            i, j = (i + 1, j) if old < new else (i, j + 1)
        here = [entry for entry, size in zip(spec[first:i], array.shape[first:i], strict=True) if size != 1]
        if any(here[1:]):
            return None
        if any(here):
            outer = next(place for place in range(outer, j) if shape[place] != 1)
            if shape[outer] % math.prod(sizes[axis] for axis in _names(here[0])):
                return None
            wanted[outer] = here[0]
    return wanted


def _names(entry: object) -> tuple[Any, ...]:
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def _on_mesh(array: jax.Array, spec: Sequence[Any]) -> NamedSharding:
    return NamedSharding(jax.typeof(array).sharding.mesh, PartitionSpec(*spec))
