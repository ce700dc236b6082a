"""Pure functions that return the outputs of modules by name, and the gradients with respect to these outputs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import tree
from funcnet.nn.core import binding
from funcnet.nn.core.call import Taps, call_name, outermost
from funcnet.nn.core.module_tree import Node
from funcnet.tree import Params, PyTree, State

__all__ = ["capture", "capture_all", "capture_gradients"]

Run = Callable[..., Any]


def _capturing(net: Node, pattern: tree.Patterns, where: str) -> Callable[..., Any]:
    """Return a function that runs the net and records the outputs of the modules that `pattern` selects.

    The function is `run(taps, params, state, inputs, kwargs) -> (out, state, {(name, number of the call): output})`.
    """
    names = [name for name, _ in net.named_modules()]
    chosen = frozenset(tree.select(pattern, names, covers=False, where=where))

    def run(taps: PyTree, params: Params, state: State, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kwargs = dict(kwargs)
        method = kwargs.pop("method", None)
        how = {name: kwargs.pop(name, default) for name, default in _HOW.items()}
        call = outermost(net, "apply", inputs, method, **how, capture=chosen, taps=taps)
        return binding.run(net, params, state, inputs, kwargs, call, method)

    return run


def _by_name(values: Taps, where: str) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for key, value in values.items():
        if call_name(*key) in named:
            raise ValueError(
                f"{where}: two calls have the name {call_name(*key)!r}, the first call of one module and a later call "
                "of another module; expected one call per name. Rename one of the modules."
            )
        named[call_name(*key)] = value
    return named


_HOW = {"training": False, "rng": None, "hooks": None}


def capture(net: Node, pattern: tree.Patterns) -> Run:
    """Return a version of `apply` that also returns the outputs of the modules that `pattern` names.

    Args:
        net: a description.
        pattern: one name pattern or several. A pattern selects the modules that it matches, but not their submodules.

    Returns:
        a function ``run(params, state, *inputs, **kwargs) -> (out, state, {name: output})``, which takes the arguments
        of `apply`. The output of the second call of a module is named "name:1". The outputs of the layers of a stacked
        `Repeat` are stacked under one name.

    Raises:
        ValueError: if the pattern matches no module (the message shows the nearest names), or matches a single layer of
            a stack.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        >>> params, state = net.init(jax.random.key(0))
        >>> y, state, outputs = nn.capture(net, "*")(params, state, jnp.ones((5, 2)))
        >>> {name: output.shape for name, output in outputs.items()}
        {'0': (5, 3), '1': (5, 1)}
    """
    run = _capturing(net, pattern, "nn.capture")

    def captured(params: Params, state: State, *inputs: PyTree, **kwargs: object) -> Any:
        out, new, outputs = run({}, params, state, inputs, kwargs)
        return out, new, _by_name(outputs, "nn.capture")

    return captured


def capture_gradients(net: Node, pattern: tree.Patterns, loss: Callable[[Any], jax.Array]) -> Run:
    """Return a function that computes the gradients of a loss with respect to the outputs of modules.

    Args:
        net: a description.
        pattern: as in `capture`.
        loss: function that takes the net's output and returns a scalar.

    Returns:
        a function ``run(params, state, *inputs, **kwargs) -> (loss, {name: gradient})``, which takes the arguments of
        `apply`. A gradient has the structure of the module's output, with None for arrays that are not floating-point.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        >>> params, state = net.init(jax.random.key(0))
        >>> value, gradients = nn.capture_gradients(net, "1", jnp.sum)(params, state, jnp.ones((2, 2)))
        >>> gradients["1"].tolist()
        [[1.0], [1.0]]
    """
    run = _capturing(net, pattern, "nn.capture_gradients")

    def gradients(params: Params, state: State, *inputs: PyTree, **kwargs: object) -> Any:
        def value(taps: PyTree) -> jax.Array:
            return loss(run(taps, params, state, inputs, kwargs)[0])

        _, _, outputs = jax.eval_shape(lambda: run({}, params, state, inputs, kwargs))
        reached, by_call = jax.value_and_grad(value)(jax.tree.map(_tap, outputs))
        return reached, _by_name(by_call, "nn.capture_gradients")

    return gradients


def capture_all(net: Node, loss: Callable[[Any], jax.Array]) -> Run:
    """Return a function that computes the outputs and the gradients of all modules in one forward and backward pass.

    Args:
        net: a description.
        loss: as in `capture_gradients`.

    Returns:
        a function ``run(params, state, *inputs, **kwargs) -> (gradients of params, state, outputs, gradients of
        outputs)``, which takes the arguments of `apply`. The outputs are named as in `capture`, and the gradients of
        the outputs as in `capture_gradients`. Both contain None in place of values that are neither arrays nor numbers,
        such as strings.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 1, bias=False)
        >>> by_param, _, outputs, by_output = capture_all(net, jnp.sum)({"weight": jnp.ones((1, 2))}, {}, jnp.ones(2))
        >>> by_param["weight"].tolist(), outputs[""].tolist(), by_output[""].tolist()
        ([[1.0, 1.0]], [2.0], [1.0])
    """
    run = _capturing(net, "**", "capture_all")

    def captured(params: Params, state: State, *inputs: PyTree, **kwargs: object) -> Any:
        def value(params: Params, taps: PyTree) -> Any:
            out, new, outputs = run(taps, params, state, inputs, kwargs)
            return loss(out), (new, jax.tree.map(_number, outputs))

        shapes = jax.eval_shape(lambda: jax.tree.map(_number, run({}, params, state, inputs, kwargs)[2]))
        gradients, aux = jax.grad(value, (0, 1), has_aux=True)(params, jax.tree.map(_tap, shapes))
        (by_param, by_call), (new, outputs) = gradients, aux
        return by_param, new, *(_by_name(values, "capture_all") for values in (outputs, by_call))

    return captured


def _tap(output: PyTree) -> Any:
    return jnp.zeros(output.shape, output.dtype) if jnp.issubdtype(output.dtype, jnp.inexact) else None


def _number(output: PyTree) -> Any:
    return output if hasattr(output, "dtype") or isinstance(output, bool | int | float | complex) else None
