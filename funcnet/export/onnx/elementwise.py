"""Rules for operations that compute each entry separately. ONNX broadcasts as NumPy does."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from jax import lax

from funcnet.export.onnx import casts
from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import Graph, OnnxValue
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _named(op: str) -> Callable[..., OnnxValue]:
    return lambda low, equation, *inputs: low.emit(op, equation, *inputs)


def _logical(op: str, bitwise: str) -> Callable[..., OnnxValue]:
    return lambda low, equation, *inputs: low.emit(op if inputs[0].dtype == bool else bitwise, equation, *inputs)


def _ne(low: Emitter, equation: Equation, a: OnnxValue, b: OnnxValue) -> OnnxValue:
    return low.emit("Not", equation, low.emit("Equal", equation, a, b))


def _maximum(op: str, logical: str) -> Callable[..., OnnxValue]:
    return lambda low, equation, a, b: low.emit(logical if a.dtype == bool else op, equation, a, b)


def _rsqrt(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    return low.emit("Reciprocal", equation, low.graph.like("Sqrt", x))


def _square(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    return low.emit("Mul", equation, x, x)


def _integer_pow(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    exponent = equation.params["y"]
    out = low.graph.constant(np.ones((), x.dtype)) if exponent == 0 else x
    if not 0 <= abs(exponent) <= 4:
        return low.emit("Pow", equation, x, low.graph.constant(np.asarray(exponent, x.dtype)))
    for _ in range(abs(exponent) - 1):
        out = low.emit("Mul", equation, out, x)
    return low.emit("Reciprocal", equation, out) if exponent < 0 else low.expand(out, x.shape) if exponent == 0 else out


def _expm1(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    """Return e^x - 1 as tanh(x / 2) · (e^x + 1), a product that stays accurate near 0."""
    one, half = (low.graph.constant(np.asarray(number, x.dtype)) for number in (1, 0.5))
    tanh = low.graph.like("Tanh", low.graph.like("Mul", x, half))
    return low.emit("Mul", equation, tanh, low.graph.like("Add", low.graph.like("Exp", x), one))


def _log1p(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    """Return log(1 + x) as log(u) · x / (u - 1), in which u is the rounded sum 1 + x.

    The result is x if u = 1, and log(u) if x is infinite.
    """
    graph, one = low.graph, low.graph.constant(np.ones((), x.dtype))
    total = graph.like("Add", x, one)
    log, change = graph.like("Log", total), graph.like("Sub", total, one)
    exact = graph.like("Mul", log, graph.like("Div", x, change))
    small = graph.add("Equal", [total, one], x.shape, bool)
    infinite = graph.add("IsInf", [x], x.shape, bool)
    large = graph.add("Where", [infinite, log, exact], x.shape, x.dtype)
    return low.emit("Where", equation, small, x, large)


def _exp2(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    return low.emit("Pow", equation, low.graph.constant(np.asarray(2, x.dtype)), x)


def _cbrt(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    graph = low.graph
    size = graph.cast(graph.like("Abs", x), np.float64)  # float32's 1/3 would give 1e38 an error of 1e-6
    root = graph.like("Pow", size, graph.constant(np.float64(1 / 3)))
    return low.emit("Mul", equation, graph.like("Sign", x), graph.cast(root, x.dtype))


def _atan2(low: Emitter, equation: Equation, y: OnnxValue, x: OnnxValue) -> OnnxValue:
    """Return atan2(y, x): the angle of the point (|x|, |y|), reflected for a negative x and then for a negative y."""
    graph, zero = low.graph, low.graph.constant(np.zeros((), x.dtype))
    up, along = graph.like("Abs", y), graph.like("Abs", x)
    equal = graph.add("Equal", [up, along], x.shape, bool)
    positive = graph.cast(graph.add("Greater", [up, zero], x.shape, bool), x.dtype)
    ratio = graph.where(equal, positive, graph.like("Div", up, along), x.shape)  # 0 / 0 is 0, and inf / inf is 1
    angle = graph.like("Atan", ratio)
    left = graph.like("Add", graph.like("Neg", angle), graph.constant(np.asarray(np.pi, x.dtype)))
    angle = graph.where(_negative(graph, x), left, angle, x.shape)
    one, minus = (graph.constant(np.asarray(number, x.dtype)) for number in (1, -1))
    sign = graph.where(_negative(graph, y), minus, one, x.shape)  # a Where of angles would lose the sign of -0.0
    return graph.like("Mul", angle, sign)


def _negative(graph: Graph, x: OnnxValue) -> OnnxValue:
    """Return whether the sign bit of each entry is set, as in negative numbers and -0.0."""
    zero = graph.constant(np.zeros((), x.dtype))
    both = (graph.add("Less", [one, zero], x.shape, bool) for one in (x, graph.like("Reciprocal", x)))
    return graph.add("Or", [*both], x.shape, bool)


def _round(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    if equation.params["rounding_method"] == lax.RoundingMethod.TO_NEAREST_EVEN:
        return low.emit("Round", equation, x)
    graph, half = low.graph, low.graph.constant(np.asarray(0.5, x.dtype))
    size = graph.like("Abs", x)
    whole = graph.like("Floor", size)
    up = graph.add("GreaterOrEqual", [graph.like("Sub", size, whole), half], x.shape, bool)
    rounded = graph.like("Add", whole, graph.cast(up, x.dtype))  # |x| + 0.5 is not exact
    return low.emit("Mul", equation, graph.like("Sign", x), rounded)


def _is_finite(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    nan, infinite = (low.graph.add(op, [x], x.shape, bool) for op in ("IsNaN", "IsInf"))
    return low.emit("Not", equation, low.emit("Or", equation, nan, infinite))


def _select(low: Emitter, equation: Equation, which: OnnxValue, *cases: OnnxValue) -> OnnxValue:
    if which.dtype == bool:
        return low.graph.where(which, cases[1], cases[0], equation.outvars[0].aval.shape)
    out = cases[0]
    for number, case in enumerate(cases[1:], 1):
        chosen = low.graph.add("Equal", [which, low.graph.constant(np.asarray(number, which.dtype))], which.shape, bool)
        out = low.graph.where(chosen, case, out, case.shape)
    return out


def _clamp(low: Emitter, equation: Equation, least: OnnxValue, x: OnnxValue, most: OnnxValue) -> OnnxValue:
    return low.emit("Min", equation, low.emit("Max", equation, x, least), most)


def _rem(low: Emitter, equation: Equation, a: OnnxValue, b: OnnxValue) -> OnnxValue:
    return low.emit("Mod", equation, a, b, fmod=1)  # the sign of the dividend, as in C


def _erfc(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    one = low.graph.constant(np.ones((), x.dtype))  # ONNX has no erfc; small results become 0, an error of 6e-8
    return low.emit("Sub", equation, one, low.graph.like("Erf", x))


def _same(low: Emitter, equation: Equation, x: OnnxValue, *_: OnnxValue) -> OnnxValue:
    return x


def _barrier(low: Emitter, equation: Equation, *inputs: OnnxValue) -> list[OnnxValue]:
    return list(inputs)


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **{name: _named(name.capitalize()) for name in ("add", "sub", "mul", "div", "neg", "sign", "floor", "ceil")},
        **{name: _named(name.capitalize()) for name in ("abs", "exp", "log", "sqrt", "tanh", "erf", "pow")},
        **{name: _named(name.capitalize()) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh")},
        **{name: _named(name.capitalize()) for name in ("asinh", "acosh", "atanh")},
        "exp2": _exp2,
        "cbrt": _cbrt,
        "atan2": _atan2,
        "logistic": _named("Sigmoid"),
        "eq": _named("Equal"),
        "ne": _ne,
        "lt": _named("Less"),
        "le": _named("LessOrEqual"),
        "gt": _named("Greater"),
        "ge": _named("GreaterOrEqual"),
        "and": _logical("And", "BitwiseAnd"),
        "or": _logical("Or", "BitwiseOr"),
        "xor": _logical("Xor", "BitwiseXor"),
        "not": _logical("Not", "BitwiseNot"),
        "max": _maximum("Max", "Or"),
        "min": _maximum("Min", "And"),
        "rem": _rem,
        "rsqrt": _rsqrt,
        "square": _square,
        "integer_pow": _integer_pow,
        "expm1": _expm1,
        "log1p": _log1p,
        "erfc": _erfc,
        "round": _round,
        "is_finite": _is_finite,
        "select_n": _select,
        "clamp": _clamp,
        **casts.RULES,
        "stop_gradient": _same,
        "copy": _same,
        "copy_p": _same,
        "pvary": _same,
        "sharding_constraint": _same,
        "name": _same,
        "device_put": _barrier,
        "optimization_barrier": _barrier,
    }
)
