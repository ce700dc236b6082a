"""Rules for sums, maxima and other reductions along dimensions, and for cumulative sums."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.core import ShapedArray

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.onnx.unsupported import OTHER_REDUCTIONS
from funcnet.export.tracing import Equation

__all__ = ["RULES", "combiner"]

# {primitive that combines two entries: (operator over an axis, operator of two arrays)}
COMBINED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "add": ("ReduceSum", "Add"),
        "mul": ("ReduceProd", "Mul"),
        "max": ("ReduceMax", "Max"),
        "min": ("ReduceMin", "Min"),
    }
)


def combiner(equation: Equation) -> str | None:
    """Return the primitive with which `reduce` or `reduce_window` combines two entries, or None if it uses several
    primitives.
    """
    program = equation.params["jaxpr"]
    if len(program.eqns) != 1 or len(program.invars) != 2 or len(program.outvars) != 1:
        return None
    (only,) = program.eqns
    if only.outvars != program.outvars or set(only.invars) != set(program.invars):
        return None
    return only.primitive.name


def _reduce(op: str) -> Callable[..., OnnxValue]:
    def rule(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
        return _over(low, op, x, equation.params["axes"], equation.outvars[0].aval)

    return rule


def _over(low: Emitter, op: str, x: OnnxValue, axes: Sequence[int], aval: ShapedArray) -> OnnxValue:
    if not axes:  # ONNX would reduce over all axes
        return x
    return low.graph.add(op, [x, low.graph.ints(*axes)], aval.shape, x.dtype, keepdims=0)


def _reduce_by(low: Emitter, equation: Equation, *inputs: OnnxValue) -> OnnxValue:
    """Lower `reduce`, which combines the result over the axes with an initial value."""
    by = COMBINED.get(combiner(equation) or "")
    if by is None or len(inputs) != 2 or inputs[0].dtype == bool:
        raise low.refusal(equation, OTHER_REDUCTIONS, OTHER_REDUCTIONS.use)
    (x, first), (along, of_two), axes = inputs, by, equation.params["dimensions"]
    if not axes:  # XLA then ignores the initial value
        return x
    reduced = _over(low, along, x, axes, equation.outvars[0].aval)
    return low.graph.like(of_two, reduced, first)


def _reduce_bool(op: str) -> Callable[..., OnnxValue]:
    """Return the rule for `reduce_and` or `reduce_or`: the minimum or maximum of booleans, converted to 0 and 1."""

    def rule(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
        numbers = low.graph.cast(x, np.int32)
        return low.graph.cast(_over(low, op, numbers, equation.params["axes"], equation.outvars[0].aval), bool)

    return rule


def _argument(op: str) -> Callable[..., OnnxValue]:
    def rule(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
        (axis,), aval = equation.params["axes"], equation.outvars[0].aval
        return low.graph.cast(low.graph.add(op, [x], aval.shape, np.int64, axis=axis, keepdims=0), aval.dtype)

    return rule


def _cumsum(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    axis = low.graph.constant(equation.params["axis"], np.int64)
    return low.emit("CumSum", equation, x, axis, reverse=int(equation.params["reverse"]))


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "reduce": _reduce_by,
        "reduce_sum": _reduce("ReduceSum"),
        "reduce_max": _reduce("ReduceMax"),
        "reduce_min": _reduce("ReduceMin"),
        "reduce_prod": _reduce("ReduceProd"),
        "reduce_and": _reduce_bool("ReduceMin"),
        "reduce_or": _reduce_bool("ReduceMax"),
        "argmax": _argument("ArgMax"),
        "argmin": _argument("ArgMin"),
        "cumsum": _cumsum,
    }
)
