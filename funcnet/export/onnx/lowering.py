"""Lower a traced function to a graph of ONNX operators, one operation after the other.

Each family of operations has a file with a table of rules, `RULES`. A rule gets the `Lowering`, the operation and its
inputs, and returns the output of the operation, or a list of its outputs. Operations that depend on neither an input
nor a weight are computed at export, unless their outputs are large.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var
from jax.typing import ArrayLike

from funcnet.export.onnx import (
    convolution,
    elementwise,
    indexing,
    loops,
    products,
    ranges,
    reductions,
    shaping,
    shifts,
    sorting,
    windows,
)
from funcnet.export.onnx.dimensions import Dimensions
from funcnet.export.onnx.graph import Graph, OnnxValue, reshape_target
from funcnet.export.onnx.unsupported import UNSUPPORTED
from funcnet.export.tracing import Equation, Traced, inner_program
from funcnet.export.unsupported import Unsupported, reason_for
from funcnet.operators.jaxprs import layer_of

__all__ = ["Lowering", "lower"]

Rule = Callable[..., Any]
LARGEST_FOLDED = 65536  # entries; a larger result is computed at run time, to keep the file small
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **elementwise.RULES,
        **shaping.RULES,
        **shifts.RULES,
        **products.RULES,
        **reductions.RULES,
        **indexing.RULES,
        **sorting.RULES,
        **windows.RULES,
        **convolution.RULES,
        **loops.RULES,
    }
)


def lower(where: str, traced: Traced) -> Graph:
    """Return the graph of a traced function.

    Args:
        where: name of the caller, for messages.
        traced: the function.

    Raises:
        ValueError: if there is no rule for an operation. The message names the layer of the operation.
    """
    graph = Graph()
    for name, spec in zip(traced.inputs, traced.specs, strict=True):
        graph.inputs.append(OnnxValue(tuple(spec.shape), np.dtype(spec.dtype), name=name))
    weights = [_weight(name, value) for name, value in zip(traced.weights, traced.program.consts, strict=True)]
    lowering = Lowering(where, graph, Dimensions(where, graph))
    graph.outputs = lowering.run(traced.program.jaxpr, weights, graph.inputs)
    return graph


class Lowering:
    """Adds the operations of a JAX program to a graph of ONNX operators.

    Attributes:
        where: name of the caller, for messages.
        graph: graph to which nodes are added.
        dimensions: computes the values of symbolic sizes in the graph.
    """

    def __init__(self, where: str, graph: Graph, dimensions: Dimensions, prefix: str = ""):
        self.where, self.graph, self.dimensions, self.prefix = where, graph, dimensions, prefix

    def inside(self, graph: Graph) -> "Lowering":
        """Return a `Lowering` for the body of a loop or a branch, which may also read values of the graph around it."""
        graph.layer = self.graph.layer
        return Lowering(self.where, graph, self.dimensions.inside(graph), self.graph.layer)

    def run(self, program: Jaxpr, constants: Sequence[OnnxValue], inputs: Sequence[OnnxValue]) -> list[OnnxValue]:
        """Add the operations of a program, and return its outputs."""
        values: dict[Any, OnnxValue] = dict(zip(program.constvars, constants, strict=True))
        values.update(zip(program.invars, inputs, strict=True))

        def read(atom: Var | Literal) -> OnnxValue:
            if isinstance(atom, Literal):
                return self.graph.constant(np.asarray(atom.val, getattr(atom.aval, "dtype", None)))
            return values[atom]

        outer = self.graph.layer
        equation: Equation
        for equation in program.eqns:
            self.graph.layer = ".".join(filter(None, (self.prefix, layer_of(equation)))) or outer
            outputs = self.lower(equation, [read(atom) for atom in equation.invars])
            values.update(zip(equation.outvars, outputs, strict=True))
        self.graph.layer = outer
        return [read(atom) for atom in program.outvars]

    def inlined(self, program: ClosedJaxpr, inputs: Sequence[OnnxValue]) -> list[OnnxValue]:
        """Add the operations of an inner program, and return its outputs."""
        return self.run(program.jaxpr, [self.graph.constant(np.asarray(c)) for c in program.consts], inputs)

    def lower(self, equation: Equation, inputs: Sequence[OnnxValue]) -> list[OnnxValue]:
        """Add one operation, and return its outputs."""
        name = equation.primitive.name
        if (program := inner_program(equation)) is not None:
            outer, self.prefix = self.prefix, self.graph.layer  # names in the program are relative to its layer
            outputs = self.inlined(program, inputs)
            self.prefix = outer
            return outputs
        if (folded := _fold(equation, inputs)) is not None:
            return [self.graph.constant(array) for array in folded]
        shape: Any = equation.outvars[0].aval.shape if equation.outvars else ()
        if (number := ranges.full_result(equation, inputs)) is not None:
            return [self.full(number, shape)]
        known = ranges.decided(equation, inputs)
        if known is not None:
            return [known if isinstance(known, OnnxValue) else self.full(np.asarray(known), shape)]
        if all(0 in variable.aval.shape for variable in equation.outvars):  # no entries to compute
            return [self.graph.constant(np.zeros(v.aval.shape, v.aval.dtype)) for v in equation.outvars]
        rule = RULES.get(name)
        if rule is None:
            raise self.refusal(equation, reason_for(name, UNSUPPORTED))
        outputs = rule(self, equation, *inputs)
        if isinstance(outputs, list | tuple):
            return list(outputs)
        if outputs.bounds is None:  # unless the rule knows the bounds better
            outputs.bounds = ranges.bounds_of(equation, inputs)
        return [outputs]

    def full(self, number: np.ndarray, shape: Sequence[Any]) -> OnnxValue:
        """Return a value of this shape whose entries are all equal to `number`."""
        scalar = self.graph.constant(number)
        if not shape:
            return scalar
        out = self.graph.add("Expand", [scalar, self.shape_value(shape)], tuple(shape), number.dtype)
        out.full = number
        return out

    def refusal(self, equation: Equation, unsupported: Unsupported, what: str = "") -> ValueError:
        """Return the error for an operation that cannot be lowered. The message names the layer and the reason."""
        layer = self.graph.layer or "the function"
        return ValueError(
            f"{self.where}: {layer} uses an operation without a form in ONNX; expected primitives that "
            f"funcnet.export.onnx lowers, got {equation.primitive.name!r}{what and ' ' + what}. {unsupported.advice}"
        )

    def shape_value(self, shape: Sequence[Any]) -> OnnxValue:
        """Return a shape with n sizes as an int64 value (n,). Symbolic sizes are computed at run time."""
        return self.dimensions.vector(shape)

    def same(self, size: object, other: object) -> bool:
        """Return whether two sizes are equal for all values of the symbolic sizes."""
        return type(size) is type(other) and bool(size == other)

    def emit(self, op: str, equation: Equation, *inputs: OnnxValue | None, **attributes: Any) -> OnnxValue:
        """Add a node whose output has the shape and dtype of the JAX operation's output."""
        aval = equation.outvars[0].aval
        return self.graph.add(op, inputs, aval.shape, aval.dtype, **attributes)

    def reshape(self, value: OnnxValue, shape: Sequence[Any]) -> OnnxValue:
        """Return the value, reshaped to `shape`."""
        shape = tuple(shape)
        if shape == value.shape:
            return value
        target = reshape_target(value.shape, shape)
        if target is None:
            return self.graph.add("Reshape", [value, self.shape_value(shape)], shape, value.dtype, allowzero=1)
        return self.graph.add("Reshape", [value, self.graph.ints(*target)], shape, value.dtype)

    def expand(self, value: OnnxValue, shape: Sequence[Any]) -> OnnxValue:
        """Return the value broadcast to another shape of the same rank."""
        shape = tuple(shape)
        if shape == value.shape:
            return value
        return self.graph.add("Expand", [value, self.shape_value(shape)], shape, value.dtype)


def _weight(name: str, array: ArrayLike) -> OnnxValue:
    array = np.asarray(array)
    return OnnxValue(array.shape, array.dtype, array, weight=name)


def _fold(equation: Equation, inputs: Sequence[OnnxValue]) -> list[np.ndarray] | None:
    """Compute the outputs of an operation at export, and return them.

    Return None if an input is unknown at export, if an output is large or has a symbolic size, or if the operation has
    side effects or is a loop or a branch.
    """
    avals = [variable.aval for variable in equation.outvars]
    if not all(value.known for value in inputs) or equation.effects or equation.primitive.name in loops.RULES:
        return None
    sizes = [size for aval in avals for size in aval.shape]
    if not all(isinstance(size, int) for size in sizes):
        return None
    if any(math.prod(aval.shape) > LARGEST_FOLDED for aval in avals) or "dim" in equation.params:
        return None
    outputs = equation.primitive.bind(*(value.constant for value in inputs), **equation.params)
    return [np.asarray(output) for output in (outputs if equation.primitive.multiple_results else [outputs])]
