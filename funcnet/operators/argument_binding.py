"""The arguments of one call of an operator: arrays, and values that are part of the compiled program."""

import dataclasses
import functools
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from funcnet.operators.schema import OperatorArgument, Schema, Type

__all__ = ["Settings", "bind_arguments"]

Count = int | None  # of the arrays of a Tensor[] argument; None for a Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of a call that are not arrays. Equal settings share their compiled programs. Therefore 1, 1.0 and
    True are not equal, and neither are 0.0 and -0.0.

    Attributes:
        values: ((name, value), …) for the arguments that are not arrays. An optional `Tensor` that is left out is None.
        arrays: ((name, count), …) for the arguments with arrays, in order.
    """

    values: tuple[tuple[str, Any], ...]
    arrays: tuple[tuple[str, Count], ...]

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """What is compared."""
        return tuple((name, _key(value)) for name, value in self.values), self.arrays

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def arguments(self, arrays: Sequence[Any]) -> dict[str, Any]:
        """Return {name: value} of all arguments. `arrays` is a flat sequence of the arrays of all arguments."""
        found, place = dict(self.values), 0
        for name, count in self.arrays:
            found[name] = arrays[place] if count is None else list(arrays[place : place + count])
            place += 1 if count is None else count
        return found

    def names(self) -> list[str]:
        """Return the name of the argument of each array."""
        return [name for name, count in self.arrays for _ in range(1 if count is None else count)]


def _key(value: object) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, float):
        return float, value.hex()
    return type(value), repr(value) if isinstance(value, complex) else value


def bind_arguments(schema: Schema, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[jax.Array], Settings]:
    """Return the arrays and the other values of a call.

    Raises:
        TypeError: if an argument is missing, unknown, given twice, or has the wrong type.
    """
    where, arguments = schema.full_name, schema.arguments
    positional = [one for one in arguments if not one.is_keyword]
    if len(given) > len(positional):
        raise TypeError(f"{where}: too many arguments; expected at most {len(positional)}, got {len(given)}.")
    values: dict[str, Any] = dict(zip((one.name for one in positional), given, strict=False))
    for name in named:
        if name in values or name not in {one.name for one in arguments}:
            problem = "is given twice" if name in values else "is unknown"
            raise TypeError(f"{where}: argument {name!r} {problem}; expected {schema}.")
    values |= named
    arrays: list[jax.Array] = []
    places: list[tuple[str, Count]] = []
    others: list[tuple[str, Any]] = []
    for one in arguments:
        value = _value(schema, one, values)
        kind = one.type.inner[0] if one.type.name == "?" else one.type
        if one.type.is_tensor and not (value is None and kind is not one.type):
            is_list = kind.name == "[]"
            if is_list and not isinstance(value, list | tuple):
                raise _wrong(where, one, value, "a list of arrays")
            found = [_array(where, one, entry) for entry in (value if is_list else [value])]
            arrays += found
            places.append((one.name, len(found) if is_list else None))
        else:
            others.append((one.name, _checked(where, one, one.type, value)))
    return arrays, Settings(tuple(others), tuple(places))


def _value(schema: Schema, argument: OperatorArgument, values: Mapping[str, Any]) -> Any:
    """Return the value of an argument, or its default."""
    if argument.name in values:
        return values[argument.name]
    if not argument.default:
        raise TypeError(f"{schema.full_name}: argument {argument.name!r} is missing; expected {schema}.")
    return argument.default[0]


def _array(where: str, argument: OperatorArgument, value: object) -> jax.Array:
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return jnp.asarray(value)
    raise _wrong(where, argument, value, "an array")


def _checked(where: str, argument: OperatorArgument, kind: Type, value: Any) -> Any:
    """Return a value of the type in the signature, in a form that can be hashed."""
    if kind.name == "?":
        return None if value is None else _checked(where, argument, kind.inner[0], value)
    if kind.name == "[]":
        if not isinstance(value, list | tuple):
            if kind.size is None:
                raise _wrong(where, argument, value, "a list")
            value = [value] * kind.size
        if kind.size is not None and len(value) != kind.size:
            raise _wrong(where, argument, value, f"{kind.size} values")
        return tuple(_checked(where, argument, kind.inner[0], one) for one in value)
    convert, expected = KINDS.get(kind.name, (lambda value: value, ""))
    try:
        return convert(value)
    except TypeError:
        traced = " Pass traced values as Tensor arguments." if isinstance(value, jax.Array) else ""
        raise _wrong(where, argument, value, expected, traced) from None


def _wrong(where: str, argument: OperatorArgument, value: object, expected: str, more: str = "") -> TypeError:
    shown = str(jax.typeof(value)) if isinstance(value, jax.Array) else repr(value)
    return TypeError(f"{where}: argument {argument.name!r} is wrong; expected {expected}, got {shown}.{more}")


def _number(kind: type, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def found(value: Any) -> Any:
        if kind is numbers.Integral and jax.export.is_symbolic_dim(value):
            return value
        if isinstance(value, bool | np.bool_) or not isinstance(value, kind):
            raise TypeError
        return convert(value)

    return found


def _only(kind: type) -> Callable[[Any], Any]:
    def found(value: object) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return found


def _dtype(value: DTypeLike | None) -> Any:
    if value is None:
        raise TypeError
    return np.dtype(value)


def _scalar(value: object) -> Any:
    if not isinstance(value, numbers.Number):
        raise TypeError
    return value.item() if isinstance(value, np.generic) else value


KINDS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "float": (_number(numbers.Real, float), "a number"),
    "int": (_number(numbers.Integral, int), "an integer"),
    "SymInt": (_number(numbers.Integral, int), "an integer"),
    "bool": (_only(bool), "True or False"),
    "str": (_only(str), "a text"),
    "Scalar": (_scalar, "a number"),
    "ScalarType": (_dtype, "a dtype"),
}
