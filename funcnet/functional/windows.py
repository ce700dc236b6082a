"""Code shared by the max poolings: positions of windows, the first maximum of each window, and lookups by index.

Letters: `S spatial sizes, K kernel sizes`. A *tap* is an entry of a window. Taps are numbered from the window's first
entry. A *plane* is one channel of one example.

An index is a position in the flattened plane, `h · W + w` in two dimensions, as in torch. If several entries of a
window equal the maximum, the first one in row-major order is chosen. NaN counts as larger than all numbers, and of
several NaNs, the last one is chosen. Padding is never chosen as a maximum. The dimensions of a window are processed one
after the other, starting with the last. This procedure preserves the row-major order and reads `K1 + K2` taps instead
of `K1 · K2`.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.functional import checks
from funcnet.functional.checks import Ints
from funcnet.functional.sharding import reshaped

__all__ = ["Bins", "Starts", "Windows", "as_index", "as_lax", "first_maxima", "maximum", "pick", "planes", "regular"]

UNROLLED = 16  # largest number of taps to unroll; more taps use a loop, to limit the compile time


class Windows(NamedTuple):
    """Regular windows along one axis. Window i starts at `i · stride - pad`, and its taps are `dilation` apart."""

    size: int  # number of windows
    kernel: int
    stride: int
    pad: int
    dilation: int

    def starts(self, axis: int) -> np.ndarray:
        return _along(np.arange(self.size) * self.stride - self.pad, axis)

    def overhang(self, size: int) -> int:
        """Return the number of positions by which the last window extends beyond an axis of `size` entries. The number
        is negative if no window reads the last entries of the axis.
        """
        return (self.size - 1) * self.stride + self.dilation * (self.kernel - 1) + 1 - self.pad - size

    def tap(self, x: jax.Array, axis: int, tap: Any) -> jax.Array:
        """Return entry number `tap` of every window of x, which must already be padded."""
        start, length = tap * self.dilation, (self.size - 1) * self.stride + 1
        if isinstance(tap, int):
            return lax.slice_in_dim(x, start, start + length, self.stride, axis)
        return lax.slice_in_dim(lax.dynamic_slice_in_dim(x, start, length, axis), 0, None, self.stride, axis)


class Bins(NamedTuple):
    """Windows of different sizes along one axis. Bin i extends from `first[i]` to `ends[i]`.

    Every bin is read as if it had the length of the longest bin: a shorter bin repeats its last entry.
    """

    first: tuple[int, ...]
    ends: tuple[int, ...]
    dilation: int = 1

    @property
    def kernel(self) -> int:
        return max(end - start for start, end in zip(self.first, self.ends, strict=True))

    def starts(self, axis: int) -> np.ndarray:
        return _along(np.array(self.first), axis)

    def tap(self, x: jax.Array, axis: int, tap: int | jax.Array) -> jax.Array:
        places = jnp.minimum(np.array(self.first) + tap, np.array(self.ends) - 1)
        return jnp.take(x, places, axis, mode="clip")


class Starts(NamedTuple):
    """Windows of equal size along one axis. The positions of the windows may differ between planes.

    The array `first` holds the start position of every window, and broadcasts over the other spatial dimensions. For
    windows along the width, the shape of `first` is (B, C, 1, number of windows).
    """

    first: jax.Array
    kernel: int
    dilation: int = 1

    def starts(self, axis: int) -> jax.Array:
        return self.first

    def tap(self, x: jax.Array, axis: int, tap: int | jax.Array) -> jax.Array:
        return jnp.take_along_axis(x, self.first + tap, axis, mode="promise_in_bounds")


def planes(where: str, input: jax.Array, ndim: int) -> jax.Array:
    """Return `input` as a floating-point array of shape (B, C, *S) or (C, *S), or raise an error. Only the size B may
    be 0.
    """
    input = checks.spatial(where, input, ndim, empty=False)
    if input.shape[-ndim - 1] == 0:
        raise ValueError(
            f"{where}: input has no channels; expected at least 1 channel, got an input of shape {input.shape}. Only "
            "the batch dimension may be empty."
        )
    return input


def regular(
    where: str,
    shape: Sequence[int],
    ndim: int,
    kernel: Ints,
    stride: Ints | None,
    pad: Ints,
    dilation: Ints = 1,
    ceil: bool = False,
) -> tuple[Windows, ...]:
    """Return the windows of a pooling along each of the last `ndim` dimensions of `shape`. Raise a ValueError if an
    argument does not fit the shape.
    """
    kernels = checks.as_tuple(where, "kernel_size", kernel, ndim, least=1)
    strides = kernels
    if stride is not None and np.size(stride):
        strides = checks.as_tuple(where, "stride", stride, ndim, least=1)
    dilations = checks.as_tuple(where, "dilation", dilation, ndim, least=1)
    pads = checks.as_tuple(where, "padding", pad, ndim)
    if min(pads) < 0 or any(2 * p > k for p, k in zip(pads, kernels, strict=True)):
        raise ValueError(
            f"{where}: padding is too large or negative; expected 0 to half the kernel size {kernels}, got {pads}. As "
            "in torch, dilation does not raise this limit. Use F.pad for more padding."
        )
    out = []
    for size, k, s, p, d in zip(shape[-ndim:], kernels, strides, pads, dilations, strict=True):
        room = size + 2 * p - d * (k - 1) - 1
        count = (-(-room // s) if ceil else room // s) + 1
        if ceil and (count - 1) * s >= size + p:  # a window that would start in the right padding
            count -= 1
        if count < 1:
            raise ValueError(
                f"{where}: the window is larger than the padded input; expected an output size of at least 1, got "
                f"{count} for an input of shape {tuple(shape)}. Use a smaller kernel."
            )
        out.append(Windows(count, k, s, p, d))
    return tuple(out)


def as_lax(along: Windows, ndim: int, axis: int, size: int) -> tuple[list[Any], ...]:
    """Return the arguments that follow the function in `lax.reduce_window`: window sizes, strides, padding, base
    dilation (none) and window dilation."""
    lengths, steps, gaps, widths = [1] * ndim, [1] * ndim, [1] * ndim, [(0, 0)] * ndim
    lengths[axis], steps[axis], gaps[axis] = along.kernel, along.stride, along.dilation
    widths[axis] = (along.pad, max(along.overhang(size), 0))
    return lengths, steps, widths, [1] * ndim, gaps


def as_index(places: jax.Array) -> jax.Array:
    """Cast indices to int64, as in torch, or to int32 without x64."""
    return places.astype(jax.dtypes.canonicalize_dtype(jnp.int64))


# ------------------------------------------------------------------------------------------------------ the maximum


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def maximum(x: jax.Array, windows: tuple[Windows, ...]) -> jax.Array:
    """Return the maximum of every window over the last dimensions. The gradient goes to the entry that `first_maxima`
    returns.

    Overlapping windows use `lax.reduce_window`. For windows of 3 x 3 and stride 2 on CPU, `lax.reduce_window` takes a
    fifth of the time of shifted slices. JAX's derivative of `lax.reduce_window` is too slow on CPU, and is not used.
    Windows without overlap use slices, because slices are faster for these windows. For windows without overlap, XLA
    would also turn `reduce_window` into a plain reduction, whose float32 maximum on CPU loses NaN (seen in JAX 0.10.2,
    in arrays of a few thousand entries).
    """
    for axis in range(-1, -len(windows) - 1, -1):
        along = windows[axis]
        if along.size > 1 and along.stride < along.kernel:
            least = np.array(-np.inf, x.dtype)
            x = lax.reduce_window(x, least, lax.max, *as_lax(along, x.ndim, axis, x.shape[axis]))
        else:
            x = _first_along(x, (), axis, along)[0]
    return x


@maximum.defjvp
def _maximum_jvp(
    windows: tuple[Windows, ...], primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    # On CPU, a scatter writes one entry at a time, and JAX's derivative of slices passes over the array once per tap.
    # For an input of shape (8, 64, 56, 56), slices take 3.7 ms and the scatter 19 ms with windows of 3 x 3. With
    # windows of 5 x 5, slices take 18 ms and the scatter 9 ms.
    if all(along.kernel <= 3 for along in windows):
        return jax.jvp(lambda x: _by_slices(x, windows), primals, tangents)
    (x,), (dx,) = primals, tangents
    y, places = first_maxima(x, windows)
    dy = pick(dx, places, len(windows))
    for axis, along in enumerate(windows, -len(windows)):
        taps = along.starts(axis)[..., None] + along.dilation * np.arange(along.kernel)
        empty = ~((taps >= 0) & (taps < x.shape[axis])).any(-1)
        if empty.any():  # with a large dilation, a window may lie entirely in the padding
            dy = jnp.where(empty, 0, dy)
    return y, dy


def _by_slices(x: jax.Array, windows: tuple[Windows, ...]) -> jax.Array:
    for axis in range(-1, -len(windows) - 1, -1):
        x, _ = _first_of_taps(x, (), axis, windows[axis])
    return x


def _first_along(
    x: jax.Array, chosen: tuple[jax.Array, ...], axis: int, along: Windows | Bins | Starts
) -> tuple[jax.Array, ...]:
    """Return, for every window along one dimension, the maximum, its tap, and its taps along the dimensions in
    `chosen`, which were processed before.
    """
    if isinstance(along, Windows) and along.kernel > UNROLLED and _tiles(along):
        return _first_of_tiles(x, chosen, axis, along)
    if isinstance(along, Bins) and len(along.first) < along.kernel <= UNROLLED:
        return _first_of_bins(x, chosen, axis, along)
    return _first_of_taps(x, chosen, axis, along)


def first_maxima(x: jax.Array, windows: Sequence[Windows | Bins | Starts]) -> tuple[jax.Array, jax.Array]:
    """Return the maximum of every window, in the dtype of x, and the int32 index of this maximum in the flattened
    plane. The maximum is differentiable.
    """
    sizes, ndim = x.shape[-len(windows) :], len(windows)
    top = lax.stop_gradient(x)
    chosen: tuple[jax.Array, ...] = ()  # the taps along the dimensions already processed
    for axis in range(-1, -ndim - 1, -1):
        top, *taps = _first_along(top, chosen, axis, windows[axis])
        chosen = tuple(taps)
    places: jax.Array | int = 0
    for axis, tap, size in zip(range(-ndim, 0), chosen, sizes, strict=True):
        along = windows[axis]
        place = jnp.asarray(along.starts(axis), jnp.int32) + tap.astype(jnp.int32) * along.dilation
        last = _along(np.array(along.ends, np.int32) - 1, axis) if isinstance(along, Bins) else size - 1
        places = places * size + jnp.clip(place, 0, last)
    places = jnp.asarray(places)
    return _chosen(ndim, x, top, places), places


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _chosen(ndim: int, x: jax.Array, top: jax.Array, places: jax.Array) -> jax.Array:
    """Return `top`, the entries of x at the indices `places`. The derivative is that of `pick(x, places, ndim)`."""
    return top


@_chosen.defjvp
def _chosen_jvp(
    ndim: int, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    x, top, places = primals
    return _chosen(ndim, x, top, places), pick(tangents[0], places, ndim)


def pick(x: jax.Array, places: jax.Array, ndim: int) -> jax.Array:
    """Return the entries of x at the indices `places` of every flattened plane (the last `ndim` dimensions of x). All
    indices must be in range.
    """
    count = math.prod(x.shape[:-ndim])  # one dimension for all planes is faster than two on CPU
    flat = reshaped(x, (count, math.prod(x.shape[-ndim:])))
    wanted = reshaped(places, (count, math.prod(places.shape[-ndim:])))
    return reshaped(jnp.take_along_axis(flat, wanted, 1, mode="promise_in_bounds"), places.shape)


def _first_of_taps(
    x: jax.Array, chosen: tuple[jax.Array, ...], axis: int, along: Windows | Bins | Starts
) -> tuple[jax.Array, ...]:
    """Compute the result of `_first_along` tap by tap. One shifted slice of x reads the same tap of all windows."""
    counter: Any = jnp.uint8 if along.kernel <= 256 else jnp.int32
    if isinstance(along, Windows):
        x, *rest = (_pad(a, axis, along) for a in (x, *chosen))
        chosen = tuple(rest)

    def step(tap: int | jax.Array, best: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        other, *others = (along.tap(a, axis, tap) for a in (x, *chosen))
        wins = (other > best[0]) | jnp.isnan(other)
        if isinstance(along, Windows) and along.pad > 0:  # after padding alone, even -inf wins
            wins |= along.starts(axis) + (tap - 1) * along.dilation < 0
        new = (other, jnp.asarray(tap, counter), *others)
        return tuple(jnp.where(wins, a, b) for a, b in zip(new, best, strict=True))

    value, *rest = (along.tap(a, axis, 0) for a in (x, *chosen))
    best = (value, jnp.zeros_like(value, counter), *rest)
    if along.kernel > UNROLLED:
        return lax.fori_loop(1, along.kernel, step, best)
    for tap in range(1, along.kernel):
        best = step(tap, best)
    return best


def _tiles(along: Windows) -> bool:
    """Return whether the windows are adjacent, with no overlap, gap or padding."""
    return along.dilation == 1 and along.pad == 0 and (along.stride == along.kernel or along.size == 1)


def _first_of_tiles(x: jax.Array, chosen: tuple[jax.Array, ...], axis: int, along: Windows) -> tuple[jax.Array, ...]:
    split = lambda a: _split(_pad(a, axis, along), axis, along.size, along.kernel)
    return _first(split(x), tuple(split(a) for a in chosen), axis)


def _first_of_bins(x: jax.Array, chosen: tuple[jax.Array, ...], axis: int, along: Bins) -> tuple[jax.Array, ...]:
    """Compute the result of `_first_along` bin by bin. For a few short bins on CPU, this loop takes a third of the time
    of `_first_of_taps`.
    """
    found = []
    for start, end in zip(along.first, along.ends, strict=True):
        cut = lambda a, start=start, end=end: lax.slice_in_dim(a, start, end, axis=axis)
        found.append(_first(cut(x), tuple(cut(a) for a in chosen), axis))
    return tuple(jnp.stack(parts, axis) for parts in zip(*found, strict=True))


def _first(x: jax.Array, chosen: tuple[jax.Array, ...], axis: int) -> tuple[jax.Array, ...]:
    """Return the maximum of x over `axis`, its position along this axis, and the entries of all `chosen` arrays at this
    position. The axis is removed from all results.
    """
    taps = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim + axis)
    last_nan = jnp.where(jnp.isnan(x), taps, -1).max(axis, keepdims=True)
    top = jnp.where(last_nan < 0, x.max(axis, keepdims=True), jnp.nan)  # see `maximum`
    first_top = jnp.where(x == top, taps, x.shape[axis]).min(axis, keepdims=True)
    place = jnp.where(last_nan < 0, first_top, last_nan)
    return tuple(a.squeeze(axis) for a in (top, place, *(jnp.take_along_axis(c, place, axis) for c in chosen)))


def _pad(x: jax.Array, axis: int, along: Windows) -> jax.Array:
    """Pad x along `axis` as its windows require. The fill value is -inf, or 0 if x contains taps. Padding is never
    chosen as a maximum.
    """
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (along.pad, along.overhang(x.shape[axis]), 0)
    fill = -jnp.inf if jnp.issubdtype(x.dtype, jnp.floating) else 0
    return lax.pad(x, jnp.array(fill, x.dtype), widths)


def _split(x: jax.Array, axis: int, size: int, kernel: int) -> jax.Array:
    """Split an axis of x into two axes of lengths `size` and `kernel`. The axis of length `kernel` then has the number
    `axis`, which is negative.
    """
    at = x.ndim + axis
    return reshaped(x, (*x.shape[:at], size, kernel, *x.shape[at + 1 :]))


def _along(vector: jax.Array | np.ndarray, axis: int) -> Any:
    """Append dimensions of size 1 to an array (…, size), so that its last dimension becomes dimension `axis` (a
    negative number).
    """
    return vector.reshape(*vector.shape, *(1,) * (-axis - 1))
