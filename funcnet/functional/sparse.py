"""Lookups in embedding tables: `embedding`, `embedding_bag`, `embedding_renorm`, and `one_hot`.

Letters: `V num_embeddings, D embedding_dim, N ids, B bags`. The gradient of a lookup is a scatter-add into the table.
The sums are computed in at least float32, because in bfloat16 a sum of ones stops growing at 256.

If the values of the ids are known, an id outside [0, V) raises a ValueError. Under `jit`, the values are not known, and
every lookup and scatter replaces an id out of range with V, which is not the index of any row. A lookup of id V gives
NaN (in an integer table, the dtype's smallest or largest value). An id out of range contributes no gradient, is not
counted, and changes no row. An id of -1 is out of range, and does not mean the last row.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.functional import checks
from funcnet.functional.sharding import gathered, replicated, whole
from funcnet.functional.vector_norm import vector_norm

__all__ = ["embedding", "embedding_bag", "embedding_renorm", "one_hot"]


def embedding(
    input: jax.Array,
    weight: jax.Array,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> jax.Array:
    """Look up rows of a table: `y[…] = weight[input[…]]`.

    Args:
        input: ids of any shape, integers in [0, V).
        weight: (V, D).
        padding_idx: index of a row whose gradient is zero. -1 means the last row. A lookup still returns the values of
            the row `padding_idx`.
        max_norm: largest norm of a returned row. A row with a larger norm is scaled down to `max_norm`, as
            `embedding_renorm` does.
        norm_type: order p of the norm.
        scale_grad_by_freq: whether to divide a row's gradient by the number of times its id occurs in `input`.
        sparse: accepted as in torch, and ignored. Gradients are dense.

    Returns:
        (*input.shape, D) in the weight's dtype.

    Raises:
        ValueError: if weight is not (V, D), or `padding_idx` is out of range. An id out of range is an error too. Under
            `jit`, the result of such an id is NaN instead, and the id contributes no gradient.
        TypeError: if the ids are not of an integer dtype.

    Differs from torch: `max_norm` does not change the table itself. Instead, call `embedding_renorm` before each
        training step.

    Example:
        >>> embedding(jnp.array([2, 0]), jnp.arange(6.0).reshape(3, 2))
        Array([[4., 5.],
               [0., 1.]], dtype=float32)

    Reference: torch.nn.functional.embedding.
    """
    weight = jnp.asarray(weight)
    ids = _row_numbers("F.embedding", input, weight)
    padding_idx = _padding_row("F.embedding", padding_idx, weight)
    return _rows(weight, ids, max_norm, norm_type, padding_idx, scale_grad_by_freq)


def embedding_bag(
    input: jax.Array,
    weight: jax.Array,
    offsets: jax.Array | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: jax.Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> jax.Array:
    """Compute the sum, mean or maximum of a table's rows for each bag of ids.

    Args:
        input: (B, N), one bag per row; or (N,), all bags concatenated. The ids are integers in [0, V).
        weight: (V, D), floating-point.
        offsets: (B,), the positions in `input` at which the bags start. The first offset must be 0, and offsets must
            not decrease. `offsets` must be None if the input is (B, N).
        max_norm, norm_type: as in `embedding`.
        scale_grad_by_freq: whether to divide a row's gradient by the number of times its id occurs in `input`.
            `scale_grad_by_freq` is not supported with mode 'max'.
        mode: 'sum', 'mean' or 'max'. If several entries of a bag equal the maximum, the first of them gets the
            gradient.
        sparse: accepted as in torch, and ignored, because gradients are dense. As in torch, `sparse=True` is an error
            with mode 'max'.
        per_sample_weights: one factor per id, in the input's shape and the weight's dtype. Per-sample weights are
            supported only with mode 'sum'.
        include_last_offset: if True, `offsets` is (B + 1,), and its last entry is the end of the last bag.
        padding_idx: an id that contributes to neither the results nor the gradients. -1 means the last row.

    Returns:
        (B, D) in the weight's dtype. Sums are computed in at least float32. The result of a bag that is empty or
        contains only padding is 0.

    Raises:
        ValueError: if the shapes do not match, `mode` is unknown or does not support an argument, or `padding_idx` is
            out of range. Outside `jit`, offsets that decrease and ids or offsets out of range are errors too.
        TypeError: if ids or offsets are not integers, `weight` is not floating-point, or `per_sample_weights` does
            not have the dtype of `weight`.

    Differs from torch: `max_norm` does not change the table itself. Instead, call `embedding_renorm` before each
        training step. With `include_last_offset`, ids after the last offset belong to no bag in any mode. In torch,
        mode 'mean' counts the ids after the last offset in its divisor, and mode 'max' includes these ids. An input of
        shape (B, 0) gives zeros. If a bag contains NaN, its maximum is NaN. `scale_grad_by_freq` divides by the count
        of the id itself, whereas torch on CPU divides by the count of a different id.

    Example:
        >>> table = jnp.arange(6.0).reshape(3, 2)
        >>> embedding_bag(jnp.array([0, 1, 2, 2]), table, jnp.array([0, 2]), mode="sum")
        Array([[ 2.,  4.],
               [ 8., 10.]], dtype=float32)

    Reference: torch.nn.functional.embedding_bag.
    """
    where = "F.embedding_bag"
    weight = checks.floating(where, "weight", weight)
    ids = _row_numbers(where, input, weight)
    _check_mode(where, mode, scale_grad_by_freq or sparse, ids, weight, per_sample_weights)
    if offsets is not None:  # bags of different lengths do not divide among devices
        ids, offsets = whole(ids), whole(offsets)
        per_sample_weights = None if per_sample_weights is None else whole(per_sample_weights)
    bags = _bags(where, ids, offsets, include_last_offset)
    padding_idx = _padding_row(where, padding_idx, weight)
    counted = jnp.ones(ids.shape, bool) if padding_idx is None else ids != padding_idx
    rows = _rows(weight, ids, max_norm, norm_type, padding_idx, scale_grad_by_freq)
    rows = jnp.where(counted[..., None], rows.astype(checks.wide_dtype(weight)), 0)
    if mode == "max":
        rows = jnp.where(_first_largest(bags, rows, counted), rows, 0)
    elif per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None].astype(rows.dtype)
    out = bags.sum(rows)
    if mode == "mean":
        out = out / jnp.maximum(bags.sum(counted.astype(out.dtype)), 1)[:, None]
    return out.astype(weight.dtype)


def embedding_renorm(weight: jax.Array, ids: jax.Array, max_norm: float, norm_type: float = 2.0) -> jax.Array:
    """Return a copy of the table in which the rows of `ids` are scaled down to a norm of `max_norm`. In torch, a lookup
    with `max_norm` scales these rows of the table itself.

    A row with `‖row‖ > max_norm` becomes `row · max_norm / (‖row‖ + 1e-7)`. Call `embedding_renorm` before each
    training step, and replace the table with the result.

    Args:
        weight: (V, D).
        ids: any shape, integers in [0, V).
        max_norm: upper bound on the norm of a row.
        norm_type: order p of the norm.

    Returns:
        The new table, (V, D). As in torch, no gradient flows through the new table.

    Raises:
        ValueError: if weight is not (V, D). An id out of range is an error too, but under `jit`, such an id is ignored.
        TypeError: if the ids are not of an integer dtype.

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
    """Return one-hot vectors of ids: `y[…, c] = 1` where `c` is the id, and 0 elsewhere.

    Args:
        tensor: ids of any shape, integers in [0, num_classes).
        num_classes: number of classes, C. -1 means the largest id plus 1, which is not available under `jit`.

    Returns:
        (*tensor.shape, C), int32 (int64 under x64).

    Raises:
        ValueError: if `num_classes` is -1 under `jit` or without ids. An id out of range is an error too. Under `jit`,
            the vector of such an id contains only zeros instead.
        TypeError: if the ids are not of an integer dtype.

    Example:
        >>> one_hot(jnp.array([1, 0]), 3)
        Array([[0, 1, 0],
               [1, 0, 0]], dtype=int32)

    Reference: torch.nn.functional.one_hot.
    """
    ids = checks.integers("F.one_hot", "tensor", tensor)
    if num_classes == -1:
        if not checks.known(ids):
            raise ValueError(
                "F.one_hot: the number of classes cannot be inferred from ids that are traced, empty, or partly on "
                "other hosts; expected an explicit num_classes, got -1."
            )
        num_classes = int(np.asarray(ids).max()) + 1
    checks.ids_in_range("F.one_hot", "tensor", ids, num_classes)
    return jax.nn.one_hot(ids, num_classes, dtype=jax.dtypes.canonicalize_dtype(jnp.int64))


def _padding_row(where: str, padding_idx: int | None, weight: jax.Array) -> int | None:
    size = weight.shape[0]
    if padding_idx is None or -size <= padding_idx < size:
        return None if padding_idx is None else padding_idx % size
    raise ValueError(f"{where}: padding_idx is out of range; expected {-size} to {size - 1}, got {padding_idx}.")


def _row_numbers(where: str, ids: jax.Array, weight: jax.Array) -> jax.Array:
    """Check the ids and the table, and return the ids. Under `jit`, every id outside [0, V) is replaced with V, the
    number of rows.
    """
    if jnp.issubdtype(weight.dtype, jnp.integer) and jnp.issubdtype(jnp.result_type(ids), jnp.floating):
        raise TypeError(
            f"{where}: input and weight are swapped; expected integer ids first and then a floating weight, got "
            f"{jnp.result_type(ids)} and {weight.dtype}."
        )
    ids = checks.integers(where, "ids", ids)
    if weight.ndim != 2:
        raise ValueError(
            f"{where}: weight has the wrong rank; expected (num_embeddings, embedding_dim), got {weight.shape}. Pass "
            "the ids as the first argument and the table as the second."
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
    """Return the rows of the table at `ids`. If `max_norm` is given, rows of a larger norm are scaled down, but the
    derivative ignores this scaling. As in torch, the derivative is 0 for the id `padding_idx`. With `by_frequency`, the
    derivative is divided by the number of times that the id occurs.
    """
    rows = weight.at[ids].get(mode="fill", out_sharding=gathered(weight, ids))
    return rows if max_norm is None else _renormalise(rows, max_norm, norm_type)


@_rows.defjvp
def _rows_jvp(
    max_norm: float | None,
    norm_type: float,
    padding_idx: int | None,
    by_frequency: bool,
    primals: tuple[jax.Array, ...],
    tangents: tuple[jax.Array, ...],
) -> tuple[jax.Array, jax.Array]:
    weight, ids = primals
    table = tangents[0].astype(checks.wide_dtype(weight))
    change = table.at[ids].get(mode="fill", fill_value=0, out_sharding=gathered(table, ids))
    if by_frequency:
        counts = jnp.zeros(len(table), jnp.int32).at[ids].add(1, mode="drop", out_sharding=replicated(ids, 1))
        shared = counts.at[ids].get(mode="fill", fill_value=1, out_sharding=gathered(counts, ids))
        change = change / shared[..., None].astype(table.dtype)
    if padding_idx is not None:
        change = jnp.where((ids == padding_idx)[..., None], 0, change)
    return _rows(weight, ids, max_norm, norm_type, padding_idx, by_frequency), change.astype(weight.dtype)


def _renormalise(rows: jax.Array, max_norm: float, norm_type: float) -> jax.Array:
    x = rows.astype(checks.wide_dtype(rows))
    norm = vector_norm(x, norm_type, -1)
    return (x * jnp.where(norm > max_norm, max_norm / (norm + 1e-7), 1)).astype(rows.dtype)


# ---------------------------------------------------------------------------------------------------------- bags


class _Rectangle:
    """Reductions over bags of equal length. Each bag is one row of an array (B, N, …)."""

    def sum(self, x: jax.Array) -> jax.Array:
        return x.sum(1)

    def max(self, x: jax.Array) -> jax.Array:
        return jnp.where(jnp.isnan(x).any(1), jnp.nan, x.max(1, initial=-jnp.inf))  # see `windows.maximum`

    def min(self, x: jax.Array) -> jax.Array:
        return x.min(1, initial=x.shape[1])

    def spread(self, x: jax.Array) -> jax.Array:
        """Repeat the value of each bag for all ids of the bag."""
        return x[:, None]


class _Ragged:
    """Reductions over `count` bags of any length, which are concatenated in one array (N, …). For each id, the array
    `bag` holds the index of the bag that contains the id, or `count` if no bag contains it.
    """

    def __init__(self, bag: jax.Array, count: int):
        self.bag, self.count = bag, count

    def sum(self, x: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(x, self.bag, self.count)

    def max(self, x: jax.Array) -> jax.Array:
        return jax.ops.segment_max(x, self.bag, self.count)

    def min(self, x: jax.Array) -> jax.Array:
        return jax.ops.segment_min(x, self.bag, self.count)

    def spread(self, x: jax.Array) -> jax.Array:
        if not self.count:
            return jnp.zeros((*self.bag.shape, *x.shape[1:]), x.dtype)
        return x.at[self.bag].get(mode="fill")


def _bags(where: str, ids: jax.Array, offsets: jax.Array | None, include_last_offset: bool) -> _Rectangle | _Ragged:
    if ids.ndim == 2 and offsets is None:
        return _Rectangle()
    if ids.ndim != 1 or offsets is None or jnp.ndim(offsets) != 1:
        raise ValueError(
            f"{where}: input and offsets do not match; expected ids (bags, ids) without offsets, or ids (ids,) with "
            f"offsets (bags,), got {ids.shape} and {'None' if offsets is None else jnp.shape(offsets)}. Offsets are "
            "the positions in input at which bags start."
        )
    offsets = checks.integers(where, "offsets", offsets)
    if include_last_offset and not len(offsets):
        raise ValueError(
            f"{where}: include_last_offset needs the end of the last bag; expected offsets of shape (bags + 1,), got "
            "shape (0,). Append the number of ids to offsets."
        )
    if checks.known(offsets):
        looked_at = np.asarray(offsets)
        if looked_at[0] != 0 or (np.diff(looked_at) < 0).any() or looked_at[-1] > len(ids):
            raise ValueError(
                f"{where}: offsets are out of range or not in increasing order; expected numbers from 0 to {len(ids)}, "
                f"beginning with 0, got {looked_at}. Offsets are the positions in input at which bags start."
            )
    count = offsets.shape[0] - include_last_offset
    bag = jnp.searchsorted(offsets, jnp.arange(ids.shape[0], dtype=offsets.dtype), side="right") - 1
    return _Ragged(jnp.where(bag < 0, count, bag), count)


def _check_mode(
    where: str, mode: str, scaled_or_sparse: bool, ids: jax.Array, weight: jax.Array, factors: jax.Array | None
) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{where}: mode is unknown; expected 'sum', 'mean' or 'max', got {mode!r}.")
    if mode == "max" and scaled_or_sparse:
        raise ValueError(
            f"{where}: mode 'max' supports neither scale_grad_by_freq nor sparse; expected False for both, got True "
            "for at least one. Omit both arguments, or use mode 'sum' or 'mean'."
        )
    if factors is None:
        return
    if mode != "sum":
        raise ValueError(
            f"{where}: per_sample_weights requires mode='sum'; expected 'sum', got {mode!r}. "
            "Omit per_sample_weights, or use mode='sum'."
        )
    checks.shape_of(where, "per_sample_weights", factors, ids.shape, "Pass one factor per id.")
    checks.one_dtype(where, weight=weight, per_sample_weights=factors)


def _first_largest(bags: _Rectangle | _Ragged, rows: jax.Array, counted: jax.Array) -> jax.Array:
    """Return, for every entry of `rows`, whether it is the first maximum of its column within its bag."""
    rows = jax.lax.stop_gradient(jnp.where(counted[..., None], rows, -jnp.inf))
    largest = bags.spread(bags.max(rows))
    hit = ((rows == largest) | jnp.isnan(rows)) & counted[..., None]
    place = jnp.arange(rows.shape[-2])[:, None]
    return place == bags.spread(bags.min(jnp.where(hit, place, rows.shape[-2])))
