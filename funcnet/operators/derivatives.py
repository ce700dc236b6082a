"""Derivatives of operators, as formulas such as `where(self > 0, grad, slope * grad)` or as functions.

A formula is an expression in Python's syntax. It can use the arguments of the operator, `grad` (the gradient of the
result), `result`, and the functions of `jax.numpy`. If there are several results, it uses the tuples `grads` and
`results` instead, or single results as `result0`, `result1`, …. Only results that a derivative uses are kept for the
backward pass.

For complex numbers, `grad` and the gradient are those of JAX, the complex conjugates of torch's gradients.
"""

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.operators.schema import Schema

__all__ = ["Derivative", "derivative_of"]

GIVEN = ("grad", "result"), ("grads", "results")


@dataclass(frozen=True)
class Derivative:
    """A derivative.

    Attributes:
        names: the names whose values it uses.
        function: a function of these values by name.
    """

    names: frozenset[str]
    function: Callable[..., Any]

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Return the gradient for {name: value}. Names that the derivative does not use are ignored."""
        return self.function(**{name: values[name] for name in self.names})

    def keeps(self, results: int) -> set[int]:
        """Return the numbers of the results that it uses."""
        if self.names & {"result", "results"}:
            return set(range(results))
        return {number for number in range(results) if f"result{number}" in self.names}


def derivative_of(schema: Schema, name: str, given: str | Callable[..., jax.Array]) -> Derivative:
    """Return the derivative for an argument.

    Args:
        schema: the signature of the operator.
        name: the argument.
        given: a formula, or a function whose parameters are some of the names that a formula may have.

    Raises:
        ValueError: if the formula does not parse, or has an unknown name.

    Example:
        >>> from funcnet.operators.schema_parsing import parse
        >>> schema = parse("square(Tensor self) -> Tensor")
        >>> derivative_of(schema, "self", "2 * self * grad")({"self": 3.0, "grad": 1.0, "result": 9.0})
        6.0
    """
    where = f"{schema.full_name}.derivative: {name}"
    arguments, count = [one.name for one in schema.arguments], len(schema.returns)
    own = (*GIVEN[1], *(f"result{number}" for number in range(count))) if count > 1 else GIVEN[0]
    if taken := sorted(set(arguments) & set(own)):
        raise ValueError(
            f"{where}: an argument of the operator has the name {taken[0]!r}, which stands for the gradient or the "
            "result; expected another name. Declare the operator with it."
        )
    known = [*arguments, *own]
    if callable(given):
        wanted = list(inspect.signature(given).parameters)
        if unknown := [one for one in wanted if one not in known]:
            raise ValueError(
                f"{where}: the function has an unknown parameter; expected some of {', '.join(known)}, got "
                f"{unknown[0]!r}."
            )
        return Derivative(frozenset(wanted), given)
    try:
        code = ast.parse(given.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(
            f"{where}: the formula does not parse; expected an expression, got {given!r}: {error.msg} at column "
            f"{error.offset}."
        ) from None
    wanted = [node.id for node in ast.walk(code) if isinstance(node, ast.Name)]
    if unknown := [one for one in wanted if one not in known and not hasattr(jnp, one)]:
        raise ValueError(
            f"{where}: the formula has an unknown name; expected {', '.join(known)}, or a function of jax.numpy, got "
            f"{unknown[0]!r} in {given!r}."
        )
    compiled = compile(code, f"<derivative of {schema.full_name}>", "eval")
    functions = {one: getattr(jnp, one) for one in wanted if one not in known}
    evaluate = lambda **values: eval(compiled, {"__builtins__": {}}, {**functions, **values})
    return Derivative(frozenset(wanted) & set(known), evaluate)
