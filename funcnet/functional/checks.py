"""Checks of arguments, and their error messages.

In all functions of this file, `where` is the name of the function that the user called, and `name` is the name of the
checked argument. Every message reads `<where>: <what is wrong>; expected <X>, got <Y>.`, followed by advice if advice
helps.
"""

import contextlib
import operator
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from funcnet.random import MissingKey, Rate

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
    "probability",
    "real",
    "reduction_name",
    "shape_of",
    "spatial",
    "wide_dtype",
]

Ints = int | Sequence[int]


def wide_dtype(array: jax.Array) -> Any:
    """Return the dtype for norms, softmax and reductions of `array`: float32, or the array's dtype if it is wider."""
    return array.dtype if jnp.finfo(array.dtype).bits > 32 else jnp.dtype(jnp.float32)


def _array(where: str, name: str, value: Any) -> jax.Array:
    """Return `value` as a jax.Array, or raise TypeError. Lists and tuples of numbers or scalar arrays are converted.

    A list or tuple that contains an array of one or more dimensions is an error.
    """
    parts = value if type(value) in (list, tuple) else ()
    if value is None or type(value) in (dict, str) or any(getattr(part, "shape", ()) != () for part in parts):
        advices: dict[type, str] = {
            tuple: " Pass one of its items. An nn.LSTM, for example, returns (output, states).",
            list: f" Join the arrays: jnp.stack({name}).",
            dict: " Pass one of its values.",
        }
        advice = advices.get(type(value), "")
        raise TypeError(f"{where}: {name} is not an array; expected an array, got {type(value).__name__}.{advice}")
    return jnp.asarray(value)


def floating(where: str, name: str, array: ArrayLike | Sequence[Any]) -> jax.Array:
    """Return `array` as a jax.Array of a floating-point dtype, or raise TypeError."""
    array = _array(where, name, array)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise TypeError(
            f"{where}: {name} must hold floating-point numbers; expected a dtype such as float32 or bfloat16, got "
            f"{array.dtype}. Convert it with {name}.astype(jnp.float32)."
        )
    return array


def numbers(where: str, name: str, array: ArrayLike | Sequence[Any]) -> jax.Array:
    """Return `array` as a jax.Array of any numeric dtype except bool, or raise TypeError."""
    array = _array(where, name, array)
    if array.dtype == bool:
        raise TypeError(
            f"{where}: {name} must hold numbers; expected a dtype such as float32 or int32, got bool. Convert it with "
            f"{name}.astype(jnp.float32)."
        )
    return array


def real(where: str, name: str, array: ArrayLike | Sequence[Any]) -> jax.Array:
    """Return `array` as a jax.Array of a floating-point or integer dtype, or raise TypeError."""
    array = numbers(where, name, array)
    if jnp.iscomplexobj(array):
        raise TypeError(
            f"{where}: {name} must hold real numbers; expected a dtype such as float32 or int32, got {array.dtype}. "
            f"Take the real or the imaginary part, as in {name}.real."
        )
    return array


def integers(where: str, name: str, array: ArrayLike | Sequence[Any]) -> jax.Array:
    """Return `array` as a jax.Array of int32 or int64, or raise TypeError.

    Narrow and unsigned integers are widened, because callers compare them with numbers that a narrow or unsigned dtype
    cannot represent. In uint8, an `ignore_index` of -100 would be 156, and class 300 would be class 44.
    """
    array = _array(where, name, array)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(
            f"{where}: {name} must hold integers; expected a dtype such as int32, got {array.dtype}. Convert it with "
            f"{name}.astype(jnp.int32)."
        )
    if array.dtype in (jnp.int32, jnp.int64):
        return array
    return array.astype(jnp.int32 if array.dtype.itemsize < 4 else jax.dtypes.canonicalize_dtype(jnp.int64))


def key(where: str, rng: jax.Array | None) -> jax.Array:
    """Return `rng`, the key with which the caller draws random numbers, or raise ValueError if the key is missing."""
    if rng is None:
        raise ValueError(
            f"{where}: the function needs randomness; expected a key, got rng=None. Pass a new key in every call: "
            "rng=key, or rng=self.make_rng() inside a module's forward, in training and in evaluation."
        )
    if isinstance(rng, MissingKey):
        raise ValueError(rng.message)
    return rng


def draws(p: Rate) -> bool:
    """Return whether dropout with probability `p` draws random numbers. It does not if `p` is the number 0 or 1."""
    return isinstance(p, jax.core.Tracer) or bool(0 < p < 1)


def probability(where: str, name: str, p: Rate) -> Rate:
    """Return the probability `p`, or raise a ValueError if `p` is outside [0, 1] or not a number. The range of a traced
    `p` is not checked.
    """
    if isinstance(p, jax.core.Tracer):
        return p
    with contextlib.suppress(TypeError, ValueError):  # `p` is not a number
        if 0 <= p <= 1:
            return p
    raise ValueError(f"{where}: {name} is not a probability; expected a number from 0 to 1, got {p!r}.")


def one_dtype(where: str, **arrays: jax.Array | None) -> None:
    """Raise TypeError unless all arrays have the same dtype. As in torch, no dtype is promoted silently.

    The dtypes are compared after JAX's conversion. Without x64, a NumPy array of float64 therefore counts as float32.
    """
    given = {n: jax.dtypes.canonicalize_dtype(array.dtype) for n, array in arrays.items() if array is not None}
    if len(set(given.values())) > 1:
        shown = ", ".join(f"{name} {dtype}" for name, dtype in given.items())
        raise TypeError(
            f"{where}: the dtypes differ; expected one dtype, got {shown}. "
            "Cast the input, or cast the parameters with funcnet.tree.cast(params, dtype)."
        )


def shape_of(where: str, name: str, array: jax.Array | None, shape: Sequence[int], why: str) -> None:
    """Raise ValueError if the shape of `array` is not `shape`. An array of None is accepted. The error message ends
    with the text `why`.
    """
    if array is not None and tuple(array.shape) != tuple(shape):
        raise ValueError(
            f"{where}: {name} has the wrong shape; expected {tuple(shape)}, got {tuple(array.shape)}. {why}"
        )


def spatial(where: str, input: ArrayLike, ndim: int, *, empty: bool = True) -> jax.Array:
    """Return `input` as a floating-point jax.Array with `ndim` spatial dimensions, or raise an error.

    The shape must be (batch, channel, *spatial) or (channel, *spatial). If `empty` is True, a spatial size of 0 is
    accepted.
    """
    input = floating(where, "input", input)
    if input.ndim not in (ndim + 1, ndim + 2) or (not empty and 0 in input.shape[-ndim:]):
        raise ValueError(
            f"{where}: input has the wrong {'rank' if empty else 'shape'}; expected {ndim + 2} dimensions (batch, "
            f"channel, *spatial) or {ndim + 1} without the batch{'' if empty else ', with no spatial size of 0'}, got "
            f"shape {input.shape}."
        )
    return input


def entries(value: object, length: int) -> tuple[Any, ...]:
    """Return the entries of a sequence, or `length` copies of a value that is not a sequence."""
    return tuple(value) if isinstance(value, Iterable) and getattr(value, "ndim", None) != 0 else (value,) * length


def as_int(where: str, name: str, value: Any) -> int:
    """Return `value` as an int, or raise TypeError. NumPy integers and the symbolic sizes of `jax.export` are accepted,
    but floats are not."""
    if isinstance(value, jax.core.Tracer):
        return operator.index(value)  # JAX's own error explains a traced number best
    try:
        return operator.index(value)
    except TypeError:
        if jax.export.is_symbolic_dim(value):
            return value  # type: ignore[return-value]  # a symbolic size can be used in place of an int
        raise TypeError(
            f"{where}: {name} is not an integer; expected int, got {value!r}. Convert it with int({name})."
        ) from None


def as_tuple(where: str, name: str, value: Ints, length: int, least: int | None = None) -> tuple[int, ...]:
    """Return `value` as a tuple of `length` ints, each at least `least`. A single int is repeated `length` times."""
    out = tuple(as_int(where, name, v) for v in entries(value, length))
    out = out * length if len(out) == 1 else out
    if len(out) != length:
        raise ValueError(
            f"{where}: {name} has the wrong length; expected one int or {length} ints, got {out}. "
            "Pass one number for each spatial dimension."
        )
    if least is not None and min(out) < least:
        raise ValueError(f"{where}: {name} is too small; expected at least {least}, got {out}.")
    return out


def padding_pairs(
    where: str, padding: Ints | str, kernels: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial dimension of a convolution."""
    if not isinstance(padding, str):
        return [(p, p) for p in as_tuple(where, "padding", padding, len(kernels), least=0)]
    if padding == "valid":
        return [(0, 0)] * len(kernels)
    if padding != "same":
        raise ValueError(f"{where}: padding is unknown; expected 'same', 'valid' or numbers, got {padding!r}.")
    if max(strides) > 1:
        raise ValueError(
            f"{where}: padding='same' does not support a stride; expected stride 1, got {tuple(strides)}. Pass padding "
            "as numbers."
        )
    spans = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
    return [(span // 2, span - span // 2) for span in spans]  # an odd total pads more on the right


def fits(where: str, name: str, value: object, dtype: DTypeLike) -> None:
    """Raise ValueError if the number `value` is outside the range of `dtype`. A traced value is not checked."""
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
            f"{value}. Convert the input to another dtype, or pass another number."
        )


def reduction_name(
    where: str, reduction: str, size_average: bool | None = None, reduce: bool | None = None, stacklevel: int = 4
) -> str:
    """Return `reduction`, or raise ValueError if it is not 'none', 'mean' or 'sum'.

    If one of torch's deprecated arguments `size_average` and `reduce` is given, it overrides `reduction`, and a
    DeprecationWarning with the given `stacklevel` is issued. The default is that of a public function, whose wrapper is
    a level too (`operators/graph/recording.py`). If `size_average` or `reduce` is an array, a TypeError is raised.
    """
    if hasattr(size_average, "shape") or hasattr(reduce, "shape"):
        raise TypeError(
            f"{where}: size_average or reduce is an array; expected a bool or None, got an array. Create the loss "
            "first, then call it: nn.MSELoss()(input, target)."
        )
    if size_average is not None or reduce is not None:
        whole = "mean" if size_average is None or size_average else "sum"
        reduction = whole if reduce is None or reduce else "none"
        warnings.warn(
            f"{where}: size_average and reduce are deprecated, as in torch; pass reduction={reduction!r} instead.",
            DeprecationWarning,
            stacklevel,
        )
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{where}: reduction is unknown; expected 'none', 'mean' or 'sum', got {reduction!r}.")
    return reduction


def known(array: jax.Array) -> bool:
    """Return whether `array` is not empty and NumPy can read its numbers.

    NumPy cannot read the numbers of a traced array, as under `jit`, `vmap` or `grad`. NumPy cannot read numbers on
    devices of other processes either. Callers must check the numbers with NumPy, because under `jit` the results of
    jax.numpy are always traced.
    """
    return not isinstance(array, jax.core.Tracer) and array.is_fully_addressable and array.size > 0


def in_unit_interval(where: str, name: str, array: jax.Array) -> None:
    """Raise ValueError if an entry of the array is outside [0, 1]. An array whose numbers NumPy cannot read (see
    `known`) is not checked.
    """
    if not known(array):
        return
    looked_at = np.asarray(array)
    if not np.all((looked_at >= 0) & (looked_at <= 1)):
        raise ValueError(
            f"{where}: {name} does not hold probabilities; expected values between 0 and 1, got values from "
            f"{looked_at.min()} to {looked_at.max()}. Pass probabilities, such as the output of a sigmoid."
        )


def ids_in_range(where: str, name: str, ids: jax.Array, size: int, ignore: int | None = None) -> None:
    """Raise ValueError if an id is outside [0, size) and differs from `ignore`. Ids that NumPy cannot read (see
    `known`), such as those under `jit`, are not checked.
    """
    if not known(ids):
        return
    looked_at = np.asarray(ids)
    if ignore is not None:
        looked_at = looked_at[looked_at != ignore]
    if looked_at.size and (looked_at.min() < 0 or looked_at.max() >= size):
        raise ValueError(
            f"{where}: {name} is out of range; expected values from 0 to {size - 1}, got values from {looked_at.min()} "
            f"to {looked_at.max()}. Check the vocabulary size or the number of classes. Negative ids do not count from "
            "the end."
        )
