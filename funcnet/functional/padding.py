"""Padding. As in torch, the amounts of padding are listed from the last dimension to the first."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks

__all__ = ["pad", "repeat_edges"]

_MODES = ("constant", "reflect", "replicate", "circular")


def pad(input: jax.Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> jax.Array:
    """Pad the last dimensions of an array at both ends. A negative amount removes entries.

    Args:
        input: array of any dtype. 'constant' accepts any shape. Modes other than 'constant' require (batch, channel,
            *spatial) or (channel, *spatial) with one to three spatial dimensions.
        pad: amounts (left, right) for the last dimension, then for the dimension before it, and so on. All modes except
            'constant' require amounts for all spatial dimensions.
        mode: 'constant', 'reflect', 'replicate' or 'circular'. 'reflect' does not repeat the edge, and its amounts must
            be less than the size of the dimension. The amounts for 'circular' must not exceed the size of the
            dimension.
        value: fill value for 'constant', cast to the input's dtype; None means 0.

    Returns:
        The padded array, of the input's dtype.

    Raises:
        ValueError: if the number of amounts is odd or does not match the dimensions, an amount is too large or too
            negative, `mode` is unknown, `value` is given for a mode other than 'constant', the input has no entries to
            copy, or the dtype cannot represent `value`.
        TypeError: if an amount is not an integer.

    Example:
        >>> pad(jnp.array([[1, 2, 3]]), (2, 1), mode="reflect")
        Array([[3, 2, 1, 2, 3, 2]], dtype=int32)

    Reference: torch.nn.functional.pad.
    """
    input = jnp.asarray(input)
    amounts = [checks.as_int("F.pad", "pad", amount) for amount in checks.entries(pad, 1)]
    if len(amounts) % 2 or len(amounts) > 2 * input.ndim:
        raise ValueError(
            f"F.pad: pad does not fit input; expected two numbers per dimension, for at most {input.ndim} dimensions, "
            f"got {tuple(amounts)}. List the last dimension first: (left, right, top, bottom, …)."
        )
    if mode not in _MODES:
        raise ValueError(
            f"F.pad: mode is unknown; expected 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}."
        )
    if mode != "constant" and value:
        raise ValueError(f"F.pad: value requires mode='constant'; expected value=None with mode={mode!r}, got {value}.")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    if mode != "constant":
        _check_copying(input.shape, pairs, mode)
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs
    cut = [(min(low, 0), min(high, 0)) for low, high in widths]
    # Negative constant pads are applied first. Entries added on one side cannot compensate for those removed.
    changes = cut if mode == "constant" else widths
    sizes = [size + low + high for size, (low, high) in zip(input.shape, changes, strict=True)]
    known = [size for size in sizes if isinstance(size, int)]  # the sizes of `jax.export` may be symbolic
    # As in torch, the modes that copy require that at least one padded dimension is not empty afterwards.
    last = sizes[input.ndim - len(pairs) :]
    empty = mode in ("reflect", "replicate") and all(isinstance(size, int) and size < 1 for size in last)
    if empty or min(known, default=0) < 0:
        raise ValueError(
            f"F.pad: pad removes more entries than exist; expected output sizes of at least {int(empty)}, got "
            f"{tuple(sizes)} for an input of shape {input.shape}. Use negative pads that remove fewer entries."
        )
    if mode == "constant":
        checks.fits("F.pad", "value", value or 0, input.dtype)
        fill = jnp.asarray(0 if value is None else value).astype(input.dtype)
        return lax.pad(input, fill, [(low, high, 0) for low, high in widths])
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    if mode == "circular":  # torch removes entries before it wraps, but after it reflects or replicates
        kept = _cut(input, cut)
        _check_room(kept.shape, grown, mode)
        return _wrapped(kept, grown)
    padded = repeat_edges(input, grown) if mode == "replicate" else jnp.pad(input, grown, mode="reflect")
    return _cut(padded, cut)


def repeat_edges(x: jax.Array, widths: Sequence[tuple[int, int]]) -> jax.Array:
    """Return `jnp.pad(x, widths, mode="edge")`. Unlike `jnp.pad`, `repeat_edges` does not slice dimensions that get no
    padding, because JAX raises an error for a slice of a sharded batch.

    Example:
        >>> repeat_edges(jnp.arange(3), [(2, 0)])
        Array([0, 0, 0, 1, 2], dtype=int32)
    """
    for axis, (low, high) in enumerate(widths):
        if low or high:
            first, last = (lax.slice_in_dim(x, n, n + 1, axis=axis) for n in (0, x.shape[axis] - 1))
            x = jnp.concatenate([jnp.repeat(first, low, axis), x, jnp.repeat(last, high, axis)], axis)
    return x


def _wrapped(x: jax.Array, widths: list[tuple[int, int]]) -> jax.Array:
    """Return `jnp.pad(x, widths, mode="wrap")`. No padding width may exceed the size of its dimension. The sizes may be
    symbolic sizes of `jax.export`.
    """
    for axis, (low, high) in enumerate(widths):
        if low or high:
            n = x.shape[axis]
            before, after = lax.slice_in_dim(x, n - low, n, axis=axis), lax.slice_in_dim(x, 0, high, axis=axis)
            x = jnp.concatenate([before, x, after], axis)
    return x


def _cut(x: jax.Array, amounts: list[tuple[int, int]]) -> jax.Array:
    for axis, (before, after) in enumerate(amounts):
        if before or after:
            low = min(-before, x.shape[axis])
            x = lax.slice_in_dim(x, low, max(x.shape[axis] + after, low), axis=axis)
    return x


def _check_copying(shape: tuple[int, ...], pairs: list[tuple[int, int]], mode: str) -> None:
    """As torch does, check the rank and the sizes of the input for the padding modes that copy entries of the input."""
    spatial = len(pairs)
    if spatial not in (1, 2, 3) or len(shape) not in (spatial + 1, spatial + 2):
        raise ValueError(
            f"F.pad: mode {mode!r} does not support this input and pad; expected 2, 4 or 6 numbers, for all spatial "
            f"dimensions of (batch, channel, *spatial) or (channel, *spatial), got {2 * spatial} for an input of shape "
            f"{shape}. Pass 0 for dimensions that are not padded, or add a dimension to the input."
        )
    if mode == "circular":
        return  # checked after the negative pads are applied
    if 0 in (shape[1:] if len(shape) == spatial + 2 else shape):
        raise ValueError(
            "F.pad: there is nothing to copy; expected a size of at least 1 in each dimension but the first, got shape "
            f"{shape}. Skip empty inputs, or use mode='constant'."
        )
    if mode == "reflect":
        _check_room(shape[-spatial:], pairs, mode)


def _check_room(sizes: tuple[int, ...], pairs: list[tuple[int, int]], mode: str) -> None:
    for size, pair in zip(sizes, pairs, strict=True):
        most = size - 1 if mode == "reflect" else size
        if isinstance(size, int) and max(pair) > max(most, 0):
            raise ValueError(
                f"F.pad: pad is too large for mode={mode!r}; expected at most {most} for a dimension of size {size}, "
                f"got {pair}."
            )
