"""Padding: the last dimension first, as torch lists it."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks

__all__ = ["pad"]

_NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def pad(input: jax.Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> jax.Array:
    """Adds entries before and after the last dimensions; a negative number takes them away.

    Args:
        input: any shape and dtype.
        pad: (left of the last dimension, right of it, left of the last but one, …).
        mode: 'constant'; 'reflect' (without the edge itself, pad < size); 'replicate'; 'circular' (pad <= size).
        value: what 'constant' fills with; None is 0.

    Returns:
        The input's dtype, with sizes grown by the pads.

    Raises:
        ValueError: an odd number of pads, more than there are dimensions, too large for the mode, or another mode.

    Differs from torch: the modes other than 'constant' take any number of dimensions.

    Example:
        >>> pad(jnp.array([1, 2, 3]), (2, 1), mode="reflect")
        Array([3, 2, 1, 2, 3, 2], dtype=int32)

    Reference: torch.nn.functional.pad.
    """
    input = jnp.asarray(input)
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ValueError(
            f"F.pad: pad does not fit input; expected two numbers a dimension, for at most {input.ndim}, "
            f"got {tuple(pad)}. List the last dimension first: (left, right, top, bottom, …)."
        )
    if mode != "constant" and mode not in _NUMPY_MODES:
        raise ValueError(
            f"F.pad: mode is unknown; expected 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}. "
            "Choose one of the four."
        )
    if mode != "constant" and value:
        raise ValueError(
            f"F.pad: value is for constant padding; expected None with mode={mode!r}, got {value}. Leave it out."
        )
    amounts = [checks.as_int("F.pad", "pad", amount) for amount in pad]
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs[::-1]
    sizes = [size + low + high for size, (low, high) in zip(input.shape, widths, strict=True)]
    if min(sizes, default=0) < 0:
        raise ValueError(
            f"F.pad: pad takes away more than there is; expected sizes of at least 0, got {tuple(sizes)} from "
            f"{input.shape}. Use smaller negative pads."
        )
    if mode == "constant":
        fill = jnp.asarray(0 if value is None else value).astype(input.dtype)
        return lax.pad(input, fill, [(low, high, 0) for low, high in widths])
    cropped = lax.pad(input, jnp.zeros((), input.dtype), [(min(low, 0), min(high, 0), 0) for low, high in widths])
    grown = [(max(low, 0), max(high, 0)) for low, high in widths]
    for size, pair in zip(cropped.shape, grown, strict=True):
        _check_room(size, pair, mode, input.shape)
    return jnp.pad(cropped, grown, mode=_NUMPY_MODES[mode])


def _check_room(size: int, pair: tuple[int, int], mode: str, shape: tuple[int, ...]) -> None:
    most = {"reflect": size - 1, "circular": size, "replicate": max(pair) if size else 0}[mode]
    if max(pair) > max(most, 0):
        raise ValueError(
            f"F.pad: pad is too large for mode={mode!r}; expected at most {most} for a dimension of {size}, "
            f"got {pair} on input {shape}. There is nothing further to copy: pad less."
        )
