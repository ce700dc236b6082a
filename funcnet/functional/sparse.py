"""Tables of vectors: `embedding`, what torch does to its table (`embedding_renorm`), and `one_hot`.

Letters: `V num_embeddings, D embedding_dim`. The gradient of a lookup is a scatter-add into the table, summed in at
least float32: in bfloat16 a sum of ones ends at 256.

An id outside [0, V) is an error where the ids are known. Under `jit` they are not: there it is V, a row that no table
has, to every lookup and every scatter. It reads NaN (in a table of integers, the least or largest of them), has no
gradient, counts for nothing and changes no row; -1 is not the last row.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.functional import checks

__all__ = ["embedding", "embedding_renorm", "one_hot"]


def embedding(
    input: jax.Array,
    weight: jax.Array,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> jax.Array:
    """The rows of a table: `y[…] = weight[ids[…]]`.

    Args:
        input: ids of any shape, integers in [0, V).
        weight: (V, D).
        padding_idx: a row whose gradient is zero (-1 is the last); it is looked up like the others.
        max_norm: rows with a larger norm are read as shrunk to it, as after `embedding_renorm`.
        norm_type: the p of that norm.
        scale_grad_by_freq: whether a row's gradient is divided by how often its id occurs in `input`.
        sparse: torch's, ignored: gradients are dense.

    Returns:
        (*ids.shape, D) in the weight's dtype.

    Raises:
        ValueError: weight is not (V, D), `padding_idx` outside it, or an id out of range where the ids are known
            (under `jit` they are not: there the row read is NaN, and no row of the table has a gradient from it).
        TypeError: ids that are not integers.

    Differs from torch: with `max_norm` the table itself does not change; call `embedding_renorm` before the step.

    Example:
        >>> embedding(jnp.array([2, 0]), jnp.arange(6.0).reshape(3, 2))
        Array([[4., 5.],
               [0., 1.]], dtype=float32)

    Reference: torch.nn.functional.embedding.
    """
    weight = jnp.asarray(weight)
    ids = _row_numbers("F.embedding", input, weight)
    size = weight.shape[0]
    if padding_idx is not None and not -size <= padding_idx < size:
        raise ValueError(
            f"F.embedding: padding_idx is out of range; expected {-size} to {size - 1}, got {padding_idx}. "
            "Choose a row of the table."
        )
    padding_idx = None if padding_idx is None else padding_idx % size
    return _rows(weight, ids, max_norm, norm_type, padding_idx, scale_grad_by_freq)


def embedding_renorm(weight: jax.Array, ids: jax.Array, max_norm: float, norm_type: float = 2.0) -> jax.Array:
    """The table with the rows that `ids` touch shrunk to `max_norm`: what torch's lookup does to it in place.

    `row · max_norm / (‖row‖ + 1e-7)` where `‖row‖ > max_norm`. Call it before the step and keep its result.

    Args:
        weight: (V, D).
        ids: any shape, integers in [0, V).
        max_norm: the largest norm.
        norm_type: the p of the norm.

    Returns:
        (V, D): the new table. No gradient flows through it, as in torch.

    Raises:
        ValueError: weight is not (V, D), or an id out of range where the ids are known (under `jit`: nothing changes).
        TypeError: ids that are not integers.

    Example:
        >>> print(embedding_renorm(jnp.array([[3.0, 4.0], [3.0, 4.0]]), jnp.array([1]), max_norm=1.0))
        [[3.  4. ]
         [0.6 0.8]]

    Reference: torch.embedding_renorm_.
    """
    weight = jax.lax.stop_gradient(jnp.asarray(weight))
    ids = _row_numbers("F.embedding_renorm", ids, weight)
    return weight.at[ids].set(_rows(weight, ids, max_norm, norm_type), mode="drop")


def one_hot(tensor: jax.Array, num_classes: int = -1) -> jax.Array:
    """`y[…, c] = 1` where `c` is the id, else 0.

    Args:
        tensor: ids of any shape, integers in [0, num_classes).
        num_classes: C; -1 is the largest id plus 1, where the ids are known (not under `jit`).

    Returns:
        (*ids.shape, C), int32 (int64 under x64).

    Raises:
        ValueError: ids out of range where they are known; `num_classes=-1` under `jit` or without ids.
        TypeError: ids that are not integers.

    Example:
        >>> one_hot(jnp.array([1, 0]), 3)
        Array([[0, 1, 0],
               [1, 0, 0]], dtype=int32)

    Reference: torch.nn.functional.one_hot.
    """
    ids = checks.integers("F.one_hot", "tensor", tensor)
    if num_classes == -1:
        if isinstance(ids, jax.core.Tracer) or ids.size == 0:
            raise ValueError(
                "F.one_hot: the number of classes cannot be read off; expected num_classes, got -1 with ids that are "
                "traced or none at all. Pass num_classes."
            )
        num_classes = int(np.asarray(ids).max()) + 1
    checks.ids_in_range("F.one_hot", "tensor", ids, num_classes)
    return jax.nn.one_hot(ids, num_classes, dtype=jax.dtypes.canonicalize_dtype(jnp.int64))


def _row_numbers(where: str, ids: jax.Array, weight: jax.Array) -> jax.Array:
    """The ids, with V in place of every one that is out of range."""
    ids = checks.integers(where, "ids", ids)
    if weight.ndim != 2:
        raise ValueError(
            f"{where}: weight has the wrong rank; expected (num_embeddings, embedding_dim), got {weight.shape}. "
            "The table comes second, after the ids."
        )
    size = weight.shape[0]
    checks.ids_in_range(where, "ids", ids, size)
    return jnp.where((ids >= 0) & (ids < size), ids, size)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _rows(
    weight: jax.Array,
    ids: jax.Array,
    max_norm: float | None,
    norm_type: float,
    padding_idx: int | None = None,
    by_frequency: bool = False,
) -> jax.Array:
    """The rows, renormalised; their derivative is that of the plain lookup, by torch's two factors."""
    rows = weight.at[ids].get(mode="fill")
    return rows if max_norm is None else _renormalise(rows, max_norm, norm_type)


@_rows.defjvp
def _rows_jvp(
    max_norm: float | None, norm_type: float, padding_idx: int | None, by_frequency: bool, primals: Any, tangents: Any
) -> tuple[jax.Array, jax.Array]:
    weight, ids = primals
    table = tangents[0].astype(checks.wide_dtype(weight))
    change = table.at[ids].get(mode="fill", fill_value=0)
    if by_frequency:
        counts = jnp.zeros(len(table), jnp.int32).at[ids].add(1, mode="drop")
        change = change / counts.at[ids].get(mode="fill", fill_value=1)[..., None].astype(table.dtype)
    if padding_idx is not None:
        change = jnp.where((ids == padding_idx)[..., None], 0, change)
    return _rows(weight, ids, max_norm, norm_type, padding_idx, by_frequency), change.astype(weight.dtype)


def _renormalise(rows: jax.Array, max_norm: float, norm_type: float) -> jax.Array:
    x = rows.astype(checks.wide_dtype(rows))
    norm = _norm(x, norm_type)
    return (x * jnp.where(norm > max_norm, max_norm / (norm + 1e-7), 1)).astype(rows.dtype)


def _norm(x: jax.Array, p: float) -> jax.Array:
    size = jnp.abs(x)
    if p == float("inf"):
        return size.max(-1, keepdims=True)
    return (size**p).sum(-1, keepdims=True) ** (1 / p)
