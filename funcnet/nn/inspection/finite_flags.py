"""Flags inside a compiled step that show which layer first had an output or a gradient that is not finite.

If params has an entry `PROBES`, `net.apply` records for each call of a module whether the output is finite. `apply`
returns these flags in the state, under `FLAGS`. A probe is an array of zeros that does not change any result. The
gradient with respect to a probe is a flag, which shows whether the gradient with respect to the module's output is
finite. Probes and flags are passed in params and state, so they need no hidden state and work in any transformation.
For example, `nn.checked` uses probes and flags.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.nn.core import binding
from funcnet.nn.core.call import Taps, call_name, outermost
from funcnet.nn.core.inputs_and_outputs import arrays
from funcnet.nn.core.module_tree import Node
from funcnet.tree import Params, PyTree, State

__all__ = ["FLAGS", "PROBES", "describe_broken", "flagged_apply", "lift", "lower", "zeros_like"]

PROBES = "@probes"
FLAGS = "@flags"


def flagged_apply(
    net: Node,
    params: Params,
    state: State,
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any],
    method: str | None,
    **how: Any,
) -> tuple[Any, Any]:
    """Run a net, and return flags for the outputs that are not finite. `net.apply` calls this function if `params`
    contains `PROBES`.

    Args:
        net: a description.
        params: params of the net. `params[PROBES]` is {(module name, number of the call): probe}, and a probe is an
            array of zeros with the shape of the flag. If a call has no probe, the gradient of its output gets no flag.
        state: state of the net. If the state already contains flags of an earlier run, the new flags are merged with
            them.
        inputs, kwargs: arguments of `forward`.
        method: name of the method to run, or None for `forward`.
        **how: `training`, `rng` and `hooks` of `apply`.

    Returns:
        (output, state). `state[FLAGS]` is {(module name, number of the call): [flag, position]}, in float32. The flag
        is 1 if the output is not finite, else 0. The position is the number of module calls that ended before this
        call. The layers of a stack share one entry, whose first dimension is the layer.
    """
    params, state = dict(params), dict(state)
    probes, before = params.pop(PROBES), state.pop(FLAGS, {})
    names = frozenset(name for name, _ in net.named_modules())
    call = outermost(net, "apply", inputs, method, **how, capture=names, taps=probes, look=_look)
    out, state, flags = binding.run(net, params, state, arrays(inputs), arrays(kwargs), call, method)
    both = {key: jnp.maximum(before[key], flag) if key in before else flag for key, flag in flags.items()}
    return out, {**state, FLAGS: {**before, **both}}


def lift(params: Mapping[str, Any], state: Mapping[str, Any], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert (params, state) of a net to those of an outer module that holds the net. The probes and flags of the net
    become entries of the outer module.

    Args:
        params: params of the net, with or without `PROBES`.
        state: state of the net, with or without `FLAGS`.
        name: name of the attribute in which the outer module holds the net.
    """
    own, buffers = dict(params), dict(state)
    outer = {PROBES: own.pop(PROBES)} if PROBES in own else {}
    flags = {FLAGS: buffers.pop(FLAGS)} if FLAGS in buffers else {}
    return {name: own, **outer}, {name: buffers, **flags}


def lower(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Convert the state of an outer module to the state, including the flags, of the net that is its attribute `name`.
    `lower` is the inverse of `lift`.
    """
    return {**state[name], **({FLAGS: state[FLAGS]} if FLAGS in state else {})}


def zeros_like(flags: Taps) -> Taps:
    """Return the probes for a net: for each flag, zeros of the shape of the flag. The flags come from a run with empty
    probes, and are arrays or `jax.ShapeDtypeStruct`s.
    """
    return jax.tree.map(lambda flag: jnp.zeros(flag.shape, flag.dtype), flags)


def describe_broken(forward: Taps, backward: Taps) -> str:
    """Return a sentence that names the first module whose output or gradient is not finite.

    Args:
        forward: the flags of the outputs, `state[FLAGS]`.
        backward: the gradients with respect to the probes, which are the flags for the gradients of the outputs.

    Example:
        >>> flags = {("0", 0): np.array([0.0, 0.0]), ("1", 0): np.array([1.0, 1.0]), ("", 0): np.array([1.0, 2.0])}
        >>> describe_broken(flags, {})
        "forward: the output of '1' is the first that is not finite"
    """
    calls = _in_order(forward)
    broken = next((name for name, *_, is_broken in calls if is_broken), None)
    if broken is not None:
        return f"forward: the output of {broken or 'the net'!r} is the first that is not finite"
    if not any(np.asarray(flag)[..., 0].any() for flag in backward.values()):
        return "all outputs of modules and their gradients are finite; look at the loss and the gradients of parameters"
    wrong = [bool(np.asarray(backward[key])[(*at, 0)]) if key in backward else False for _, key, at, _ in calls]
    last = max(i for i, is_broken in enumerate(wrong) if is_broken)
    name = max((calls[i][0] for i in range(last + 1) if wrong[i] and _same_end(calls, i, last)), key=len)
    text = f"backward: the gradient of the output of {name or 'the net'!r} is the first that is not finite"
    after = next((calls[i][0] for i in range(last + 1, len(calls)) if calls[i][0]), None)
    return f"{text}; look at the code from there to the end of {after!r}" if after else f"{text}; look at the loss"


def _same_end(calls: list[Any], inner: int, outer: int) -> bool:
    """Return whether every call that ended after the call number `inner`, up to and including the call number `outer`,
    is a call of a module that contains the module of `inner`.
    """
    return inner == outer or all(
        calls[inner][0].startswith(f"{calls[i][0]}." if calls[i][0] else "") for i in range(inner + 1, outer + 1)
    )


def _look(output: PyTree, probe: jax.Array, number: int) -> tuple[Any, jax.Array]:
    """Attach a probe to the output of a module call. Return the output and [flag, number], in which the flag is 1 if
    the output is not finite, else 0.
    """
    is_broken = jnp.zeros((), bool)
    for leaf in jax.tree.leaves(output):
        if _is_floating(leaf):
            is_broken |= ~jnp.isfinite(leaf).all()
    if probe is not None:
        output = jax.tree.map(lambda leaf: _probed(leaf, probe) if _is_floating(leaf) else leaf, output)
    return output, jnp.stack([is_broken.astype(jnp.float32), jnp.float32(number)])


@jax.custom_vjp
def _probed(array: jax.Array, probe: jax.Array) -> jax.Array:
    return array


def _probed_forward(array: jax.Array, probe: jax.Array) -> tuple[jax.Array, None]:
    return array, None


def _probed_backward(_: None, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    is_broken = ~jnp.isfinite(gradient).all()
    return gradient, jnp.stack([is_broken.astype(jnp.float32), jnp.float32(0)])


_probed.defvjp(_probed_forward, _probed_backward)


def _is_floating(leaf: object) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _in_order(flags: Taps) -> list[tuple[str, Any, tuple[int, ...], bool]]:
    """Return one tuple per module call, in the order in which the calls ended: the name of the call, its key in
    `flags`, the index of the layer in its stack, and whether the output is not finite.
    """
    begins: dict[str, float] = {}
    for (name, _), flag in flags.items():
        stack = name.partition("*")[0]
        begins[stack] = min(begins.get(stack, np.inf), np.asarray(flag)[..., 1].min())
    found = []
    for (name, count), flag in flags.items():
        values = np.asarray(flag)
        for at in np.ndindex(values.shape[:-1]):
            shown = call_name(name, count)
            for layer in at:
                shown = shown.replace("*", str(layer), 1)
            begin = begins[name.partition("*")[0]] if at else values[1]
            found.append(((begin, at, values[(*at, 1)]), (shown, (name, count), at, bool(values[(*at, 0)]))))
    return [call for _, call in sorted(found, key=lambda item: item[0])]
