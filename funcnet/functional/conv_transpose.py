"""Transposed convolution in 1, 2 and 3 dimensions: the derivative of a convolution with respect to its input.

Letters: `B batch, I in_channels, O out_channels, G groups, S spatial sizes, K kernel sizes`.
"""

import jax

from funcnet.functional import checks
from funcnet.functional.checks import Ints
from funcnet.functional.convolve import convolve_transposed

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def conv_transpose1d(
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> jax.Array:
    """Compute a 1D transposed convolution, as `conv_transpose2d` does in two dimensions.

    Args:
        input: floating-point array of shape (B, I, S) or (I, S).
        weight: array of shape (I, O / G, K).
        bias: array of shape (O,).
        stride, padding, output_padding, groups, dilation: as in `conv_transpose2d`.

    Returns:
        An array of shape (B, O, S') or (O, S').

    Raises:
        ValueError, TypeError: as in `conv_transpose2d`.

    Example:
        >>> import jax.numpy as jnp
        >>> conv_transpose1d(jnp.array([[1.0, 2.0]]), jnp.array([[[1.0, 0.5, 0.25]]]), stride=2)
        Array([[1.  , 0.5 , 2.25, 1.  , 0.5 ]], dtype=float32)

    Reference: torch.nn.functional.conv_transpose1d.
    """
    where = "F.conv_transpose1d"
    return _conv_transpose(where, 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> jax.Array:
    """Compute a 2D transposed convolution: `y[o, s · stride + k · dilation - padding] += w[i, o, k] · x[i, s]`.

    Args:
        input: floating-point array of shape (B, I, H, W) or (I, H, W).
        weight: weight of the convolution to transpose, of shape (I, O / G, kH, kW) and of the input's dtype.
        bias: array of shape (O,).
        stride: distance in the output between the contributions of neighbouring input entries.
        padding: number of entries removed from each side of the output.
        output_padding: number of entries added to the right side of the output. `output_padding` must be smaller than
            the larger of stride and dilation.
        groups: number of groups, G, which must divide I and O. Each group of input channels affects only the
            corresponding group of output channels.
        dilation: distance between the elements of the kernel.

    Returns:
        An array of shape (B, O, H', W') or (O, H', W'), with
        `H' = (H - 1) · stride - 2 · padding + dilation · (kH - 1) + output_padding + 1`.

    Raises:
        ValueError: if the shapes, groups or sizes do not match.
        TypeError: if the inputs are not floating-point, their dtypes differ, or a size is not an integer.

    Example:
        >>> import jax.numpy as jnp
        >>> conv_transpose2d(jnp.ones((1, 1, 2, 2)), jnp.ones((1, 1, 2, 2)))[0, 0]
        Array([[1., 2., 1.],
               [2., 4., 2.],
               [1., 2., 1.]], dtype=float32)

    Reference: torch.nn.functional.conv_transpose2d.
    """
    where = "F.conv_transpose2d"
    return _conv_transpose(where, 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> jax.Array:
    """Compute a 3D transposed convolution, as `conv_transpose2d` does in two dimensions.

    Args:
        input: floating-point array of shape (B, I, D, H, W) or (I, D, H, W).
        weight: array of shape (I, O / G, kD, kH, kW).
        bias: array of shape (O,).
        stride, padding, output_padding, groups, dilation: as in `conv_transpose2d`.

    Returns:
        An array of shape (B, O, D', H', W') or (O, D', H', W').

    Raises:
        ValueError, TypeError: as in `conv_transpose2d`.

    Example:
        >>> import jax.numpy as jnp
        >>> conv_transpose3d(jnp.ones((1, 1, 2, 2, 2)), jnp.ones((1, 3, 2, 2, 2)), stride=2).shape
        (1, 3, 4, 4, 4)

    Reference: torch.nn.functional.conv_transpose3d.
    """
    where = "F.conv_transpose3d"
    return _conv_transpose(where, 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _conv_transpose(
    where: str,
    ndim: int,
    input: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    stride: Ints,
    padding: Ints,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
) -> jax.Array:
    input = checks.spatial(where, input, ndim, empty=False)
    checks.one_dtype(where, input=input, weight=weight, bias=bias)
    _check_shapes(where, ndim, input, weight, bias, groups)
    strides = checks.as_tuple(where, "stride", stride, ndim, least=1)
    dilations = checks.as_tuple(where, "dilation", dilation, ndim, least=1)
    pads = checks.as_tuple(where, "padding", padding, ndim, least=0)
    extras = checks.as_tuple(where, "output_padding", output_padding, ndim, least=0)
    if any(e >= max(s, d) for e, s, d in zip(extras, strides, dilations, strict=True)):
        raise ValueError(
            f"{where}: output_padding is too large; expected less than the stride {strides} or the dilation "
            f"{dilations}, got {extras}. output_padding only selects one of the sizes that the stride permits."
        )
    spans = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    sizes = [
        (n - 1) * s - 2 * p + span + e + 1
        for n, s, p, span, e in zip(input.shape[-ndim:], strides, pads, spans, extras, strict=True)
    ]
    if min(sizes) < 1:
        raise ValueError(
            f"{where}: the output would be empty; expected sizes of at least 1, got {tuple(sizes)} for an input of "
            f"shape {input.shape}. Use less padding or a larger kernel."
        )
    widths = [(-p, e - p) for p, e in zip(pads, extras, strict=True)]
    batched = input if input.ndim == ndim + 2 else input[None]
    out = convolve_transposed(batched, weight, strides, widths, dilations, groups)
    if bias is not None:
        out = out + bias.reshape(-1, *(1,) * ndim)
    return out if input.ndim == ndim + 2 else out[0]


def _check_shapes(
    where: str, ndim: int, input: jax.Array, weight: jax.Array, bias: jax.Array | None, groups: int
) -> None:
    if weight.ndim != ndim + 2 or 0 in weight.shape:
        raise ValueError(
            f"{where}: weight has the wrong shape; expected {ndim + 2} dimensions (in, out / groups, *kernel), with no "
            f"size of 0, got shape {weight.shape}."
        )
    if groups < 1 or weight.shape[0] % groups:
        raise ValueError(
            f"{where}: the number of input channels is not divisible by groups; expected a multiple of "
            f"groups={groups}, got {weight.shape[0]}."
        )
    channels = input.shape[-ndim - 1]
    if channels != weight.shape[0]:
        raise ValueError(
            f"{where}: input has the wrong number of channels; expected {weight.shape[0]}, got {channels}. "
            f"The shape of weight is {weight.shape} = (in, out / groups, *kernel)."
        )
    checks.shape_of(where, "bias", bias, (weight.shape[1] * groups,), "Pass one number per output channel.")
