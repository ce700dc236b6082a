"""Batch normalisation on one or several devices. Letters: `B batch, C channel, S spatial dimensions`.

The statistics stay accurate for a mean far from zero, where float32 usually loses precision. Every device computes the
record (count, mean, remainder, M2) of its part of the batch. The remainder is the part of the mean that rounding to
float32 drops. M2 is the sum of squared differences from mean + remainder. One exchange between the devices collects all
records, and Chan's formula merges the records into the statistics of the entire batch.

The derivative is a custom JVP rule, so that gradients also require only one exchange between the devices. With
`x̂ = (x - mean) / sqrt(var + eps)`, the tangent of the output is `scale · dx + a + b · x̂`, where `a` and `b` contain
one number per channel. Both depend linearly on the tangents of mean, variance, weight and bias. For a cotangent `g`,
reverse mode therefore sums `g` and `g · x̂` per channel, and exchanges these 2 · C sums between the devices once.
"""

import functools
import math
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.batch_records import (
    Groups,
    exchange,
    has_kernel,
    local_record,
    merge,
    merge_all,
    spread,
    sum_over,
)
from funcnet.operators import native
from funcnet.operators.graph.recording import recorded
from funcnet.operators.varying_axes import vary_like

__all__ = ["AxisName", "Groups", "batch_norm", "batch_norm_and_count", "bound_axes", "normalise_batch"]

AxisName = Hashable | Sequence[Hashable] | None


def batch_norm(
    input: jax.Array,
    running_mean: jax.Array | None,
    running_var: jax.Array | None,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    training: bool = False,
    momentum: float | jax.Array = 0.1,
    eps: float = 1e-5,
    *,
    mask: jax.Array | None = None,
    axis_name: AxisName = None,
    axis_index_groups: Groups = None,
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Normalise every channel: `y = (x - mean) / sqrt(var + eps) · weight + bias`.

    In training, the mean and the biased variance are computed over all dimensions except the channel dimension. The
    running statistics are updated as `running = (1 - momentum) · running + momentum · new`, with the unbiased variance
    `var · n / (n - 1)`. Outside training, the running statistics are used instead of the batch statistics.

    Args:
        input: floating-point array of shape (B, C, *S).
        running_mean: array of shape (C,), usually float32, or None for no running mean.
        running_var: array of shape (C,), usually float32, or None for no running variance.
        weight: array of shape (C,); None means 1.
        bias: array of shape (C,); None means 0.
        training: if True, use the statistics of the batch. `training` must be a Python bool.
        momentum: weight of the batch statistics in the new running statistics, a float or a traced scalar. With a
            momentum of 1 / (number of batches so far), the running statistics are the average over all batches.
        eps: number added to the variance.
        mask: boolean array that broadcasts to (B, *S). Entries at which the mask is False are excluded from the
            statistics, but are normalised like the others. A NaN or infinity in an excluded entry affects only the
            output of that entry, and no gradient. If all entries are excluded, the running statistics do not change,
            and are used to normalise the batch. Without running statistics, a batch of excluded entries is normalised
            with mean 0 and variance 1.
        axis_name: names of the mesh, pmap or vmap axes over which the batch is split. The names of axes that are not
            bound are ignored. If no axis is bound, the statistics are those of `input` alone.
        axis_index_groups: groups of devices that share their statistics, in the format of `lax.all_gather`. Groups are
            not supported under vmap.

    Returns:
        A tuple (y, running_mean, running_var). y has the shape and dtype of the input. The running statistics are
        updated and keep their dtypes. Running statistics that are None stay None.

    Raises:
        ValueError: if the shapes do not match, eps is negative, or the running statistics are missing outside training.
            In training, an eps of 0 or a channel with only one value is also an error.
        TypeError: if the input is not floating-point, or the mask is not boolean.

    Differs from torch: the running statistics are returned, not changed in place. For bfloat16 input, the statistics
        are float32. torch has no `mask`, `axis_name` and `axis_index_groups`.

    Example:
        >>> x = jnp.array([[1.0], [3.0]])
        >>> y, mean, var = batch_norm(x, jnp.zeros(1), jnp.ones(1), training=True, eps=1e-12)
        >>> y.ravel(), mean, var
        (Array([-1.,  1.], dtype=float32), Array([0.2], dtype=float32), Array([1.1], dtype=float32))

    Reference: torch.nn.functional.batch_norm; Ioffe and Szegedy 2015; Chan, Golub and LeVeque 1979 for the merge.
    """
    return batch_norm_and_count(
        input,
        running_mean,
        running_var,
        weight,
        bias,
        training,
        momentum,
        eps,
        mask=mask,
        axis_name=axis_name,
        axis_index_groups=axis_index_groups,
    )[:3]


@recorded
def batch_norm_and_count(
    input: jax.Array,
    running_mean: jax.Array | None,
    running_var: jax.Array | None,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    training: bool = False,
    momentum: float | jax.Array = 0.1,
    eps: float = 1e-5,
    *,
    mask: jax.Array | None = None,
    axis_name: AxisName = None,
    axis_index_groups: Groups = None,
) -> tuple[jax.Array, jax.Array | None, jax.Array | None, jax.Array]:
    """Return the results of `batch_norm`, and the number of values per channel in the statistics.

    Outside training, the batch has no statistics, and this number is 0.
    """
    input = checks.floating("F.batch_norm", "input", input)
    if input.shape == (0,):  # torch accepts this shape, which has no channels
        return input, running_mean, running_var, jnp.zeros((), checks.wide_dtype(input))
    running_mean, running_var = (None if v is None else jnp.asarray(v) for v in (running_mean, running_var))
    _check_shapes(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_statistics(running_mean, running_var, training, eps)
    dtype = checks.wide_dtype(input)
    weight, bias = (None if v is None else v.astype(dtype) for v in (weight, bias))
    if not training:
        assert running_mean is not None and running_var is not None
        y = _affine_by_running(input, mask, running_mean.astype(dtype), running_var.astype(dtype), weight, bias, eps)
        return y, running_mean, running_var, jnp.zeros((), dtype)

    names = bound_axes(axis_name)
    groups = None if axis_index_groups is None else tuple(tuple(int(i) for i in group) for group in axis_index_groups)
    if mask is not None:
        mask = _spread_mask(mask, input)
    elif not names and math.prod((input.shape[0], *input.shape[2:])) == 1:
        raise ValueError(
            "F.batch_norm: a channel with only one value has no variance; expected more than 1 value per channel in "
            "training, "
            f"got an input of shape {input.shape}. Use a larger batch, or pass training=False."
        )
    channels = input.shape[1]
    old_mean = jnp.zeros(channels, dtype) if running_mean is None else running_mean.astype(dtype)
    old_var = jnp.ones(channels, dtype) if running_var is None else running_var.astype(dtype)
    y, count, mean, _, var = normalise_batch(
        input, mask, old_mean, old_var, weight, bias, float(eps), names, groups if names else None
    )
    if running_mean is None or running_var is None:
        return y, None, None, count
    unbiased = var * (count / jnp.maximum(count - 1, 1))
    rate = jnp.asarray(momentum).astype(dtype)
    new_mean = jnp.where(count > 0, (1 - rate) * old_mean + rate * mean, old_mean)
    new_var = jnp.where(count > 0, (1 - rate) * old_var + rate * unbiased, old_var)
    return y, new_mean.astype(running_mean.dtype), new_var.astype(running_var.dtype), count


def bound_axes(axis_name: AxisName) -> tuple[Hashable, ...]:
    """Return those names in `axis_name` that a surrounding `vmap(axis_name=)`, `pmap` or `shard_map` binds.

    >>> bound_axes("batch")
    ()
    >>> jax.vmap(lambda x: x * len(bound_axes(("batch", "model"))), axis_name="batch")(jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    if axis_name is None:
        return ()
    names = tuple(axis_name) if isinstance(axis_name, list | tuple) else (axis_name,)
    return tuple(name for name in names if _is_bound(name))


def _is_bound(name: Hashable) -> bool:
    try:
        lax.axis_size(name)
    except NameError:
        return False
    return True


def _check_shapes(input: jax.Array, **vectors: jax.Array | None) -> None:
    if input.ndim < 2:
        raise ValueError(
            f"F.batch_norm: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}."
        )
    for name, vector in vectors.items():
        checks.shape_of("F.batch_norm", name, vector, input.shape[1:2], "Pass one number per channel.")


def _check_statistics(
    running_mean: jax.Array | None, running_var: jax.Array | None, training: bool, eps: float
) -> None:
    if (running_mean is None) != (running_var is None):
        raise ValueError(
            "F.batch_norm: one of the running statistics is missing; expected both running_mean and running_var or "
            f"neither, got only {'running_var' if running_mean is None else 'running_mean'}."
        )
    if eps < 0 or (training and eps == 0):
        raise ValueError(
            "F.batch_norm: eps is too small to keep the variance above 0; expected a positive number in training, or "
            f"at least 0 outside training, got {eps}."
        )
    if not training and running_mean is None:
        raise ValueError(
            "F.batch_norm: the running statistics are missing; expected running_mean and running_var outside training, "
            "got None. Pass them, or pass training=True to use the statistics of the batch."
        )


def _spread_mask(mask: jax.Array, input: jax.Array) -> jax.Array:
    """Broadcast the mask of `batch_norm` to the shape (B, 1, *S)."""
    mask = jnp.asarray(mask)
    if mask.dtype != jnp.bool_:
        raise TypeError(
            f"F.batch_norm: mask has the wrong dtype; expected bool, got {mask.dtype}. Convert a numeric mask with "
            "mask != 0."
        )
    shape = (input.shape[0], *input.shape[2:])
    try:
        return jnp.expand_dims(jnp.broadcast_to(mask, shape), 1)
    except ValueError:
        raise ValueError(
            f"F.batch_norm: mask does not broadcast; expected a shape that broadcasts to (batch, *spatial) = {shape}, "
            f"got {mask.shape}. Add dimensions of size 1 on the right."
        ) from None


# ------------------------------------------------------------------------------------------------ the mathematics


def _reciprocal_std(var: jax.Array, eps: float) -> jax.Array:
    return 1 / jnp.sqrt(var + eps)


def _affine(x: jax.Array, mean: jax.Array, rest: Any, var: jax.Array, weight: Any, bias: Any, eps: float) -> jax.Array:
    """Return the normalised x. The mean is subtracted first, because the form `x · scale + shift` is inaccurate if the
    mean is large.
    """
    scale = _reciprocal_std(var, eps)
    if weight is not None:
        scale = scale * weight
    out = _centre(x, mean, rest) * spread(scale, x.ndim)
    if bias is not None:
        out = out + spread(bias, x.ndim)
    return out.astype(x.dtype)


def _affine_by_running(
    x: jax.Array, mask: jax.Array | None, mean: jax.Array, var: jax.Array, weight: Any, bias: Any, eps: float
) -> jax.Array:
    if mask is None and has_kernel(x):  # which computes the gradients of weight and bias in one pass over x
        scale = _reciprocal_std(var, eps) if weight is None else _reciprocal_std(var, eps) * weight
        zeros = jnp.zeros_like(mean)
        return native.scale_channels(x, mean, zeros, scale, zeros if bias is None else bias)
    if mask is None:
        return _affine(x, mean, None, var, weight, bias, eps)
    usable = _spread_mask(mask, x) | jnp.isfinite(x)
    y = _affine(jnp.where(usable, x, 0), mean, None, var, weight, bias, eps)
    as_it_stands = _affine(*jax.lax.stop_gradient((x, mean, None, var, weight, bias)), eps)
    return jnp.where(usable, y, as_it_stands)


def _centre(x: jax.Array, mean: jax.Array, rest: jax.Array | None) -> jax.Array:
    out = x.astype(mean.dtype) - spread(mean, x.ndim)
    return out if rest is None else out - spread(rest, x.ndim)


@functools.partial(jax.custom_jvp, nondiff_argnums=(6, 7, 8))
def normalise_batch(
    x: jax.Array,
    mask: jax.Array | None,
    old_mean: jax.Array,
    old_var: jax.Array,
    weight: jax.Array | None,
    bias: jax.Array | None,
    eps: float,
    names: tuple[Hashable, ...],
    groups: Groups,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the normalised batch y and its statistics over all devices: (y, count, mean, remainder, biased variance).

    If the mask excludes all entries, `old_mean` and `old_var` replace the statistics of the batch.
    """
    record = local_record(x, mask, old_mean.dtype)
    count, mean, rest, squares = merge(*record) if not names else merge_all(*exchange(record, names, groups))
    some = count > 0
    mean, rest = jnp.where(some, mean, old_mean), jnp.where(some, rest, 0)
    var = jnp.where(some, squares / jnp.maximum(count, 1), old_var)
    return _affine(x, mean, rest, var, weight, bias, eps), count, mean, rest, var


@normalise_batch.defjvp
def normalise_batch_jvp(eps: float, names: Any, groups: Groups, primals: Any, tangents: Any) -> Any:
    x, mask, _, _, weight, _ = primals
    dx, _, d_old_mean, d_old_var, d_weight, d_bias = tangents
    out = normalise_batch(*primals, eps, names, groups)
    _, count, mean, rest, var = out
    per_std, dx32 = _reciprocal_std(var, eps), dx.astype(mean.dtype)
    # Behind a barrier, so that XLA computes the differences where they are used. It would otherwise keep those of the
    # result in memory.
    centred = _centre(x, *lax.optimization_barrier((mean, rest)))
    if mask is not None:  # a masked NaN must not be multiplied, because NaN times a zero cotangent is NaN
        centred = jnp.where(mask | jnp.isfinite(centred * spread(per_std, x.ndim)), centred, 0)
    axes = (0, *range(2, x.ndim))
    counted = dx32 if mask is None else jnp.where(mask, dx32, 0)
    sums = sum_over(jnp.stack([counted.sum(axes), (centred * counted).sum(axes)]), names, groups)
    sums = sums / jnp.maximum(count, 1)
    some = count > 0
    d_mean, d_var = jnp.where(some, sums[0], d_old_mean), jnp.where(some, 2 * sums[1], d_old_var)

    scale = per_std if weight is None else per_std * weight
    a, b = -scale * d_mean, -0.5 * scale * per_std * d_var
    a = a if d_bias is None else a + d_bias
    b = b if d_weight is None else b + d_weight
    # Stacked into one array, so that the transpose is a single sum over the devices.
    a, b = vary_like(jnp.stack([a, b]), x)
    if mask is None and has_kernel(x):
        shifted = lambda x, scale, shift: native.scale_channels(x, mean, rest, scale, shift)
        primals = (x, *(vary_like(one, x) for one in (scale, jnp.zeros_like(scale))))
        dy = jax.jvp(shifted, primals, (dx, b * per_std, a))[1]
    else:
        normal = centred * spread(per_std, x.ndim)
        dy = dx32 * spread(scale, x.ndim) + spread(a, x.ndim) + normal * spread(b, x.ndim)
    return out, (dy.astype(x.dtype), jnp.zeros_like(count), d_mean, jnp.zeros_like(rest), d_var)
