"""One function for a linear layer and the cross-entropy of its output.

Letters: `B batch, I in_features, C classes, S further sizes, b rows of a chunk`.

With `LinearCrossEntropyOptions`, the batch is processed in chunks, so that the complete logits (B, C) are never stored.
With 30 000 classes, for example, the complete logits may exceed the memory. If the losses are summed or averaged, their
gradients are computed in the forward pass, chunk by chunk, so that the logits of each chunk are computed only once.
"""

import dataclasses
import warnings
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from funcnet.functional import checks
from funcnet.functional.linear import linear
from funcnet.functional.loss_classification import cross_entropy
from funcnet.functional.platforms import bilinear
from funcnet.functional.reduction import class_weights
from funcnet.functional.sharding import gathered, partition, placed, replicated, reshaped, shards
from funcnet.operators.varying_axes import vary_like

__all__ = ["LinearCrossEntropyOptions", "linear_cross_entropy"]

ACCUMULATORS = ("float16", "bfloat16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Options of `linear_cross_entropy` that control how the batch is split into chunks.

    Args:
        allow_retain_graph: ignored, because a function has no graph to keep.
        batch_chunk_size: number of rows per chunk. If `batch_chunk_size` is None, `chunking_method` determines the
            number of rows.
        chunking_method: 'aspect_ratio' chooses chunks whose logits take as much memory as the entire input. The number
            of rows per chunk is rounded up to a power of two. 'aspect_ratio:n' divides this number of rows by n. 'auto'
            means 'aspect_ratio:2'. None means that `batch_chunk_size` is used.
        acc_policy: 'accurate', 'balanced', 'compact' or 'auto'. The policy is ignored, because sums always use at least
            float32.
        acc_dtype: None or the input's dtype. If the input's dtype has 16 bits, float32 is also allowed. `acc_dtype` is
            checked, but has no effect.

    Raises:
        ValueError: if an argument has a value that is not listed under Args.

    Differs from torch: `allow_retain_graph`, `acc_policy` and `acc_dtype` have no effect. 'auto' does not depend on the
    device and the dtype, whereas torch uses 'aspect_ratio' for 16-bit inputs on CPU.

    Example:
        >>> LinearCrossEntropyOptions().chunk_size(4096, 768, 30_000)
        64

    Reference: torch.nn.LinearCrossEntropyOptions.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        where = "LinearCrossEntropyOptions"
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(
                f"{where}: acc_policy is unknown; expected 'accurate', 'balanced', 'compact' or 'auto', got "
                f"{self.acc_policy!r}."
            )
        name, colon, parts = (self.chunking_method or "auto").partition(":")
        # 'auto:2' and 'aspect_ratio:' are errors; int(parts) is false for 'aspect_ratio:0'
        if name not in ("auto", "aspect_ratio") or (colon and not (name != "auto" and parts.isdigit() and int(parts))):
            raise ValueError(
                f"{where}: chunking_method is unknown; expected 'auto', 'aspect_ratio', 'aspect_ratio:n' or None, got "
                f"{self.chunking_method!r}."
            )
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"{where}: batch_chunk_size is invalid; expected a positive int or None, got {size!r}.")
        # A dtype equals its name and its scalar type, so `acc_dtype` may be any of the three.
        if self.acc_dtype is not None and self.acc_dtype not in [jnp.dtype(name) for name in ACCUMULATORS]:
            raise ValueError(
                f"{where}: acc_dtype is not supported; expected None or one of {', '.join(ACCUMULATORS)}, got "
                f"{self.acc_dtype!r}."
            )

    def chunk_size(self, batch: int, in_features: int, classes: int) -> int:
        """Return the number of rows per chunk.

        Args:
            batch: number of rows of the input.
            in_features: number of entries of a row.
            classes: number of classes.

        Raises:
            ValueError: if `batch_chunk_size` and `chunking_method` disagree, or `batch_chunk_size` is None although
                `batch` is a symbolic size of `jax.export`.
        """
        method, asked = self.chunking_method, self.batch_chunk_size
        if not isinstance(batch, int):  # a symbolic size of `jax.export`
            if asked is None:
                raise ValueError(
                    "LinearCrossEntropyOptions: the chunk size cannot be computed from a symbolic batch size; expected "
                    f"an int as batch_chunk_size, got None for {batch} rows."
                )
            return asked
        if method is None or (method == "auto" and asked is not None):
            return max(1, batch if asked is None else min(asked, batch))
        parts = int(("aspect_ratio:2" if method == "auto" else method).partition(":")[2] or 1)
        # rows · C logits are about B · I numbers, as many as the input has. Both quotients are rounded up, as in torch.
        rows = -(-batch // max(1, -(-classes // max(1, in_features))))
        size = max(1, min((1 << max(rows - 1, 0).bit_length()) // parts, batch))  # 1 << … is the next power of two
        if asked not in (None, size):
            raise ValueError(
                f"LinearCrossEntropyOptions: batch_chunk_size and chunking_method disagree; expected {size} rows, the "
                f"chunk size that {method!r} gives, got {asked}."
            )
        return size


def linear_cross_entropy(
    input: jax.Array,
    linear_weight: jax.Array,
    target: jax.Array,
    *,
    linear_bias: jax.Array | None = None,
    weight: jax.Array | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> jax.Array:
    """Compute `cross_entropy(linear(input, linear_weight, linear_bias), target)`.

    Args:
        input: floating-point array of shape (B, I) or (I,).
        linear_weight: array of the input's dtype and of shape (C, I), or (C, *S, I) if the input is (B, I).
        target: integer class ids of shape (B, *S) or (), or floating-point probabilities of shape (B, C, *S) or (C,).
        linear_bias: array of shape (C, *S).
        weight: array of shape (C,), with one weight per class.
        reduction: 'mean', 'sum' or 'none', as in `cross_entropy`.
        ignore_index: class id to ignore; None means -100. If the target contains probabilities, `ignore_index` must be
            None.
        label_smoothing: as in `cross_entropy`.
        options: how to split the batch into chunks. If None, the batch is not split. Splitting requires class ids as
            the target, a `linear_weight` of shape (C, I) and no label smoothing. If one of these conditions is not met,
            a warning is issued, and the options are ignored.

    Returns:
        A scalar, or an array (B, *S) for 'none', in the input's dtype. If the batch is split, the logits stay in at
        least float32. Otherwise, the logits are rounded to the input's dtype.

    Raises:
        ValueError: if the shapes do not match, `reduction` is unknown, `ignore_index` is given with probabilities, an
            option does not fit the input, or an id is out of range. Under `jit`, an id out of range gives a loss of NaN
            instead.
        TypeError: if `input` or `linear_weight` is not floating-point, or the dtypes differ.

    Differs from torch: a batch that is split also supports forward-mode differentiation, second derivatives and `vmap`.

    Example:
        >>> hidden, table = jnp.ones((4, 2)), jnp.zeros((8, 2))
        >>> linear_cross_entropy(hidden, table, jnp.arange(4), options=LinearCrossEntropyOptions()).round(4)
        Array(2.0794, dtype=float32)

    Reference: torch.nn.functional.linear_cross_entropy.
    """
    where = "F.linear_cross_entropy"
    reduction = checks.reduction_name(where, reduction)
    input = checks.floating(where, "input", input)
    linear_weight = checks.floating(where, "linear_weight", linear_weight)
    checks.one_dtype(where, input=input, linear_weight=linear_weight, linear_bias=linear_bias)
    target = jnp.asarray(target)
    logits_shape = _logits_shape(where, input, linear_weight, linear_bias)
    if target.shape == logits_shape and ignore_index is not None:
        raise ValueError(f"{where}: ignore_index has no meaning for probabilities; expected None, got {ignore_index}.")
    ignore_index = -100 if ignore_index is None else ignore_index
    integral = jnp.issubdtype(target.dtype, jnp.integer)
    if options is not None and integral and linear_weight.ndim == 2 and label_smoothing == 0:
        _check_accumulator(where, options, input)
        rows = input.reshape(-1, input.shape[-1])
        checks.shape_of(where, "target", target, input.shape[:-1], "Pass one class id per row.")
        weight = class_weights(where, weight, input, linear_weight.shape[0])
        ids = checks.integers(where, "target", target).reshape(-1)
        losses = _in_chunks(where, rows, linear_weight, linear_bias, ids, weight, reduction, ignore_index, options)
        return (losses.reshape(input.shape[:-1]) if reduction == "none" else losses).astype(input.dtype)
    if options is not None:
        warnings.warn(
            f"{where}: the options are ignored; computing in chunks requires class ids, a linear_weight of two "
            f"dimensions and no label smoothing, got target {target.dtype}, linear_weight {linear_weight.shape}, "
            f"label_smoothing {label_smoothing}.",
            stacklevel=3,  # the wrapper of the public name is a level
        )
    checks.probability(where, "label_smoothing", label_smoothing)
    axis = min(len(logits_shape) - 1, 1)  # of the classes: 0 for logits (C,), else 1
    wanted = logits_shape[:axis] + logits_shape[axis + 1 :] if integral else logits_shape
    checks.shape_of(where, "target", target, wanted, f"The logits have shape {logits_shape}.")
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    # (B, I) times (C · S, I)ᵀ -> (B, C · S) -> (B, C, *S)
    logits = linear(input, linear_weight.reshape(-1, input.shape[-1]), flat_bias).reshape(logits_shape)
    return cross_entropy(
        logits, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def _logits_shape(
    where: str, input: jax.Array, linear_weight: jax.Array, linear_bias: jax.Array | None
) -> tuple[int, ...]:
    if input.ndim not in (1, 2):
        raise ValueError(
            f"{where}: input has the wrong rank; expected (batch, in_features) or (in_features,), got {input.shape}. "
            "Flatten all leading dimensions into the batch dimension."
        )
    if linear_weight.ndim < 2 or linear_weight.shape[-1] != input.shape[-1]:
        raise ValueError(
            f"{where}: linear_weight does not match input; expected (classes, *, {input.shape[-1]}), got "
            f"{linear_weight.shape}. The shape of input is {input.shape}."
        )
    checks.shape_of(where, "linear_bias", linear_bias, linear_weight.shape[:-1], "Pass one number per logit.")
    if linear_weight.ndim > 2 and input.ndim == 1:
        raise ValueError(
            f"{where}: input has no batch dimension; expected (batch, {input.shape[-1]}) for a linear_weight of shape "
            f"{linear_weight.shape}, got {input.shape}."
        )
    return (*input.shape[:-1], *linear_weight.shape[:-1])


def _check_accumulator(where: str, options: LinearCrossEntropyOptions, input: jax.Array) -> None:
    given = options.acc_dtype
    if given not in (None, input.dtype) and not (given == jnp.float32 and input.dtype.itemsize == 2):
        raise ValueError(
            f"{where}: acc_dtype does not fit the input; expected None, {input.dtype}, or float32 if the input has a "
            f"16-bit dtype, got {jnp.dtype(given)} for an input of {input.dtype}."
        )


def _in_chunks(
    where: str,
    rows: jax.Array,
    table: jax.Array,
    bias: jax.Array | None,
    ids: jax.Array,
    weight: jax.Array | None,
    reduction: str,
    ignore_index: int,
    options: LinearCrossEntropyOptions,
) -> jax.Array:
    """Compute the losses in chunks of rows, and return the losses of all rows, or their sum or mean."""
    batch, classes = rows.shape[0], table.shape[0]
    checks.ids_in_range(where, "target", ids, classes, ignore=ignore_index)
    kept = ids != ignore_index
    possible = (ids >= 0) & (ids < classes)
    ids = placed(ids, rows, (0,))
    given = None if weight is None else weight.at[ids].get(out_sharding=gathered(weight, ids))
    share = (kept if given is None else jnp.where(kept, given, 0)).astype(checks.wide_dtype(rows))
    divisor = share.sum()
    places = jnp.where(kept, jnp.where(possible, ids, 0), -1)  # -1 marks an ignored row; see `_chunk`
    share = jnp.where(kept & ~possible, jnp.nan, share)  # makes an id out of range visible under jit
    parts = shards(rows)
    split = partial(_split, parts=parts, size=-(-options.chunk_size(batch, *table.shape[::-1]) // parts))
    if reduction == "none":
        # The gradient of each row is known only in the backward pass, which computes the logits of a chunk again.
        step = jax.checkpoint(lambda _, chunk: (None, _chunk(chunk[0], table, bias, chunk[1])[0]))
        losses = lax.scan(step, None, (split(rows), split(places, fill=-1)))[1]
        return _joined(losses, batch, parts) * share
    if reduction == "sum":
        return _total(split(rows), table, bias, split(share), split(places, fill=-1))
    # Divide before the sum, because an infinite slope after the sum would turn a gradient of 0 into NaN.
    some = divisor != 0
    total = _total(split(rows), table, bias, split(share / jnp.where(some, divisor, 1)), split(places, fill=-1))
    return jnp.where(some, total, jnp.nan)


def _split(x: jax.Array, parts: int, size: int, fill: int = 0) -> jax.Array:
    """Divide the rows of x into chunks (chunks, parts · size, …), and pad the last chunk with `fill`.

    The rows of x form `parts` equal parts, one per device. Every chunk contains `size` rows of each part, so that all
    rows stay on their device.
    """
    rows = x.shape[0] // parts
    chunks = -(-rows // size)
    widths = ((0, 0), (0, chunks * size - rows), *((0, 0),) * (x.ndim - 1))
    x = jnp.pad(reshaped(x, (parts, rows, *x.shape[1:])), widths, constant_values=fill)  # (parts, chunks · size, …)
    x = reshaped(x, (parts, chunks, size, *x.shape[2:])).swapaxes(0, 1)  # (chunks, parts, size, …)
    return reshaped(x, (chunks, parts * size, *x.shape[3:]))


def _joined(x: jax.Array, rows: int, parts: int) -> jax.Array:
    """Join the chunks of an array with one number per row, and remove the padding that `_split` added."""
    chunks, size = x.shape
    x = reshaped(x, (chunks, parts, size // parts)).swapaxes(0, 1)  # (parts, chunks, rows of a part in a chunk)
    return reshaped(reshaped(x, (parts, chunks * (size // parts)))[:, : rows // parts], (rows,))


def _chunk(
    rows: jax.Array, table: jax.Array, bias: jax.Array | None, ids: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the losses (b,), the softmax (b, C) and a mask of the target classes (b, C) for one chunk of b rows.

    A target id of -1 marks an ignored row. The logits of an ignored row are replaced by 0.
    """
    wide = checks.wide_dtype(rows)
    logits = _product(rows, table, 1, 1, wide)  # (b, I) times (C, I)ᵀ -> (b, C)
    logits = logits if bias is None else logits + bias.astype(wide)
    logits = jnp.where(ids[:, None] < 0, 0, logits)  # a row that does not count may be NaN, and NaN · 0 is NaN
    largest = lax.stop_gradient(logits.max(1, keepdims=True))  # (b, 1); its gradients would cancel
    exponentials = jnp.exp(logits - largest)
    total = exponentials.sum(1, keepdims=True)
    hit = lax.broadcasted_iota(ids.dtype, logits.shape, 1) == ids[:, None]
    picked = jnp.where(hit, logits - largest, 0).sum(1)
    return jnp.log(total[:, 0]) - picked, exponentials / total, hit


@jax.custom_jvp
def _total(rows: jax.Array, table: jax.Array, bias: jax.Array | None, share: jax.Array, ids: jax.Array) -> jax.Array:
    """Return the weighted sum of the losses, Σ share · loss over all rows. For chunks of b rows, `rows` has the shape
    (chunks, b, I), and `share` and `ids` have the shape (chunks, b).
    """

    def step(total, chunk):
        rows, share, ids = chunk
        return total + (share * _chunk(rows, table, bias, ids)[0]).sum(), None

    start = vary_like(jnp.zeros((), share.dtype), rows, table, bias, share)
    return lax.scan(step, start, (rows, share, ids))[0]


def _total_jvp(primals, tangents):
    """Compute the weighted sum of the losses (see `_total`). In the same pass, compute its gradients with respect to
    those arguments that have a tangent.
    """
    rows, table, bias, share, ids = primals
    needed = [given is not None and not isinstance(given, SymbolicZero) for given in tangents]
    wide = share.dtype

    def step(carry, chunk):
        total, of_table, of_bias = carry
        rows, share, ids = chunk
        losses, softmax, hit = _chunk(rows, table, bias, ids)
        slope = (softmax - hit.astype(wide)) * share[:, None]  # (b, C), the derivative with respect to the logits
        rounded = slope.astype(rows.dtype)  # products of 16-bit numbers are fast; their sums are wide
        if needed[1]:
            of_table = of_table + _product(rounded, rows, 0, 0, wide)  # (C, I)
        if needed[2]:
            of_bias = of_bias + slope.sum(0)
        of_rows = _product(rounded, table, 1, 0, wide) if needed[0] else None  # (b, I)
        return (total + (share * losses).sum(), of_table, of_bias), (of_rows, losses)

    zeros = lambda shape: vary_like(jnp.zeros(shape, wide), rows, table, bias, share)
    start = zeros(()), zeros(table.shape) if needed[1] else None, zeros(bias.shape) if needed[2] else None
    (total, of_table, of_bias), (of_rows, losses) = lax.scan(step, start, (rows, share, ids))
    slopes = (of_rows, of_table, of_bias, losses)  # the sum is linear in `share`, and `ids` have no slope
    parts = [
        (slope * given.astype(wide)).sum()
        for slope, given, asked in zip(slopes, tangents, needed, strict=False)
        if asked
    ]
    return total, sum(parts, jnp.zeros_like(total))


_total.defjvp(_total_jvp, symbolic_zeros=True)


def _product(a: jax.Array, b: jax.Array, axis_a: int, axis_b: int, dtype: np.dtype) -> jax.Array:
    """Return the matrix product of `a` and `b`, summed over `axis_a` of `a` and `axis_b` of `b` in `dtype`."""
    if a.dtype == dtype:
        return _dot(a, b, axis_a, axis_b, dtype)
    return bilinear(_dot, _dot_on_cpu, a, b, axis_a, axis_b, dtype)


def _dot(a: jax.Array, b: jax.Array, axis_a: int, axis_b: int, dtype: np.dtype) -> jax.Array:
    summed = replicated(a, 2) if any(partition(a)[axis_a : axis_a + 1]) else None  # sum over all devices
    numbers = (((axis_a,), (axis_b,)), ((), ()))
    return lax.dot_general(a, b, numbers, preferred_element_type=dtype, out_sharding=summed)


def _dot_on_cpu(a: jax.Array, b: jax.Array, axis_a: int, axis_b: int, dtype: np.dtype) -> jax.Array:
    """Cast both arrays to `dtype` first, because in jaxlib 0.10.0, XLA on CPU has no bfloat16 product within loops."""
    return _dot(a.astype(dtype), b.astype(dtype), axis_a, axis_b, dtype)
