"""Losses between numbers, and between distributions and samples. Everything is summed in at least float32.

For `reduction`, `size_average` and `reduce` see loss.py.
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
    """`|x - t|`, with derivative 0 where they are equal.

    Args:
        input: any shape, floating.
        target: the same shape; others broadcast with a warning, as in torch.
        size_average, reduce: see the head of loss.py.
        reduction: 'mean', 'sum' or 'none'.
        weight: of the input's shape: multiplies every term; 'mean' then divides by `Σ weight`.

    Returns:
        (), or the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that do not broadcast; another reduction.
        TypeError: integers, or dtypes that differ.

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
    """`(x - t)²`; arguments, result and errors are those of `l1_loss`.

    Example:
        >>> mse_loss(jnp.array([1.0, 3.0]), jnp.zeros(2))
        Array(5., dtype=float32)

    Reference: torch.nn.functional.mse_loss.
    """
    where = "F.mse_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    x, t = matched(where, input, target)
    away = x - t
    losses, divisor = _weighted(where, away * away, weight, x)  # the derivative of a square doubles, and may overflow
    return reduced(losses, reduction, divisor).astype(jnp.asarray(input).dtype)


def smooth_l1_loss(
    input: jax.Array,
    target: jax.Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> jax.Array:
    """`(x - t)² / 2β` where `|x - t| < β`, else `|x - t| - β/2`.

    Args:
        input: any shape, floating.
        target: the same shape; others broadcast with a warning, as in torch.
        size_average, reduce: see the head of loss.py.
        reduction: 'mean', 'sum' or 'none'.
        beta: β, at least 0; 0 is `l1_loss`.

    Returns:
        (), or the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that do not broadcast; another reduction; a negative β.
        TypeError: integers, or dtypes that differ.

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
    """`(x - t)² / 2` where `|x - t| ≤ δ`, else `δ (|x - t| - δ/2)`.

    Args:
        input: any shape, floating.
        target: the same shape; others broadcast with a warning, as in torch.
        reduction: 'mean', 'sum' or 'none'.
        delta: δ, positive.
        weight: of the input's shape: multiplies every term; 'mean' still divides by the number of terms.

    Returns:
        (), or the input's shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that do not broadcast; another reduction; a δ that is not positive.
        TypeError: integers, or dtypes that differ.

    Example:
        >>> huber_loss(jnp.array([1.0, 3.0]), jnp.zeros(2), reduction="none", delta=2.0)
        Array([0.5, 4. ], dtype=float32)

    Reference: torch.nn.functional.huber_loss; Huber 1964.
    """
    where = "F.huber_loss"
    reduction = checks.reduction_name(where, reduction)
    x, t = matched(where, input, target)
    if delta <= 0:
        raise ValueError(f"{where}: delta is not positive; expected more than 0, got {delta}. Use l1_loss for lines.")
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
    """`t (log t - x)`, the terms of the Kullback-Leibler divergence, where x are log-probabilities; 0 for `t = 0`.

    Args:
        input: any shape, log-probabilities, floating.
        target: broadcasts with the input; probabilities, or their logarithms with `log_target`.
        size_average, reduce: see the head of loss.py.
        reduction: 'batchmean' (the divergence: the sum over the size of the first dimension), 'mean' (over all
            elements; warns, for it is none), 'sum' or 'none'.
        log_target: whether the target holds logarithms: the terms are then `eᵗ (t - x)`.

    Returns:
        (), or the common shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that do not broadcast; another reduction.
        TypeError: integers, or dtypes that differ.

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
            f"{where}: reduction='mean' divides by the number of elements, which is no divergence; write 'batchmean'.",
            stacklevel=2,
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
    """`eˣ - t x`: -log of a Poisson distribution with rate eˣ at the count t, without its constant.

    Args:
        input: any shape, floating: logarithms of rates, or rates.
        target: broadcasts with the input; counts, integers or of the input's dtype.
        log_input: whether the input holds logarithms; else the loss is `x - t log(x + eps)`.
        full: adds Stirling's `t log t - t + log(2πt) / 2` for counts above 1.
        size_average, reduce: see the head of loss.py.
        eps: keeps log(x) finite at 0.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        (), or the common shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that do not broadcast; another reduction.
        TypeError: an input of integers, or floating dtypes that differ.

    Differs from torch: with `full` the gradient of a target of 0 is a number, not NaN.

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
    """`(log v + (x - t)² / v) / 2` with `v = max(var, eps)`: -log of a normal distribution, without its constant.

    The gradient passes through the maximum as if it were not there, as in torch: it is huge where `var` is tiny.

    Args:
        input: any shape, floating: means.
        target: broadcasts with the input; samples.
        var: variances, at least 0: of the input's shape, or with one dimension of size 1 in place of the input's, or
            without the last dimension; or one number.
        full: adds the constant `log(2π) / 2`.
        eps: the least variance.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        (), or the common shape for 'none', in the input's dtype.

    Raises:
        ValueError: shapes that do not fit; another reduction; a negative variance where it is known (under `jit` such a
            loss is NaN).
        TypeError: integers, or dtypes that differ.

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
            f"{where}: var has a negative entry; expected 0 or more, got {np.asarray(var).min()}. Square it."
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
    """(the terms times their weights, the sum of the weights), or (the terms, None) without weights."""
    if weight is None:
        return losses, None
    checks.shape_of(where, "weight", weight, input.shape, "It holds one weight for each number of the input.")
    weight = weight.astype(losses.dtype)
    return losses * weight, weight.sum()


def _bowl(size: jax.Array, edge: float) -> jax.Array:
    """`size² / 2` up to `edge`, then a line; `size` is not negative."""
    if math.isinf(edge):
        return 0.5 * size * size
    inside = size < edge
    near = jnp.where(inside, size, 0)  # the other branch's gradient would be inf · 0 for an infinite size
    return jnp.where(inside, 0.5 * near * near, edge * (size - 0.5 * edge))


def _aligned(where: str, var: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """`var` with as many dimensions as `shape`, where it fits as torch wants it to."""
    if var.shape == shape:
        return var
    if var.shape == shape[:-1]:
        return var[..., None]
    odd = [v for v, s in zip(var.shape, shape, strict=False) if v != s]
    if var.ndim != len(shape) or odd != [1]:
        raise ValueError(
            f"{where}: var has the wrong shape; expected {shape}, {shape[:-1]}, or {shape} with one dimension of size "
            f"1, got {var.shape}. It holds a variance for each number, or one for all of a dimension."
        )
    return var
