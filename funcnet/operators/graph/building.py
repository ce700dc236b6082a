"""`backward`: the graph that torch's autograd would build for a function."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.backward_graph import BackwardGraph
from funcnet.operators.graph.function_plans import PLANS, UNPLANNED
from funcnet.operators.graph.jaxpr_evaluation import Evaluation
from funcnet.operators.graph.recording import Recorder, recording
from funcnet.operators.graph.torch_operations.backward_nodes import BackwardNode
from funcnet.operators.graph.torch_operations.tape import TapeValue, is_inexact, to_array
from funcnet.operators.native.library import allowed

__all__ = ["backward"]

WHERE = "operators.graph.backward"


def backward(function: Callable[..., Any], argnums: int | Sequence[int] | None = None) -> Callable[..., BackwardGraph]:
    """Return a function with the same arguments that returns the graph of the backward pass.

    The graph is the one that torch's autograd builds on CPU for the same model. Its nodes have torch's names, edges and
    saved values, and are in the order in which torch's engine runs them. Every floating-point array in the arguments
    requires a gradient.

    Args:
        function: a pure function of arrays, or of nested dicts and lists of arrays. It may call functions of
            `funcnet.functional`, layers of `funcnet.nn` by their `apply`, operators of `operators.define`, and
            `jax.numpy`. It is run once with abstract values, as by `jax.jit`.
        argnums: which positional arguments require gradients. By default, all arguments do, including keyword
            arguments.

    Returns:
        The function that builds the graph.

    Raises:
        TypeError: if an argument holds something that is not an array, or the arrays have no values, as inside `jit`.
        ValueError: if `argnums` names an argument that is missing, or no result depends on an argument that requires
            a gradient.

    Differs from torch: the function sees no tensors, so `x.mT` and `x.swapaxes(-1, -2)` are the same. See
        `docs/operators.md`.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import functional as F
        >>> graph = backward(lambda x, w: F.relu(F.linear(x, w)))(jnp.ones((2, 3)), jnp.ones((4, 3)))
        >>> [node.name for node in graph.nodes]
        ['ReluBackward0', 'MmBackward0', 'AccumulateGrad', 'TBackward0', 'AccumulateGrad']
        >>> graph.nodes[0].next_functions
        ((<MmBackward0>, 0),)
        >>> sorted(graph.nodes[1].saved)
        ['mat2', 'self']
    """

    def build(*args: Any, **kwargs: Any) -> BackwardGraph:
        chosen = _chosen(argnums, len(args))
        leaves, structure = jax.tree_util.tree_flatten_with_path((args, kwargs))
        names = _names(function, len(args))
        values: list[TapeValue] = []
        for path, leaf in leaves:
            where = _path(names, path)
            array = _checked(where, leaf)
            is_positional = path[0].idx == 0
            needs = chosen is None or (is_positional and path[1].idx in chosen)
            values.append(_leaf(array, where) if needs and is_inexact(array) else TapeValue(array))
        recorder = Recorder(PLANS, UNPLANNED)
        shapes: Any = None

        def run(*arrays: jax.Array) -> list[Any]:
            nonlocal shapes
            args, kwargs = jax.tree.unflatten(structure, arrays)
            with recording(recorder), jax.disable_jit():  # so that loops and calls of other functions are open
                flat, shapes = jax.tree.flatten(function(*args, **kwargs))
            return flat

        with allowed(False):  # functions without a plan are opened into operations of JAX
            closed = jax.make_jaxpr(run)(*(leaf for _, leaf in leaves))
        found = Evaluation(recorder.calls, PLANS).run(closed.jaxpr, closed.consts, values)
        _check_results(found)
        results = jax.tree.unflatten(shapes, [one.array for one in found])
        return BackwardGraph(tuple(one.edge for one in found if one.edge is not None), results)

    return build


def _leaf(array: NDArray[Any], path: str) -> TapeValue:
    node = BackwardNode("AccumulateGrad", (), (jax.ShapeDtypeStruct(array.shape, array.dtype),), path=path)
    return TapeValue(array, (node, 0))


def _chosen(argnums: int | Sequence[int] | None, count: int) -> set[int] | None:
    if argnums is None:
        return None
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    if wrong := [number for number in numbers if not -count <= number < count]:
        raise ValueError(
            f"{WHERE}: argnums names a missing argument; expected numbers below {count}, the number of positional "
            f"arguments, got {wrong[0]}."
        )
    return {number % count for number in numbers}


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the name of each positional argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for one in parameters:
        if one.kind is one.VAR_POSITIONAL:
            names += [f"{one.name}[{number}]" for number in range(count - len(names))]
        elif one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            names.append(one.name)
    return names + [f"args[{number}]" for number in range(len(names), count)]


def _path(names: Sequence[str], path: Sequence[Any]) -> str:
    start = names[path[1].idx] if path[0].idx == 0 else str(path[1].key)
    return start + jax.tree_util.keystr(tuple(path[2:]))


def _checked(where: str, leaf: object) -> Any:
    """Return the values of an argument."""
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(
            f"{WHERE}: {where} has no values; expected an array, got {leaf.aval.str_short()} of a function that JAX "
            "transforms. Call `backward` outside of jit, grad and vmap: the graph holds values."
        )
    if not isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float | complex):
        raise TypeError(
            f"{WHERE}: {where} is not an array; expected arrays in nested dicts, lists or tuples, got "
            f"{type(leaf).__name__}. Set it with functools.partial."
        )
    return to_array(leaf if hasattr(leaf, "dtype") else jnp.asarray(leaf))


def _check_results(found: Sequence[TapeValue]) -> None:
    if not any(is_inexact(one.array) for one in found):
        raise ValueError(
            f"{WHERE}: the function returns nothing that has a gradient; expected a floating-point array, got "
            f"{', '.join(str(one.dtype) for one in found) or 'no arrays'}."
        )
    if not any(one.requires_grad for one in found):
        raise ValueError(
            f"{WHERE}: no result depends on an argument that requires a gradient; expected a floating-point argument "
            "among `argnums` that reaches a result without stop_gradient, got none."
        )
