"""Record the calls of funcnet's functions while a function of the user is traced.

A jaxpr shows what a function computes, but not which functions were called: `linear` is a product and a sum. `recorded`
wraps a function so that two equations mark where its equations begin and end while a graph is recorded. Both equations
have the same number, under which the `Recorder` stores the name of the function and its arguments. At all other times
the wrapper only looks up a context variable.

This context variable is the only hidden state of the package. The user's function calls the recorded functions, so
nothing else can tell them that a graph is being recorded. JAX's own tracing context works in the same way.
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

__all__ = ["BEGIN", "END", "RecordedCall", "Recorder", "recorded", "recording"]

F = TypeVar("F", bound=Callable[..., Any])
_recorder: ContextVar["Recorder | None"] = ContextVar("funcnet_recorder", default=None)


def recorded(function: F, name: str | None = None, is_beside: bool = False) -> F:
    """Wrap a function so that its calls are recorded while a graph is built.

    Args:
        function: the function.
        name: the name of its plan; the default is the name of the function.
        is_beside: whether the name in the module still refers to the function and not to the wrapper. Pickle then finds
            the wrapper as an attribute of the function.

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

    if is_beside:
        call.__qualname__ = f"{function.__qualname__}.recorded"
        vars(function)["recorded"] = call
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
class OperandNumber:
    """A placeholder for an array in recorded arguments: its number among the operands of `BEGIN`."""

    index: int


@dataclass(frozen=True)
class RecordedCall:
    """A call of a function.

    Attributes:
        name: the name of its plan.
        function: the function.
        leaves: the leaves of its arguments, with numbers of operands in place of arrays.
        structure: the structure of (positional arguments, keyword arguments).
        results: the structure of the results.
    """

    name: str
    function: Callable[..., Any]
    leaves: Sequence[Any]
    structure: Any
    results: Any

    def arguments(self, operands: Sequence[Any]) -> dict[str, Any]:
        """Return {name of a parameter: argument}, with `operands` in the place of arrays."""
        leaves = [operands[leaf.index] if isinstance(leaf, OperandNumber) else leaf for leaf in self.leaves]
        args, kwargs = jax.tree.unflatten(self.structure, leaves)
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


class Recorder:
    """Keeps the recorded calls.

    Args:
        planned: names of the functions that have a plan. Calls of other functions are not recorded, but the calls
            inside them are.
        unplanned: {function: a keyword argument}. A call with this argument has no plan, unless the argument is a
            function with a plan.
    """

    def __init__(self, planned: Mapping[str, Any], unplanned: Mapping[str, str]):
        self.planned, self.unplanned = planned, unplanned
        self.calls: dict[int, RecordedCall] = {}
        self.count = 0

    def call(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function between two equations that mark where its equations begin and end.

        The function is not traced separately, because a layer among its arguments may draw random keys only in the
        trace in which it is bound.
        """
        special = kwargs.get(self.unplanned.get(name, ""))
        if name not in self.planned or not (special is None or getattr(special, "__name__", "") in self.planned):
            return function(*args, **kwargs)
        leaves, structure = jax.tree.flatten((args, kwargs))
        # An array that is passed twice remains one array, because functions ask whether `query is key`.
        arrays = list({id(leaf): leaf for leaf in leaves if isinstance(leaf, jax.core.Tracer)}.values())
        places = {id(array): OperandNumber(number) for number, array in enumerate(arrays)}
        marked = [places.get(id(leaf), leaf) for leaf in leaves]
        number, self.count = self.count, self.count + 1
        inside = BEGIN.bind(*arrays, number=number)
        given = [inside[leaf.index] if isinstance(leaf, OperandNumber) else leaf for leaf in marked]
        args, kwargs = jax.tree.unflatten(structure, given)
        with recording(None), jax.disable_jit(False):
            flat, results = jax.tree.flatten(function(*args, **kwargs))
        self.calls[number] = RecordedCall(name, function, marked, structure, results)
        return jax.tree.unflatten(results, END.bind(*flat, number=number))


def _same(*operands: jax.Array, number: int) -> list[Any]:
    return list(operands)


def _mark(name: str) -> Primitive:
    """Return a primitive that returns its operands. Under `vmap` and in derivatives, the marks are removed, so the
    graph shows the operations of the call.
    """
    made = Primitive(name)
    made.multiple_results = True
    made.def_impl(_same)
    made.def_abstract_eval(_same)
    batching.primitive_batchers[made] = lambda operands, dims, number: (list(operands), list(dims))
    ad.primitive_jvps[made] = lambda operands, tangents, number: (list(operands), list(tangents))
    mlir.register_lowering(made, mlir.lower_fun(_same, multiple_results=True))
    return made


BEGIN, END = _mark("recorded_call_begins"), _mark("recorded_call_ends")
