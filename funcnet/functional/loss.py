"""Losses. Letters: `B batch, C classes, S further dimensions`. Everything is summed in at least float32.

`reduction` is 'mean', 'sum' or 'none'. `size_average` and `reduce` are torch's old names for it, and stand where torch
has them: where either is given it decides, with a DeprecationWarning (reduce=False is 'none', else size_average=False
is 'sum', else 'mean').
"""

import warnings

import jax
import jax.numpy as jnp

from funcnet.functional import checks

__all__ = ["binary_cross_entropy_with_logits", "cross_entropy", "mse_loss", "nll_loss"]


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
    """`-w_t · log softmax(x)_t`, t the target class; or `-Σ_c w_c t_c log softmax(x)_c` for probabilities t.

    'mean' divides by `Σ w_t` over the targets that count (by B · S for probabilities). With smoothing ε the loss is
    `(1 - ε)` times that plus `ε / C · Σ_c -w_c log softmax(x)_c`, over the same divisor.

    Args:
        input: (B, C, *S) or (C,), logits, floating.
        target: (B, *S) or (), class ids in [0, C), integers; or probabilities, floating, shaped as the input.
        weight: (C,): a weight for every class.
        ignore_index: a target that does not count (class ids only).
        size_average, reduce: see the file's head.
        reduction: 'mean', 'sum' or 'none'.
        label_smoothing: ε in [0, 1].

    Returns:
        (), or (B, *S) for 'none', in the input's dtype. NaN for 'mean' with nothing that counts.

    Raises:
        ValueError: shapes that do not fit; ids out of range where they are known (under `jit` such a loss is NaN);
            another reduction; ε outside [0, 1].
        TypeError: integers where floats are needed.

    Example:
        >>> cross_entropy(jnp.zeros((2, 4)), jnp.array([1, -100])).round(4)
        Array(1.3863, dtype=float32)

    Reference: torch.nn.functional.cross_entropy.
    """
    where = "F.cross_entropy"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"{where}: label_smoothing is no share; expected 0 to 1, got {label_smoothing}. Choose a small share."
        )
    input, axis = _class_input(where, input, weight)
    target = jnp.asarray(target)
    x = input.astype(checks.wide_dtype(input))
    weights = None if weight is None else _along(weight.astype(x.dtype), x.ndim, axis)
    if jnp.issubdtype(target.dtype, jnp.floating):
        checks.shape_of(where, "target", target, input.shape, "Probabilities are shaped as the input.")
        shares = target.astype(x.dtype)
        if label_smoothing:
            shares = shares * (1 - label_smoothing) + label_smoothing / x.shape[axis]
        terms = -jax.nn.log_softmax(x, axis) * shares
        losses = (terms if weights is None else terms * weights).sum(axis)
        return _reduce(losses, jnp.asarray(losses.size, x.dtype), reduction).astype(input.dtype)

    # log Σ exp - x_t reads the logits and writes no table of log-probabilities: at 30 000 classes that is the cost.
    log_total = jax.nn.logsumexp(x, axis)
    smooth = None
    if label_smoothing:
        # Σ_c w_c (log Σ exp - x_c)
        shifted = jnp.expand_dims(log_total, axis) - x
        smooth = (shifted if weights is None else shifted * weights).sum(axis) / x.shape[axis]
    kept, picked, share = _pick(where, x, target, weight, ignore_index, axis)
    losses = (log_total - picked) * share
    if smooth is not None:
        losses = (1 - label_smoothing) * losses + label_smoothing * smooth
    losses = jnp.where(kept, losses, 0)
    return _reduce(losses, share.sum(), reduction).astype(input.dtype)


def nll_loss(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """`-w_t · x_t`, t the target class and x log-probabilities; 'mean' divides by `Σ w_t`.

    Args:
        input: (B, C, *S) or (C,), log-probabilities, floating.
        target: (B, *S) or (), class ids in [0, C), integers.
        weight: (C,): a weight for every class.
        ignore_index: a target that does not count.
        size_average, reduce: see the file's head.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        (), or (B, *S) for 'none', in the input's dtype. NaN for 'mean' with nothing that counts.

    Raises:
        ValueError: shapes that do not fit; ids out of range where they are known (under `jit` such a loss is NaN);
            another reduction.
        TypeError: integers where floats are needed, or the reverse.

    Example:
        >>> nll_loss(jnp.log(jnp.array([[0.5, 0.25, 0.25]])), jnp.array([0])).round(4)
        Array(0.6931, dtype=float32)

    Reference: torch.nn.functional.nll_loss.
    """
    reduction = checks.reduction_name("F.nll_loss", reduction, size_average, reduce)
    input, axis = _class_input("F.nll_loss", input, weight)
    x = input.astype(checks.wide_dtype(input))
    kept, picked, share = _pick("F.nll_loss", x, jnp.asarray(target), weight, ignore_index, axis)
    losses = jnp.where(kept, -picked * share, 0)
    return _reduce(losses, share.sum(), reduction).astype(input.dtype)


def mse_loss(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: jax.Array | None = None,
) -> jax.Array:
    """`(x - t)²`.

    Args:
        input: any shape, floating.
        target: the same shape; others broadcast with a warning, as in torch.
        size_average, reduce: see the file's head.
        reduction: 'mean', 'sum' or 'none'.
        weight: of the same shape: multiplies every term; 'mean' then divides by `Σ weight`.

    Returns:
        (), or the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that do not broadcast; another reduction.
        TypeError: integers, or dtypes that differ.

    Example:
        >>> mse_loss(jnp.array([1.0, 3.0]), jnp.zeros(2))
        Array(5., dtype=float32)

    Reference: torch.nn.functional.mse_loss.
    """
    input, target = checks.floating("F.mse_loss", "input", input), checks.floating("F.mse_loss", "target", target)
    checks.one_dtype("F.mse_loss", input=input, target=target)
    reduction = checks.reduction_name("F.mse_loss", reduction, size_average, reduce)
    if input.shape != target.shape:
        _warn_of_broadcast("F.mse_loss", input.shape, target.shape)
    dtype = checks.wide_dtype(input)
    difference = input.astype(dtype) - target.astype(dtype)
    losses = difference * difference
    checks.shape_of("F.mse_loss", "weight", weight, losses.shape, "It holds one weight a term.")
    if weight is None:
        return _reduce(losses, jnp.asarray(losses.size, dtype), reduction).astype(input.dtype)
    weight = weight.astype(dtype)
    return _reduce(losses * weight, weight.sum(), reduction).astype(input.dtype)


def binary_cross_entropy_with_logits(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: jax.Array | None = None,
) -> jax.Array:
    """`-w · (v t log σ(x) + (1 - t) log(1 - σ(x)))`, v the positive weight, from logits and without overflow.

    Args:
        input: any shape, logits, floating.
        target: the same shape, probabilities in [0, 1], floating.
        weight: broadcasts to the input: multiplies every term ('mean' still divides by the number of terms).
        size_average, reduce: see the file's head.
        reduction: 'mean', 'sum' or 'none'.
        pos_weight: broadcasts to the input: v.

    Returns:
        (), or the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that differ; another reduction.
        TypeError: integers, or dtypes that differ.

    Example:
        >>> binary_cross_entropy_with_logits(jnp.zeros(2), jnp.array([0.0, 1.0])).round(4)
        Array(0.6931, dtype=float32)

    Reference: torch.nn.functional.binary_cross_entropy_with_logits.
    """
    where = "F.binary_cross_entropy_with_logits"
    input, target = checks.floating(where, "input", input), checks.floating(where, "target", target)
    checks.one_dtype(where, input=input, target=target)
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    checks.shape_of(where, "target", target, input.shape, "It has the input's shape; broadcast it yourself.")
    dtype = checks.wide_dtype(input)
    x, t = input.astype(dtype), target.astype(dtype)
    positive = jax.nn.softplus(-x)  # -log σ(x)
    if pos_weight is None:
        losses = (1 - t) * x + positive
    else:
        losses = (1 - t) * x + (1 + (pos_weight.astype(dtype) - 1) * t) * positive
    if weight is not None:
        losses = losses * weight.astype(dtype)
    return _reduce(losses, jnp.asarray(losses.size, dtype), reduction).astype(input.dtype)


def _class_input(where: str, input: jax.Array, weight: jax.Array | None) -> tuple[jax.Array, int]:
    """The input and its class axis."""
    input = checks.floating(where, "input", input)
    if input.ndim == 0:
        raise ValueError(
            f"{where}: input has no classes; expected (batch, classes, *) or (classes,), got (). Add the dimension."
        )
    axis = 0 if input.ndim == 1 else 1
    checks.shape_of(where, "weight", weight, input.shape[axis : axis + 1], "It holds one number a class.")
    return input, axis


def _along(vector: jax.Array, ndim: int, axis: int) -> jax.Array:
    return vector.reshape(*(1,) * axis, -1, *(1,) * (ndim - axis - 1))


def _pick(
    where: str, x: jax.Array, target: jax.Array, weight: jax.Array | None, ignore_index: int, axis: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(which targets count, x at the target class, the target's weight or 0), all shaped as the target."""
    target = checks.integers(where, "target", target)
    expected = x.shape[:axis] + x.shape[axis + 1 :]
    checks.shape_of(where, "target", target, expected, f"The input is {x.shape}; its classes are dimension {axis}.")
    classes = x.shape[axis]
    checks.ids_in_range(where, "target", target, classes, ignore=ignore_index)
    kept = target != ignore_index
    hit = jax.lax.broadcasted_iota(target.dtype, x.shape, axis) == jnp.expand_dims(target, axis)
    # A sum over one hit, not a gather: its gradient is a select that fuses with softmax, where a gather's is a scatter.
    picked = jnp.where(hit, x, 0).sum(axis)
    known = ~kept | ((target >= 0) & (target < classes))
    picked = jnp.where(known, picked, jnp.nan)  # an id out of range under jit is to be seen
    if weight is None:
        share = kept.astype(x.dtype)
    else:
        share = jnp.where(kept, jnp.where(hit, _along(weight.astype(x.dtype), x.ndim, axis), 0).sum(axis), 0)
    return kept, picked, share


def _reduce(losses: jax.Array, divisor: jax.Array, reduction: str) -> jax.Array:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.sum() / divisor


def _warn_of_broadcast(where: str, shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    try:
        jnp.broadcast_shapes(shape, other)
    except ValueError:
        raise ValueError(
            f"{where}: target does not fit input; expected {shape}, got {other}. Give both the same shape."
        ) from None
    warnings.warn(
        f"{where}: target has shape {other}, input {shape}: they are broadcast, which is rarely what was meant.",
        stacklevel=3,
    )
