"""`Tensor.to` for calls whose source code does not show whether the target is a dtype, an array or a device."""

from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["to"]


def to(input: jax.Array, target: Any) -> jax.Array:
    """Cast an array to a dtype, or to the dtype of another array. If the target is a device, the array is returned
    unchanged.

    Args:
        input: array of any shape.
        target: a dtype, an array, or a device: a `jax.Device`, its name, its number or None.

    Returns:
        An array of the same shape.

    Raises:
        TypeError: if the target is the name of a dtype. Torch reads every string as a device.

    Differs from torch:
        The array stays on its device. For a dtype, `input.astype(dtype)` does the same.

    Example:
        >>> to(jnp.arange(2), jnp.float32).dtype, to(jnp.arange(2), None).dtype
        (dtype('float32'), dtype('int32'))

    Reference: torch.Tensor.to.
    """
    if isinstance(target, str) and _is_dtype(target):
        raise TypeError(
            f"tl.to: target is the name of a dtype; expected a dtype, an array or a device, got {target!r}. Write "
            f"jnp.dtype({target.removeprefix('torch.')!r})."
        )
    if target is None or isinstance(target, str | int | jax.Device):
        return input
    if isinstance(target, jax.Array):
        return input.astype(target.dtype)
    return input.astype(jnp.dtype(target))


def _is_dtype(name: str) -> bool:
    try:
        jnp.dtype(name.removeprefix("torch."))
    except (TypeError, ValueError):
        return False
    return True
