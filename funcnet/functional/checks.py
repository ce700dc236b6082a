"""Checks of arguments, with their error messages.

Every message reads `<where>: <what is wrong>; expected <X>, got <Y>.`, followed by what to do where that helps.
"""

import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "as_int",
    "as_tuple",
    "entries",
    "fits",
    "floating",
    "ids_in_range",
    "in_unit_interval",
    "integers",
    "key",
    "known",
    "numbers",
    "one_dtype",
    "padding_pairs",
    "real",
    "reduction_name",
    "shape_of",
    "spatial",
    "wide_dtype",
]

Ints = int | Sequence[int]


def wide_dtype(array: jax.Array) -> Any:
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


def numbers(where: str, name: str, array: Any) -> jax.Array:
    """`array` as a jax.Array of numbers of any kind, but not of booleans, else TypeError."""
    array = jnp.asarray(array)
    if array.dtype == bool:
        raise TypeError(
            f"{where}: {name} must hold numbers; expected float32, int32 or the like, got bool. "
            f"Convert it, as in {name}.astype(jnp.float32)."
        )
    return array


def real(where: str, name: str, array: Any) -> jax.Array:
    """`array` as a jax.Array of a floating or integer dtype, else TypeError."""
    array = numbers(where, name, array)
    if jnp.iscomplexobj(array):
        raise TypeError(
            f"{where}: {name} must hold real numbers; expected float32, int32 or the like, got {array.dtype}. "
            f"Take a part of it, as in {name}.real."
        )
    return array


def integers(where: str, name: str, array: Any) -> jax.Array:
    """`array` as a jax.Array of int32 or int64, else TypeError.

    Narrow and unsigned ids are widened, because they are compared with numbers that their own dtype cannot hold: in
    uint8 an `ignore_index` of -100 is 156, and the 300th class is the 44th.
    """
    array = jnp.asarray(array)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(
            f"{where}: {name} must hold integers; expected int32 or the like, got {array.dtype}. "
            f"Convert it, as in {name}.astype(jnp.int32)."
        )
    if array.dtype in (jnp.int32, jnp.int64):
        return array
    return array.astype(jnp.int32 if array.dtype.itemsize < 4 else jax.dtypes.canonicalize_dtype(jnp.int64))


def key(where: str, rng: jax.Array | None) -> jax.Array:
    """`rng` unless it is None, else ValueError: what draws random numbers here and now needs a key."""
    if rng is None:
        raise ValueError(
            f"{where}: needs randomness; expected a key, got rng=None. Pass rng=key, another one at every call; inside "
            "a module's forward rng=self.make_rng(), and for what is random in training alone only if self.training."
        )
    return rng


def one_dtype(where: str, **arrays: jax.Array | None) -> None:
    """TypeError unless all the arrays have one dtype: as in torch, nothing is promoted silently.

    Dtypes are compared as JAX sees them: without x64, numpy's float64 is float32.
    """
    given = {n: jax.dtypes.canonicalize_dtype(array.dtype) for n, array in arrays.items() if array is not None}
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


def spatial(where: str, input: Any, ndim: int, *, empty: bool = True) -> jax.Array:
    """`input` as a floating jax.Array of (batch, channel, *spatial), `ndim` of them, or of (channel, *spatial)."""
    input = floating(where, "input", input)
    if input.ndim not in (ndim + 1, ndim + 2) or (not empty and 0 in input.shape[-ndim:]):
        raise ValueError(
            f"{where}: input has the wrong {'rank' if empty else 'shape'}; expected {ndim + 2} dimensions (batch, "
            f"channel, *spatial) or {ndim + 1} without the batch{'' if empty else ', no spatial one of size 0'}, "
            f"got {input.shape}."
        )
    return input


def entries(value: Any, length: int) -> tuple[Any, ...]:
    """The entries of a sequence, or `length` times a value that is not one."""
    return tuple(value) if isinstance(value, Iterable) and getattr(value, "ndim", None) != 0 else (value,) * length


def as_int(where: str, name: str, value: Any) -> int:
    """`value` as an int: numpy's integers are accepted, floats are not; else TypeError."""
    if isinstance(value, jax.core.Tracer):
        return operator.index(value)  # JAX says best why a traced number is none
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{where}: {name} holds no integer; expected int, got {value!r}. Round it, as in int({name})."
        ) from None


def as_tuple(where: str, name: str, value: Ints, length: int, least: int | None = None) -> tuple[int, ...]:
    """`value` as `length` ints, none below `least`; one int stands for all of them."""
    out = tuple(as_int(where, name, v) for v in entries(value, length))
    out = out * length if len(out) == 1 else out
    if len(out) != length:
        raise ValueError(
            f"{where}: {name} has the wrong length; expected one int or {length}, got {out}. "
            "Give one number for every spatial dimension."
        )
    if least is not None and min(out) < least:
        raise ValueError(f"{where}: {name} is too small; expected at least {least}, got {out}.")
    return out


def padding_pairs(
    where: str, padding: Ints | str, kernels: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """What a convolution adds before and after each spatial dimension."""
    if not isinstance(padding, str):
        return [(p, p) for p in as_tuple(where, "padding", padding, len(kernels), least=0)]
    if padding == "valid":
        return [(0, 0)] * len(kernels)
    if padding != "same":
        raise ValueError(f"{where}: padding is unknown; expected 'same', 'valid' or numbers, got {padding!r}.")
    if max(strides) > 1:
        raise ValueError(
            f"{where}: padding='same' has no meaning with a stride; expected stride 1, got {tuple(strides)}. "
            "Give the padding in numbers."
        )
    spans = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
    return [(span // 2, span - span // 2) for span in spans]  # an odd total pads more on the right


def fits(where: str, name: str, value: Any, dtype: Any) -> None:
    """ValueError if the number `value` lies outside the range of the input's dtype. A traced value is not checked."""
    if isinstance(value, jax.core.Tracer):
        return
    number = np.asarray(value).item()
    limits: Any = None
    if jnp.issubdtype(dtype, jnp.integer):
        limits = jnp.iinfo(dtype)
    elif jnp.issubdtype(dtype, jnp.floating) and np.isfinite(number):
        limits = jnp.finfo(dtype)
    if limits is not None and not float(limits.min) <= number <= float(limits.max):
        raise ValueError(
            f"{where}: {name} does not fit the input's dtype; expected {limits.min} to {limits.max} for {dtype}, got "
            f"{value}. Convert the input, or choose another number."
        )


def reduction_name(
    where: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None, stacklevel: int = 3
) -> str:
    """`reduction`, if it is one of torch's three. The old arguments `size_average` and `reduce` take precedence."""
    if size_average is not None or reduce is not None:
        whole = "mean" if size_average is None or size_average else "sum"
        reduction = whole if reduce is None or reduce else "none"
        warnings.warn(
            f"{where}: size_average and reduce are torch's old names; write reduction={reduction!r}.",
            DeprecationWarning,
            stacklevel,
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{where}: reduction is unknown; expected 'none', 'mean' or 'sum', got {reduction!r}.")
    return reduction


def known(array: jax.Array) -> bool:
    """Whether numpy can read the numbers: not under `jit`, `vmap` or `grad`, nor where other processes hold some of
    them.

    What jax.numpy computes of them is not known while something else is traced.
    """
    return not isinstance(array, jax.core.Tracer) and array.is_fully_addressable and array.size > 0


def in_unit_interval(where: str, name: str, array: jax.Array) -> None:
    """ValueError if a number lies outside [0, 1], where the numbers are known."""
    if not known(array):
        return
    looked_at = np.asarray(array)
    if not np.all((looked_at >= 0) & (looked_at <= 1)):
        raise ValueError(
            f"{where}: {name} is no probability; expected all between 0 and 1, got {looked_at.min()} to "
            f"{looked_at.max()}. Give probabilities, such as those of a sigmoid."
        )


def ids_in_range(where: str, name: str, ids: jax.Array, size: int, ignore: int | None = None) -> None:
    """ValueError if an id lies outside [0, size): only where the ids are known, not under `jit`, `vmap` or `grad`."""
    if not known(ids):
        return
    looked_at = np.asarray(ids)
    if ignore is not None:
        looked_at = looked_at[looked_at != ignore]
    if looked_at.size and (looked_at.min() < 0 or looked_at.max() >= size):
        raise ValueError(
            f"{where}: {name} is out of range; expected 0 to {size - 1}, got {looked_at.min()} to {looked_at.max()}. "
            "Check the vocabulary or the number of classes; negative ids do not count from the end."
        )
