"""What the functions ask of their arguments, and the words in which they refuse.

Every message reads `<where>: <what>; expected <X>, got <Y>. <what to do>.` with torch's reason in our words.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "as_tuple",
    "at_least_float32",
    "floating",
    "ids_in_range",
    "integers",
    "one_dtype",
    "reduction_name",
    "shape_of",
]


def at_least_float32(array: jax.Array) -> Any:
    """The dtype to compute norms, softmax and reductions in: float32, or the array's own if that is wider."""
    return array.dtype if jnp.finfo(array.dtype).bits > 32 else jnp.dtype(jnp.float32)


def floating(where: str, name: str, array: Any) -> jax.Array:
    """`array` as a jax.Array of a floating dtype, else TypeError."""
    array = jnp.asarray(array)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"{where}: {name} must hold floating-point numbers; expected float32, bfloat16 or the like, "
            f"got {array.dtype}. Convert it, as in {name}.astype(jnp.float32)."
        )
    return array


def integers(where: str, name: str, array: Any) -> jax.Array:
    """`array` as a jax.Array of an integer dtype, else TypeError."""
    array = jnp.asarray(array)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(
            f"{where}: {name} must hold integers; expected int32 or the like, got {array.dtype}. "
            f"Convert it, as in {name}.astype(jnp.int32)."
        )
    return array


def one_dtype(where: str, **arrays: jax.Array | None) -> None:
    """TypeError unless all the arrays have one dtype: as in torch, nothing is promoted behind your back."""
    given = {name: array.dtype for name, array in arrays.items() if array is not None}
    if len(set(given.values())) > 1:
        shown = ", ".join(f"{name} {dtype}" for name, dtype in given.items())
        raise TypeError(
            f"{where}: the dtypes differ; expected one dtype, got {shown}. "
            "Cast the input, or the parameters with funcnet.tree.cast(params, dtype)."
        )


def shape_of(where: str, name: str, array: jax.Array | None, shape: Sequence[int], why: str) -> None:
    """ValueError unless `array` is None or has exactly `shape`."""
    if array is not None and tuple(array.shape) != tuple(shape):
        raise ValueError(
            f"{where}: {name} has the wrong shape; expected {tuple(shape)}, got {tuple(array.shape)}. {why}"
        )


def as_tuple(where: str, name: str, value: int | Sequence[int], length: int) -> tuple[int, ...]:
    """`value` as `length` ints; one int stands for all of them."""
    if isinstance(value, int | np.integer):
        return (int(value),) * length
    out = tuple(int(v) for v in value)
    if len(out) == 1:
        return out * length
    if len(out) != length:
        raise ValueError(
            f"{where}: {name} has the wrong length; expected one int or {length}, got {out}. "
            "Give one number for every spatial dimension."
        )
    return out


def reduction_name(where: str, reduction: str) -> str:
    """`reduction` if it is one of torch's three."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"{where}: reduction is unknown; expected 'none', 'mean' or 'sum', "
            f"got {reduction!r}. Choose one of the three."
        )
    return reduction


def ids_in_range(where: str, name: str, ids: jax.Array, size: int, ignore: int | None = None) -> None:
    """ValueError if an id lies outside [0, size): only where the ids are known, not under `jit`, `vmap` or `grad`."""
    if isinstance(ids, jax.core.Tracer) or not ids.is_fully_addressable or ids.size == 0:
        return
    known = np.asarray(ids)
    if ignore is not None:
        known = known[known != ignore]
    if known.size and (known.min() < 0 or known.max() >= size):
        raise ValueError(
            f"{where}: {name} is out of range; expected 0 to {size - 1}, got {known.min()} to {known.max()}. "
            "Check the vocabulary or the number of classes; negative ids do not count from the end."
        )
