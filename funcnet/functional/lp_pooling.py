"""Power-average pooling, which computes `(Σ x^p)^(1/p)` for each window. Letters: `B batch, C channel, S spatial sizes,
K kernel sizes`.
"""

import math

import jax
import jax.numpy as jnp

from funcnet.functional import checks, windows
from funcnet.functional.checks import Ints
from funcnet.functional.pooling import avg_pool, max_pool

__all__ = ["lp_pool1d", "lp_pool2d", "lp_pool3d"]


def lp_pool1d(
    input: jax.Array, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> jax.Array:
    """Compute `(Σ x^p)^(1/p)` over every window of one spatial dimension. The exponent applies to x, not to |x|. For p
    = 1, the result is therefore the sum of the window's entries.

    Args:
        input: floating-point array (B, C, S) or (C, S).
        norm_type: p. For p = inf, the result is the largest |x| of the window. For p = -inf, the result is the smallest
            |x| of the window.
        kernel_size: size of the window.
        stride: distance between windows; None or () means `kernel_size`.
        ceil_mode: if True, include a last window that extends beyond the input on the right, and multiply its sum by
            `K / m`, where m is the number of its entries inside the input.

    Returns:
        An array (B, C, S') or (C, S'), with S' as in `avg_pool1d`. Where the sum is negative, the result is NaN unless
        `1/p` is an integer, as in torch. Where the sum is 0, the gradient is 0.

    Raises:
        ValueError: if the rank of the input is wrong, a dimension other than the batch is empty, a size is invalid, or
            p is 0.
        TypeError: if the input is not floating-point, or a size is not an integer.

    Example:
        >>> lp_pool1d(jnp.array([[3.0, 4.0, 0.0, 2.0]]), 2, 2)
        Array([[5., 2.]], dtype=float32)

    Reference: torch.nn.functional.lp_pool1d.
    """
    return _lp_pool("F.lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: jax.Array, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> jax.Array:
    """Apply `lp_pool1d` over two dimensions. The input is (B, C, H, W) or (C, H, W).

    `kernel_size` and `stride` are each an int or a pair (height, width).

    Example:
        >>> lp_pool2d(jnp.ones((1, 4, 4)), 2, 2)[0]
        Array([[2., 2.],
               [2., 2.]], dtype=float32)

    Reference: torch.nn.functional.lp_pool2d.
    """
    return _lp_pool("F.lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: jax.Array, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> jax.Array:
    """Apply `lp_pool1d` over three dimensions. The input is (B, C, D, H, W) or (C, D, H, W).

    `kernel_size` and `stride` are each an int or a tuple of three ints.

    Example:
        >>> lp_pool3d(jnp.ones((1, 2, 2, 2)), 3, 2).ravel()
        Array([2.], dtype=float32)

    Reference: torch.nn.functional.lp_pool3d.
    """
    return _lp_pool("F.lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(
    where: str, ndim: int, input: jax.Array, norm_type: float, kernel: Ints, stride: Ints | None, ceil: bool
) -> jax.Array:
    input = windows.planes(where, input, ndim)
    if norm_type == 0:
        raise ValueError(
            f"{where}: norm_type is zero; expected a nonzero number, because the result is a power with exponent "
            "1/norm_type, got 0."
        )
    if math.isinf(norm_type):
        sign = 1 if norm_type > 0 else -1
        size = input * jnp.sign(input)  # |x|, with torch's derivative at 0: 0
        return sign * max_pool(where, ndim, sign * size, kernel, stride, 0, 1, ceil, False)
    x = input.astype(checks.wide_dtype(input))
    p = float(norm_type)
    mean = avg_pool(where, ndim, x**p, kernel, stride, 0, ceil, True, None)
    total = mean * math.prod(checks.as_tuple(where, "kernel_size", kernel, ndim))
    none = total == 0  # the root has an infinite slope at 0, where torch's gradient is 0
    return jnp.where(none, 0, jnp.where(none, 1, total) ** (1 / p)).astype(input.dtype)
