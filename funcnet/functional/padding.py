"""Padding: the last dimension first, as torch lists it."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks

__all__ = ["pad"]

_NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: jax.Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> jax.Array:
    """Adds entries before and after the last dimensions; a negative number removes them.

    Args:
        input: any dtype; any shape for 'constant', else (batch, channel, *spatial) or (channel, *spatial) with one
            to three spatial dimensions.
        pad: (left of the last dimension, right of it, left of the last but one, …); all spatial dimensions, but for
            'constant'.
        mode: 'constant'; 'reflect' (without the edge itself, pad < size); 'replicate'; 'circular' (pad <= size).
        value: what 'constant' fills with, cast to the input's dtype; None is 0.

    Returns:
        The input's dtype, with sizes grown by the pads.

    Raises:
        ValueError: an odd number of pads, more than there are dimensions or other than the mode's, too large ones for
            the mode, another mode, an input of size 0 with nothing to copy, or a value that the dtype does not hold.
        TypeError: pads that are no integers.

    Example:
        >>> pad(jnp.array([[1, 2, 3]]), (2, 1), mode="reflect")
        Array([[3, 2, 1, 2, 3, 2]], dtype=int32)

    Reference: torch.nn.functional.pad.
    """
    input = jnp.asarray(input)
    amounts = [checks.as_int("F.pad", "pad", amount) for amount in checks.entries(pad, 1)]
    if len(amounts) % 2 or len(amounts) > 2 * input.ndim:
        raise ValueError(
            f"F.pad: pad does not fit input; expected two numbers a dimension, for at most {input.ndim}, "
            f"got {tuple(amounts)}. List the last dimension first: (left, right, top, bottom, …)."
        )
    if mode != "constant" and mode not in _NUMPY_MODES:
        raise ValueError(
            f"F.pad: mode is unknown; expected 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}."
        )
    if mode != "constant" and value:
        raise ValueError(f"F.pad: value is for constant padding; expected None with mode={mode!r}, got {value}.")
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    if mode != "constant":
        _check_copying(input.shape, pairs, mode)
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs
    cut = [(min(low, 0), min(high, 0)) for low, high in widths]
    # Negative constant pads are applied first: what is added on one side cannot replace what is missing.
    changes = cut if mode == "constant" else widths
    sizes = [size + low + high for size, (low, high) in zip(input.shape, changes, strict=True)]
    # The modes that copy must leave something in at least one dimension, as in torch.
    empty = mode in ("reflect", "replicate") and max(sizes[input.ndim - len(pairs) :]) < 1
    if empty or min(sizes, default=0) < 0:
        raise ValueError(
            f"F.pad: pad takes away more than there is; expected sizes of at least {int(empty)}, got {tuple(sizes)} "
            f"from {input.shape}. Use smaller negative pads."
        )
    if mode == "constant":
        checks.fits("F.pad", "value", value or 0, input.dtype)
        fill = jnp.asarray(0 if value is None else value).astype(input.dtype)
        return lax.pad(input, fill, [(low, high, 0) for low, high in widths])
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    if mode == "circular":  # torch wraps what is left, but reflects and replicates what there was
        kept = _cut(input, cut)
        _check_room(kept.shape, grown, mode)
        return jnp.pad(kept, grown, mode="wrap")
    return _cut(jnp.pad(input, grown, mode=_NUMPY_MODES[mode]), cut)


def _cut(x: jax.Array, amounts: list[tuple[int, int]]) -> jax.Array:
    low = [min(-before, n) for (before, _), n in zip(amounts, x.shape, strict=True)]
    high = [max(n + after, start) for (_, after), n, start in zip(amounts, x.shape, low, strict=True)]
    return lax.slice(x, low, high)


def _check_copying(shape: tuple[int, ...], pairs: list[tuple[int, int]], mode: str) -> None:
    """Checks for the modes that copy entries: torch's ranks, and something to copy."""
    spatial = len(pairs)
    if spatial not in (1, 2, 3) or len(shape) not in (spatial + 1, spatial + 2):
        raise ValueError(
            f"F.pad: mode {mode!r} is not for this input and pad; expected 2, 4 or 6 numbers, for all spatial "
            f"dimensions of (batch, channel, *spatial) or (channel, *spatial), got {2 * spatial} for {shape}. "
            "Pad by 0 what is to stay, or add a dimension."
        )
    if mode == "circular":
        return  # it is checked when the negative pads are off
    if 0 in (shape[1:] if len(shape) == spatial + 2 else shape):
        raise ValueError(
            f"F.pad: there is nothing to copy; expected no dimension of size 0 but the batch, got {shape}. "
            f"Skip what is empty, or pad with mode='constant'."
        )
    if mode == "reflect":
        _check_room(shape[-spatial:], pairs, mode)


def _check_room(sizes: tuple[int, ...], pairs: list[tuple[int, int]], mode: str) -> None:
    for size, pair in zip(sizes, pairs, strict=True):
        most = size - 1 if mode == "reflect" else size
        if max(pair) > max(most, 0):
            raise ValueError(
                f"F.pad: pad is too large for mode={mode!r}; expected at most {most} for a dimension of {size}, "
                f"got {pair}. There is nothing further to copy: pad less."
            )
