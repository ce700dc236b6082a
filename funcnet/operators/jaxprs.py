"""Traced JAX programs (jaxprs): their equations, the programs inside an equation, and the layer of an equation."""

from collections.abc import Iterator
from typing import Any, Protocol

from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive

__all__ = ["JaxprEquation", "called_program", "layer_of", "subprograms"]

# Equations that only run an inner program, with their own operands and results. `reduce` is not one of them: it applies
# a program to many pairs of entries. Neither is `shard_map`: the arrays in its program are parts of its operands.
CALLS = frozenset(
    {"jit", "pjit", "call", "closed_call", "core_call", "remat", "remat2", "checkpoint", "composite", "compute_on"}
    | {"custom_jvp_call", "custom_vjp_call"}
)


class JaxprEquation(Protocol):
    """An equation of a jaxpr. It describes JAX's own `JaxprEqn`, whose annotations do not say that the `aval` of a
    variable has a shape and a dtype.

    Attributes:
        primitive: the operation.
        invars: the operands, variables or literals.
        outvars: the variables for the results.
        params: the settings of the operation.
        effects: the side effects of the operation.
        source_info: where the operation comes from, with the named scopes around it.
    """

    primitive: Primitive
    invars: list[Any]
    outvars: list[Any]
    params: dict[str, Any]
    effects: Any
    source_info: Any


def called_program(equation: JaxprEquation) -> ClosedJaxpr | None:
    """Return the program that an equation calls, or None if the equation is not a call.

    Example:
        >>> import jax
        >>> program = jax.make_jaxpr(jax.jit(jax.numpy.sin))(1.0)
        >>> [equation.primitive.name for equation in called_program(program.eqns[0]).eqns]
        ['sin']
    """
    if equation.primitive.name not in CALLS:
        return None
    for name in ("jaxpr", "call_jaxpr"):
        inner = equation.params.get(name)
        if inner is not None:
            return inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
    return None


def layer_of(equation: JaxprEquation) -> str:
    """Return the dotted name of the layer that an equation belongs to, relative to its program, or "".

    Example:
        >>> import jax
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.ReLU(), nn.Tanh())
        >>> program = jax.make_jaxpr(lambda x: net.apply({}, {}, x)[0])(1.0)
        >>> layer_of(program.eqns[0]), layer_of(program.eqns[-1])
        ('0', '1')
    """
    # einsum and transformations add segments that are not names of layers, such as "bhd,bkd->bhk" and "vmap(fc)"
    segments = str(equation.source_info.name_stack).split("/")
    return ".".join(segment for segment in segments if segment.isidentifier() or segment.isdigit())


def subprograms(equation: JaxprEquation) -> Iterator[Jaxpr]:
    """Yield the programs that an equation contains, such as the body of a loop.

    Example:
        >>> import jax
        >>> loop = jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: 2 * y, x))(1.0)
        >>> [len(program.outvars) for program in subprograms(loop.eqns[0])]
        [2]
    """
    for value in equation.params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, ClosedJaxpr):
                yield one.jaxpr
            elif isinstance(one, Jaxpr):
                yield one
