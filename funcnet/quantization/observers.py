"""Observers choose the range of a tensor for quantization from the arrays that a calibration shows them.

An observer holds only settings. The values that an observer has seen are summarised in a separate state, which is a
tree of arrays. `update` therefore works under jit, for example in a training step.

    state = observer.init()
    state = observer.update(state, x)        # for every array
    qparams = observer.qparams(state, "int8")

`MinMaxObserver` and `MovingAverageMinMaxObserver` keep the smallest and the largest value. `PercentileObserver`,
`MeanSquaredErrorObserver` and torch's `HistogramObserver` (`histogram_observer.py`) keep a histogram, and may leave
outliers out of the range, which makes the steps finer.
"""

import dataclasses
import math
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from funcnet.quantization.qparams import IntegerLimits, QParams, choose_qparams, integer_limits

__all__ = [
    "HistogramState",
    "MeanSquaredErrorObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "PercentileObserver",
    "RangeState",
    "histogram_bins",
]

_BINS = 4096
_PARTS = 24  # number of points of the coarse grid for each end of a range


class RangeState(NamedTuple):
    """Smallest and largest value that an observer has seen.

    Both are scalars, or arrays with one entry for each channel.
    """

    min: jax.Array
    max: jax.Array


class HistogramState(NamedTuple):
    """Range of the values seen, and their counts in 4,096 bins of equal width from -2^exponent to 2^exponent."""

    range: RangeState
    counts: jax.Array
    exponent: jax.Array


@dataclasses.dataclass(frozen=True)
class MinMaxObserver:
    """Observer of the smallest and the largest value.

    Args:
        axis: axis of the channels, each of which gets a separate range; None means one range for the tensor.

    Example:
        >>> observer = MinMaxObserver()
        >>> state = observer.update(observer.init(), jnp.array([-1.0, 0.5]))
        >>> observer.qparams(observer.update(state, jnp.array([1.55])), "int8")
        QParams(scale=0.009999999776482582, zero_point=-28, dtype='int8', axis=None)

    Reference: torch.ao.quantization.MinMaxObserver and PerChannelMinMaxObserver.
    """

    axis: int | None = None

    def init(self, channels: int | None = None) -> RangeState:
        """Return the observer's initial state, for arrays with `channels` channels.

        If the observer has an `axis` and `channels` is None, the state holds scalars, which the first `update` replaces
        with arrays. Pass the number of channels if the shape of the state must not change, as in `lax.scan`.
        """
        shape = () if channels is None else (channels,)
        return RangeState(jnp.full(shape, jnp.inf), jnp.full(shape, -jnp.inf))

    def update(self, state: RangeState, x: jax.Array) -> RangeState:
        """Return the observer's state after it has seen `x`, a floating-point array. An empty array changes nothing."""
        low, high = _extremes("MinMaxObserver", x, self.axis)
        return RangeState(jnp.minimum(state.min, low), jnp.maximum(state.max, high))

    def qparams(
        self, state: RangeState, dtype: DTypeLike = "int8", *, symmetric: bool = False, **limits: Unpack[IntegerLimits]
    ) -> QParams:
        """Return the quantization parameters of the observed range; see `choose_qparams`.

        Raises:
            ValueError: if no value was observed, or a value was infinite or NaN.
        """
        return _of_range("MinMaxObserver", state, dtype, symmetric, self.axis, limits)


@dataclasses.dataclass(frozen=True)
class MovingAverageMinMaxObserver:
    """Observer of the moving averages of the smallest and the largest value of each array.

    An array `x` changes the average `m` of the smallest value to `m + c · (min(x) - m)`. The average of the
    largest value changes likewise.

    Args:
        averaging_constant: weight `c` of a new array, above 0 and at most 1. The first array has the weight 1.
        axis: axis of the channels, each of which gets a separate range; None means one range for the tensor.

    Raises:
        ValueError: if `averaging_constant` is out of range.

    Example:
        >>> observer = MovingAverageMinMaxObserver(0.5)
        >>> state = observer.update(observer.init(), jnp.array([-1.0, 1.0]))
        >>> float(observer.update(state, jnp.array([-3.0, 1.0])).min)
        -2.0

    Reference: torch.ao.quantization.MovingAverageMinMaxObserver and MovingAveragePerChannelMinMaxObserver.
    """

    averaging_constant: float = 0.01
    axis: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.averaging_constant <= 1:
            raise ValueError(
                f"MovingAverageMinMaxObserver: averaging_constant is out of range; expected above 0 and at most 1, "
                f"got {self.averaging_constant!r}."
            )

    def init(self, channels: int | None = None) -> RangeState:
        """Return the observer's initial state, as `MinMaxObserver.init` does."""
        return MinMaxObserver(self.axis).init(channels)

    def update(self, state: RangeState, x: jax.Array) -> RangeState:
        """Return the observer's state after it has seen `x`, a floating-point array. An empty array changes nothing."""
        where = "MovingAverageMinMaxObserver"
        extremes = _extremes(where, x, self.axis)
        if jnp.size(x) == 0:
            return state
        constant = np.float32(self.averaging_constant)
        step = lambda old, new: jnp.where(jnp.isinf(old), new, old + constant * (new - old))
        return RangeState(*map(step, state, extremes))

    def qparams(
        self, state: RangeState, dtype: DTypeLike = "int8", *, symmetric: bool = False, **limits: Unpack[IntegerLimits]
    ) -> QParams:
        """Return the quantization parameters of the averaged range; see `choose_qparams`.

        Raises:
            ValueError: if no value was observed, or a value was infinite or NaN.
        """
        return _of_range("MovingAverageMinMaxObserver", state, dtype, symmetric, self.axis, limits)


@dataclasses.dataclass(frozen=True)
class PercentileObserver:
    """Observer that leaves equally many of the smallest and of the largest values out of the range.

    Args:
        percentile: a number above 50 and at most 100. This percentage of the values is at or below the upper limit, and
            the same percentage is at or above the lower limit. Each limit is accurate to the width of a histogram bin,
            at most 1/1024 of the largest absolute value. Both limits lie within the observed range.

    Raises:
        ValueError: if the percentile is out of range.

    Example:
        >>> observer = PercentileObserver(99.0)
        >>> state = observer.update(observer.init(), jnp.append(jnp.linspace(0.0, 1.0, 1000), 1000.0))
        >>> observer.qparams(state, "uint8").scale < 0.02
        True
    """

    percentile: float = 99.99

    def __post_init__(self) -> None:
        if not 50 < self.percentile <= 100:
            raise ValueError(
                f"PercentileObserver: percentile is out of range; expected above 50 and at most 100, "
                f"got {self.percentile!r}."
            )

    def init(self) -> HistogramState:
        """Return the observer's initial state, in which no array has been seen."""
        return _empty_histogram()

    def update(self, state: HistogramState, x: jax.Array) -> HistogramState:
        """Return the observer's state after it has seen `x`, a floating-point array. An empty array changes nothing."""
        return _count("PercentileObserver", state, x)

    def qparams(
        self,
        state: HistogramState,
        dtype: DTypeLike = "int8",
        *,
        symmetric: bool = False,
        **limits: Unpack[IntegerLimits],
    ) -> QParams:
        """Return the quantization parameters of the range between the two percentiles; see `choose_qparams`.

        Raises:
            ValueError: if no value was observed, or a value was infinite or NaN.
        """
        low, high = _checked("PercentileObserver", state.range)
        counts, edges = histogram_bins(state)
        share = counts.cumsum() / counts.sum()
        upper = edges[1:][np.searchsorted(share, self.percentile / 100 - 1e-12)]
        lower = edges[:-1][np.searchsorted(share, 1 - self.percentile / 100, side="right")]
        return choose_qparams(max(low, float(lower)), min(high, float(upper)), dtype, symmetric=symmetric, **limits)


@dataclasses.dataclass(frozen=True)
class MeanSquaredErrorObserver:
    """Observer that chooses the range with the smallest mean squared error of quantization.

    The error is estimated from a histogram of the values. The candidates are the observed range, widened to contain
    0.0, and narrower ranges, in which either end is moved towards 0.0.

    Example:
        >>> observer = MeanSquaredErrorObserver()
        >>> state = observer.update(observer.init(), jnp.linspace(-1.0, 1.0, 100_001) ** 5)
        >>> 255 * observer.qparams(state, "int8").scale < 2.0
        True
    """

    def init(self) -> HistogramState:
        """Return the observer's initial state, in which no array has been seen."""
        return _empty_histogram()

    def update(self, state: HistogramState, x: jax.Array) -> HistogramState:
        """Return the observer's state after it has seen `x`, a floating-point array. An empty array changes nothing."""
        return _count("MeanSquaredErrorObserver", state, x)

    def qparams(
        self,
        state: HistogramState,
        dtype: DTypeLike = "int8",
        *,
        symmetric: bool = False,
        **limits: Unpack[IntegerLimits],
    ) -> QParams:
        """Return the quantization parameters of the range with the smallest error; see `choose_qparams`.

        Raises:
            ValueError: if no value was observed, or a value was infinite or NaN.
        """
        low, high = _checked("MeanSquaredErrorObserver", state.range)
        counts, edges = histogram_bins(state)
        held = counts > 0
        values, weights = ((edges[:-1] + edges[1:]) / 2)[held].clip(low, high), counts[held]
        low, high = min(low, 0.0), max(high, 0.0)
        error = lambda pair: _error(values, weights, pair[0], pair[1], dtype, symmetric, limits)
        # Try all pairs of a coarse grid, and then all pairs of a fine grid around the best one.
        parts = np.arange(1, _PARTS + 1) / _PARTS
        best = min(((low * a, high * b) for a in parts for b in parts), key=error)
        fine = _fine(best[0], low), _fine(best[1], high)
        best = min([best, *((low * a, high * b) for a in fine[0] for b in fine[1])], key=error)
        return choose_qparams(*best, dtype, symmetric=symmetric, **limits)


def _fine(best: float, end: float) -> np.ndarray:
    """Return the points of a fine grid around the limit `best`, as fractions of the observed limit `end`."""
    share = best / end if end else 1.0
    return np.unique(np.clip(share + np.linspace(-1, 1, 17) / _PARTS, 1 / (8 * _PARTS), 1.0))


def _extremes(where: str, x: jax.Array, axis: int | None) -> tuple[jax.Array, jax.Array]:
    """Return the smallest and the largest value of `x` in float32, for the whole tensor or for each channel."""
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"{where}: x does not hold real numbers; expected a floating-point dtype, got {x.dtype}.")
    if axis is not None and not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{where}: the axis does not exist; expected an axis of the shape {x.shape}, got {axis}.")
    others = None if axis is None else tuple(i for i in range(x.ndim) if i != axis % x.ndim)
    x = x.astype(jnp.float32)
    return jnp.min(x, others, initial=jnp.inf), jnp.max(x, others, initial=-jnp.inf)


def _checked(where: str, state: RangeState) -> tuple[Any, Any]:
    """Return the limits of the observed range in double precision.

    Raise ValueError if no value was observed, or if a limit is not finite.
    """
    low, high = np.asarray(state.min, np.float64), np.asarray(state.max, np.float64)
    if (np.isposinf(low) & np.isneginf(high)).any():
        raise ValueError(f"{where}: the calibration is empty; expected at least one value, got none.")
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(
            f"{where}: a value of the calibration is not finite; expected finite numbers, got infinity or NaN."
        )
    return (low, high) if low.ndim else (float(low), float(high))


def _of_range(
    where: str, state: RangeState, dtype: DTypeLike, symmetric: bool, axis: int | None, limits: IntegerLimits
) -> QParams:
    return choose_qparams(*_checked(where, state), dtype, symmetric=symmetric, axis=axis, **limits)


def _empty_histogram() -> HistogramState:
    return HistogramState(MinMaxObserver().init(), jnp.zeros(_BINS, jnp.uint32), jnp.int32(-126))


def _count(where: str, state: HistogramState, x: jax.Array) -> HistogramState:
    """Count the values of `x` in the histogram.

    If its bins do not cover `x`, widen them by a power of two, and merge their counts.
    """
    low, high = _extremes(where, x, None)
    x = jnp.asarray(x).astype(jnp.float32).ravel()
    limits = RangeState(jnp.minimum(state.range.min, low), jnp.maximum(state.range.max, high))
    if x.size == 0:
        return HistogramState(limits, state.counts, state.exponent)
    largest = jnp.max(jnp.abs(x))
    needed = jnp.where(jnp.isfinite(largest) & (largest > 0), jnp.frexp(largest)[1], jnp.int32(-126))
    exponent = jnp.maximum(state.exponent, needed.astype(jnp.int32))
    half = _BINS // 2
    wider = ((jnp.arange(_BINS, dtype=jnp.int32) - half) >> jnp.minimum(exponent - state.exponent, 31)) + half
    counts = jnp.zeros_like(state.counts).at[wider].add(state.counts)
    # Scale in two steps, because 2^-exponent may be too large or too small for float32.
    scaled = jnp.ldexp(jnp.ldexp(x, (-exponent) // 2), (-exponent) - (-exponent) // 2) * np.float32(half)
    index = jnp.clip(jnp.floor(scaled), -half, half - 1)
    index = jnp.where(jnp.isfinite(index), index, np.float32(0)).astype(jnp.int32) + half
    return HistogramState(limits, counts.at[index].add(jnp.uint32(1)), exponent)


def histogram_bins(state: HistogramState) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts and the edges of a histogram's bins as NumPy arrays of float64.

    Example:
        >>> observer = PercentileObserver()
        >>> counts, edges = histogram_bins(observer.update(observer.init(), jnp.array([0.25, 0.75])))
        >>> edges[:-1][counts > 0].tolist()
        [0.25, 0.75]
    """
    edges = math.ldexp(2.0 / _BINS, int(state.exponent)) * np.arange(-_BINS // 2, _BINS // 2 + 1)
    return np.asarray(state.counts, np.float64), edges


def _error(
    values: np.ndarray,
    weights: np.ndarray,
    low: float,
    high: float,
    dtype: DTypeLike,
    symmetric: bool,
    limits: IntegerLimits,
) -> float:
    """Return the weighted mean squared error of quantizing `values` with the range `low` to `high`."""
    qparams = choose_qparams(low, high, dtype, symmetric=symmetric, **limits)
    steps = np.clip(np.rint(values / qparams.scale) + qparams.zero_point, *integer_limits(dtype, **limits))
    return float(np.average((qparams.scale * (steps - qparams.zero_point) - values) ** 2, weights=weights))
