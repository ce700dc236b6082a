"""Select, set or add entries by an array of indices.

An index outside the array raises no error, because its value is unknown under `jit`. For an index that is out of range,
`gather` gives NaN (the smallest number for signed integers), and the other functions ignore the index.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from funcnet.functional import checks
from funcnet.torchlike.arguments import axis_of, line

__all__ = [
    "gather",
    "index_add",
    "index_copy",
    "index_fill",
    "masked_fill",
    "masked_scatter",
    "scatter",
    "scatter_add",
    "scatter_reduce",
]

_REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def gather(input: jax.Array, dim: int, index: jax.Array) -> jax.Array:
    """Select one entry of the input for each entry of the output: `output[i, j] = input[index[i, j], j]` for `dim=0`.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array with the rank of the input. In dimensions other than `dim`, the index may be smaller than
            the input.

    Returns:
        An array with the shape of the index and the dtype of the input.

    Raises:
        ValueError: if the index has a different rank, or is larger than the input in a dimension other than `dim`.

    Differs from torch:
        A negative index counts from the end. An index that is out of range gives NaN. `jnp.take_along_axis` broadcasts
        the dimensions other than `dim`, and does not accept smaller ones.

    Example:
        >>> gather(jnp.array([[1, 2], [3, 4], [5, 6]]), 1, jnp.array([[1, 1, 0]])).tolist()
        [[2, 2, 1]]

    Reference: torch.gather.
    """
    where = "tl.gather"
    if index.size == 0:
        return jnp.zeros(index.shape, input.dtype)
    axis = axis_of(where, dim, input.ndim)
    full, places = line(input), line(index)
    _fits(where, "index", places.shape, "input", full.shape, axis)
    rows = tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(places.shape))
    return jnp.take_along_axis(full[rows], places, axis).reshape(index.shape)


def scatter(input: jax.Array, dim: int, index: jax.Array, src: ArrayLike, *, reduce: str | None = None) -> jax.Array:
    """Set one entry of the output for each entry of `src`: `output[index[i, j], j] = src[i, j]` for `dim=0`.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array with the rank of the input.
        src: array that is at least as large as the index in each dimension, or a number.
        reduce: None sets the entry, "add" adds to the entry, and "multiply" multiplies the entry.

    Returns:
        An array with the shape and the dtype of the input. If an index occurs twice, it is not defined which value is
        set, as in torch.

    Raises:
        ValueError: if the shapes do not fit, or `reduce` is unknown.

    Differs from torch:
        `src` may be a number even if it is passed by position. In torch, a number is the argument `value`. The number
        is converted to the dtype of the input.

    Example:
        >>> scatter(jnp.zeros((2, 3)), 1, jnp.array([[2], [0]]), 1.0).tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]

    Reference: torch.scatter.
    """
    where = "tl.scatter"
    if reduce not in (None, "add", "multiply"):
        raise ValueError(f"{where}: reduce is unknown; expected None, 'add' or 'multiply', got {reduce!r}.")
    if index.size == 0:
        return input
    full, places, values = _prepared(where, input, dim, index, src)
    if reduce == "multiply":
        return _extreme("prod", full, values, places).reshape(input.shape)
    target = full.at[places]
    return (target.add(values) if reduce == "add" else target.set(values)).reshape(input.shape)


def scatter_add(input: jax.Array, dim: int, index: jax.Array, src: jax.Array) -> jax.Array:
    """Add each entry of `src` to one entry of the output: `output[index[i, j], j] += src[i, j]` for `dim=0`.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array with the rank of the input. The same index may occur several times.
        src: array that is at least as large as the index in each dimension.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> scatter_add(jnp.zeros(3), 0, jnp.array([2, 0, 2]), jnp.ones(3)).tolist()
        [1.0, 0.0, 2.0]

    Reference: torch.scatter_add.
    """
    if index.size == 0:
        return input
    full, places, values = _prepared("tl.scatter_add", input, dim, index, src)
    return full.at[places].add(values).reshape(input.shape)


def scatter_reduce(
    input: jax.Array, dim: int, index: jax.Array, src: jax.Array, reduce: str, *, include_self: bool = True
) -> jax.Array:
    """Combine all entries of `src` that have the same index into one entry of the output.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array with the rank of the input.
        src: array that is at least as large as the index in each dimension.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the entry of the input takes part in the reduction. If False, an entry of the input stays
            only if no index refers to it.

    Returns:
        An array with the shape and the dtype of the input. For "amax" and "amin", equal entries share the gradient.
        The mean of integers is rounded down.

    Raises:
        ValueError: if the shapes do not fit, or `reduce` is unknown.

    Differs from torch:
        With `include_self=False`, the entry of the input never takes a share of the gradient. In torch, the entry of
        the input gets a share if it happens to equal the result of the reduction.

    Example:
        >>> scatter_reduce(jnp.zeros(2), 0, jnp.array([1, 1, 0]), jnp.array([3.0, 5.0, 1.0]), "mean",
        ...                include_self=False).tolist()
        [1.0, 4.0]

    Reference: torch.scatter_reduce.
    """
    where = "tl.scatter_reduce"
    if reduce not in _REDUCTIONS:
        raise ValueError(f"{where}: reduce is unknown; expected one of {_REDUCTIONS}, got {reduce!r}.")
    if index.size == 0:
        return input
    full, places, values = _prepared(where, input, dim, index, src)
    if not include_self:
        touched = jnp.zeros(full.shape, bool).at[places].set(True)
        full = jnp.where(touched, jnp.asarray(_neutral(reduce, full.dtype), full.dtype), full)
    if reduce in ("sum", "mean"):
        out = full.at[places].add(values)
        if reduce == "mean":
            own = jnp.ones(full.shape, full.dtype) if include_self else (~touched).astype(full.dtype)
            count = own.at[places].add(jnp.ones(values.shape, full.dtype))
            out = out / count if jnp.issubdtype(out.dtype, jnp.inexact) else out // count
    else:
        out = _extreme(reduce, full, values, places)
    return out.reshape(input.shape)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _extreme(reduce: str, input: jax.Array, src: jax.Array, places: tuple[Any, ...]) -> jax.Array:
    """Return the product, maximum or minimum of the input's entries and the entries of `src` with the same index."""
    target = input.at[places]
    return {"prod": target.multiply, "amax": target.max, "amin": target.min}[reduce](src)


@_extreme.defjvp
def _extreme_jvp(
    reduce: str, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    (input, src, places), (d_input, d_src, _) = primals, tangents
    out = _extreme(reduce, input, src, places)
    if reduce == "prod":  # the derivative is the product of all other factors, also where some are 0
        some = lambda x: jnp.where(x == 0, 1, x)
        product = some(input).at[places].multiply(some(src))
        zeros = (input == 0).astype(np.int32).at[places].add((src == 0).astype(np.int32))
        slope = lambda x, product, zeros: jnp.where(zeros == (x == 0).astype(np.int32), product / some(x), 0)
        own, others = slope(input, product, zeros), slope(src, product[places], zeros[places])
    else:
        mine, theirs = (input == out).astype(out.dtype), (src == out[places]).astype(out.dtype)
        count = jnp.maximum(mine.at[places].add(theirs), 1)
        own, others = mine / count, theirs / count[places]
    return out, (own * d_input).at[places].add(others * d_src)


def _neutral(reduce: str, dtype: DTypeLike) -> Any:
    """Return the neutral element of a reduction, such as 0 for "sum" and 1 for "prod"."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if jnp.issubdtype(dtype, jnp.inexact):
        return -np.inf if reduce == "amax" else np.inf
    limits = jnp.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def index_add(input: jax.Array, dim: int, index: jax.Array, source: jax.Array, *, alpha: float = 1) -> jax.Array:
    """Add `alpha` times the slices of `source` to the slices of the input at the given indices.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array of shape (N,) or (). The same index may occur several times.
        source: array with the shape of the input, but size N in `dim`.
        alpha: factor by which the source is multiplied.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has no such dimension, or the shapes do not fit.

    Example:
        >>> index_add(jnp.zeros((3, 2)), 0, jnp.array([2, 0, 2]), jnp.ones((3, 2))).tolist()
        [[1.0, 1.0], [0.0, 0.0], [2.0, 2.0]]

    Reference: torch.index_add.
    """
    full, places, values = _slices("tl.index_add", input, dim, index, source)
    return full.at[places].add(values if alpha == 1 else values * jnp.asarray(alpha, full.dtype)).reshape(input.shape)


def index_copy(input: jax.Array, dim: int, index: jax.Array, source: jax.Array) -> jax.Array:
    """Replace the slices of the input at the given indices with the slices of `source`.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array of shape (N,) or ().
        source: array with the shape of the input, but size N in `dim`.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has no such dimension, or the shapes do not fit.

    Example:
        >>> index_copy(jnp.zeros(3), 0, jnp.array([2, 0]), jnp.array([5.0, 7.0])).tolist()
        [7.0, 0.0, 5.0]

    Reference: torch.index_copy.
    """
    full, places, values = _slices("tl.index_copy", input, dim, index, source)
    return full.at[places].set(values).reshape(input.shape)


def index_fill(input: jax.Array, dim: int, index: jax.Array, value: ArrayLike) -> jax.Array:
    """Set the slices of the input at the given indices to one number.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array of shape (N,) or ().
        value: a number or an array of shape (), which is converted to the dtype of the input.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has no such dimension, or `value` is not a single number.

    Example:
        >>> index_fill(jnp.zeros((2, 3)), 1, jnp.array([0, 2]), 1).tolist()
        [[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]

    Reference: torch.Tensor.index_fill.
    """
    value = _number("tl.index_fill", value, input.dtype)
    full, places, _ = _slices("tl.index_fill", input, dim, index, None)
    return full.at[places].set(value).reshape(input.shape)


def masked_fill(input: jax.Array, mask: jax.Array, value: ArrayLike) -> jax.Array:
    """Return a copy of the input with `value` where the mask is True. The dtype of the input does not change.

    Args:
        input: array of any shape.
        mask: boolean array. Input and mask are broadcast to each other.
        value: a number or an array of shape (), which is converted to the dtype of the input.

    Returns:
        An array with the dtype of the input.

    Raises:
        ValueError: if `value` is not a single number.

    Differs from jax.numpy:
        If the value is an array, `jnp.where(mask, value, input)` may return a wider dtype. If the value is a Python
        number of the input's kind, `jnp.where` gives the same result.

    Example:
        >>> masked_fill(jnp.ones(2, jnp.bfloat16), jnp.array([True, False]), jnp.float32(-1))
        Array([-1, 1], dtype=bfloat16)

    Reference: torch.Tensor.masked_fill.
    """
    return jnp.where(mask, _number("tl.masked_fill", value, input.dtype), input)


def masked_scatter(input: jax.Array, mask: jax.Array, source: jax.Array) -> jax.Array:
    """Replace the entries where the mask is True with the first entries of `source`, in row-major order.

    Args:
        input: array of any shape.
        mask: boolean array. Input and mask are broadcast to each other.
        source: array with at least as many entries as the mask has True entries. Its shape does not matter.

    Returns:
        An array with the dtype of the input.

    Raises:
        ValueError: if the source is too small. If the mask is traced, the size of the source is not checked.
        TypeError: if the mask is not boolean.

    Example:
        >>> masked_scatter(jnp.zeros(4), jnp.array([False, True, False, True]), jnp.array([5.0, 6.0, 7.0])).tolist()
        [0.0, 5.0, 0.0, 6.0]

    Reference: torch.Tensor.masked_scatter.
    """
    if mask.dtype != bool:
        raise TypeError(f"tl.masked_scatter: mask must be boolean; expected dtype bool, got {mask.dtype}.")
    shape = jnp.broadcast_shapes(input.shape, mask.shape)
    input, mask = jnp.broadcast_to(input, shape), jnp.broadcast_to(mask, shape)
    if checks.known(mask) and (true := int(np.asarray(mask).sum())) > source.size:
        raise ValueError(f"tl.masked_scatter: source is too small; expected {true} entries, got {source.size}.")
    if source.size == 0 or mask.size == 0:
        return input
    places = jnp.clip(jnp.cumsum(mask.reshape(-1)) - 1, 0, source.size - 1).reshape(shape)
    return jnp.where(mask, source.reshape(-1)[places].astype(input.dtype), input)


def _number(where: str, value: ArrayLike, dtype: DTypeLike | None) -> jax.Array:
    value = jnp.asarray(value)
    if value.ndim:
        raise ValueError(f"{where}: value is not a single number; expected shape (), got {value.shape}.")
    return value.astype(dtype)


def _prepared(where: str, input: jax.Array, dim: int, index: jax.Array, src: ArrayLike) -> tuple[Any, Any, Any]:
    """Return the input, the indices for `input.at[indices]`, and the values in the shape of the index."""
    axis = axis_of(where, dim, input.ndim)
    full, index = line(input), line(index)
    _fits(where, "index", index.shape, "input", full.shape, axis)
    values = jnp.asarray(src).astype(full.dtype)
    if values.ndim == 0:
        values = jnp.broadcast_to(values, index.shape)
    _fits(where, "index", index.shape, "src", values.shape, None)
    places: list[Any] = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis] = index
    return full, tuple(places), values[tuple(slice(n) for n in index.shape)]


def _slices(where: str, input: jax.Array, dim: int, index: jax.Array, source: Any) -> tuple[Any, Any, Any]:
    """Return the input, the indices for `input.at[indices]`, and the slices of the source in the dtype of the input."""
    axis = axis_of(where, dim, input.ndim)
    full, index = line(input), line(index)
    if source is not None:
        source = line(source).astype(full.dtype)
        expected = (*full.shape[:axis], index.size, *full.shape[axis + 1 :])
        if source.shape != expected:
            raise ValueError(f"{where}: source has the wrong shape; expected {expected}, got {source.shape}.")
    return full, (*(slice(None),) * axis, index), source


def _fits(where: str, name: str, shape: Sequence[int], other: str, limit: Sequence[int], axis: int | None) -> None:
    if len(shape) != len(limit) or any(n > m for d, (n, m) in enumerate(zip(shape, limit, strict=True)) if d != axis):
        outside = "" if axis is None else f" outside dimension {axis}"
        raise ValueError(
            f"{where}: {name} does not fit {other}; expected the rank of {other} and sizes up to {limit}{outside}, got "
            f"{shape}."
        )
