"""torch's `HistogramObserver`: a histogram of the values, and a search for the range with the smallest error."""

import bisect
import dataclasses
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike

from funcnet.quantization.qparams import IntegerLimits, QParams, choose_qparams, integer_range

__all__ = ["CountsState", "HistogramObserver"]

_PARTS = 16  # torch's `upsample_rate`
_STEP = 1e-5  # share of the values by which the search moves an end of the range


class CountsState(NamedTuple):
    """Counts of the values seen, in bins of equal width from the smallest to the largest value.

    The counts are float32 `(bins,)`. `min` and `max` are scalars.
    """

    counts: jax.Array
    min: jax.Array
    max: jax.Array


@dataclasses.dataclass(frozen=True)
class HistogramObserver:
    """Observer that leaves outliers out of the range if this makes the error smaller, as torch's does.

    The search begins with the range of all values. It leaves out more and more values, at the end at which this makes
    the range smaller, until the estimated squared error grows. It often stops early, so few values are left out.
    `MeanSquaredErrorObserver` tries more ranges.

    Args:
        bins: number of bins, at least 1.

    Raises:
        ValueError: if `bins` is below 1.

    Differs from torch: NaN is an error, and infinite values are ignored without a warning. See `choose_qparams` for the
    limits of the integers.

    Example:
        >>> observer = HistogramObserver()
        >>> state = observer.update(observer.init(), jax.random.normal(jax.random.key(0), (100_000,)))
        >>> 255 * observer.qparams(state, "uint8").scale < state.max - state.min
        Array(True, dtype=bool)

    Reference: torch.ao.quantization.HistogramObserver.
    """

    bins: int = 2048

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise ValueError(f"HistogramObserver: bins is out of range; expected at least 1, got {self.bins!r}.")

    def init(self) -> CountsState:
        """Return the observer's initial state, in which no array has been seen."""
        return CountsState(jnp.zeros(self.bins), jnp.float32(jnp.inf), jnp.float32(-jnp.inf))

    def update(self, state: CountsState, x: jax.Array) -> CountsState:
        """Return the observer's state after it has seen `x`, a floating-point array. An empty array changes nothing.

        Raises:
            TypeError: if `x` is not floating-point.
        """
        x = jnp.asarray(x)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(
                f"HistogramObserver: x does not hold real numbers; expected a floating-point dtype, got {x.dtype}."
            )
        x = x.astype(jnp.float32).ravel()
        is_kept = ~jnp.isinf(x)
        low = jnp.minimum(state.min, jnp.min(x, where=is_kept, initial=jnp.inf))
        high = jnp.maximum(state.max, jnp.max(x, where=is_kept, initial=-jnp.inf))
        # Integers, because float32 stops counting at 2^24.
        new = jnp.zeros(self.bins, jnp.int32).at[_places(x, low, high, self.bins)].add(is_kept.astype(jnp.int32))
        is_same = (low == state.min) & (high == state.max)
        return CountsState(
            jnp.where(is_same, state.counts, self._moved(state, low, high)) + new.astype(jnp.float32), low, high
        )

    def _moved(self, state: CountsState, low: jax.Array, high: jax.Array) -> jax.Array:
        """Return the counts of the earlier values in the bins of a wider range. Each of the earlier bins is divided
        into 16 parts, and each part is counted in the bin of its middle.
        """
        bins = self.bins
        width = (state.max - state.min) / np.float32(bins * _PARTS)
        middles = _edges(state.min, state.max, bins * _PARTS)[:-1] + np.float32(0.5) * width
        places = jnp.searchsorted(_edges(low, high, bins), middles, side="right") - 1
        shares = jnp.repeat(state.counts / np.float32(_PARTS), _PARTS, total_repeat_length=bins * _PARTS)
        moved = jnp.zeros(bins).at[jnp.clip(places, 0, bins - 1)].add(shares)
        single = jnp.zeros(bins).at[_places(state.min[None], low, high, bins)].add(state.counts.sum())
        return jnp.where(state.min == state.max, single, moved)

    def qparams(
        self, state: CountsState, dtype: DTypeLike = "int8", *, symmetric: bool = False, **limits: Unpack[IntegerLimits]
    ) -> QParams:
        """Return the quantization parameters of the range that the search finds; see `choose_qparams`.

        Raises:
            ValueError: if no value was observed, or a value was NaN.
        """
        low, high = float(state.min), float(state.max)
        if low == np.inf and high == -np.inf:
            raise ValueError("HistogramObserver: the calibration is empty; expected at least one value, got none.")
        if np.isnan(low) or np.isnan(high):
            raise ValueError("HistogramObserver: a value of the calibration is not finite; expected numbers, got NaN.")
        counts = np.asarray(state.counts, np.float32)
        levels = integer_range(dtype)[1] - integer_range(dtype)[0] + 1
        first, last = _search(counts, (high - low) / self.bins, levels)
        width = np.float32(np.float32(high) - np.float32(low)) / np.float32(self.bins)
        ends = (np.float32(low) + width * np.float32(first), np.float32(low) + width * np.float32(last + 1))
        return choose_qparams(float(ends[0]), float(ends[1]), dtype, symmetric=symmetric, **limits)


def _edges(low: jax.Array, high: jax.Array, bins: int) -> jax.Array:
    """Return the edges of bins, as `torch.linspace` does: from the nearer end, each product rounded."""
    step = (high - low) / np.float32(bins)
    number = np.arange(bins + 1, dtype=np.float32)
    from_low, from_high = lax.optimization_barrier((step * number, step * (bins - number)))  # no fused multiply-add
    return jnp.where(number < (bins + 1) // 2, low + from_low, high - from_high)


def _places(x: jax.Array, low: jax.Array, high: jax.Array, bins: int) -> jax.Array:
    """Return the bin of each entry of `x`, as `torch.histc` does: int32, like `x`."""
    low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    # XLA would replace the division by a scalar with a multiplication by its reciprocal, which rounds differently.
    width = lax.optimization_barrier(jnp.broadcast_to(high - low, x.shape))
    places = jnp.floor((x - low) / width * np.float32(bins))
    return jnp.clip(jnp.nan_to_num(places), 0, bins - 1).astype(jnp.int32)


def _search(counts: np.ndarray, width: float, levels: int) -> tuple[int, int]:
    """Return the first and the last bin of the range with the smallest estimated error.

    Args:
        counts: float32 (bins,).
        width: width of a bin.
        levels: number of integers of the dtype.
    """
    total = float(counts.sum(dtype=np.float64))
    sums = counts.cumsum(dtype=np.float64).astype(np.float32).tolist()
    as_single = np.float32
    lower, upper = 0.0, 1.0  # shares of the values at or below the two ends
    first, last, least = 0, len(counts) - 1, np.inf
    while lower < upper:
        next_lower, next_upper = lower + _STEP, upper - _STEP
        left = min(max(bisect.bisect_left(sums, float(as_single(next_lower * total))), first), last)
        right = max(min(bisect.bisect_right(sums, float(as_single(next_upper * total))) - 1, last), first)
        if left - first > last - right:
            following, lower = (left, last), next_lower
        else:
            following, upper = (first, right), next_upper
        if following == (first, last):
            continue
        error = _error(counts, width, *following, levels)
        if error > least:
            break
        least, (first, last) = error, following
    return first, last


def _error(counts: np.ndarray, width: float, first: int, last: int, levels: int) -> float:
    """Return the estimated squared error if the integers cover the bins `first` to `last`.

    The values of a bin are assumed to be uniformly distributed. `levels` steps of equal width divide the range, and
    each of them is represented by its middle. Float32, as in torch.
    """
    step = width * (last - first + 1) / levels
    if step == 0.0:
        return 0.0
    begin = (np.arange(len(counts)) - first).astype(np.float32) * np.float32(width)
    end = begin + np.float32(width)
    of_begin, of_end = (np.clip(place // np.float32(step), 0, levels - 1) for place in (begin, end))
    density, half = counts / np.float32(width), np.float32(step / 2)
    error = density * _third(begin - (of_begin + np.float32(0.5)) * np.float32(step), half)
    error += (of_end - of_begin - np.float32(1)) * (density * _third(-half, half))
    error += density * _third(-half, end - (of_end * np.float32(step) + half))
    return float(error.sum())


def _third(begin: jax.Array | np.float32, end: jax.Array | np.float32) -> Any:
    """Return the integral of x² from `begin` to `end`."""
    return (end * end * end - begin * begin * begin) / np.float32(3)
