"""Recording of the calls of functions while a function of the user is traced.

A `jaxpr` shows what a function computes, but not which functions were called: `linear` is a product and a sum. `recorded`
wraps a function so that its call becomes one equation of the jaxpr while a graph is recorded. The equation has a
number, under which the `Recorder` keeps the name of the function and its arguments. At all other times the wrapper only
looks up a context variable.

This context variable is the only hidden state of the package. The functions cannot be told in another way that a graph
is recorded, because the user's function calls them. JAX's own tracing context works in the same way.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

__all__ = ["CALL", "Recorder", "RecordedCall", "evaluate", "recorded", "recording"]

F = TypeVar("F", bound=Callable[..., Any])
_recorder: ContextVar["Recorder | None"] = ContextVar("funcnet_recorder", default=None)


def recorded(function: F, name: str | None = None, module: str | None = None) -> F:
    """Wrap a function so that its calls are recorded while a graph is built.

    Args:
        function: the function.
        name: the name of its plan; the default is the name of the function.
        module: the module in which pickle finds the wrapper; the default is the function's own.

    Example:
        >>> twice = recorded(lambda x: 2 * x, name="twice")
        >>> twice(3)
        6
    """
    look_up, plan = _recorder.get, name or function.__name__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = look_up()
        if recorder is None:
            return function(*args, **kwargs)
        return recorder.call(plan, function, args, kwargs)

    if module is not None:
        call.__module__ = module
    return call  # type: ignore[return-value]


@contextlib.contextmanager
def recording(recorder: "Recorder | None") -> Iterator[None]:
    """Record calls inside the `with` block; None stops recording there."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


@dataclass(frozen=True)
class RecordedCall:
    """A call of a function.

    Attributes:
        name: the name of its plan, or "" if it has none.
        function: the function.
        leaves: the leaves of its arguments. An integer wrapped in `Place` stands for an array of the equation.
        structure: the structure of (positional arguments, keyword arguments).
        results: the structure of the results.
        before: how many operands of the equation precede the arrays of the arguments.
    """

    name: str
    function: Callable[..., Any]
    leaves: Sequence[Any]
    structure: Any
    results: Any
    before: int

    def arguments(self, operands: Sequence[Any]) -> dict[str, Any]:
        """Return {name of a parameter: argument}, with `operands` in the place of arrays."""
        arrays = operands[self.before :]
        leaves = [arrays[leaf.index] if isinstance(leaf, Place) else leaf for leaf in self.leaves]
        args, kwargs = jax.tree.unflatten(self.structure, leaves)
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


@dataclass(frozen=True)
class Place:
    """The place of an array among the operands of an equation."""

    index: int


class Recorder:
    """Keeps the recorded calls.

    Args:
        planned: names of the functions that have a plan. Calls inside the others are recorded too.
        unplanned: {function: a keyword argument with which it has no plan}.
    """

    def __init__(self, planned: Mapping[str, Any], unplanned: Mapping[str, str]):
        self.planned, self.unplanned = planned, unplanned
        self.calls: list[RecordedCall] = []

    def call(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a function as one equation of the jaxpr that is being traced."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        # An array that is passed twice remains one array, because functions ask whether `query is key`.
        arrays = list({id(leaf): leaf for leaf in leaves if isinstance(leaf, jax.core.Tracer)}.values())
        places = {id(array): Place(number) for number, array in enumerate(arrays)}
        marked = [places.get(id(leaf), leaf) for leaf in leaves]
        results: Any = None
        is_planned = name in self.planned and kwargs.get(self.unplanned.get(name, "")) is None

        def run(*arrays: Any) -> list[Any]:
            nonlocal results
            given = [arrays[leaf.index] if isinstance(leaf, Place) else leaf for leaf in marked]
            args, kwargs = jax.tree.unflatten(structure, given)
            with recording(None if is_planned else self), jax.disable_jit(not is_planned):
                flat, results = jax.tree.flatten(function(*args, **kwargs))
            return flat

        closed = jax.make_jaxpr(run)(*arrays)
        number = len(self.calls)
        self.calls.append(RecordedCall(name if is_planned else "", function, marked, structure, results, len(closed.consts)))
        flat = CALL.bind(*closed.consts, *arrays, jaxpr=closed.jaxpr, number=number)
        return jax.tree.unflatten(results, flat)


def evaluate(*operands: Any, jaxpr: Any, number: int) -> list[Any]:
    """Return the results of a recorded equation."""
    before = len(jaxpr.constvars)
    return jax.core.eval_jaxpr(jaxpr, operands[:before], *operands[before:])


def _types(*operands: Any, jaxpr: Any, number: int) -> list[Any]:
    return [variable.aval for variable in jaxpr.outvars]


def _batch(operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """Under `vmap`, a call falls apart into its operations."""
    axes = [None if dim is batching.not_mapped else dim for dim in dims]
    results = jax.vmap(functools.partial(evaluate, **params), axes)(*operands)
    return results, [0] * len(results)


def _jvp(operands: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """In derivatives, a call falls apart into its operations."""
    given = [ad.instantiate_zeros(tangent) for tangent in tangents]
    return jax.jvp(functools.partial(evaluate, **params), tuple(operands), tuple(given))


CALL = Primitive("recorded_call")
CALL.multiple_results = True
CALL.def_impl(evaluate)
CALL.def_abstract_eval(_types)
batching.primitive_batchers[CALL] = _batch
ad.primitive_jvps[CALL] = _jvp
mlir.register_lowering(CALL, mlir.lower_fun(evaluate, multiple_results=True))
