"""Trace a JAX function into a `Block`. Called functions are inlined, and constants are computed at export.

The rules for single primitives are in `rules.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Literal
from jax.typing import ArrayLike, DTypeLike

from funcnet.export.tracing import Equation, inner_program
from funcnet.export.unsupported import EVERY_FORM, reason_for
from funcnet.export.wasm.unsupported import DTYPES, UNSUPPORTED
from funcnet.loops.constant_storage import evaluated, known_bytes
from funcnet.loops.operations import ArrayValue, Block, Operation, needed
from funcnet.operators import native
from funcnet.operators.jaxprs import layer_of

__all__ = ["Tracer", "trace"]

_GROWTH = 4096  # bytes by which a computed constant may be larger than the constants that it is computed from
# Views and counters cost nothing in a loop, but would take memory as constants.
_VIEWS = {"broadcast_in_dim", "transpose", "iota"}
_KEPT = _VIEWS | {"scan", "while", "cond", "platform_index"}  # never computed at export
_TYPES = {"float32", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool"}

Rules = dict[str, Callable[["Tracer", Any, list[ArrayValue]], "list[ArrayValue] | ArrayValue"]]


def trace(function: Callable[..., Any], examples: Sequence[Any], rules: Rules) -> Block:
    """Trace `function(*examples)`, and return its operations as a block without calls of inner functions.

    Args:
        function: a pure function of arrays.
        examples: example arguments of the function: arrays, or trees of arrays.
        rules: {name of a primitive: function that translates the primitive into operations}; see `rules.py`.

    Raises:
        ValueError: if the function has a primitive without a rule, or an array of an unsupported dtype, such as
            float16.
    """
    with native.allowed(False):  # WebAssembly does not have the kernels
        closed = jax.make_jaxpr(function)(*examples)
    tracer = Tracer(rules)
    inputs = [tracer.fresh(v.aval, "an input") for v in closed.jaxpr.invars]
    outputs = tracer.inline(closed, inputs)
    return needed(Block(inputs, tracer.operations, outputs))


class Tracer:
    """Translates the equations of a JAX program into operations, one after the other.

    Args:
        rules: {name of a primitive: function that translates the primitive into operations}.
        scope: the named scope from which the program is called.
    """

    def __init__(self, rules: Rules, scope: str = ""):
        self.rules, self.scope, self.layer = rules, scope, scope
        self.operations: list[Operation] = []

    def fresh(self, aval: ShapedArray, what: str) -> ArrayValue:
        """Return a new value whose numbers are not known at export."""
        dtype = self.dtype(aval, what)
        return ArrayValue(tuple(int(n) for n in aval.shape), dtype)

    def dtype(self, aval: ShapedArray, what: str) -> np.dtype:
        """Return the dtype of an array, or raise ValueError if the dtype is not supported."""
        if str(aval.dtype).startswith("key<"):
            raise ValueError(_unsupported("random_bits", self.layer))
        if str(aval.dtype) not in _TYPES:
            where = f" in layer {self.layer!r}" if self.layer else ""
            raise ValueError(
                f"to_wasm: {what}{where} has an unsupported dtype; expected one of {', '.join(sorted(_TYPES))}, got "
                f"{aval.dtype}. {DTYPES.advice}"
            )
        return np.dtype(aval.dtype)

    def emit(
        self, name: str, operands: Sequence[ArrayValue], shape: Sequence[int], dtype: DTypeLike, **settings: Any
    ) -> ArrayValue:
        """Append an operation with one result, and return the result."""
        return self.emit_many(name, operands, [(tuple(shape), np.dtype(dtype))], **settings)[0]

    def emit_many(
        self,
        name: str,
        operands: Sequence[ArrayValue],
        types: Sequence[tuple[Any, Any]],
        blocks: Sequence[Block] = (),
        **settings: Any,
    ) -> list[ArrayValue]:
        """Append an operation, and return its results, which have the shapes and dtypes in `types`."""
        operation = Operation(name, list(operands), settings, self.layer, blocks=list(blocks))
        operation.results = [
            ArrayValue(tuple(int(n) for n in shape), np.dtype(dtype), None, operation, place)
            for place, (shape, dtype) in enumerate(types)
        ]
        self.operations.append(operation)
        return operation.results

    def inline(self, closed: ClosedJaxpr, inputs: Sequence[ArrayValue]) -> list[ArrayValue]:
        """Append the operations of a JAX program, and return the outputs of the program."""
        jaxpr = closed.jaxpr
        values: dict[Any, ArrayValue] = {}
        values |= zip(jaxpr.constvars, (self._constant(c) for c in closed.consts), strict=True)
        values |= zip(jaxpr.invars, inputs, strict=True)
        read = lambda atom: ArrayValue.of(atom.val) if isinstance(atom, Literal) else values[atom]
        outer = self.scope
        for equation in jaxpr.eqns:
            self.layer = ".".join(filter(None, (outer, layer_of(equation))))
            results = self._equation(equation, [read(atom) for atom in equation.invars])
            values |= zip(equation.outvars, results, strict=True)
        self.layer = outer
        return [read(atom) for atom in jaxpr.outvars]

    def block(self, closed: ClosedJaxpr, constants: Sequence[ArrayValue]) -> Block:
        """Return a JAX program, such as the body of a loop, as a block.

        The first inputs of the program are `constants`. The other inputs of the program become the inputs of the block.
        """
        inside = Tracer(self.rules, self.layer)
        inputs = [inside.fresh(v.aval, "a value of a loop") for v in closed.jaxpr.invars[len(constants) :]]
        return needed(Block(inputs, inside.operations, inside.inline(closed, [*constants, *inputs])))

    def _constant(self, array: ArrayLike) -> ArrayValue:
        self.dtype(jax.typeof(array), "a constant")
        return ArrayValue.of(array)

    def _equation(self, equation: Equation, operands: list[ArrayValue]) -> Sequence[ArrayValue]:
        name = equation.primitive.name
        inner = None if name in self.rules else inner_program(equation)
        if inner is not None:
            outer, self.scope = self.scope, self.layer
            try:
                return self.inline(inner, operands)
            finally:
                self.scope = outer
        for variable in equation.outvars:
            if name not in self.rules and str(variable.aval.dtype) not in _TYPES:
                raise ValueError(_unsupported(name, self.layer))  # the reason of `fft` says more than its dtype
            self.dtype(variable.aval, f"the result of the primitive {name!r}")
        folded = self._folded(equation, operands)
        if folded is not None:
            return folded
        if name not in self.rules:
            raise ValueError(_unsupported(name, self.layer))
        results = self.rules[name](self, equation, operands)
        return [results] if isinstance(results, ArrayValue) else results

    def _folded(self, equation: Equation, operands: list[ArrayValue]) -> list[ArrayValue] | None:
        """Compute the results of an equation at export, and return them as constants.

        Return None if an operand is unknown at export, or if the results are much larger than the operands.
        """
        if equation.primitive.name in _KEPT:
            return None
        known = [n for o in operands if (n := known_bytes(o)) is not None]
        size = sum(int(np.prod(v.aval.shape)) * v.aval.dtype.itemsize for v in equation.outvars)
        if len(known) < len(operands) or size > sum(known) + _GROWTH:
            return None
        arrays = [jax.numpy.asarray(evaluated(o)) for o in operands]
        out = equation.primitive.bind(*arrays, **equation.params)
        return [ArrayValue.of(one) for one in (out if equation.primitive.multiple_results else [out])]


_RANDOM = ("random_", "threefry", "rng_")


def _unsupported(name: str, layer: str) -> str:
    where = f" in layer {layer!r}" if layer else ""
    if name.startswith(_RANDOM):
        return (
            f"to_wasm: the function draws random numbers (primitive {name!r}{where}); expected a pure inference "
            "function. Call the model with training=False, or draw the numbers outside and pass them."
        )
    return (
        f"to_wasm: the primitive {name!r}{where} is not supported; expected one of those in "
        f"funcnet.export.wasm.rules.RULES, got {name!r}. {reason_for(name, (*EVERY_FORM, *UNSUPPORTED)).advice}"
    )
