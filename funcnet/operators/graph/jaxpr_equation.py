"""An equation of a jaxpr, with the values of its operands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import JaxprEqn, Literal

from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue, is_inexact, to_array

__all__ = ["POINTWISE", "Equation", "Rule", "operator_node", "unknown_node"]


@dataclass(frozen=True)
class Equation:
    """An equation, with the values of its operands.

    Attributes:
        eqn: the equation of the jaxpr.
        given: its operands.
        tape: where nodes are made.
        consumers: {variable: the equations that use it}, with None for the results of the jaxpr.
        known: {variable: value}. If a rule also computes a later equation, it puts the result here.
    """

    eqn: Any
    given: Sequence[TapeValue]
    tape: Tape
    consumers: Mapping[Any, list[Any]]
    known: dict[Any, TapeValue]

    @property
    def name(self) -> str:
        return str(self.eqn.primitive.name)

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.eqn.params)

    def is_number(self, place: int) -> bool:
        """Whether an operand is a number in the code."""
        return isinstance(self.eqn.invars[place], Literal) and not self.given[place].shape

    def next_equation(self, eqn: JaxprEqn) -> Any:
        """Return the equation that uses the result of `eqn`, or None if no equation or more than one uses it."""
        users = self.consumers.get(eqn.outvars[0], [])
        return users[0] if len(users) == 1 else None

    def arrays(self) -> list[Any]:
        """Return the results that JAX computes."""
        found = self.eqn.primitive.bind(*(one.array for one in self.given), **self.eqn.params)
        results = found if self.eqn.primitive.multiple_results else [found]
        return [self._laid_out(one) for one in results]

    def _laid_out(self, result: jax.Array) -> Any:
        """Return the result of an element-wise operation with the memory layout of its operands, as torch does."""
        array = to_array(result)
        for one in self.given if self.name in POINTWISE else ():
            if one.shape == array.shape and not one.is_contiguous:
                laid_out = np.empty_like(one.array, dtype=array.dtype, order="K")
                np.copyto(laid_out, array)
                return laid_out
        return array


Rule = Callable[[Equation], list[TapeValue]]
POINTWISE = frozenset(
    {
        "add",
        "add_any",
        "sub",
        "mul",
        "div",
        "max",
        "min",
        "pow",
        "neg",
        "abs",
        "exp",
        "log",
        "tanh",
        "logistic",
        "sin",
        "cos",
        "sqrt",
        "rsqrt",
        "square",
        "integer_pow",
        "select_n",
        "convert_element_type",
        "erf",
    }
)


def unknown_node(equation: Equation) -> list[TapeValue]:
    """Make a node with the name of the primitive, because torch has none."""
    name = "".join(part.capitalize() for part in equation.name.split("_")) + "Backward"
    edges = [one.edge for one in equation.given if is_inexact(one.array)]
    return equation.tape.node(name, edges, equation.arrays(), is_torchs=False)


def operator_node(equation: Equation) -> list[TapeValue]:
    """Make the node of an operator of `operators.define`, which saves its arguments and results."""
    call = equation.params["call"]
    name = "".join(part.capitalize() for part in call.operator.schema.full_name.split("::")[-1].split("_"))
    results = equation.arrays()
    saved: dict[str, Any] = {}
    edges = []
    for key, value in zip(call.settings.names(), equation.given, strict=True):
        saved[key] = [*saved[key], value.array] if isinstance(saved.get(key), list) else value.array
        edges += [value.edge] if is_inexact(value.array) else []
    saved |= {"result" if len(results) == 1 else f"result{n}": one for n, one in enumerate(results)}
    return equation.tape.node(f"{name}Backward", edges, results, saved, is_torchs=False)
