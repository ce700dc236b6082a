"""Elementwise operations as expressions in C.

The results are the same as in JAX: comparisons with NaN are false, `max` and `min` give NaN if an operand is NaN,
integers wrap, and a division of integers by zero gives -1.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcnet.loops.operations import Operation

__all__ = ["TYPES", "combined", "cost", "expression", "identity", "literal"]

# bool is stored in a byte and computed as 0 or 1
TYPES = {
    "float32": "float",
    "int32": "int",
    "uint32": "unsigned",
    "int16": "short",
    "uint16": "unsigned short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "unsigned char",
}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INFIX |= {"and": "&", "or": "|", "xor": "^"}
_NARROW = {"int16", "uint16", "int8", "uint8"}
_FUNCTIONS = {"floor": "__builtin_floorf", "ceil": "__builtin_ceilf", "sqrt": "__builtin_sqrtf"}
_SLOW = frozenset({"div", "fixed_point_product", "gather", "high_product", "rounding_divide", "rsqrt", "sqrt"})
_DEAR = frozenset({"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erf_inv"})
_DEAR |= {"erfc", "exp", "exp2", "expm1", "log", "log1p", "logistic", "pow", "rem", "sin", "sinh", "tan", "tanh"}


def cost(operation: Operation) -> int:
    """Return about how many simple instructions compute one element of an operation's result."""
    if operation.name in ("reshape", "transpose", "broadcast", "slice", "reverse", "iota", "bitcast"):
        return 0
    if operation.name in _DEAR:
        return 20
    if operation.name == "window":
        return 2 * int(np.prod(operation.settings["sizes"]))
    return 5 if operation.name in _SLOW else 1


def literal(number: float, dtype: np.dtype) -> str:
    """Return a number as a literal in C.

    Example:
        >>> literal(0.5, np.dtype("float32")), literal(-np.inf, np.dtype("float32")), literal(True, np.dtype(bool))
        ('0.5f', '(-__builtin_inff())', '1')
    """
    if dtype.kind == "f":
        number = float(number)
        if math.isnan(number):
            return '__builtin_nanf("")'
        if math.isinf(number):
            return "__builtin_inff()" if number > 0 else "(-__builtin_inff())"
        text = repr(float(np.float32(number)))
        return f"({text}f)" if number < 0 or text[0] == "-" else f"{text}f"
    number = int(number)
    if number == -(2**31):
        return "(-2147483647 - 1)"
    return f"({number})" if number < 0 else f"{number}u" if dtype == np.uint32 else str(number)


def combined(kind: str, a: str, b: str, dtype: np.dtype) -> str:
    """Return the C expression that combines two elements in a reduction. `kind` is "sum", "prod", "max", "min", "and",
    "or" or "xor".
    """
    name = {"sum": "add", "prod": "mul"}.get(kind, kind)
    return _cast(_binary(name, a, b, dtype), name, dtype)


def identity(kind: str, dtype: np.dtype) -> Any:
    """Return the identity element of a reduction of this kind, such as 0 for a sum."""
    if kind in ("sum", "or", "xor"):
        return dtype.type(0)
    if kind in ("prod", "and"):
        return dtype.type(1) if kind == "prod" or dtype.kind == "b" else dtype.type(-1)
    if dtype.kind == "b":
        return np.bool_(kind == "min")
    if dtype.kind == "f":
        return dtype.type(-math.inf if kind == "max" else math.inf)
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if kind == "max" else limits.max)


def expression(operation: Operation, args: Sequence[str]) -> str:
    """Return an elementwise operation as a C expression. `args` are the names or literals of its operands."""
    name, dtype = operation.name, operation.results[0].dtype
    given = operation.operands[0].dtype
    if name in _SPECIAL:
        return _SPECIAL[name](operation, *args)
    if name in _INFIX or name in ("max", "min", "div", "rem"):
        return _cast(_binary(name, args[0], args[1], given), name, dtype)
    if name == "neg":
        return _cast(f"-{args[0]}", name, dtype)
    if name in _FUNCTIONS:
        return f"{_FUNCTIONS[name]}({args[0]})"
    return f"m_{name}({', '.join(args)})"


def _cast(text: str, name: str, dtype: np.dtype) -> str:
    return f"({TYPES[str(dtype)]})({text})" if str(dtype) in _NARROW else text


def _binary(name: str, a: str, b: str, dtype: np.dtype) -> str:
    if dtype.kind == "f":
        if name in ("max", "min"):
            return f"__builtin_wasm_{name}_f32({a}, {b})"
        if name == "div":
            return f"{a} / {b}"
        if name == "rem":
            return f"m_rem({a}, {b})"
    if name in ("max", "min"):
        return f"({a} {'>' if name == 'max' else '<'} {b} ? {a} : {b})"
    if name in ("div", "rem"):
        return f"m_{name}_{'u' if dtype.kind in 'ub' else 'i'}({a}, {b})"
    if dtype.kind == "b" and name in ("add", "mul"):
        return f"{a} {'|' if name == 'add' else '&'} {b}"
    return f"{a} {_INFIX[name]} {b}"


def _convert(operation: Operation, x: str) -> str:
    given, to = operation.operands[0].dtype, operation.results[0].dtype
    if to.kind == "b":
        return f"{x} != 0"
    if given.kind == "f" and to.kind in "iu":
        if to == np.uint32:
            return f"__builtin_wasm_trunc_saturate_u_i32_f32({x})"
        whole = f"__builtin_wasm_trunc_saturate_s_i32_f32({x})"
        if to == np.int32:
            return whole
        limits = np.iinfo(to)
        return f"({TYPES[str(to)]})m_within({whole}, {limits.min}, {limits.max})"
    return f"({TYPES[str(to)]}){x}"


def _integer_pow(operation: Operation, x: str) -> str:
    y = operation.settings["y"]
    if y == 0:
        return literal(1, operation.results[0].dtype)
    power = _power(x, abs(y))
    return power if y > 0 else f"{literal(1, operation.results[0].dtype)} / ({power})"


def _power(x: str, y: int) -> str:
    """Return x to the power y as a product in C.

    The compiler computes equal factors only once, so the code needs at most 2 log2(y) multiplications.
    """
    if y == 1:
        return x
    half = f"({_power(x, y // 2)})"
    return f"{half} * {half}" + (f" * {x}" if y % 2 else "")


def _select(operation: Operation, which: str, *cases: str) -> str:
    text = cases[-1]
    for place in reversed(range(len(cases) - 1)):
        test = f"{which} == {place}" if len(cases) > 2 else f"!{which}"
        text = f"({test} ? {cases[place]} : {text})"
    return text


def _clamp(operation: Operation, low: str, x: str, high: str) -> str:
    dtype = operation.results[0].dtype
    return _binary("min", f"{_binary('max', x, low, dtype)}", high, dtype)


def _sign(operation: Operation, x: str) -> str:
    dtype = operation.results[0].dtype
    if dtype.kind == "f":
        return f"({x} > 0 ? 1.0f : {x} < 0 ? -1.0f : {x})"
    return f"(({x} > 0) - ({x} < 0))" if dtype.kind == "i" else f"({x} > 0)"


def _abs(operation: Operation, x: str) -> str:
    dtype = operation.results[0].dtype
    if dtype.kind == "f":
        return f"__builtin_fabsf({x})"
    return f"({TYPES[str(dtype)]})({x} < 0 ? -{x} : {x})" if dtype.kind == "i" else x


def _bits(operation: Operation) -> int:
    return 8 * operation.results[0].dtype.itemsize


def _shift(operation: Operation, x: str, by: str) -> str:
    dtype, bits = operation.results[0].dtype, _bits(operation)
    unsigned = f"unsigned {'char' if bits == 8 else 'short' if bits == 16 else 'int'}"
    far = f"(unsigned)({by}) >= {bits}u"
    if operation.name == "shift_right_arithmetic":
        return f"({TYPES[str(dtype)]})({x} >> ({far} ? {bits - 1} : {by}))"
    sign = "<<" if operation.name == "shift_left" else ">>"
    return f"({far} ? 0 : ({TYPES[str(dtype)]})(({unsigned}){x} {sign} {by}))"


_SPECIAL: dict[str, Callable[..., str]] = {
    "convert": _convert,
    "fixed_point_product": lambda o, *args: f"m_scaled_{o.settings['roundings']}({', '.join(args)})",
    "high_product": lambda o, a, b: f"m_high({a}, {b}, {o.settings['nudge']})",
    "integer_pow": _integer_pow,
    "select_n": _select,
    "clamp": _clamp,
    "sign": _sign,
    "abs": _abs,
    "shift_left": _shift,
    "shift_right_arithmetic": _shift,
    "shift_right_logical": _shift,
    "square": lambda o, x: _cast(f"{x} * {x}", "mul", o.results[0].dtype),
    "rsqrt": lambda o, x: f"1.0f / __builtin_sqrtf({x})",
    "is_finite": lambda o, x: f"(__builtin_fabsf({x}) < __builtin_inff())",
    "not": lambda o, x: f"!{x}" if o.results[0].dtype.kind == "b" else _cast(f"~{x}", "not", o.results[0].dtype),
    "round": lambda o, x: f"{'__builtin_rintf' if o.settings['even'] else 'm_round'}({x})",
    "clz": lambda o, x: f"m_clz((unsigned)({x}) & {2 ** _bits(o) - 1}u, {_bits(o)})",
    "population_count": lambda o, x: f"__builtin_popcount((unsigned)({x}) & {2 ** _bits(o) - 1}u)",
    "bitcast": lambda o, x: (
        (f"m_bits({x})" if o.results[0].dtype.kind != "f" else f"m_float((int)({x}))")
        if "f" in (o.operands[0].dtype.kind, o.results[0].dtype.kind)
        else f"({TYPES[str(o.results[0].dtype)]}){x}"
    ),
}
