"""Resizing of images as in torch. Letters: `B batch, C channels, S spatial sizes; n old and m new size of a dimension`.

The dimensions are resized one after the other. The input pixels that an output pixel reads, and their weights, depend
only on the sizes of the image. NumPy therefore computes the indices and weights during tracing. JAX only slices or
gathers the pixels and adds them with their weights, so that a NaN affects only the output pixels that read it.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.functional import checks
from funcnet.functional.adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from funcnet.functional.padding import repeat_edges
from funcnet.functional.sharding import reshaped

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

Sizes = int | Sequence[int] | None
Factors = float | Sequence[float] | None

_RANKS = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "area": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "lanczos": (2,),
}
_PICKING = ("nearest", "nearest-exact", "area")  # modes without align_corners
_PHASES = 8  # largest number of interleaved slices; with more, a gather is as fast


def interpolate(
    input: jax.Array,
    size: Sizes = None,
    scale_factor: Factors = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> jax.Array:
    """Resize the spatial dimensions to `size`, or to `scale_factor` times their size, rounded down.

    The output pixel j is read at the input coordinate `(j + 0.5) · s - 0.5`, or `⌊j · s⌋` for 'nearest'. The scale s is
    `1 / scale_factor`, or `n / m` if `size` is given.

    Args:
        input: floating-point array (B, C, *S) with one to three spatial dimensions. 'nearest' and 'nearest-exact' also
            accept uint8.
        size: new size, one number or one per spatial dimension. Give either `size` or `scale_factor`.
        scale_factor: factor that multiplies the sizes, one number or one per spatial dimension.
        mode: for any number of dimensions, 'nearest' (as in OpenCV, which shifts the image by up to a pixel),
            'nearest-exact' (as in Pillow) or 'area' (adaptive average pooling). For one dimension, 'linear' is also
            available. For two dimensions, 'bilinear', 'bicubic' (a = -0.75) and, with antialias, 'lanczos' are also
            available. For three dimensions, 'trilinear' is also available.
        align_corners: if True, the corner pixels of the input and the output are aligned at their centres.
            `align_corners` is supported only for 'linear', 'bilinear', 'bicubic' and 'trilinear'. None means False.
        recompute_scale_factor: if True, the scale s is computed from the sizes even if `scale_factor` is given.
        antialias: if True, the interpolation filter is widened in every dimension that becomes smaller. `antialias` is
            supported only for 'bilinear', 'bicubic' (then a = -0.5) and 'lanczos'.

    Returns:
        (B, C, *S'), in the input's dtype. The computation uses at least float32.

    Raises:
        ValueError: if neither or both of `size` and `scale_factor` are given, the mode is unknown or does not support
            the input or an option, or a size is less than 1.
        TypeError: if the input has the wrong dtype, or a size is not an integer.

    Differs from torch: 'bilinear' and 'bicubic' do not accept uint8; convert the input, and round the result. 'nearest'
        follows the formula above for every image. In two-dimensional images whose size stays the same or doubles,
        torch drops the fractional part of scale_factor: with 'nearest' only in small images, with 'nearest-exact' in
        images of any size. With antialias, torch (2.13, CPU) repeats the first row if the result is one
        pixel wide.

    Example:
        >>> interpolate(jnp.array([[[1.0, 2.0, 3.0]]]), scale_factor=2, mode="linear")
        Array([[[1.  , 1.25, 1.75, 2.25, 2.75, 3.  ]]], dtype=float32)

    Reference: torch.nn.functional.interpolate.
    """
    return _interpolate(
        "F.interpolate", input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


def upsample(
    input: jax.Array,
    size: Sizes = None,
    scale_factor: Factors = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> jax.Array:
    """Issue a DeprecationWarning and call `interpolate`. In torch, `upsample` is the old name of `interpolate`.

    Example:
        >>> upsample(jnp.array([[[1.0, 2.0]]]), scale_factor=2)
        Array([[[1., 1., 2., 2.]]], dtype=float32)

    Reference: torch.nn.functional.upsample.
    """
    _warn("F.upsample", "F.interpolate(…)")
    return _interpolate("F.upsample", input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: jax.Array, size: Sizes = None, scale_factor: Factors = None) -> jax.Array:
    """Issue a DeprecationWarning and call `interpolate` with mode 'nearest'.

    Example:
        >>> upsample_nearest(jnp.array([[[1.0, 2.0]]]), size=4)
        Array([[[1., 1., 2., 2.]]], dtype=float32)

    Reference: torch.nn.functional.upsample_nearest.
    """
    _warn("F.upsample_nearest", "F.interpolate(…)")
    return _interpolate("F.upsample_nearest", input, size, scale_factor, "nearest")


def upsample_bilinear(input: jax.Array, size: Sizes = None, scale_factor: Factors = None) -> jax.Array:
    """Issue a DeprecationWarning and call `interpolate` with mode 'bilinear' and align_corners=True.

    Example:
        >>> upsample_bilinear(jnp.array([[[[1.0, 2.0]]]]), size=(1, 3))
        Array([[[[1. , 1.5, 2. ]]]], dtype=float32)

    Reference: torch.nn.functional.upsample_bilinear.
    """
    _warn("F.upsample_bilinear", "F.interpolate(…, mode='bilinear', align_corners=True)")
    return _interpolate("F.upsample_bilinear", input, size, scale_factor, "bilinear", True)


def _warn(where: str, instead: str) -> None:
    warnings.warn(f"{where} is deprecated. Use {instead}.", DeprecationWarning, 4)


def _interpolate(
    where: str,
    input: jax.Array,
    size: Sizes,
    scale_factor: Factors,
    mode: str,
    align_corners: bool | None = None,
    recompute: bool | None = None,
    antialias: bool = False,
) -> jax.Array:
    input = jnp.asarray(input)
    if not (input.dtype == jnp.uint8 and mode.startswith("nearest")):
        input = checks.floating(where, "input", input)
    _check_options(where, input, mode, align_corners, antialias)
    sizes, factors = _targets(where, input, size, scale_factor, recompute)
    if mode == "area":
        pool: Callable[..., jax.Array] = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[len(sizes) - 1]
        return pool(input, sizes)
    if min(sizes) < 1 or 0 in input.shape[1:]:
        raise ValueError(
            f"{where}: the input or the result is empty; expected channels and sizes of at least 1, got an input of "
            f"shape {input.shape} and the new sizes {sizes}. Check size and scale_factor."
        )
    if mode.startswith("nearest"):
        double = input.dtype == jnp.float64
        x = input
        for axis, (m, factor) in enumerate(zip(sizes, factors, strict=True), 2):
            first = _nearest(x.shape[axis], m, factor, mode == "nearest-exact", double)
            x = _resample(x, axis, first, None)
        return x
    x = input.astype(checks.wide_dtype(input))
    for axis, (m, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        n = x.shape[axis]
        if n == m and (antialias or mode != "bicubic"):
            continue  # regardless of the factor
        if antialias:
            first, weights = _smooth(n, m, factor, bool(align_corners), mode)
        else:
            first, weights = _between(n, m, factor, bool(align_corners), mode == "bicubic")
        x = _resample(x, axis, first, weights)
    return x.astype(input.dtype)


def _check_options(where: str, input: jax.Array, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode in _PICKING and align_corners is not None:
        raise ValueError(
            f"{where}: align_corners requires a mode that interpolates; expected None with mode={mode!r}, "
            f"got {align_corners}."
        )
    if mode not in _RANKS:
        raise ValueError(f"{where}: mode is unknown; expected one of {tuple(_RANKS)}, got {mode!r}.")
    if input.ndim - 2 not in _RANKS[mode]:
        raise ValueError(
            f"{where}: mode {mode!r} does not support this input; expected (batch, channel, *spatial) with "
            f"{' or '.join(map(str, _RANKS[mode]))} spatial dimensions, got {input.shape}. Use mode 'linear' for one, "
            "'bilinear' for two or 'trilinear' for three spatial dimensions. Add a batch dimension if it is missing."
        )
    if antialias and mode not in ("bilinear", "bicubic", "lanczos"):
        raise ValueError(
            f"{where}: antialias requires mode 'bilinear', 'bicubic' or 'lanczos'; expected False with mode={mode!r}, "
            f"got {antialias}."
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError(
            f"{where}: mode 'lanczos' requires antialias and does not support align_corners; expected antialias=True, "
            f"align_corners=None, got antialias={antialias}, align_corners={align_corners}."
        )


def _targets(
    where: str, input: jax.Array, size: Sizes, scale_factor: Factors, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Return the new sizes and the scale factors of the coordinates. A factor is None if it is the ratio of the old and
    the new size.
    """
    rank = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"{where}: the new size is ambiguous or missing; expected either size or scale_factor, got size={size} and "
            f"scale_factor={scale_factor}."
        )
    given: Any = checks.entries(scale_factor if size is None else size, rank)
    if len(given) != rank:
        raise ValueError(
            f"{where}: {'scale_factor' if size is None else 'size'} has the wrong length; expected one number or "
            f"{rank}, got {given}. Pass one number per spatial dimension of the input of shape {input.shape}."
        )
    if size is not None:
        if recompute:
            raise ValueError(
                f"{where}: recompute_scale_factor cannot be combined with size; expected None, got {recompute}."
            )
        return tuple(checks.as_int(where, "size", n) for n in given), (None,) * rank
    factors = tuple(_number(where, f) for f in given)
    sizes = tuple(int(n * f) for n, f in zip(input.shape[2:], factors, strict=True))
    return sizes, (None,) * rank if recompute else factors


def _number(where: str, factor: float) -> float:
    try:
        number = float(factor)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: scale_factor is invalid; expected a finite number, got {factor!r}.")
    return number


# ------------------------------------------------------------------- the first input pixel and the weights per output


def _nearest(n: int, m: int, factor: float | None, exact: bool, double: bool) -> np.ndarray:
    """Return the index of the input pixel that each output pixel j copies: ⌊j · s⌋, or ⌊(j + 0.5) · s⌋ if `exact`. The
    product is rounded as in torch, because another rounding would select another pixel.
    """
    kind: Any = np.float64 if double else np.float32
    scale = kind(1 / factor) if factor is not None and factor > 0 else kind(n) / kind(m)
    at = (np.arange(m).astype(kind) + kind(0.5 if exact else 0)) * scale
    return np.minimum(np.floor(at.astype(np.float32)).astype(np.int64), n - 1)


def _scale(n: int, m: int, factor: float | None, align_corners: bool) -> float:
    if align_corners:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1 / factor if factor is not None and factor > 0 else n / m


def _between(n: int, m: int, factor: float | None, align_corners: bool, cubic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each output pixel, the index of the first input pixel that it reads, and two linear or four cubic
    weights. An index outside the image means the pixel at the nearest edge.
    """
    scale, steps = _scale(n, m, factor, align_corners), np.arange(m)
    if not align_corners and abs(scale * m - n) < 1e-9 * n:  # a ratio of integers, computed exactly so that it repeats
        first, rest = np.divmod((2 * steps + 1) * n - m, 2 * m)
        t = rest / (2 * m)
    else:
        at = steps * scale if align_corners else (steps + 0.5) * scale - 0.5
        # If the size doubles, both forms give the corners the weights 1 and 0. In this form, the first pixels repeat.
        first = (steps - 1) // 2 if align_corners and m == 2 * n else np.floor(at).astype(np.int64)
        t = at - first
    if not cubic:
        return first, np.stack([1 - t, t], 1)
    weights = [_cubic(t + 1, -0.75), _cubic(t, -0.75), _cubic(1 - t, -0.75), _cubic(2 - t, -0.75)]
    return first - 1, np.stack(weights, 1)


def _smooth(n: int, m: int, factor: float | None, align_corners: bool, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each output pixel, the index of the first input pixel that it reads, and Pillow's weights. Pillow
    scales its filter to the size of the output pixel, truncates it at the image's edges, and normalises the sum to 1.
    """
    scale = _scale(n, m, factor, align_corners)
    reach, shape = _FILTERS[mode]
    wide = max(scale, 1.0)
    centre = scale * (np.arange(m) + 0.5)
    first = np.maximum((centre - reach * wide + 0.5).astype(np.int64), 0)
    count = np.minimum((centre + reach * wide + 0.5).astype(np.int64), n) - first
    taps = np.arange(count.max())
    weights = shape((first[:, None] + taps - centre[:, None] + 0.5) / wide) * (taps < count[:, None])
    return first, weights / weights.sum(1, keepdims=True)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    x = np.abs(x)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


_FILTERS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "bilinear": (1, lambda x: np.maximum(1 - np.abs(x), 0)),
    "bicubic": (2, lambda x: _cubic(x, -0.5)),
    "lanczos": (3, lambda x: np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)),
}


# ----------------------------------------------------------------------------------------------------------- resampling


def _resample(x: jax.Array, axis: int, first: np.ndarray, weights: np.ndarray | None) -> jax.Array:
    """Return `y[j] = Σ_k weights[j, k] · x[first[j] + k]` along an axis, or `x[first[j]]` without weights."""
    n, m = x.shape[axis], len(first)
    phases = m // math.gcd(n, m)
    step = n * phases // m
    if phases <= _PHASES and np.array_equal(first[phases:], first[:-phases] + step):
        return _by_phases(x, axis, first, weights, phases, step)
    take = lambda index: jnp.take(x, np.clip(index, 0, n - 1), axis, mode="clip")
    if weights is None:
        return take(first)
    total = take(first) * _along(weights[:, 0], x, axis)
    for tap in range(1, weights.shape[1]):
        total = total + take(first + tap) * _along(weights[:, tap], x, axis)
    return total


def _by_phases(
    x: jax.Array, axis: int, first: np.ndarray, weights: np.ndarray | None, phases: int, step: int
) -> jax.Array:
    """Resample an axis with strided slices for each phase of the output, and interleave the phases. The indices of the
    first pixels must satisfy `first[j + phases] = first[j] + step`. Slices have a fast gradient, whereas the gradient
    of a gather is a scatter, which writes one entry at a time on CPU.
    """
    n, taps, count = x.shape[axis], 1 if weights is None else weights.shape[1], len(first) // phases
    edges = [(0, 0)] * x.ndim
    edges[axis] = (max(-int(first.min()), 0), max(int(first.max()) + taps - n, 0))
    padded = repeat_edges(x, edges)
    outs = []
    for phase in range(phases):
        start = int(first[phase]) + edges[axis][0]
        reach = (count - 1) * step + 1
        parts = [lax.slice_in_dim(padded, start + tap, start + tap + reach, step, axis) for tap in range(taps)]
        if weights is not None:
            parts = [part * _along(weights[phase::phases, tap], x, axis) for tap, part in enumerate(parts)]
        outs.append(sum(parts[1:], parts[0]))
    out = jnp.stack(outs, axis + 1)
    return reshaped(out, (*x.shape[:axis], phases * count, *x.shape[axis + 1 :]))


def _along(weights: np.ndarray, x: jax.Array, axis: int) -> jax.Array:
    """Reshape the weights so that they broadcast along an axis of x. If all weights are equal, return one number."""
    if np.all(weights == weights[0]):
        return jnp.asarray(weights[0], x.dtype)
    return jnp.asarray(weights, x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - axis))
