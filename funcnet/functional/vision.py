"""Sampling of images at the points of a grid, as in torch/nn/functional.py.

Letters: `B batch, C channels, D depth, H height, W width; d, h, w sizes of the grid, P = d · h · w points of the grid`.
Coordinates range from -1 to 1 over the image, with x (along the width) first.
"""

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.sharding import gathered

__all__ = ["affine_grid", "grid_sample"]


def grid_sample(
    input: jax.Array,
    grid: jax.Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> jax.Array:
    """Return the image's values at the grid's points, interpolated between pixels.

    Args:
        input: (B, C, H, W) or (B, C, D, H, W), floating-point.
        grid: (B, h, w, 2) or (B, d, h, w, 3), of the input's dtype: the coordinates (x, y) or (x, y, z) of every point.
            The borders of the image are at -1 and 1.
        mode: 'bilinear' (trilinear for volumes), 'nearest' or 'bicubic' (a = -0.75, only for images). 'nearest' rounds
            a coordinate halfway between two pixels to the even pixel, and gives the grid no gradient.
        padding_mode: value at points outside the image: 0 ('zeros'), the value of the nearest border pixel ('border'),
            or the value at the point's reflection at the border ('reflection').
        align_corners: if True, -1 and 1 are the centres of the outermost pixels, otherwise their outer edges. None
            means False.

    Returns:
        (B, C, h, w) or (B, C, d, h, w), in the input's dtype. The computation uses at least float32.

    Raises:
        ValueError: if the ranks or batch sizes differ, a mode is unknown, or the image is empty.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Differs from torch: align_corners=None gives no warning. A NaN coordinate gives NaN in volumes too, whereas torch
    treats the point as outside the volume.

    Example:
        >>> image = jnp.array([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> grid_sample(image, jnp.array([[[[0.0, 0.0], [-1.0, -1.0]]]]), align_corners=True)
        Array([[[[2.5, 1. ]]]], dtype=float32)

    Reference: torch.nn.functional.grid_sample.
    """
    input, grid = _check_sample(input, grid, mode, padding_mode)
    sizes = input.shape[2:]
    points = grid.astype(checks.wide_dtype(grid)).reshape(grid.shape[0], math.prod(grid.shape[1:-1]), len(sizes))
    # Reorder (x, y, z) to the order of the axes, in pixels.
    at = [_pixels(points[..., -1 - axis], n, bool(align_corners)) for axis, n in enumerate(sizes)]
    if mode != "bicubic":
        at = [_inside(x, n, padding_mode, bool(align_corners)) for x, n in zip(at, sizes, strict=True)]
    per_axis = [_TAPS[mode](x) for x in at]
    if mode == "bicubic":  # the pixels outside are reflected or clipped one by one
        per_axis = [
            [(_inside(i, n, padding_mode, bool(align_corners)), w) for i, w in taps]
            for taps, n in zip(per_axis, sizes, strict=True)
        ]
    batch, channels, count = input.shape[0], input.shape[1], math.prod(sizes)
    # One row per pixel: gathers of rows, and the scatters in their gradient, are twice as fast on CPU.
    rows = jnp.moveaxis(input, 1, -1).reshape(batch * count, channels)
    images = jnp.arange(batch, dtype=jnp.int32)[:, None] * count
    total = jnp.zeros((batch, points.shape[1], channels), points.dtype)
    for corner in itertools.product(*per_axis):
        index, weight, seen = jnp.zeros((), jnp.int32), None, jnp.ones((), bool)
        for (i, w), n in zip(corner, sizes, strict=True):
            seen = seen & (i >= 0) & (i <= n - 1)
            index = index * n + jnp.clip(jnp.nan_to_num(i), 0, n - 1).astype(jnp.int32)
            weight = w if weight is None or w is None else weight * w
        index = index + images
        values = rows.at[index].get(mode="promise_in_bounds", out_sharding=gathered(rows, index))  # (B, P, C)
        values = values.astype(points.dtype)
        values = jnp.where(seen[..., None], values, jnp.zeros((), points.dtype))
        total = total + (values if weight is None else values * weight[..., None])
    return jnp.moveaxis(total, 1, 2).reshape(batch, channels, *grid.shape[1:-1]).astype(input.dtype)


def affine_grid(theta: jax.Array, size: Sequence[int], align_corners: bool | None = None) -> jax.Array:
    """Return the grid that samples an image through an affine map: `grid[b, h, w] = theta[b] · (x_w, y_h, 1)`.

    Args:
        theta: (B, 2, 3) for images or (B, 3, 4) for volumes, floating-point.
        size: (B, C, H, W) or (B, C, D, H, W), the desired shape of the result of `grid_sample`.
        align_corners: as in `grid_sample`; None means False.

    Returns:
        (B, H, W, 2) or (B, D, H, W, 3), in theta's dtype. The computation uses at least float32. In a dimension of size
        1, the coordinate of the only pixel is 0 before the affine map is applied.

    Raises:
        ValueError: if `size` has the wrong length or an entry less than 1, or theta has the wrong shape.
        TypeError: if theta is not floating-point, or a size is not an integer.

    Differs from torch: align_corners=None and dimensions of one pixel give no warning.

    Example:
        >>> affine_grid(jnp.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]]), (1, 1, 1, 2))
        Array([[[[-0.5,  0.5],
                 [ 0.5,  0.5]]]], dtype=float32)

    Reference: torch.nn.functional.affine_grid.
    """
    where = "F.affine_grid"
    theta = checks.floating(where, "theta", theta)
    sizes = tuple(checks.as_int(where, "size", n) for n in size)
    rank = len(sizes) - 2
    if rank not in (2, 3) or any(n < 1 for n in sizes):
        raise ValueError(
            f"{where}: size does not fit; expected (batch, channel, height, width) or (batch, channel, depth, height, "
            f"width), all at least 1, got {sizes}. Pass the shape that the output of grid_sample must have."
        )
    why = f"It holds one affine map per image, for the size {sizes}."
    checks.shape_of(where, "theta", theta, (sizes[0], rank, rank + 1), why)
    wide = theta.astype(checks.wide_dtype(theta))[(slice(None), *(None,) * rank)]  # (B, 1, …, 1, rank, rank + 1)
    out = wide[..., rank]
    for axis, n in enumerate(sizes[2:]):
        reach = 0.0 if n == 1 else 1.0 if align_corners else (n - 1) / n
        steps = jnp.linspace(-reach, reach, n, dtype=wide.dtype).reshape(n, *(1,) * (rank - axis))
        out = out + wide[..., rank - 1 - axis] * steps
    return out.astype(theta.dtype)


def _check_sample(input: jax.Array, grid: jax.Array, mode: str, padding_mode: str) -> tuple[jax.Array, jax.Array]:
    where = "F.grid_sample"
    input, grid = checks.floating(where, "input", input), checks.floating(where, "grid", grid)
    checks.one_dtype(where, input=input, grid=grid)
    if mode not in _TAPS:
        raise ValueError(f"{where}: mode is unknown; expected 'bilinear', 'nearest' or 'bicubic', got {mode!r}.")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"{where}: padding_mode is unknown; expected 'zeros', 'border' or 'reflection', got {padding_mode!r}."
        )
    if input.ndim not in (4, 5) or 0 in input.shape[2:]:
        raise ValueError(
            f"{where}: input has the wrong shape; expected (batch, channel, height, width) or (batch, channel, depth, "
            f"height, width) without empty spatial dimensions, got {input.shape}."
        )
    rank = input.ndim - 2
    if grid.ndim != input.ndim or grid.shape[0] != input.shape[0] or grid.shape[-1] != rank:
        raise ValueError(
            f"{where}: grid does not match input {input.shape}; expected ({input.shape[0]}, "
            f"{'h, w' if rank == 2 else 'd, h, w'}, {rank}), got {grid.shape}. The grid must have "
            f"the input's batch size and {rank} coordinates per point, with x first."
        )
    if mode == "bicubic" and rank == 3:
        raise ValueError(
            f"{where}: mode 'bicubic' supports only images; expected an input of 4 dimensions, got shape "
            f"{input.shape}. Use mode 'bilinear', which interpolates volumes trilinearly."
        )
    return input, grid


def _pixels(x: jax.Array, size: int, align_corners: bool) -> jax.Array:
    """Convert grid coordinates in [-1, 1] to pixel coordinates. -1 and 1 are the centres of the outermost pixels if
    `align_corners` is True, and their outer edges otherwise.
    """
    return (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2


def _inside(x: jax.Array, size: int, padding_mode: str, align_corners: bool) -> jax.Array:
    """Move the pixel coordinates of points outside the image to the border or into the image, as `padding_mode`
    requires. Coordinates for 'zeros' are returned unchanged. In the other modes, a coordinate of NaN becomes 0, and the
    gradient at the border is 0, as in torch.
    """
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return jnp.zeros_like(x)
        away = jnp.where(x < low, low - x, x - low)
        rest = lax.rem(away, jnp.asarray(span, x.dtype))
        odd = lax.rem(jnp.floor(lax.stop_gradient(away) / span), jnp.asarray(2, x.dtype)) == 1
        x = jnp.where(odd, span - rest, rest) + low
    x = jnp.where(jnp.isnan(x), 0, x)
    return jnp.where((x > 0) & (x < size - 1), x, jnp.clip(lax.stop_gradient(x), 0, size - 1))


# Each function returns the pixels that contribute at a coordinate, with their weights. None is a weight of 1.


def _nearest(x: jax.Array) -> list[tuple[jax.Array, jax.Array | None]]:
    return [(jnp.round(lax.stop_gradient(x)), None)]


def _linear(x: jax.Array) -> list[tuple[jax.Array, jax.Array | None]]:
    low = jnp.floor(lax.stop_gradient(x))
    return [(low, low + 1 - x), (low + 1, x - low)]


def _cubic(x: jax.Array) -> list[tuple[jax.Array, jax.Array | None]]:
    low = jnp.floor(lax.stop_gradient(x))
    t, a = x - low, -0.75
    near = lambda t: ((a + 2) * t - (a + 3)) * t * t + 1
    far = lambda t: ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return [(low - 1, far(t + 1)), (low, near(t)), (low + 1, near(1 - t)), (low + 2, far(2 - t))]


_TAPS = {"bilinear": _linear, "nearest": _nearest, "bicubic": _cubic}
