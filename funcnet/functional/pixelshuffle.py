"""Rearrangement of channels into blocks of pixels, and back. Letters: `C channels, H height, W width, r factor`."""

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.sharding import reshaped

__all__ = ["pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(input: jax.Array, upscale_factor: int) -> jax.Array:
    """Move every r² channels into a block of r × r pixels: `y[c, h · r + i, w · r + j] = x[c · r² + i · r + j, h, w]`.

    Args:
        input: array (…, C · r², H, W) of any dtype.
        upscale_factor: the factor r.

    Returns:
        An array (…, C, H · r, W · r), in the input's dtype.

    Raises:
        ValueError: if the input has fewer than three dimensions, r is less than 1, or r² does not divide the number of
            channels.
        TypeError: if the factor is not an integer.

    Example:
        >>> pixel_shuffle(jnp.arange(4).reshape(4, 1, 1), 2)
        Array([[[0, 1],
                [2, 3]]], dtype=int32)

    Reference: torch.nn.functional.pixel_shuffle.
    """
    where = "F.pixel_shuffle"
    input, r = _checked(where, input, "upscale_factor", upscale_factor)
    *batch, channels, height, width = input.shape
    if channels % (r * r):
        raise ValueError(
            f"{where}: the channels are not divisible by the square of upscale_factor; expected a multiple of {r * r}, "
            f"got {channels} in an input of shape {input.shape}."
        )
    parts = reshaped(input, (*batch, channels // (r * r), r, r, height, width))
    turned = jnp.moveaxis(parts, (-2, -4, -1, -3), (-4, -3, -2, -1))  # (…, C, H, r, W, r)
    return reshaped(turned, (*batch, channels // (r * r), height * r, width * r))


def pixel_unshuffle(input: jax.Array, downscale_factor: int) -> jax.Array:
    """Invert `pixel_shuffle`: `y[c · r² + i · r + j, h, w] = x[c, h · r + i, w · r + j]`.

    Args:
        input: array (…, C, H · r, W · r) of any dtype.
        downscale_factor: the factor r.

    Returns:
        An array (…, C · r², H, W), in the input's dtype.

    Raises:
        ValueError: if the input has fewer than three dimensions, r is less than 1, or r does not divide both the height
            and the width.
        TypeError: if the factor is not an integer.

    Example:
        >>> pixel_unshuffle(jnp.arange(4).reshape(1, 2, 2), 2).ravel()
        Array([0, 1, 2, 3], dtype=int32)

    Reference: torch.nn.functional.pixel_unshuffle.
    """
    where = "F.pixel_unshuffle"
    input, r = _checked(where, input, "downscale_factor", downscale_factor)
    *batch, channels, height, width = input.shape
    if height % r or width % r:
        raise ValueError(
            f"{where}: height and width are not divisible by downscale_factor; expected multiples of {r}, got "
            f"{(height, width)}. Choose another factor, or pad the input."
        )
    parts = reshaped(input, (*batch, channels, height // r, r, width // r, r))
    turned = jnp.moveaxis(parts, (-3, -1, -4, -2), (-4, -3, -2, -1))  # (…, C, r, r, H, W)
    return reshaped(turned, (*batch, channels * r * r, height // r, width // r))


def _checked(where: str, input: jax.Array, name: str, factor: int) -> tuple[jax.Array, int]:
    input, factor = jnp.asarray(input), checks.as_int(where, name, factor)
    if input.ndim < 3:
        raise ValueError(
            f"{where}: input has the wrong rank; expected at least 3 dimensions (…, channel, height, width), got shape "
            f"{input.shape}."
        )
    if factor < 1:
        raise ValueError(f"{where}: {name} is too small; expected at least 1, got {factor}.")
    return input, factor
