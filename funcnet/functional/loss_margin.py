"""Losses that penalise scores within a margin of the decision boundary. Letters: `B batch, C classes`.

Sums are computed in at least float32. The docstring of loss.py describes the arguments `reduction`, `size_average` and
`reduce`.
"""

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.reduction import broadcast, clamp_at_zero, class_weights, labels, reduced, weights
from funcnet.functional.sharding import unchanged

__all__ = [
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "soft_margin_loss",
]


def hinge_embedding_loss(
    input: jax.Array,
    target: jax.Array,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `x` for similar pairs, and `max(0, margin - x)` for dissimilar pairs.

    Args:
        input: distances, a floating-point array of any shape.
        target: array that broadcasts with the input, in an integer dtype or the input's dtype. 1 marks a similar pair
            and -1 a dissimilar pair. Any other target gives the sum of the losses for similar and for dissimilar pairs.
        margin: smallest distance at which the loss of a dissimilar pair is 0.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array of the common shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not broadcast, or `reduction` is unknown.
        TypeError: if the input is not floating-point, or a floating-point target does not have the input's dtype.

    Example:
        >>> hinge_embedding_loss(jnp.array([0.25, 0.25]), jnp.array([1, -1]), reduction="none")
        Array([0.25, 0.75], dtype=float32)

    Reference: torch.nn.functional.hinge_embedding_loss.
    """
    where = "F.hinge_embedding_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    input = checks.floating(where, "input", input)
    t = labels(where, target, input)
    broadcast(where, input=input, target=t)
    x = input.astype(t.dtype)
    losses = jnp.where(t != 1, clamp_at_zero(margin - x), 0) + jnp.where(t != -1, x, 0)
    return reduced(losses, reduction).astype(input.dtype)


def margin_ranking_loss(
    input1: jax.Array,
    input2: jax.Array,
    target: jax.Array,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `max(0, -t (x1 - x2) + margin)` for a target t.

    A target of 1 means that x1 should be larger than x2. A target of -1 means that x1 should be smaller than x2.

    Args:
        input1, input2: floating-point arrays of the same rank, whose shapes broadcast.
        target: labels 1 or -1, in an integer dtype or the inputs' dtype, with the same rank as the inputs.
        margin: smallest `t (x1 - x2)` at which the loss is 0.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array of the common shape for 'none', in the inputs' dtype.

    Raises:
        ValueError: if the ranks differ, the shapes do not broadcast, or `reduction` is unknown.
        TypeError: if an input is not floating-point, or the floating-point dtypes differ.

    Example:
        >>> margin_ranking_loss(jnp.array([1.0]), jnp.array([3.0]), jnp.array([1]), margin=0.5)
        Array(2.5, dtype=float32)

    Reference: torch.nn.functional.margin_ranking_loss.
    """
    where = "F.margin_ranking_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    input1, input2 = checks.floating(where, "input1", input1), checks.floating(where, "input2", input2)
    checks.one_dtype(where, input1=input1, input2=input2)
    t = labels(where, target, input1)
    if not input1.ndim == input2.ndim == t.ndim:
        raise ValueError(
            f"{where}: the arguments differ in rank; expected equal numbers of dimensions, got input1 {input1.shape}, "
            f"input2 {input2.shape}, target {t.shape}."
        )
    broadcast(where, input1=input1, input2=input2, target=t)
    losses = clamp_at_zero(-t * (input1.astype(t.dtype) - input2.astype(t.dtype)) + margin)
    return reduced(losses, reduction).astype(input1.dtype)


def soft_margin_loss(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute the logistic loss `log(1 + exp(-t x))` for the labels 1 and -1.

    Args:
        input: floating-point array of any shape.
        target: labels 1 or -1, in an integer dtype or the input's dtype. The shape of the target must broadcast to the
            input's shape.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array of the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the target does not broadcast to the input, or `reduction` is unknown.
        TypeError: if the input is not floating-point, or a floating-point target does not have the input's dtype.

    Differs from torch: large scores of the wrong sign give finite losses and gradients.

    Example:
        >>> soft_margin_loss(jnp.array([0.0, -200.0]), jnp.array([1, 1]), reduction="none").round(4)
        Array([  0.6931, 200.    ], dtype=float32)

    Reference: torch.nn.functional.soft_margin_loss.
    """
    where = "F.soft_margin_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    input = checks.floating(where, "input", input)
    t = weights(where, "target", labels(where, target, input), input.shape, checks.wide_dtype(input))
    return reduced(jax.nn.softplus(-t * input.astype(t.dtype)), reduction).astype(input.dtype)


def multilabel_soft_margin_loss(
    input: jax.Array,
    target: jax.Array,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `-1/C · Σ_c w_c (t_c log σ(x_c) + (1 - t_c) log σ(-x_c))`, the mean of C binary losses.

    Args:
        input: logits, a floating-point array of shape (*, C).
        target: labels 1 or 0, in an integer dtype or the input's dtype. The shape of the target must broadcast with the
            input's shape.
        weight: one factor w per term, an array that broadcasts to the input's shape. A weight of shape (C,) contains
            one factor per class.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array (*) for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not match, or `reduction` is unknown.
        TypeError: if the input is not floating-point, or a floating-point target does not have the input's dtype.

    Example:
        >>> multilabel_soft_margin_loss(jnp.zeros((2, 3)), jnp.array([[1, 0, 1], [0, 0, 0]])).round(4)
        Array(0.6931, dtype=float32)

    Reference: torch.nn.functional.multilabel_soft_margin_loss.
    """
    where = "F.multilabel_soft_margin_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    input = checks.floating(where, "input", input)
    if input.ndim == 0:
        raise ValueError(f"{where}: input has no class dimension; expected (*, classes), got ().")
    t = labels(where, target, input)
    shape = broadcast(where, input=input, target=t)
    x = input.astype(t.dtype)
    losses = (1 - t) * x + jax.nn.softplus(-x)
    if weight is not None:
        losses = losses * weights(where, "weight", weight, shape, x.dtype)
    return reduced(losses.mean(input.ndim - 1), reduction).astype(input.dtype)


def multi_margin_loss(
    input: jax.Array,
    target: jax.Array,
    p: int = 1,
    margin: float = 1.0,
    weight: jax.Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `w_t / C · Σ_c max(0, margin - x_t + x_c)ᵖ`, summed over all classes c except the target class t.

    Args:
        input: scores, a floating-point array of shape (B, C) or (C,).
        target: integer class ids in [0, C), with the shape (B,). If the input has shape (C,), the target has shape ()
            or (1,).
        p: exponent, 1 or 2.
        margin: the loss is 0 if the target's score exceeds every other score by at least `margin`.
        weight: array of shape (C,), with one weight per class.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array of the target's shape for 'none', in the input's dtype. The mean of an empty batch is NaN.

    Raises:
        ValueError: if the shapes do not match, p is not 1 or 2, or `reduction` is unknown. An id out of range is also a
            ValueError, except under `jit`, where the loss of this id is NaN.
        TypeError: if the input is not floating-point, the target is not of an integer dtype, or `weight` has neither
            the input's dtype nor the dtype of the sum.

    Example:
        >>> multi_margin_loss(jnp.array([[0.0, 2.0, 1.5, -1.0]]), jnp.array([1]))
        Array(0.125, dtype=float32)

    Reference: torch.nn.functional.multi_margin_loss.
    """
    where = "F.multi_margin_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"{where}: p is not supported; expected 1 or 2, got {p!r}.")
    input, target = checks.floating(where, "input", input), checks.integers(where, "target", target)
    x = _rows(where, input)
    alone = [()] if input.ndim == 2 else [(), (1,)]
    if input.ndim == 2 or target.shape not in alone:
        checks.shape_of(where, "target", target, x.shape[:1], "Pass one class id per row.")
    classes = x.shape[1]
    weight = class_weights(where, weight, input, classes)
    checks.ids_in_range(where, "target", target, classes)
    t = target.reshape(x.shape[0], 1)
    hit = lax.broadcasted_iota(t.dtype, x.shape, 1) == t
    lead = margin - jnp.where(hit, x, 0).sum(1, keepdims=True) + x
    behind = jnp.where(~hit & (lead > 0), lead, 0)  # a lead of 0 has no gradient
    losses = (behind if p == 1 else jnp.square(behind)).sum(1) / classes
    if weight is not None:
        losses = losses * jnp.where(hit, weight, 0).sum(1)
    losses = jnp.where(hit.any(1), losses, jnp.nan).reshape(target.shape)
    return reduced(losses, reduction).astype(input.dtype)


def multilabel_margin_loss(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `1/C · Σ_t Σ_c max(0, 1 - x_t + x_c)`, summed over the target classes t and all other classes c.

    Args:
        input: scores, a floating-point array of shape (B, C) or (C,).
        target: integers of the input's shape. Each row contains class ids in [0, C). The first -1 of a row ends the
            list of its target classes, and all later entries of the row are ignored. A class that occurs twice in the
            list counts twice.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array (B,) for 'none', in the input's dtype. The mean of an empty batch is NaN. The second
        derivative of this loss is 0.

    Raises:
        ValueError: if the shapes do not match, or `reduction` is unknown. An id outside [-1, C) is also a ValueError,
            even if the id is ignored. Under `jit`, the loss of a row with an id outside [-1, C) is NaN instead.
        TypeError: if the input is not floating-point, or the target is not of an integer dtype.

    Example:
        >>> print(multilabel_margin_loss(jnp.array([0.25, 0.5, 0.5, 0.75]), jnp.array([3, 0, -1, 1])))
        1.0

    Reference: torch.nn.functional.multilabel_margin_loss.
    """
    where = "F.multilabel_margin_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    input, target = checks.floating(where, "input", input), checks.integers(where, "target", target)
    x = _rows(where, input)
    if input.ndim == 2 or target.size != x.size or target.ndim > 1:
        checks.shape_of(where, "target", target, input.shape, "Fill each row with -1 after its class ids.")
    checks.ids_in_range(where, "target", target + 1, x.shape[1] + 1)
    t = target.reshape(x.shape)
    losses = _multilabel(x, t)[0] / x.shape[1]
    losses = jnp.where(((t >= -1) & (t < x.shape[1])).all(1), losses, jnp.nan)
    return reduced(losses.reshape(input.shape[:-1]), reduction).astype(input.dtype)


def _rows(where: str, input: jax.Array) -> jax.Array:
    """Return the input as an array (B, C) in the dtype of the computation.

    An input vector becomes one row. An input scalar becomes one row with one class.
    """
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise ValueError(
            f"{where}: input has the wrong shape; expected (batch, classes) or (classes,) with at least one class, got "
            f"{input.shape}. Flatten all leading dimensions into the batch dimension."
        )
    x = input.astype(checks.wide_dtype(input))
    return x if x.ndim == 2 else x.reshape(1, -1)


@jax.custom_jvp
def _multilabel(x: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the sum of the losses of each row, and the gradient of this sum, which has derivative 0.

    The loop over target positions stops at the end of the longest list of targets, so the cost depends on the number of
    targets. Computing all pairs of classes at once would cost C² operations per row, even for a row with three targets.
    """
    read = jnp.cumprod((t >= 0).astype(t.dtype), axis=1) == 1
    ids = lax.broadcasted_iota(t.dtype, x.shape, 1)
    rows = lax.broadcasted_iota(t.dtype, t.shape, 0)
    places = jnp.where(read, t, x.shape[1])
    named = jnp.zeros_like(x).at[rows, places].set(1, mode="drop", out_sharding=unchanged(x)) == 1
    longest = read.sum(1).max(initial=0)

    def step(carry):
        place, losses, slope = carry
        id, counts = lax.dynamic_slice_in_dim(t, place, 1, 1), lax.dynamic_slice_in_dim(read, place, 1, 1)
        hit = (ids == id) & counts
        lead = 1 - jnp.where(hit, x, 0).sum(1, keepdims=True) + x
        behind = counts & ~named & (lead > 0)
        share = behind.astype(x.dtype)
        slope = slope + share - jnp.where(hit, share.sum(1, keepdims=True), 0)
        return place + 1, losses + jnp.where(behind, lead, 0).sum(1), slope

    start = (jnp.zeros_like(longest), jnp.zeros_like(x[:, 0]), jnp.zeros_like(x))
    _, losses, slope = lax.while_loop(lambda carry: carry[0] < longest, step, start)
    return losses, slope


@_multilabel.defjvp
def _multilabel_jvp(primals, tangents):
    losses, slope = _multilabel(*primals)
    return (losses, slope), ((slope * tangents[0]).sum(1), jnp.zeros_like(slope))
