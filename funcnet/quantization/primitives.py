"""A decorator that makes a function of arrays one named operation of a traced program, which exporters recognise.

Some functions of integers need several steps in XLA, because JAX has no 64-bit integers by default, and XLA has few
fast integer products. An exporter whose target has a direct operation recognises the function by its name, and writes
the direct operation. Every other exporter reads the traced program of the function, as it does for any other call.
"""

import functools
from collections.abc import Callable, Hashable, Sequence

import jax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir

__all__ = ["primitive"]


def primitive(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """Turn a function into one operation with the name of the function. Use `primitive` as a decorator.

    The parameters of the operation are the keyword arguments of the call and `plain_program`, the traced program of the
    function. Under `vmap`, `plain_program` replaces the operation.

    Args:
        function: function of arrays that returns one array. Its keyword arguments are static, hashable settings.

    Returns:
        A function with the same arguments and the same result.

    Example:
        >>> @primitive
        ... def halves(x, *, more):
        ...     return x // 2 + more
        >>> print(halves(jax.numpy.arange(4), more=1))
        [1 1 2 2]
        >>> [one.primitive.name for one in jax.make_jaxpr(lambda x: halves(x, more=1))(3).eqns]
        ['halves']
    """
    operation = Primitive(function.__name__)

    @functools.wraps(function)
    def call(*arrays: jax.Array, **settings: Hashable) -> jax.Array:
        jaxpr = jax.make_jaxpr(functools.partial(function, **settings))(*arrays)
        return operation.bind(*arrays, plain_program=jaxpr, **settings)

    operation.def_impl(_run)
    operation.def_abstract_eval(lambda *avals, plain_program, **settings: plain_program.out_avals[0])
    batching.primitive_batchers[operation] = _run_batched
    mlir.register_lowering(operation, mlir.lower_fun(_run, multiple_results=False))
    return call


def _run(*arrays: jax.Array, plain_program: ClosedJaxpr, **settings: Hashable) -> jax.Array:
    return jaxpr_as_fun(plain_program)(*arrays)[0]


def _run_batched(
    arrays: Sequence[jax.Array], axes: Sequence[int | None], *, plain_program: ClosedJaxpr, **settings: Hashable
) -> tuple[jax.Array, int]:
    return jax.vmap(functools.partial(_run, plain_program=plain_program), axes)(*arrays), 0
