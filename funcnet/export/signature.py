"""The arguments of an exported function: their names, shapes and dtypes, and the check of a call."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["ArraySpec", "arguments_of", "narrowed", "require_arguments"]

NARROW: Mapping[str, str] = MappingProxyType(
    {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
)


@dataclass(frozen=True)
class ArraySpec:
    """An argument or a result of an exported function.

    Attributes:
        name: name of the argument or result.
        shape: sizes of the array. A string is a symbolic size, such as "batch" or "2*length".
        dtype: name of the dtype.

    Example:
        >>> print(ArraySpec("input_ids", ("batch", 16), "int32"))
        input_ids int32 (batch, 16)
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} ({', '.join(map(str, self.shape))})"


def arguments_of(names: Sequence[str], specs: Sequence[Any]) -> tuple[ArraySpec, ...]:
    """Return an `ArraySpec` for each argument.

    Args:
        names: names of the arguments.
        specs: for each name, an object with `shape` and `dtype`. Sizes may be symbolic sizes of `jax.export`.

    Example:
        >>> arguments_of(["x"], [np.zeros((2, 3), np.int8)])
        (ArraySpec(name='x', shape=(2, 3), dtype='int8'),)
    """
    return tuple(
        ArraySpec(name, tuple(n if isinstance(n, int) else str(n) for n in spec.shape), str(np.dtype(spec.dtype)))
        for name, spec in zip(names, specs, strict=True)
    )


def narrowed(where: str, name: str, array: Any, dtype: str) -> Any:
    """Convert an array of 64-bit numbers to the 32-bit dtype of an argument, as JAX does.

    An array is returned unchanged if it does not have 64-bit numbers, or if `dtype` is not the 32-bit dtype of the same
    kind of numbers.

    Args:
        where: name of the exported function, for messages.
        name: name of the argument, for messages.
        array: the array.
        dtype: dtype of the argument.

    Raises:
        ValueError: if an integer does not fit into 32 bits.

    Example:
        >>> narrowed("f", "ids", np.array([7, 9]), "int32").dtype, narrowed("f", "ids", np.ones(2), "int32").dtype
        (dtype('int32'), dtype('float64'))
    """
    if NARROW.get(str(array.dtype)) != dtype:
        return array
    if isinstance(array, jax.core.Tracer):
        return array.astype(dtype)
    array = np.asarray(array)
    if array.dtype.kind in "iu" and array.size:
        limits, found = np.iinfo(dtype), (int(array.min()), int(array.max()))
        if found[0] < limits.min or found[1] > limits.max:
            raise ValueError(
                f"{where}: {name} has numbers that {dtype} cannot hold; expected {limits.min} to {limits.max}, got "
                f"{found[0]} to {found[1]}."
            )
    with np.errstate(over="ignore"):  # JAX gives infinity
        return array.astype(dtype)


def require_arguments(
    where: str, arguments: Sequence[ArraySpec], arrays: Sequence[Any], constraints: Sequence[str] = ()
) -> list[Any]:
    """Return the arrays of a call, after checking that they fit the arguments of the exported function.

    64-bit numbers become 32-bit ones, as in `narrowed`.

    Args:
        where: name of the exported function, for messages.
        arguments: the arguments that the function expects.
        arrays: the arrays that the caller passed.
        constraints: constraints of the symbolic sizes, such as "length <= 512".

    Raises:
        TypeError: if the number of arrays is wrong, or one of them is not an array or has another dtype.
        ValueError: if an array has another shape, an integer does not fit into 32 bits, two sizes with the same
            symbolic name differ, or a constraint does not hold.

    Example:
        >>> require_arguments("f", [ArraySpec("x", ("n",), "float32")], [np.zeros(3, np.int32)])
        Traceback (most recent call last):
        TypeError: f: x has the wrong dtype; expected float32, got int32.
    """
    if len(arrays) != len(arguments):
        raise TypeError(
            f"{where}: the number of arrays is wrong; expected {len(arguments)} "
            f"({'; '.join(map(str, arguments))}), got {len(arrays)}."
        )
    sizes: dict[str, tuple[int, str]] = {}
    given = []
    for argument, array in zip(arguments, arrays, strict=True):
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            raise TypeError(
                f"{where}: {argument.name} is not an array; expected {argument.dtype}, got {type(array).__name__}."
            )
        array = narrowed(where, argument.name, array, argument.dtype)
        given.append(array if isinstance(array, jax.Array) else np.asarray(array))
        if jnp.dtype(array.dtype).name != argument.dtype:
            raise TypeError(
                f"{where}: {argument.name} has the wrong dtype; expected {argument.dtype}, got {array.dtype}."
            )
        shape = tuple(array.shape)
        fixed = zip(argument.shape, shape, strict=False)
        if len(shape) != len(argument.shape) or any(isinstance(n, int) and n != m for n, m in fixed):
            raise ValueError(
                f"{where}: {argument.name} has the wrong shape; expected ({', '.join(map(str, argument.shape))}), got "
                f"{shape}."
            )
        for size, found in zip(argument.shape, shape, strict=True):
            first, owner = sizes.setdefault(str(size), (found, argument.name))
            if first != found:
                raise ValueError(
                    f"{where}: {argument.name} has the wrong shape; expected {size} = {first}, as in {owner}, got "
                    f"{shape}."
                )
    known = {name: found for name, (found, _) in sizes.items()}
    for constraint in constraints:
        if not _holds(ast.parse(constraint.replace("^", "**"), mode="eval").body, known):
            found = ", ".join(f"{name} = {size}" for name, size in known.items() if name in constraint)
            raise ValueError(f"{where}: a size is out of range; expected {constraint}, got {found}.")
    return given


COMPARISONS: Mapping[type, Callable[[Any, Any], bool]] = MappingProxyType(
    {ast.GtE: operator.ge, ast.LtE: operator.le, ast.Eq: operator.eq, ast.Gt: operator.gt, ast.Lt: operator.lt}
)
ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = MappingProxyType(
    {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow}
)
FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"max": max, "min": min, "floordiv": operator.floordiv, "mod": operator.mod}
)


def _holds(code: ast.expr, sizes: Mapping[str, int]) -> bool:
    """Return whether a constraint holds, or True if the constraint contains a size whose value is unknown."""
    assert isinstance(code, ast.Compare)
    try:
        left, right = (_value(one, sizes) for one in (code.left, code.comparators[0]))
    except KeyError:
        return True  # JAX checks this constraint itself
    return COMPARISONS[type(code.ops[0])](left, right)


def _value(code: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(code, ast.Constant):
        return code.value  # type: ignore[return-value]
    if isinstance(code, ast.Name):
        return sizes[code.id]
    if isinstance(code, ast.BinOp):
        return ARITHMETIC[type(code.op)](_value(code.left, sizes), _value(code.right, sizes))
    if isinstance(code, ast.UnaryOp) and isinstance(code.op, ast.USub):
        return -_value(code.operand, sizes)
    if isinstance(code, ast.Call) and isinstance(code.func, ast.Name):
        return FUNCTIONS[code.func.id](*(_value(one, sizes) for one in code.args))
    raise KeyError(ast.unparse(code))
