"""Power-average pooling: the p-norm of every window. Letters: `B batch, C channel, S spatial sizes, K kernel sizes`."""

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
    """`(Σ x^p)^(1/p)` over every window of one spatial dimension: x, not |x|, so p = 1 is the sum.

    Args:
        input: (B, C, S) or (C, S), floating.
        norm_type: p. Infinity takes the largest |x| of the window, -infinity the smallest.
        kernel_size: of the window.
        stride: between windows; None or () is the kernel's size.
        ceil_mode: whether a last window may overhang on the right; its sum is then scaled up to a whole window's, by
            `K / (entries it holds)`.

    Returns:
        (B, C, S') or (C, S'), as `avg_pool1d`. A negative sum has a root only where `1/p` is whole, as in torch; where
        the sum is 0 the gradient is 0.

    Raises:
        ValueError: ranks or sizes that do not fit; p = 0.
        TypeError: an input of integers; sizes that are none.

    Example:
        >>> lp_pool1d(jnp.array([[3.0, 4.0, 0.0, 2.0]]), 2, 2)
        Array([[5., 2.]], dtype=float32)

    Reference: torch.nn.functional.lp_pool1d.
    """
    return _lp_pool("F.lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: jax.Array, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> jax.Array:
    """`lp_pool1d` over two dimensions: (B, C, H, W) or (C, H, W); sizes are one number or (height, width).

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
    """`lp_pool1d` over three dimensions: (B, C, D, H, W) or (C, D, H, W); sizes are one number or three.

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
        raise ValueError(f"{where}: norm_type is zero; expected a p whose root 1/p exists, got 0.")
    if math.isinf(norm_type):
        sign = 1 if norm_type > 0 else -1
        size = input * jnp.sign(input)  # |x|, with torch's derivative at 0: 0
        return sign * max_pool(where, ndim, sign * size, kernel, stride, 0, 1, ceil, False)
    x = input.astype(checks.wide_dtype(input))
    p = float(norm_type)
    mean = avg_pool(where, ndim, x**p, kernel, stride, 0, ceil, True, None)
    total = mean * math.prod(checks.as_tuple(where, "kernel_size", kernel, ndim))
    none = total == 0  # its root has no finite slope: torch's gradient there is 0
    return jnp.where(none, 0, jnp.where(none, 1, total) ** (1 / p)).astype(input.dtype)
