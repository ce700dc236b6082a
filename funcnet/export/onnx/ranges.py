"""Find what is known about values at export: a number that all entries are equal to, and bounds of the entries.

Tests such as `0 <= ids` on positions 0, 1, … are decided at export, and cost nothing at run time. A bound may be a
symbolic size. Comparisons with a symbolic bound use the constraints of the sizes.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx import elementwise
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.tracing import Equation

__all__ = ["at_most", "bounds_of", "decided", "full_result"]

Bounds = tuple[Any, Any]
MOVING = frozenset({"broadcast_in_dim", "reshape", "squeeze", "transpose", "expand_dims", "rev", "slice"})
MIRRORED: Mapping[str, str] = MappingProxyType({"gt": "lt", "ge": "le"})


def full_result(equation: Equation, inputs: Sequence[OnnxValue]) -> np.ndarray | None:
    """Return the number to which all entries of an operation's output are equal, or None if no such number is known.

    The number is known if all entries of each input are equal to a known number, and the operation is elementwise or
    only moves entries.
    """
    name = equation.primitive.name
    numbers = [value.full if value.full is not None else value.scalar() for value in inputs]
    if not numbers or any(number is None for number in numbers):
        return None
    scalars = [np.asarray(number, value.dtype) for number, value in zip(numbers, inputs, strict=True)]
    if name in MOVING:
        return scalars[0]
    if name in elementwise.RULES and not equation.primitive.multiple_results:
        return np.asarray(equation.primitive.bind(*scalars, **equation.params))
    return None


def decided(equation: Equation, inputs: Sequence[OnnxValue]) -> bool | OnnxValue | None:
    """Return the result of an operation if it is known at export, or None.

    A boolean means that all entries of the output have this value. An input means that the output is equal to this
    input.
    """
    name = equation.primitive.name
    if name in ("and", "or") and inputs[0].dtype == bool:
        return _logical(name, inputs)
    if name == "select_n" and inputs[0].dtype == bool and inputs[0].full is not None:
        return inputs[2 if inputs[0].full else 1]
    if name in ("add", "mul"):
        return _neutral(0 if name == "add" else 1, equation, inputs)
    if name not in ("lt", "le", "gt", "ge"):
        return None
    a, b = (_bounds(value) for value in (inputs[::-1] if name in MIRRORED else inputs))
    if a is None or b is None:
        return None
    below = _below if MIRRORED.get(name, name) == "lt" else at_most
    if below(a[1], b[0]):
        return True
    above = at_most if MIRRORED.get(name, name) == "lt" else _below
    return False if above(b[1], a[0]) else None


def bounds_of(equation: Equation, inputs: Sequence[OnnxValue]) -> Bounds | None:
    """Return a lower and an upper bound of the entries of an operation's output, or None if they are unknown."""
    name = equation.primitive.name
    if name == "iota":
        return 0, equation.params["shape"][equation.params["dimension"]] - 1
    if name == "dim_as_value":
        return equation.params["dim"], equation.params["dim"]
    wider = name == "convert_element_type" and np.issubdtype(inputs[0].dtype, np.integer)
    if name in MOVING or (wider and np.can_cast(inputs[0].dtype, equation.outvars[0].aval.dtype)):
        return _bounds(inputs[0])
    return None


def _logical(name: str, inputs: Sequence[OnnxValue]) -> bool | OnnxValue | None:
    for value, rest in (inputs, inputs[::-1]):
        if value.full is not None and value.shape == rest.shape:
            return rest if bool(value.full) == (name == "and") else bool(value.full)
    return None


def _neutral(number: int, equation: Equation, inputs: Sequence[OnnxValue]) -> OnnxValue | None:
    """If one input of a sum is 0, or one input of a product is 1, return the other input. Otherwise return None.

    Only sums of integers are simplified, because -0.0 + 0.0 is 0.0.
    """
    for value, rest in (inputs, inputs[::-1]):
        given = value.full if value.full is not None else value.scalar()
        exact = number == 1 or np.issubdtype(rest.dtype, np.integer)
        if given is not None and given == number and exact and rest.shape == tuple(equation.outvars[0].aval.shape):
            return rest
    return None


def _bounds(value: OnnxValue) -> Bounds | None:
    if value.bounds is not None:
        return value.bounds
    if value.full is not None:
        return value.full.item(), value.full.item()
    if value.known and value.constant is not None and value.constant.size and value.dtype.kind in "iu":
        return int(value.constant.min()), int(value.constant.max())
    return None


def _below(a: Any, b: Any) -> bool:
    return _certain(lambda: a < b)


def at_most(a: Any, b: Any) -> bool:
    """Return whether one size is known to be at most another size."""
    return _certain(lambda: a <= b)


def _certain(test: Callable[[], Any]) -> bool:
    """Return whether a comparison of sizes is known to be true.

    It is not known if the result depends on the values of symbolic sizes, for which JAX raises an error.
    """
    try:
        return bool(test())
    except Exception as error:  # jax.core.InconclusiveDimensionOperation is not a public subclass of one error
        if type(error).__name__ != "InconclusiveDimensionOperation":
            raise
        return False
