"""Losses that compare scores with classes or probabilities. Letters: `B batch, C classes, S further dimensions`.

Sums are computed in at least float32. The docstring of loss.py describes the arguments `reduction`, `size_average` and
`reduce`.
"""

import functools

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from funcnet.functional import checks
from funcnet.functional.reduction import EPSILON, class_weights, reduced, weights
from funcnet.functional.sharding import gathered

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss"]


def cross_entropy(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> jax.Array:
    """Compute the cross-entropy of logits x, with class weights w.

    The loss is `-w_t · log softmax(x)_t` for a target class t, or `-Σ_c w_c t_c log softmax(x)_c` for target
    probabilities t. 'mean' divides the sum of the losses by the sum of `w_t` over the targets that are not ignored. If
    the target contains probabilities, 'mean' divides the sum by B · S. With smoothing ε, each loss becomes `(1 - ε) ·
    loss + ε / C · Σ_c -w_c log softmax(x)_c`, and the divisor of 'mean' stays the same.

    Args:
        input: logits, a floating-point array of shape (B, C, *S) or (C,).
        target: integer class ids in [0, C), with the shape (B, *S) or (), or floating-point probabilities with the
            input's shape.
        weight: array of shape (C,), with one weight per class.
        ignore_index: class id of the targets to ignore. `ignore_index` is not supported if the target contains
            probabilities.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.
        label_smoothing: ε in [0, 1].

    Returns:
        A scalar, or an array (B, *S) for 'none', in the input's dtype. 'mean' is NaN if all targets are ignored.

    Raises:
        ValueError: if the shapes do not match, `reduction` is unknown, ε is outside [0, 1], or `ignore_index` is at
            least 0 and the target contains probabilities. An id out of range is also a ValueError, except under `jit`,
            where the loss of this id is NaN.
        TypeError: if the input is not floating-point, or `weight` has neither the input's dtype nor the dtype of the
            sum.

    Example:
        >>> cross_entropy(jnp.zeros((2, 4)), jnp.array([1, -100])).round(4)
        Array(1.3863, dtype=float32)

    Reference: torch.nn.functional.cross_entropy.
    """
    where = "F.cross_entropy"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{where}: label_smoothing is out of range; expected 0 to 1, got {label_smoothing}.")
    input, axis = _class_input(where, input)
    weight = class_weights(where, weight, input, input.shape[axis])
    target = jnp.asarray(target)
    x = input.astype(checks.wide_dtype(input))
    along = None if weight is None else _along(weight, x.ndim, axis)
    if jnp.issubdtype(target.dtype, jnp.floating):
        advice = "Pass probabilities of the input's shape, or class ids of an integer dtype."
        checks.shape_of(where, "target", target, input.shape, advice)
        if ignore_index >= 0:
            raise ValueError(
                f"{where}: ignore_index has no meaning for probabilities; expected the default value, got "
                f"{ignore_index}. Omit ignore_index. To ignore a target, set all its probabilities to 0."
            )
        shares = target.astype(x.dtype)
        if label_smoothing:
            shares = shares * (1 - label_smoothing) + label_smoothing / x.shape[axis]
        terms = -jax.nn.log_softmax(x, axis) * shares
        losses = (terms if along is None else terms * along).sum(axis)
        return reduced(losses, reduction).astype(input.dtype)

    # Computing log Σ exp - x_t writes no table of log-probabilities, which would be the main cost at 30 000 classes.
    # Both terms are relative to the largest logit. Otherwise, with logits in the thousands, rounding would erase the
    # difference.
    largest, log_total = _log_total(x, axis)
    smooth = None
    if label_smoothing:
        # Σ_c w_c (log Σ exp - x_c)
        shifted = jnp.expand_dims(log_total, axis) - (x - jnp.expand_dims(largest, axis))
        smooth = (shifted if along is None else shifted * along).sum(axis) / x.shape[axis]
    kept, picked, share = _pick(where, x, target, weight, ignore_index, axis)
    losses = (log_total - (picked - largest)) * share
    if smooth is not None:
        losses = (1 - label_smoothing) * losses + label_smoothing * smooth
    losses = jnp.where(kept, losses, 0)
    return reduced(losses, reduction, share.sum()).astype(input.dtype)


def nll_loss(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute the negative log-likelihood `-w_t · x_t` for a target class t and log-probabilities x.

    'mean' divides the sum of the losses by the sum of `w_t` over the targets that are not ignored.

    Args:
        input: log-probabilities, a floating-point array of shape (B, C, *S) or (C,).
        target: integer class ids in [0, C), with the shape (B, *S) or ().
        weight: array of shape (C,), with one weight per class.
        ignore_index: class id of the targets to ignore.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array (B, *S) for 'none', in the input's dtype. 'mean' is NaN if all targets are ignored.

    Raises:
        ValueError: if the shapes do not match, or `reduction` is unknown. An id out of range is also a ValueError,
            except under `jit`, where the loss of this id is NaN.
        TypeError: if the input is not floating-point, the target is not of an integer dtype, or `weight` has neither
            the input's dtype nor the dtype of the sum.

    Example:
        >>> nll_loss(jnp.log(jnp.array([[0.5, 0.25, 0.25]])), jnp.array([0])).round(4)
        Array(0.6931, dtype=float32)

    Reference: torch.nn.functional.nll_loss.
    """
    reduction = checks.reduction_name("F.nll_loss", reduction, size_average, reduce)
    input, axis = _class_input("F.nll_loss", input)
    weight = class_weights("F.nll_loss", weight, input, input.shape[axis])
    x = input.astype(checks.wide_dtype(input))
    kept, picked, share = _pick("F.nll_loss", x, jnp.asarray(target), weight, ignore_index, axis)
    losses = jnp.where(kept, -picked * share, 0)
    return reduced(losses, reduction, share.sum()).astype(input.dtype)


def binary_cross_entropy(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `-w · (t log x + (1 - t) log(1 - x))` for a probability x, with each logarithm clamped to at least -100.

    Args:
        input: probabilities in [0, 1], a floating-point array of any shape.
        target: probabilities in [0, 1], a floating-point array of the input's shape.
        weight: one factor per term, an array that broadcasts to the input's shape. Even with weights, 'mean' divides
            the sum by the number of terms.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array of the input's shape for 'none', in the input's dtype. As in torch, the gradient
        `(x - t) / max(x (1 - x), 1e-12)` ignores the clamp.

    Raises:
        ValueError: if the shapes differ, `weight` does not broadcast to the input, or `reduction` is unknown. An entry
            of the input or target outside [0, 1] is also a ValueError, except under `jit`, where the loss of this entry
            is NaN.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> binary_cross_entropy(jnp.array([0.5, 1.0]), jnp.array([0.0, 0.0])).round(4)
        Array(50.3466, dtype=float32)

    Reference: torch.nn.functional.binary_cross_entropy.
    """
    where = "F.binary_cross_entropy"
    input, target = checks.floating(where, "input", input), checks.floating(where, "target", target)
    checks.one_dtype(where, input=input, target=target)
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    checks.shape_of(where, "target", target, input.shape, "Broadcast the target to the input's shape.")
    checks.in_unit_interval(where, "input", input)
    checks.in_unit_interval(where, "target", target)
    dtype = checks.wide_dtype(input)
    losses = _binary(input.astype(dtype), target.astype(dtype))
    losses = jnp.where((target < 0) | (target > 1), jnp.nan, losses)
    if weight is not None:
        losses = losses * weights(where, "weight", weight, input.shape, dtype)
    return reduced(losses, reduction).astype(input.dtype)


def binary_cross_entropy_with_logits(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: jax.Array | None = None,
) -> jax.Array:
    """Compute `-w · (v t log σ(x) + (1 - t) log(1 - σ(x)))` from logits x, without overflow. v is `pos_weight`.

    Args:
        input: logits, a floating-point array of any shape.
        target: probabilities in [0, 1], a floating-point array of the input's shape.
        weight: one factor per term, an array that broadcasts to the input's shape. Even with weights, 'mean' divides
            the sum by the number of terms.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.
        pos_weight: weight v of the positive term, an array that broadcasts to the input's shape. None means 1.

    Returns:
        A scalar, or an array of the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes differ, a weight does not broadcast to the input, or `reduction` is unknown.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> binary_cross_entropy_with_logits(jnp.zeros(2), jnp.array([0.0, 1.0])).round(4)
        Array(0.6931, dtype=float32)

    Reference: torch.nn.functional.binary_cross_entropy_with_logits.
    """
    where = "F.binary_cross_entropy_with_logits"
    input, target = checks.floating(where, "input", input), checks.floating(where, "target", target)
    checks.one_dtype(where, input=input, target=target)
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    checks.shape_of(where, "target", target, input.shape, "Broadcast the target to the input's shape.")
    dtype = checks.wide_dtype(input)
    x, t = input.astype(dtype), target.astype(dtype)
    positive = jax.nn.softplus(-x)  # -log σ(x)
    if pos_weight is None:
        losses = (1 - t) * x + positive
    else:
        losses = (1 - t) * x + (1 + (weights(where, "pos_weight", pos_weight, x.shape, dtype) - 1) * t) * positive
    if weight is not None:
        losses = losses * weights(where, "weight", weight, x.shape, dtype)
    return reduced(losses, reduction).astype(input.dtype)


@jax.custom_jvp
def _binary(x: jax.Array, t: jax.Array) -> jax.Array:
    return (t - 1) * jnp.maximum(jnp.log1p(-x), -100) - t * jnp.maximum(jnp.log(x), -100)


def _binary_jvp(primals, tangents):
    (x, t), (of_x, of_t) = primals, tangents
    tangent = jnp.zeros_like(x)
    if not isinstance(of_x, SymbolicZero):
        tangent += (x - t) / jnp.maximum((1 - x) * x, EPSILON) * of_x
    if not isinstance(of_t, SymbolicZero):  # an infinite slope times a zero tangent would be NaN
        tangent += (jnp.log1p(-x) - jnp.log(x)) * of_t
    return _binary(x, t), tangent


_binary.defjvp(_binary_jvp, symbolic_zeros=True)


def _class_input(where: str, input: jax.Array) -> tuple[jax.Array, int]:
    """Return the input and the number of its class dimension, or raise an error."""
    input = checks.floating(where, "input", input)
    if input.ndim == 0:
        raise ValueError(f"{where}: input has no class dimension; expected (batch, classes, *) or (classes,), got ().")
    axis = 0 if input.ndim == 1 else 1
    return input, axis


def _log_total(x: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Return the largest entry along `axis`, without a gradient, and `log Σ exp(x - largest)`."""
    largest = jax.lax.stop_gradient(x.max(axis, initial=-jnp.inf))
    largest = jnp.where(jnp.isneginf(largest), 0, largest)  # +inf is kept and gives NaN
    return largest, jnp.log(jnp.exp(x - jnp.expand_dims(largest, axis)).sum(axis))


def _along(vector: jax.Array, ndim: int, axis: int) -> jax.Array:
    return vector.reshape(*(1,) * axis, -1, *(1,) * (ndim - axis - 1))


def _pick(
    where: str, x: jax.Array, target: jax.Array, weight: jax.Array | None, ignore_index: int, axis: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return three arrays of the target's shape: whether each target is not ignored, the entry of x at the target
    class, and the weight of the target class.

    The weight of an ignored target is 0.
    """
    target = checks.integers(where, "target", target)
    ignore_index = checks.as_int(where, "ignore_index", ignore_index)
    expected = x.shape[:axis] + x.shape[axis + 1 :]
    why = f"The shape of input is {x.shape}, with the classes in dimension {axis}."
    if target.shape == x.shape and where == "F.cross_entropy":
        why += " If the target holds probabilities, such as one-hot rows, convert it with target.astype(jnp.float32)."
    checks.shape_of(where, "target", target, expected, why)
    classes = x.shape[axis]
    checks.ids_in_range(where, "target", target, classes, ignore=ignore_index)
    kept = target != ignore_index
    picked = _take(x, target, axis)
    known = ~kept | ((target >= 0) & (target < classes))
    picked = jnp.where(known, picked, jnp.nan)  # under jit, NaN reveals an id out of range
    if weight is None:
        share = kept.astype(x.dtype)
    else:
        shares = weight.at[target].get(mode="fill", fill_value=0, out_sharding=gathered(weight, target))
        share = jnp.where(kept, shares, 0)
    return kept, picked, share


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _take(x: jax.Array, target: jax.Array, axis: int) -> jax.Array:
    """Return the entry of `x` at the target class. For an invalid class id, return the entry at the nearest valid
    class.
    """
    return jnp.take_along_axis(x, jnp.expand_dims(target, axis), axis, mode="clip").squeeze(axis)


@_take.defjvp
def _take_jvp(
    axis: int, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    """Compute the tangent with a select instead of a scatter, because XLA can fuse a select with the gradient of
    softmax.
    """
    x, target = primals
    hit = jax.lax.broadcasted_iota(target.dtype, x.shape, axis) == jnp.expand_dims(target, axis)
    return _take(x, target, axis), jnp.where(hit, tangents[0], 0).sum(axis)
