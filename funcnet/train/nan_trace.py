"""Flags in a training step from which the first module whose output or gradient is not finite can be found. See
`nn.checked`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.nn.inspection.finite_flags import FLAGS, PROBES, describe_broken, lift, lower, zeros_like
from funcnet.tree import PyTree, State

__all__ = ["FLAGS", "PROBES", "describe_broken", "find_probes", "lift", "lower", "only_if", "split_flags"]


def find_probes(loss: Callable[..., Any], chosen: PyTree, *arguments: PyTree) -> dict[str, Any]:
    """Trace a loss function once, and return {PROBES: one probe for each call of a module in the loss function}.

    A probe is an array of zeros. The gradient of a probe shows whether the gradient of a module's output is finite.

    Args:
        loss: function `loss((params, probes), *arguments) -> (loss, ((sums, flags), state))`.
        chosen: the trainable parameters.
        *arguments: arguments of `loss`. Only the shapes and dtypes of these arguments are used.
    """
    _, ((_, flags), _) = jax.eval_shape(loss, (chosen, {PROBES: {}}), *arguments)
    return {PROBES: zeros_like(flags)}


def only_if(wanted: jax.Array, compute: Callable[[], Any]) -> Any:
    """Return `compute()` if `wanted` is True, otherwise zeros of the same shapes. The zeros cost no time.

    Args:
        wanted: one boolean. On several devices, all of them must have the same value.
        compute: function without arguments, such as one that computes the flags of a step.

    Example:
        >>> only_if(jnp.array(False), lambda: jnp.ones(2))
        Array([0., 0.], dtype=float32)
    """
    shapes = jax.eval_shape(compute)
    return lax.cond(wanted, compute, lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))


def split_flags(state: State, probes: dict[str, Any]) -> tuple[Any, Any]:
    """Split the state that an objective returned into (new buffers, flags of the modules).

    Args:
        state: the new buffers that the objective returned. If `probes` is not empty, `state` also contains the flags.
        probes: the result of `find_probes`, or {}.

    Raises:
        ValueError: if `probes` is not empty, but `state` contains no flags.
    """
    if not probes:
        return state, {}
    if FLAGS not in state:
        raise ValueError(
            "train.make_step: nan_trace needs the flags of the layers; expected the objective to pass on its params "
            f"and state to net.apply(params, state, …) and to return the new state, got {sorted(state)}."
        )
    return {name: value for name, value in state.items() if name != FLAGS}, state[FLAGS]
