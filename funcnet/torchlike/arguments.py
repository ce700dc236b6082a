"""Interpret dimensions, sizes and dtypes as torch does.

Torch treats a scalar as an array of one dimension, so `dim=0` and `dim=-1` are valid for a scalar.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.functional import checks

__all__ = ["Dims", "axes_of", "axis_of", "common_dtype", "float_dtype", "index_dtype", "line", "sizes_of"]

Dims = int | Sequence[int] | None


def axis_of(where: str, dim: int, ndim: int, name: str = "dim") -> int:
    """Return `dim` as a number from 0 to ndim - 1.

    Raises:
        ValueError: if the array has no such dimension.
        TypeError: if `dim` is not an integer.

    >>> axis_of("tl.sort", -1, 3)
    2
    """
    dim, count = checks.as_int(where, name, dim), max(ndim, 1)
    if not -count <= dim < count:
        raise ValueError(f"{where}: {name} is out of range; expected {-count} to {count - 1}, got {dim}.")
    return dim % count


def axes_of(where: str, dim: Dims, ndim: int) -> tuple[int, ...]:
    """Return the dimensions to reduce, each from 0 to ndim - 1. None and () mean all dimensions.

    Raises:
        ValueError: if the array has no such dimension, or a dimension is given twice.

    >>> axes_of("tl.std", (0, -1), 3)
    (0, 2)
    >>> axes_of("tl.std", None, 3)
    (0, 1, 2)
    """
    given = () if dim is None else checks.entries(dim, 1)
    found = tuple(axis_of(where, d, ndim) for d in given)
    if len(set(found)) < len(found):
        raise ValueError(f"{where}: dim names a dimension twice; expected different dimensions, got {dim}.")
    return (found if ndim else ()) if given else tuple(range(ndim))


def line(input: jax.Array) -> jax.Array:
    """Return a scalar as an array of shape (1,), and every other array unchanged.

    >>> line(jnp.float32(2)).shape
    (1,)
    """
    return input.reshape(1) if input.ndim == 0 else input


def sizes_of(where: str, sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the sizes as a tuple, whether the call was `f(x, 2, 3)` or `f(x, (2, 3))`.

    >>> sizes_of("tl.expand", ((2, 3),))
    (2, 3)
    """
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    return tuple(checks.as_int(where, "size", size) for size in given)


def index_dtype() -> Any:
    """Return the dtype of indices: int64 as in torch if x64 is enabled in JAX, and int32 otherwise.

    >>> index_dtype()
    dtype('int32')
    """
    return jax.dtypes.canonicalize_dtype(np.int64)


def float_dtype() -> Any:
    """Return the dtype to which a division converts integers: float64 if x64 is enabled in JAX, else float32.

    >>> float_dtype()
    dtype('float32')
    """
    return jax.dtypes.canonicalize_dtype(np.float64)


def common_dtype(*values: ArrayLike) -> Any:
    """Return the dtype that torch gives to a result of arrays and Python numbers.

    A Python number can change the kind of the dtype, such as integer to float, but not its width.

    >>> common_dtype(jnp.ones(2, jnp.bfloat16), 0.5), common_dtype(jnp.arange(2), 0.5), common_dtype(jnp.arange(2), 1)
    (dtype(bfloat16), dtype('float32'), dtype('int32'))
    """
    arrays = [value.dtype for value in values if hasattr(value, "dtype") and not isinstance(value, float | complex)]
    numbers = [type(value) for value in values if isinstance(value, bool | int | float | complex)]
    dtype = jnp.result_type(*arrays) if len(set(arrays)) == 1 else _widest(arrays)
    for kind, target in ((complex, np.complex128), (float, float_dtype()), (int, index_dtype())):
        family = {complex: jnp.complexfloating, float: jnp.inexact, int: jnp.number}[kind]
        if any(issubclass(number, kind) and number is not bool for number in numbers) and not jnp.issubdtype(
            dtype, family
        ):
            return jax.dtypes.canonicalize_dtype(target)
    return dtype


def _widest(dtypes: Sequence[Any]) -> Any:
    widest = np.dtype(bool)
    with jax.numpy_dtype_promotion("standard"):
        for dtype in dtypes:
            widest = jnp.promote_types(widest, dtype)
    return widest
