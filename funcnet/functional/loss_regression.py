"""Losses for regression and for probability distributions. Sums are computed in at least float32.

The docstring of loss.py describes the arguments `reduction`, `size_average` and `reduce`.
"""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import xlogy

from funcnet.functional import checks
from funcnet.functional.reduction import broadcast, labels, magnitude, matched, reduced

__all__ = [
    "gaussian_nll_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
]


def l1_loss(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: jax.Array | None = None,
) -> jax.Array:
    """Compute `|x - t|`, with derivative 0 where x = t.

    Args:
        input: floating-point array of any shape.
        target: array of the input's shape. As in torch, a target of another shape is broadcast, and a warning is
            issued.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.
        weight: one factor per term, an array of the input's shape. If `weight` is given, 'mean' divides the sum by
            `Σ weight`.

    Returns:
        A scalar, or an array of the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not broadcast, or `reduction` is unknown.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> l1_loss(jnp.array([1.0, -3.0]), jnp.zeros(2))
        Array(2., dtype=float32)

    Reference: torch.nn.functional.l1_loss.
    """
    where = "F.l1_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    x, t = matched(where, input, target)
    losses, divisor = _weighted(where, magnitude(x - t), weight, x)
    return reduced(losses, reduction, divisor).astype(jnp.asarray(input).dtype)


def mse_loss(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: jax.Array | None = None,
) -> jax.Array:
    """Compute `(x - t)²`. The arguments, result and errors are those of `l1_loss`.

    Example:
        >>> mse_loss(jnp.array([1.0, 3.0]), jnp.zeros(2))
        Array(5., dtype=float32)

    Reference: torch.nn.functional.mse_loss.
    """
    where = "F.mse_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    x, t = matched(where, input, target)
    away = x - t
    losses, divisor = _weighted(where, away * away, weight, x)  # `square`'s derivative doubles x, which may overflow
    return reduced(losses, reduction, divisor).astype(jnp.asarray(input).dtype)


def smooth_l1_loss(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> jax.Array:
    """Compute `(x - t)² / 2β` where `|x - t| < β`, and `|x - t| - β/2` elsewhere.

    Args:
        input: floating-point array of any shape.
        target: array of the input's shape. As in torch, a target of another shape is broadcast, and a warning is
            issued.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.
        beta: β, at least 0. With β = 0, the loss equals `l1_loss`.

    Returns:
        A scalar, or an array of the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not broadcast, `reduction` is unknown, or β is negative.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> smooth_l1_loss(jnp.array([1.0, 3.0]), jnp.zeros(2), reduction="none")
        Array([0.5, 2.5], dtype=float32)

    Reference: torch.nn.functional.smooth_l1_loss.
    """
    where = "F.smooth_l1_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    x, t = matched(where, input, target)
    if beta < 0:
        raise ValueError(f"{where}: beta is negative; expected at least 0, got {beta}.")
    size = magnitude(x - t)
    losses = size if beta == 0 else _bowl(size, beta) / beta
    return reduced(losses, reduction).astype(jnp.asarray(input).dtype)


def huber_loss(
    input: jax.Array,
    target: jax.Array,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: jax.Array | None = None,
) -> jax.Array:
    """Compute `(x - t)² / 2` where `|x - t| ≤ δ`, and `δ (|x - t| - δ/2)` elsewhere.

    Args:
        input: floating-point array of any shape.
        target: array of the input's shape. As in torch, a target of another shape is broadcast, and a warning is
            issued.
        reduction: 'mean', 'sum' or 'none'.
        delta: δ, positive.
        weight: one factor per term, an array of the input's shape. Even with weights, 'mean' divides the sum by the
            number of terms.

    Returns:
        A scalar, or an array of the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not broadcast, `reduction` is unknown, or δ is not positive.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> huber_loss(jnp.array([1.0, 3.0]), jnp.zeros(2), reduction="none", delta=2.0)
        Array([0.5, 4. ], dtype=float32)

    Reference: torch.nn.functional.huber_loss; Huber 1964.
    """
    where = "F.huber_loss"
    reduction = checks.reduction_name(where, reduction)
    x, t = matched(where, input, target)
    if delta <= 0:
        raise ValueError(
            f"{where}: delta is not positive; expected more than 0, got {delta}. For the absolute error |x - t|, use "
            "F.l1_loss."
        )
    losses, _ = _weighted(where, _bowl(magnitude(x - t), delta), weight, x)
    return reduced(losses, reduction).astype(jnp.asarray(input).dtype)


def kl_div(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> jax.Array:
    """Compute `t (log t - x)`, the terms of the Kullback-Leibler divergence, for log-probabilities x. The term of a
    target `t = 0` is 0.

    Args:
        input: floating-point array of log-probabilities, of any shape.
        target: probabilities, or log-probabilities if `log_target` is True. The target's shape must broadcast with the
            input's shape.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'batchmean', 'mean', 'sum' or 'none'. 'batchmean' divides the sum by the size of the first dimension,
            which gives the divergence. 'mean' divides the sum by the number of elements, which does not give the
            divergence and causes a warning.
        log_target: whether the target contains log-probabilities. If True, the terms of the loss are `eᵗ (t - x)`.

    Returns:
        A scalar, or an array of the common shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not broadcast, or `reduction` is unknown.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> kl_div(jnp.log(jnp.array([[0.5, 0.5]])), jnp.array([[1.0, 0.0]]), reduction="batchmean").round(4)
        Array(0.6931, dtype=float32)

    Reference: torch.nn.functional.kl_div.
    """
    where = "F.kl_div"
    named = "sum" if reduction == "batchmean" else reduction
    whole = checks.reduction_name(where, named, size_average, reduce)
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            f"{where}: reduction='mean' divides by the number of elements, which does not give the divergence. "
            "Use reduction='batchmean'.",
            stacklevel=3,  # the wrapper of the public name is a level
        )
    input, target = checks.floating(where, "input", input), checks.floating(where, "target", target)
    checks.one_dtype(where, input=input, target=target)
    broadcast(where, input=input, target=target)
    dtype = checks.wide_dtype(input)
    x, t = input.astype(dtype), target.astype(dtype)
    losses = jnp.exp(t) * (t - x) if log_target else xlogy(t, t) - t * x
    total = reduced(losses, whole)
    if reduction == "batchmean" and input.ndim:
        total = total / jnp.asarray(input.shape[0], dtype)
    return total.astype(input.dtype)


def poisson_nll_loss(
    input: jax.Array,
    target: jax.Array,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `eˣ - t x`, the negative log-likelihood of a count t under a Poisson distribution of rate eˣ, up to a
    constant.

    Args:
        input: logarithms of rates, or rates if `log_input` is False, as a floating-point array of any shape.
        target: counts, as an array of an integer dtype or the input's dtype. The target's shape must broadcast with the
            input's shape.
        log_input: whether the input contains logarithms of rates. If False, x is a rate, and the loss is
            `x - t log(x + eps)`.
        full: if True, add the missing constant for counts above 1, approximated by Stirling's formula `t log t - t +
            log(2πt) / 2`.
        size_average, reduce: deprecated; see the docstring of loss.py.
        eps: number added to x to avoid log(0).
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array of the common shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not broadcast, or `reduction` is unknown.
        TypeError: if the input is not floating-point, or a floating-point target does not have the input's dtype.

    Differs from torch: with `full`, the gradient with respect to a target of 0 is not NaN.

    Example:
        >>> poisson_nll_loss(jnp.zeros(2), jnp.array([1, 4]))
        Array(1., dtype=float32)

    Reference: torch.nn.functional.poisson_nll_loss.
    """
    where = "F.poisson_nll_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    input = checks.floating(where, "input", input)
    t = labels(where, target, input)
    broadcast(where, input=input, target=t)
    x = input.astype(t.dtype)
    losses = jnp.exp(x) - t * x if log_input else x - t * jnp.log(x + jnp.asarray(eps, x.dtype))
    if full:
        many = jnp.where(t > 1, t, 1)
        stirling = many * jnp.log(many) - many + 0.5 * jnp.log(2 * math.pi * many)
        losses = losses + jnp.where(t > 1, stirling, 0)
    return reduced(losses, reduction).astype(input.dtype)


def gaussian_nll_loss(
    input: jax.Array,
    target: jax.Array,
    var: jax.Array | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> jax.Array:
    """Compute the Gaussian negative log-likelihood, up to a constant: `(log v + (x - t)² / v) / 2` with `v = max(var,
    eps)`.

    As in torch, the derivative of `v` with respect to `var` is 1 even where `var < eps`, so the gradient of a variance
    below eps is huge.

    Args:
        input: means, as a floating-point array of any shape.
        target: samples, as a floating-point array. The target's shape must broadcast with the input's shape.
        var: variances (at least 0), given as one number or as an array of the input's shape. In an array of variances,
            one dimension may have size 1, or the last dimension may be missing.
        full: if True, add the missing constant `log(2π) / 2`.
        eps: lower bound on the variance.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array of the common shape for 'none', in the input's dtype.

    Raises:
        ValueError: if the shapes do not match, or `reduction` is unknown. A negative variance is also a ValueError,
            except under `jit`, where the loss for this variance is NaN.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> gaussian_nll_loss(jnp.array([1.0, 3.0]), jnp.zeros(2), jnp.array([1.0, 1.0]))
        Array(2.5, dtype=float32)

    Reference: torch.nn.functional.gaussian_nll_loss.
    """
    where = "F.gaussian_nll_loss"
    reduction = checks.reduction_name(where, reduction)
    input, target = checks.floating(where, "input", input), checks.floating(where, "target", target)
    if isinstance(var, int | float):
        var = jnp.full(input.shape, var, input.dtype)
    var = checks.floating(where, "var", var)
    checks.one_dtype(where, input=input, target=target, var=var)
    broadcast(where, input=input, target=target)
    if checks.known(var) and np.any(np.asarray(var) < 0):
        raise ValueError(
            f"{where}: var has a negative entry; expected at least 0, got {np.asarray(var).min()}. Pass variances."
        )
    dtype = checks.wide_dtype(input)
    x, t, v = input.astype(dtype), target.astype(dtype), _aligned(where, var, input.shape).astype(dtype)
    v = jnp.where(v < 0, jnp.nan, v)
    v = jnp.where(v < eps, v + lax.stop_gradient(jnp.asarray(eps, dtype) - v), v)
    losses = 0.5 * (jnp.log(v) + jnp.square(x - t) / v)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction).astype(input.dtype)


def _weighted(
    where: str, losses: jax.Array, weight: jax.Array | None, input: jax.Array
) -> tuple[jax.Array, jax.Array | None]:
    """Return (terms of the loss times weights, sum of the weights), or (terms of the loss, None) without weights."""
    if weight is None:
        return losses, None
    checks.shape_of(where, "weight", weight, input.shape, "Pass one weight per entry of the input.")
    weight = weight.astype(losses.dtype)
    return losses * weight, weight.sum()


def _bowl(size: jax.Array, edge: float) -> jax.Array:
    """Return `size² / 2` where `size` is below `edge`, and the straight line `edge · (size - edge / 2)` elsewhere.
    `size` must not be negative.
    """
    if math.isinf(edge):
        return 0.5 * size * size
    inside = size < edge
    near = jnp.where(inside, size, 0)  # avoids inf · 0 in the gradient for an infinite size
    return jnp.where(inside, 0.5 * near * near, edge * (size - 0.5 * edge))


def _aligned(where: str, var: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Add a missing last dimension to the variances `var`, so that they have the rank of `shape`. Raise a ValueError if
    torch would not accept the shape of `var`.
    """
    if var.shape == shape:
        return var
    if var.shape == shape[:-1]:
        return var[..., None]
    odd = [v for v, s in zip(var.shape, shape, strict=False) if v != s]
    if var.ndim != len(shape) or odd != [1]:
        raise ValueError(
            f"{where}: var has the wrong shape; expected {shape}, {shape[:-1]}, or {shape} with one of its sizes "
            f"replaced by 1, got {var.shape}. Pass one variance per entry, or one variance for all entries along a "
            "dimension."
        )
    return var
