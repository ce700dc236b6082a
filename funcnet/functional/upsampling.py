"""Resizing images, as torch does it. Letters: `B batch, C channels, S spatial sizes; n -> m a dimension's sizes`.

One dimension is resized after the other. Which pixels an output reads, and with what weights, follows from the shapes:
numpy computes it, and the arrays only see slices or gathers, so that a NaN stays where it is.
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
_PICKING = ("nearest", "nearest-exact", "area")  # these know no align_corners
_PHASES = 8  # at most so many interleaved outputs are made from slices; with more, a gather is as fast


def interpolate(
    input: jax.Array,
    size: Sizes = None,
    scale_factor: Factors = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> jax.Array:
    """Resizes the spatial dimensions to `size`, or to `scale_factor` times their size, rounded down.

    Output j looks at `(j + 0.5) · s - 0.5` in the input, with `s = 1 / scale_factor`, or `n / m` where only sizes are
    known; 'nearest' at `⌊j · s⌋`.

    Args:
        input: (B, C, *S) with one to three spatial dimensions, floating; for 'nearest' and 'nearest-exact' uint8 too.
        size: one number or one a dimension; this or scale_factor.
        scale_factor: likewise.
        mode: 'nearest' (as in OpenCV, shifted by up to a pixel), 'nearest-exact' (as in Pillow), 'linear' for one
            dimension, 'bilinear' and 'bicubic' (a = -0.75) for two, 'trilinear' for three, 'area' (adaptive average
            pooling), and 'lanczos' for two with antialias.
        align_corners: for the modes that interpolate: whether the centres of the corner pixels stay at the corners;
            None is False.
        recompute_scale_factor: whether s comes from the sizes though a scale_factor is given.
        antialias: of 'bilinear', 'bicubic' (then a = -0.5) and 'lanczos': widens the filter where the image shrinks.

    Returns:
        (B, C, *S'), the input's dtype; computed in at least float32.

    Raises:
        ValueError: neither or both of size and scale_factor; a mode that does not exist or is not for this input;
            options that the mode lacks; sizes below 1.
        TypeError: integers where floats are needed; sizes that are none.

    Differs from torch: 'bilinear' and 'bicubic' of uint8 are refused: convert, and round the result. 'nearest' follows
    the formula in every image; torch ignores the scale_factor's fraction in small ones of two dimensions where the size
    stays or doubles (and 'nearest-exact' in all of them). With antialias, torch (2.13, CPU) repeats the first row where
    the result is one pixel wide.

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
    """torch's old name of `interpolate`, with a DeprecationWarning.

    Reference: torch.nn.functional.upsample.
    """
    _warn("F.upsample", "F.interpolate(…)")
    return _interpolate("F.upsample", input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: jax.Array, size: Sizes = None, scale_factor: Factors = None) -> jax.Array:
    """torch's old name of `interpolate` with mode 'nearest', with a DeprecationWarning.

    Reference: torch.nn.functional.upsample_nearest.
    """
    _warn("F.upsample_nearest", "F.interpolate(…)")
    return _interpolate("F.upsample_nearest", input, size, scale_factor, "nearest")


def upsample_bilinear(input: jax.Array, size: Sizes = None, scale_factor: Factors = None) -> jax.Array:
    """torch's old name of `interpolate` with mode 'bilinear' and aligned corners, with a DeprecationWarning.

    Reference: torch.nn.functional.upsample_bilinear.
    """
    _warn("F.upsample_bilinear", "F.interpolate(…, mode='bilinear', align_corners=True)")
    return _interpolate("F.upsample_bilinear", input, size, scale_factor, "bilinear", True)


def _warn(where: str, instead: str) -> None:
    warnings.warn(f"{where} is torch's old name; write {instead}.", DeprecationWarning, 3)


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
            f"{where}: there is nothing to resize or nothing left; expected channels and sizes of at least 1, got "
            f"{input.shape} and the new sizes {sizes}. Check size and scale_factor."
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
            continue  # whatever the factor says
        if antialias:
            first, weights = _smooth(n, m, factor, bool(align_corners), mode)
        else:
            first, weights = _between(n, m, factor, bool(align_corners), mode == "bicubic")
        x = _resample(x, axis, first, weights)
    return x.astype(input.dtype)


def _check_options(where: str, input: jax.Array, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode in _PICKING and align_corners is not None:
        raise ValueError(
            f"{where}: align_corners is for the modes that interpolate; expected None with mode={mode!r}, "
            f"got {align_corners}."
        )
    if mode not in _RANKS:
        raise ValueError(f"{where}: mode is unknown; expected one of {tuple(_RANKS)}, got {mode!r}.")
    if input.ndim - 2 not in _RANKS[mode]:
        raise ValueError(
            f"{where}: mode {mode!r} is not for this input; expected (batch, channel, *spatial) with "
            f"{' or '.join(map(str, _RANKS[mode]))} spatial dimensions, got {input.shape}. Linear is 'linear' for one, "
            "'bilinear' for two and 'trilinear' for three; add a batch dimension where there is none."
        )
    if antialias and mode not in ("bilinear", "bicubic", "lanczos"):
        raise ValueError(
            f"{where}: antialias is for 'bilinear', 'bicubic' and 'lanczos'; expected False with mode={mode!r}, "
            f"got {antialias}."
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError(
            f"{where}: mode 'lanczos' needs antialias and knows no align_corners; expected antialias=True, "
            f"got antialias={antialias}, align_corners={align_corners}. Set them so."
        )


def _targets(
    where: str, input: jax.Array, size: Sizes, scale_factor: Factors, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The new sizes, and the scale factors that the coordinates follow, None where the sizes say them."""
    rank = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError(
            f"{where}: the new size is not clear; expected one of size and scale_factor, got size={size} and "
            f"scale_factor={scale_factor}."
        )
    given: Any = checks.entries(scale_factor if size is None else size, rank)
    if len(given) != rank:
        raise ValueError(
            f"{where}: {'scale_factor' if size is None else 'size'} has the wrong length; expected one number or "
            f"{rank}, got {given}. Give one for every spatial dimension of {input.shape}."
        )
    if size is not None:
        if recompute:
            raise ValueError(
                f"{where}: recompute_scale_factor has no meaning with a size; expected None, got {recompute}."
            )
        return tuple(checks.as_int(where, "size", n) for n in given), (None,) * rank
    factors = tuple(_number(where, f) for f in given)
    sizes = tuple(int(n * f) for n, f in zip(input.shape[2:], factors, strict=True))
    return sizes, (None,) * rank if recompute else factors


def _number(where: str, factor: Any) -> float:
    try:
        number = float(factor)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: scale_factor is no finite number; expected one, got {factor!r}.")
    return number


# ------------------------------------------------------------------------ of every output: the first pixel, the weights


def _nearest(n: int, m: int, factor: float | None, exact: bool, double: bool) -> np.ndarray:
    """⌊j · s⌋, or ⌊(j + 0.5) · s⌋, rounded like torch, finally to float32: here one rounding decides about a pixel."""
    kind: Any = np.float64 if double else np.float32
    scale = kind(1 / factor) if factor is not None and factor > 0 else kind(n) / kind(m)
    at = (np.arange(m).astype(kind) + kind(0.5 if exact else 0)) * scale
    return np.minimum(np.floor(at.astype(np.float32)).astype(np.int64), n - 1)


def _scale(n: int, m: int, factor: float | None, align_corners: bool) -> float:
    if align_corners:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1 / factor if factor is not None and factor > 0 else n / m


def _between(n: int, m: int, factor: float | None, align_corners: bool, cubic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Two linear weights or four cubic ones; the first pixel may lie before the image, where its edge is meant."""
    scale, steps = _scale(n, m, factor, align_corners), np.arange(m)
    if not align_corners and abs(scale * m - n) < 1e-9 * n:  # a ratio: exact in integers, so that it repeats exactly
        first, rest = np.divmod((2 * steps + 1) * n - m, 2 * m)
        t = rest / (2 * m)
    else:
        at = steps * scale if align_corners else (steps + 0.5) * scale - 0.5
        # At twice the size the corners' weights are 1 and 0 either way: this way the first pixels repeat.
        first = (steps - 1) // 2 if align_corners and m == 2 * n else np.floor(at).astype(np.int64)
        t = at - first
    if not cubic:
        return first, np.stack([1 - t, t], 1)
    weights = [_cubic(t + 1, -0.75), _cubic(t, -0.75), _cubic(1 - t, -0.75), _cubic(2 - t, -0.75)]
    return first - 1, np.stack(weights, 1)


def _smooth(n: int, m: int, factor: float | None, align_corners: bool, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Pillow's weights: a filter as wide as an output pixel, cut off at the image's edges and of sum 1."""
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
    """`y[j] = Σ_k weights[j, k] · x[first[j] + k]` along an axis; without weights `x[first[j]]`."""
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
    """For reads that repeat with a period, in steps of `step`: one slice per phase, interleaved. Slices have fast
    gradients; those of gathers are scatters, which XLA runs one by one on CPU."""
    n, taps, count = x.shape[axis], 1 if weights is None else weights.shape[1], len(first) // phases
    edges = [(0, 0)] * x.ndim
    edges[axis] = (max(-int(first.min()), 0), max(int(first.max()) + taps - n, 0))
    padded = jnp.pad(x, edges, mode="edge")
    outs = []
    for phase in range(phases):
        start = int(first[phase]) + edges[axis][0]
        reach = (count - 1) * step + 1
        parts = [lax.slice_in_dim(padded, start + tap, start + tap + reach, step, axis) for tap in range(taps)]
        if weights is not None:
            parts = [part * _along(weights[phase::phases, tap], x, axis) for tap, part in enumerate(parts)]
        outs.append(sum(parts[1:], parts[0]))
    out = jnp.stack(outs, axis + 1)
    return out.reshape(*x.shape[:axis], phases * count, *x.shape[axis + 1 :])


def _along(weights: np.ndarray, x: jax.Array, axis: int) -> jax.Array:
    """The weights along an axis of x; one number where they are the same."""
    if np.all(weights == weights[0]):
        return jnp.asarray(weights[0], x.dtype)
    return jnp.asarray(weights, x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - axis))
