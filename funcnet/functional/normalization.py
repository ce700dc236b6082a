"""Normalisation within an example: layer, RMS, group and local response normalisation, and division by the norm.

Letters: `B batch, C channel, G groups, S spatial dimensions, P spatial positions`.

Statistics are computed in at least float32. The variance is computed from the differences from the mean, and `eps` is
added before the square root is taken. Layer, RMS and group normalisation in float32 are computed on CPU by the kernels
of `funcnet.operators.native`, with the same formulas.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.functional import checks
from funcnet.functional.sharding import reshaped
from funcnet.functional.vector_norm import vector_norm
from funcnet.operators import native

__all__ = ["cross_map_lrn", "group_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


def layer_norm(
    input: jax.Array,
    normalized_shape: int | Sequence[int],
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    eps: float = 1e-5,
) -> jax.Array:
    """Normalise over the last dimensions: `y = (x - mean) / sqrt(var + eps) · weight + bias`, with the biased variance.

    Args:
        input: floating-point array (*, *normalized_shape).
        normalized_shape: sizes of the last dimensions, over which the input is normalised.
        weight: array of shape `normalized_shape`; None means 1. The weight's dtype may be wider than the input's
            (float32 for a bfloat16 input).
        bias: array of shape `normalized_shape`; None means 0.
        eps: number added to the variance.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if the input's shape does not end in `normalized_shape`, or weight or bias does not have this shape.
        TypeError: if the input is not floating-point.

    Example:
        >>> layer_norm(jnp.array([1.0, 3.0]), (2,), eps=0.0)
        Array([-1.,  1.], dtype=float32)

    Reference: torch.nn.functional.layer_norm; Ba, Kiros and Hinton 2016.
    """
    input, axes = _last_dimensions("F.layer_norm", input, normalized_shape, weight=weight, bias=bias)
    if _has_kernel(input, weight, bias, eps):
        rows, vectors = _in_rows(len(axes), input, weight, bias)
        return reshaped(native.layer_norm(rows, vectors[0], vectors[1], eps), input.shape)
    x = input.astype(checks.wide_dtype(input))
    normal = _standardise(x, axes, eps)
    return _scale_and_shift(normal, weight, bias).astype(input.dtype)


def rms_norm(
    input: jax.Array,
    normalized_shape: int | Sequence[int],
    weight: jax.Array | None = None,
    eps: float | None = None,
) -> jax.Array:
    """Divide by the root mean square over the last dimensions: `y = x / sqrt(mean(x²) + eps) · weight`.

    Args:
        input: floating-point array (*, *normalized_shape).
        normalized_shape: sizes of the last dimensions, over which the input is normalised.
        weight: array of shape `normalized_shape`; None means 1.
        eps: number added to the mean square. None means the machine epsilon of the dtype that the computation uses
            (float32 for a bfloat16 input).

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if the input's shape does not end in `normalized_shape`, or weight does not have this shape.
        TypeError: if the input is not floating-point.

    Example:
        >>> rms_norm(jnp.array([3.0, 3.0]), (2,))
        Array([1., 1.], dtype=float32)

    Reference: torch.nn.functional.rms_norm; Zhang and Sennrich 2019.
    """
    input, axes = _last_dimensions("F.rms_norm", input, normalized_shape, weight=weight)
    x = input.astype(checks.wide_dtype(input))
    eps = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    if _has_kernel(input, weight, None, eps):
        rows, vectors = _in_rows(len(axes), input, weight)
        return reshaped(native.rms_norm(rows, vectors[0], eps), input.shape)
    normal = _divide(x, axes, eps)
    return _scale_and_shift(normal, weight, None).astype(input.dtype)


def group_norm(
    input: jax.Array,
    num_groups: int,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    eps: float = 1e-5,
) -> jax.Array:
    """Normalise groups of channels within an example: `y = (x - mean) / sqrt(var + eps) · weight + bias`.

    The mean and the biased variance are computed over C / G consecutive channels and all spatial positions.

    Args:
        input: floating-point array (B, C, *S).
        num_groups: G, the number of groups. It must divide C.
        weight: (C,); None means 1.
        bias: (C,); None means 0.
        eps: number added to the variance.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if G does not divide C, the shapes do not match, or the batch consists of one example with one value
            per group.
        TypeError: if the input is not floating-point.

    Example:
        >>> group_norm(jnp.array([[1.0, 3.0, 5.0, 5.0]]), 2, eps=1e-12)
        Array([[-1.,  1.,  0.,  0.]], dtype=float32)

    Reference: torch.nn.functional.group_norm; Wu and He 2018.
    """
    input = checks.floating("F.group_norm", "input", input)
    if input.ndim < 2:
        raise ValueError(
            f"F.group_norm: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}."
        )
    batch, channels, *spatial = input.shape
    if num_groups < 1 or channels % num_groups:
        raise ValueError(
            "F.group_norm: the number of channels is not divisible by num_groups; expected a multiple of "
            f"num_groups={num_groups}, got {channels}."
        )
    for name, vector in (("weight", weight), ("bias", bias)):
        why = f"Pass one number per channel; an input of shape {input.shape} has {channels} channels."
        checks.shape_of("F.group_norm", name, vector, (channels,), why)
    # As in torch, the batch counts too, although the statistics do not span it.
    if batch * (channels // num_groups) * math.prod(spatial) == 1:
        raise ValueError(
            "F.group_norm: a group with only one value has no variance; expected more than 1 value per group, got an "
            "input of "
            f"shape {input.shape} and num_groups={num_groups}. Use fewer groups."
        )
    if input.size == 0:
        return input
    # Not flattened further, so that XLA fuses weight and bias into the same loop. This halves the time on CPU.
    grouped = (batch, num_groups, channels // num_groups, math.prod(spatial))  # (B, G, C / G, P)
    if _has_kernel(input, weight, bias, eps):
        w, b = (None if vector is None else reshaped(vector, grouped[1:3]) for vector in (weight, bias))
        return reshaped(native.group_norm(reshaped(input, grouped), w, b, eps), input.shape)
    normal = _standardise(reshaped(input.astype(checks.wide_dtype(input)), grouped), (2, 3), eps)
    vectors = (None if v is None else v.reshape(*grouped[1:3], 1) for v in (weight, bias))  # (C,) -> (G, C / G, 1)
    return reshaped(_scale_and_shift(normal, *vectors), input.shape).astype(input.dtype)


def local_response_norm(
    input: jax.Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> jax.Array:
    """Divide every channel by the magnitude of its neighbours: `y = x / (k + alpha · mean(x²))^beta`.

    The mean is over `size` neighbouring channels, and `size // 2` of them precede the channel. Missing neighbours,
    before the first channel and after the last, count as zeros.

    Args:
        input: floating-point array (B, C, *S) with at least one spatial dimension.
        size: number of channels in the mean.
        alpha, beta, k: constants of the formula.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if the input has fewer than 3 dimensions, or `size` is less than 1.
        TypeError: if the input is not floating-point, or `size` is not an integer.

    Example:
        >>> local_response_norm(jnp.ones((1, 2, 1)), 1, alpha=1.0, beta=1.0).ravel()
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.functional.local_response_norm; Krizhevsky, Sutskever and Hinton 2012.
    """
    where = "F.local_response_norm"
    input = checks.floating(where, "input", input)
    if input.ndim < 3:
        raise ValueError(
            f"{where}: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}."
        )
    (size,) = checks.as_tuple(where, "size", size, 1, least=1)
    x = input.astype(checks.wide_dtype(input))
    squares = _channel_sums(x * x, size // 2, (size - 1) // 2)
    return _over_power(x, squares / size * alpha + k, beta).astype(input.dtype)


def cross_map_lrn(input: jax.Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> jax.Array:
    """Compute `y = x · (k + alpha / size · Σ x²)^-beta`, the local response normalisation of torch's old
    `CrossMapLRN2d`.

    With `n = (size + 1) // 2`, the sum for channel c is over channels `c - n + 1` to `c + n - 1`. The number of
    channels in this range is odd, even if `size` is even. Channel 0 is included in the sums of all later channels,
    because torch's running sum never subtracts it.

    Args:
        input: floating-point array (B, C, H, W).
        size, alpha, beta, k: as in `local_response_norm`.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if the input does not have 4 dimensions, or `size` is less than 1.
        TypeError: if the input is not floating-point, or `size` is not an integer.

    Differs from torch: the gradient is the derivative of the output, whereas torch's gradient uses shifted neighbours.

    Example:
        >>> cross_map_lrn(jnp.ones((1, 3, 1, 1)), 1, alpha=1.0, beta=1.0).ravel()
        Array([0.5       , 0.33333334, 0.33333334], dtype=float32)
    """
    where = "CrossMapLRN2d"
    input = checks.floating(where, "input", input)
    if input.ndim != 4:
        raise ValueError(f"{where}: input has the wrong rank; expected 4D input, got an input of shape {input.shape}.")
    (size,) = checks.as_tuple(where, "size", size, 1, least=1)
    x = input.astype(checks.wide_dtype(input))
    reach = (size + 1) // 2
    squares = x * x
    sums = _channel_sums(squares, reach - 1, reach - 1)
    kept = (np.arange(x.shape[1]) >= reach).reshape(-1, 1, 1)
    sums = sums + jnp.where(kept, squares[:, :1], 0)
    return _over_power(x, sums * (alpha / size) + k, beta).astype(input.dtype)


def normalize(
    input: jax.Array, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12, out: None = None
) -> jax.Array:
    """Divide vectors by their p-norm: `y = x / max(‖x‖_p, eps)`.

    Args:
        input: floating-point array of any shape.
        p: order of the norm, which may be any number, including ±inf.
        dim: the dimension or dimensions over which the norm is computed.
        eps: lower bound on each norm, to avoid division by zero.
        out: must be None. `out` exists for compatibility with torch.

    Returns:
        An array of the input's shape and dtype. The gradient at the zero vector is 1 / eps.

    Raises:
        ValueError: if `dim` is out of range, or `out` is not None.
        TypeError: if the input is not floating-point.

    Example:
        >>> normalize(jnp.array([[3.0, 4.0]])).round(3)
        Array([[0.6, 0.8]], dtype=float32)

    Reference: torch.nn.functional.normalize.
    """
    where = "F.normalize"
    input = checks.floating(where, "input", input)
    if out is not None:
        raise ValueError(f"{where}: out is not supported, because arrays are immutable; expected None, got an array.")
    ndim = max(input.ndim, 1)  # a scalar is a vector of one entry
    dims = tuple(checks.as_int(where, "dim", d) for d in checks.entries(dim, 1))
    if any(not -ndim <= d < ndim for d in dims):
        raise ValueError(f"{where}: dim is out of range; expected {-ndim} to {ndim - 1}, got {dim}.")
    x = input.astype(checks.wide_dtype(input)).reshape(input.shape or (1,))
    norm = vector_norm(x, float(p), dims or tuple(range(ndim)))
    return (x / jnp.where(norm < eps, eps, norm)).astype(input.dtype).reshape(input.shape)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _over_power(x: jax.Array, base: jax.Array, exponent: float) -> jax.Array:
    """Return `x / base ** exponent`. The derivative rule does not use the square of the power, because the square
    overflows for smaller values of `base`.
    """
    return x / base**exponent


@_over_power.defjvp
def _over_power_jvp(exponent: float, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    (x, base), (dx, dbase) = primals, tangents
    power = base**exponent
    y = x / power
    return y, dx / power - y * (exponent * dbase / base)


def _channel_sums(x: jax.Array, before: int, after: int) -> jax.Array:
    """Replace every channel by the sum of this channel, the `before` channels before it and the `after` channels after
    it."""
    lengths, widths = [1] * x.ndim, [(0, 0)] * x.ndim
    lengths[1], widths[1] = before + 1 + after, (before, after)
    return lax.reduce_window(x, np.zeros((), x.dtype), lax.add, lengths, [1] * x.ndim, widths)


def _last_dimensions(
    where: str, input: jax.Array, normalized_shape: int | Sequence[int], **parameters: jax.Array | None
) -> tuple[jax.Array, tuple[int, ...]]:
    input = checks.floating(where, "input", input)
    shape = tuple(checks.as_int(where, "normalized_shape", n) for n in checks.entries(normalized_shape, 1))
    if not shape or input.shape[-len(shape) :] != shape:
        raise ValueError(
            f"{where}: input does not end in normalized_shape; expected (*, {', '.join(map(str, shape))}), got "
            f"{input.shape}. normalized_shape must hold the size of at least one trailing dimension."
        )
    for name, parameter in parameters.items():
        checks.shape_of(where, name, parameter, shape, "Its shape is normalized_shape.")
    return input, tuple(range(-len(shape), 0))


def _has_kernel(input: jax.Array, weight: jax.Array | None, bias: jax.Array | None, eps: Any) -> bool:
    arrays = [array for array in (input, weight, bias) if array is not None]
    return isinstance(eps, float | int) and input.size != 0 and native.is_used("kernels", *arrays)


def _in_rows(count: int, input: jax.Array, *vectors: jax.Array | None) -> tuple[jax.Array, list[jax.Array | None]]:
    """Merge the last `count` dimensions of the input, and all dimensions of the vectors."""
    size = math.prod(input.shape[input.ndim - count :])
    rows = reshaped(input, (*input.shape[: input.ndim - count], size))
    return rows, [None if vector is None else reshaped(vector, (size,)) for vector in vectors]


def _standardise(x: jax.Array, axes: tuple[int, ...], eps: float) -> jax.Array:
    """Return `(x - mean) / sqrt(var + eps)`.

    After the mean is subtracted, the differences still have a small mean, a rounding error (1e-3 for values near 1e4).
    This small mean is subtracted too, but is not differentiated, because in exact arithmetic it would be 0.
    """
    centred = x - x.mean(axes, keepdims=True)
    return _divide(centred - lax.stop_gradient(centred.mean(axes, keepdims=True)), axes, eps)


def _divide(x: jax.Array, axes: tuple[int, ...], eps: float) -> jax.Array:
    """Return `x / sqrt(mean(x²) + eps)`."""
    return x * _reciprocal_root((x * x).mean(axes, keepdims=True) + eps)


@jax.custom_jvp
def _reciprocal_root(x: jax.Array) -> jax.Array:
    return lax.rsqrt(x)


@_reciprocal_root.defjvp
def _reciprocal_root_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Differentiate `1 / sqrt(x)` without underflow. JAX's derivative of rsqrt first computes root / x, which
    underflows to 0 in float32 if x is 1e25 or larger.
    """
    root = _reciprocal_root(*primals)
    return root, tangents[0] * (-0.5 / primals[0]) * root


def _scale_and_shift(normal: jax.Array, weight: jax.Array | None, bias: jax.Array | None) -> jax.Array:
    if weight is not None:
        normal = normal * weight.astype(normal.dtype)
    return normal if bias is None else normal + bias.astype(normal.dtype)
