"""Functions that run a child module as a pure function inside `lax.scan` or `jax.checkpoint`."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import jax

from funcnet.nn.core import binding
from funcnet.nn.core.call import Taps
from funcnet.nn.core.module_tree import Node, frame_of, values
from funcnet.nn.core.rebinding import REFERRING, Rebinder
from funcnet.tree import PyTree, Tree

__all__ = ["pure_run", "recomputed", "remat", "take"]


def remat(layer: Node, policy: Callable[..., Any] | None = None) -> Any:
    """Return a copy of the layer that recomputes its activations in the backward pass, in place of storing them.

    Args:
        layer: a description. The copy has the same parts and names, but its dropout masks differ from the layer's.
        policy: one of `jax.checkpoint_policies`. If `policy` is None, no activations are stored.

    Raises:
        TypeError: if `layer` is not a module.

    Example:
        >>> from funcnet import nn
        >>> layer = nn.remat(nn.Linear(2, 2))
        >>> [name for name, _ in layer.named_parameters()]
        ['weight', 'bias']

    Reference: https://docs.jax.dev/en/latest/gradient-checkpointing.html
    """
    if isinstance(layer, type) or not hasattr(layer, "named_parameters"):
        got = "a class" if isinstance(layer, type) else type(layer).__name__
        raise TypeError(f"nn.remat: layer has the wrong type; expected a module, such as nn.Linear(2, 2), got {got}.")
    changed = copy.copy(layer)
    own = vars(changed)
    rebinder = Rebinder({**{id(module): module for module in layer.modules()}, id(layer): changed})
    for name, value in own.items():
        if isinstance(value, REFERRING) and rebinder.refers(value):
            own[name] = rebinder.copied(value)
    own["_remat"] = {"policy": policy}
    return changed


def recomputed(bound: Node, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of a bound module, wrapped in `jax.checkpoint` if the module was made by `nn.remat`."""
    own = vars(bound)
    return functools.partial(_recompute, bound, own["_remat"]["policy"]) if "_remat" in own else forward


def pure_run(bound: Node, method: str | None = None) -> Callable[..., Any]:
    """Return a function that runs a bound module as a pure function of arrays: ``run(params, state, rng, taps, args,
    kwargs) -> (out, state, captured outputs)``.
    """
    frame = frame_of(bound)

    def run(
        params: Tree, state: Tree, rng: jax.Array | None, taps: Taps, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        call = frame.call.inner(frame.name, rng, taps)
        return binding.run(frame.description, params, state, args, kwargs, call, method)

    return run


def take(bound: Node, old_state: Tree, result: tuple[Any, Tree, Taps]) -> Any:
    """Store the new state and the captured outputs of a pure run in the bound module and its `Call`. Return the output
    of the run.
    """
    out, state, captured = result
    if state is not old_state and jax.tree.leaves(state):
        binding.write_back(bound, state)
    call = frame_of(bound).call
    call.captured.update(captured)
    for name, count in captured:
        call.counts[name] = count + 1
    return out


def _recompute(bound: Node, policy: Callable[..., Any] | None, /, *args: PyTree, **kwargs: object) -> Any:
    call = frame_of(bound).call
    rng = None if call.rng is None else bound.make_rng()
    inputs, structure = jax.tree.flatten((args, kwargs))
    arrays = {i: leaf for i, leaf in enumerate(inputs) if isinstance(leaf, jax.Array)}

    def run(params: Tree, state: Tree, rng: jax.Array | None, taps: Taps, arrays: dict[int, Any]) -> Any:
        given = jax.tree.unflatten(structure, [arrays.get(i, leaf) for i, leaf in enumerate(inputs)])
        return pure_run(bound, "forward")(params, state, rng, taps, *given)

    params, state = values(bound)
    return take(bound, state, jax.checkpoint(run, policy=policy)(params, state, rng, call.taps, arrays))
