"""Convolution (cross-correlation, as in torch) in 1, 2 and 3 dimensions.

Letters: `B batch, I in_channels, O out_channels, G groups, S spatial sizes, K kernel sizes`.
"""

import jax
from jax import lax

from funcnet.functional import checks
from funcnet.functional.checks import Ints
from funcnet.functional.convolve import convolve

__all__ = ["conv1d", "conv2d", "conv3d", "conv_tbc"]


def conv1d(
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> jax.Array:
    """Compute a 1D cross-correlation, as `conv2d` does in two dimensions.

    Args:
        input: floating-point array of shape (B, I, S) or (I, S).
        weight: array of shape (O, I / G, K).
        bias: array of shape (O,).
        stride, padding, dilation, groups: as in `conv2d`.

    Returns:
        An array of shape (B, O, S') or (O, S').

    Raises:
        ValueError, TypeError: as in `conv2d`.

    Example:
        >>> import jax.numpy as jnp
        >>> conv1d(jnp.arange(4.0)[None], jnp.array([[[1.0, -1.0]]]))
        Array([[-1., -1., -1.]], dtype=float32)

    Reference: torch.nn.functional.conv1d.
    """
    return _conv("F.conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> jax.Array:
    """Compute a 2D cross-correlation: `y[o, s] = b[o] + Σ_i,k w[o, i, k] · x[i, s · stride + k · dilation]`.

    Args:
        input: floating-point array of shape (B, I, H, W) or (I, H, W).
        weight: array of shape (O, I / G, kH, kW) and of the input's dtype.
        bias: array of shape (O,).
        stride: distance in the input between neighbouring positions of the kernel.
        padding: number of zeros on each side. 'valid' means 0. 'same' keeps the size of the input and requires stride
            1. If the total padding for 'same' is odd, the additional zero is on the right.
        dilation: distance between the elements of the kernel.
        groups: number of groups, G, which must divide I and O. Each group of output channels depends only on the
            corresponding group of input channels.

    Returns:
        An array of shape (B, O, H', W') or (O, H', W'), with
        `H' = (H + 2 · padding - dilation · (kH - 1) - 1) // stride + 1`.

    Raises:
        ValueError: if the shapes, groups or sizes do not match, `padding` is an unknown string, or 'same' is combined
            with a stride above 1.
        TypeError: if the inputs are not floating-point, their dtypes differ, or a size is not an integer.

    Example:
        >>> import jax.numpy as jnp
        >>> conv2d(jnp.ones((1, 1, 3, 3)), jnp.ones((1, 1, 3, 3)), padding="same")[0, 0]
        Array([[4., 6., 4.],
               [6., 9., 6.],
               [4., 6., 4.]], dtype=float32)

    Reference: torch.nn.functional.conv2d.
    """
    return _conv("F.conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> jax.Array:
    """Compute a 3D cross-correlation, as `conv2d` does in two dimensions.

    Args:
        input: floating-point array of shape (B, I, D, H, W) or (I, D, H, W).
        weight: array of shape (O, I / G, kD, kH, kW).
        bias: array of shape (O,).
        stride, padding, dilation, groups: as in `conv2d`.

    Returns:
        An array of shape (B, O, D', H', W') or (O, D', H', W').

    Raises:
        ValueError, TypeError: as in `conv2d`.

    Example:
        >>> import jax.numpy as jnp
        >>> conv3d(jnp.ones((1, 1, 2, 2, 2)), jnp.ones((1, 1, 2, 2, 2))).ravel()
        Array([8.], dtype=float32)

    Reference: torch.nn.functional.conv3d.
    """
    return _conv("F.conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: jax.Array, weight: jax.Array, bias: jax.Array, pad: int = 0) -> jax.Array:
    """Compute a cross-correlation over the first dimension, time: `y[t] = b + Σ_k x[t + k - pad] · w[k]`.

    Args:
        input: floating-point array of shape (T, B, I).
        weight: array of shape (K, I, O).
        bias: array of shape (O,).
        pad: number of zeros before and after the time steps. A negative number removes time steps.

    Returns:
        An array of shape (T + 2 · pad - K + 1, B, O).

    Raises:
        ValueError: if the shapes or sizes do not match.
        TypeError: if the inputs are not floating-point, their dtypes differ, or `pad` is not an integer.

    Example:
        >>> import jax.numpy as jnp
        >>> conv_tbc(jnp.arange(4.0).reshape(4, 1, 1), jnp.ones((2, 1, 1)), jnp.zeros(1)).ravel()
        Array([1., 3., 5.], dtype=float32)

    Reference: torch.nn.functional.conv_tbc.
    """
    where = "F.conv_tbc"
    input = checks.floating(where, "input", input)
    checks.one_dtype(where, input=input, weight=weight, bias=bias)
    if input.ndim != 3 or weight.ndim != 3 or input.shape[2] != weight.shape[1]:
        raise ValueError(
            f"{where}: the shapes of input and weight do not match; expected (time, batch, in) and (kernel, in, out), "
            f"got {input.shape} and {weight.shape}."
        )
    checks.shape_of(where, "bias", bias, weight.shape[2:], "Pass one number per output channel.")
    pad = checks.as_int(where, "pad", pad)
    if input.shape[0] + 2 * pad < weight.shape[0] - 1:
        raise ValueError(
            f"{where}: the kernel is larger than the padded input; expected at least {weight.shape[0]} time steps, got "
            f"{input.shape[0] + 2 * pad} with an input of shape {input.shape}. Pad more, or use a smaller kernel."
        )
    return lax.conv_general_dilated(input, weight, (1,), [(pad, pad)], dimension_numbers=("WNC", "WIO", "WNC")) + bias


def _conv(
    where: str,
    ndim: int,
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
) -> jax.Array:
    input = checks.spatial(where, input, ndim, empty=False)
    checks.one_dtype(where, input=input, weight=weight, bias=bias)
    _check_shapes(where, ndim, input, weight, bias, groups)
    strides = checks.as_tuple(where, "stride", stride, ndim, least=1)
    dilations = checks.as_tuple(where, "dilation", dilation, ndim, least=1)
    pads = checks.padding_pairs(where, padding, weight.shape[2:], strides, dilations)
    spans = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    batched = input if input.ndim == ndim + 2 else input[None]
    for size, (low, high), span in zip(batched.shape[2:], pads, spans, strict=True):
        if size + low + high < span + 1:
            raise ValueError(
                f"{where}: the kernel is larger than the padded input; expected a size of at least {span + 1}, got "
                f"{size + low + high} with an input of shape {input.shape}. Pad more, or use a smaller kernel or "
                "dilation."
            )
    out = convolve(batched, weight, strides, pads, dilations, groups)
    if bias is not None:
        out = out + bias.reshape(-1, *(1,) * ndim)
    return out if input.ndim == ndim + 2 else out[0]


def _check_shapes(
    where: str, ndim: int, input: jax.Array, weight: jax.Array, bias: jax.Array | None, groups: int
) -> None:
    if weight.ndim != ndim + 2 or 0 in (weight.shape[0], *weight.shape[2:]):
        raise ValueError(
            f"{where}: weight has the wrong shape; expected {ndim + 2} dimensions (out, in / groups, *kernel), with no "
            f"output or kernel size of 0, got shape {weight.shape}."
        )
    if groups < 1 or weight.shape[0] % groups:
        raise ValueError(
            f"{where}: the number of output channels is not divisible by groups; expected a multiple of "
            f"groups={groups}, got {weight.shape[0]}."
        )
    channels = input.shape[-ndim - 1]
    if channels != weight.shape[1] * groups:
        raise ValueError(
            f"{where}: input has the wrong number of channels; expected {weight.shape[1] * groups}, got {channels}. "
            f"The shape of weight is {weight.shape} = (out, in / groups, *kernel), with groups={groups}."
        )
    checks.shape_of(where, "bias", bias, weight.shape[:1], "Pass one number per output channel.")
