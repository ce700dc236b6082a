"""LSTM and GRU layers by the kernels of `funcnet.operators.native`, on CPU, in float32.

A kernel computes all steps of a layer in one call. In a loop of XLA, many small operations take as much time as the
products. The reference of an operator here is the loop of `recurrence.py`.

Arrays are batch-major, because the dimensions `...` of an operator come first, and devices share them.
Letters: `B batch, T time, H hidden, G size of all gates`.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional.recurrence import push, run
from funcnet.functional.sharding import partition
from funcnet.operators import native
from funcnet.operators.foreign_kernels import ForeignKernel
from funcnet.operators.operator import Operator, define

__all__ = ["has_kernel", "steps"]

Arrays = tuple[jax.Array, ...]
STATES = {"LSTM": 2, "GRU": 1}


def has_kernel(mode: str, x: jax.Array, params: Sequence[jax.Array], mask: jax.Array | None) -> bool:
    """Return whether a kernel computes the steps of a layer with the input x (T, B, *) and these parameters."""
    if mode not in STATES or mask is not None or (mode == "LSTM" and len(params) % 2):  # an odd one is a projection
        return False
    is_fixed = all(isinstance(size, int) for size in x.shape)  # no symbolic sizes of jax.export
    return is_fixed and x.size > 0 and not partition(x) and native.is_used("kernels", x, *params)


def steps(
    mode: str, reverse: bool, gates: jax.Array, state: Arrays, weights: tuple[jax.Array, jax.Array | None]
) -> tuple[jax.Array, Arrays]:
    """Run a recurrent cell over all time steps, as `recur` does, for arrays of shape (B, T, *).

    Args:
        mode: "LSTM" or "GRU".
        reverse: if True, run the cell from the last time step to the first.
        gates: float32 (B, T, G), the input's contribution to the gates.
        state: the state before the first step, arrays (B, H).
        weights: w_hh (G, H), and for a GRU with biases b_hn (H,).

    Returns:
        (h, state): h of all steps, (B, T, H), and the state after the last step.

    Example:
        >>> h, (last,) = steps("GRU", False, jnp.zeros((1, 2, 3)), (jnp.ones((1, 1)),), (jnp.zeros((3, 1)), None))
        >>> print(h.ravel(), last.ravel())
        [0.5  0.25] [0.25]
    """
    weight, bias = weights
    more = [jnp.zeros(weight.shape[1:], weight.dtype) if bias is None else bias] if mode == "GRU" else []
    h, *last = _steps(mode, reverse, gates, *state, weight, *more)
    return h, tuple(last)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _steps(mode: str, reverse: bool, *arrays: jax.Array) -> Arrays:
    found: Arrays = _operators(mode)["plain"](*arrays, reverse)
    return found


@_steps.defjvp
def _steps_jvp(mode: str, reverse: bool, primals: Arrays, tangents: Arrays) -> tuple[Arrays, Arrays]:
    def function(*arrays: jax.Array) -> Arrays:
        found: Arrays = _operators(mode)["kept"](*arrays, reverse)
        return found[: 1 + STATES[mode]]

    return jax.jvp(function, primals, tangents)


@functools.cache
def _operators(mode: str) -> dict[str, Operator]:
    """Return the operators of a kind of layer: "plain", "kept" with more results for the derivative, and "backward"."""
    name, states = mode.lower(), STATES[mode]
    state = ["h", "c"][:states]
    more = ["bias"] if mode == "GRU" else []
    given = {"gates": "... t g", **dict.fromkeys(state, "... p"), "weight": "g p", **dict.fromkeys(more, "p")}
    results = ["... t p", *["... p"] * states]
    kept = {"slopes": "... t g", "first": "... t p", "second": "... t p"}

    plain = _define(name, given, results)
    plain.reference(lambda **arrays: _reference(mode, **arrays)[: 1 + states])
    whole = _define(f"{name}_kept", given, [*results, *kept.values()])
    whole.reference(lambda **arrays: _reference(mode, **arrays))

    # The gates and the state are arguments for second derivatives alone.
    of_results = {"of_hs": "... t p", **{f"of_{one}": "... p" for one in state}}
    others = {**dict.fromkeys(["weight"], "g p"), **dict.fromkeys(more, "p"), "gates": "... t g"}
    arguments = {**of_results, **kept, **others, **dict.fromkeys(state, "... p")}
    of_candidate = ["... t p"] if mode == "GRU" else []
    backward = _define(f"{name}_backward", arguments, ["... t g", *["... p"] * states, *of_candidate])
    backward.reference(functools.partial(_backward, mode))
    backward.derivative(_taking(("grads", *arguments, "reverse"), functools.partial(_second, mode)))
    whole.derivative(_first(mode, backward, tuple(given)))
    return {"plain": plain, "kept": whole, "backward": backward}


def _define(name: str, arguments: dict[str, str], results: Sequence[str]) -> Operator:
    tensors = ", ".join(f"Tensor {one}" for one in arguments)
    schema = f"funcnet::{name}_steps({tensors}, bool reverse) -> ({', '.join(['Tensor'] * len(results))})"
    made = define(schema, f"{', '.join(arguments.values())} -> {', '.join(results)}")
    if f"funcnet_{name}" in native.targets("kernels"):
        made.impl("cpu", ForeignKernel(f"funcnet_{name}", is_exported=False), dtypes=["float32"])
    return made


# ------------------------------------------------------------------------------------------------------ references

# `vmap` adds dimensions before that of the batch. The loops have one: (T, B, *) for arrays of all steps.


def _time_major(array: jax.Array) -> jax.Array:
    """(…, T, *) -> (T, B, *)"""
    return array.reshape(-1, *array.shape[-2:]).swapaxes(0, 1)


def _batch_major(array: jax.Array, outer: tuple[int, ...]) -> jax.Array:
    """(T, B, *) -> (…, T, *)"""
    return array.swapaxes(0, 1).reshape(*outer, -1, array.shape[-1])


def _state(mode: str, arrays: dict[str, jax.Array], prefix: str = "") -> Arrays:
    """Return h, and c of an LSTM, as arrays (B, H)."""
    return tuple(arrays[prefix + one].reshape(-1, arrays[prefix + one].shape[-1]) for one in ("h", "c")[: STATES[mode]])


def _whole(mode: str, arrays: dict[str, jax.Array], reverse: bool) -> tuple[jax.Array, Arrays, Arrays]:
    weights = arrays["weight"], arrays.get("bias")
    h, last, (_, kept) = run(
        mode, reverse, _time_major(arrays["gates"]), _state(mode, arrays), weights, None, keep=True
    )
    return h, last, kept[:3]


def _reference(mode: str, reverse: bool, **arrays: jax.Array) -> Arrays:
    outer = arrays["h"].shape[:-1]
    h, last, kept = _whole(mode, arrays, reverse)
    steps = [_batch_major(one, outer) for one in (h, *kept)]
    return steps[0], *(one.reshape(*outer, -1) for one in last), *steps[1:]


def _backward(mode: str, reverse: bool, **arrays: jax.Array) -> Arrays:
    """Return the gradients of the gates and of the first state, and that of a GRU's product with W_hn."""
    return _transposed(mode, reverse, arrays, tuple(_time_major(arrays[one]) for one in ("slopes", "first", "second")))


def _transposed(mode: str, reverse: bool, arrays: dict[str, jax.Array], kept: Arrays) -> Arrays:
    outer, of_last = arrays["h"].shape[:-1], _state(mode, arrays, "of_")
    weights = arrays["weight"], arrays.get("bias")
    whole = (*kept, None) if mode == "LSTM" else kept  # None: of a projection
    linear = lambda gates, state: push(mode, reverse, gates, state, weights, whole, None, None)
    of_gates, of_state = jax.linear_transpose(linear, kept[0], of_last)((_time_major(arrays["of_hs"]), of_last))
    of_gates = _batch_major(of_gates, outer)
    of_state = tuple(one.reshape(*outer, -1) for one in of_state)
    if mode == "LSTM":
        return of_gates, *of_state
    return of_gates, *of_state, of_gates[..., -kept[2].shape[-1] :] * _batch_major(kept[2], outer)


# ------------------------------------------------------------------------------------------------------ derivatives


def _first(mode: str, backward: Operator, arguments: Sequence[str]) -> Callable[..., dict[str, jax.Array]]:
    # What is kept is a result so that it is kept. Nothing else uses it, so its gradients are zero: see `_second`.
    states = ("h", "c")[: STATES[mode]]
    place = 1 + len(states)
    results = [f"result{number}" for number in (0, *range(place, place + 3))]

    def found(grads: Arrays, reverse: bool, **values: jax.Array) -> dict[str, jax.Array]:
        hs, *kept = (values.pop(one) for one in results)
        others = [values[one] for one in ("weight", "bias") if one in values]
        state = [values[one] for one in states]
        of_gates, *more = backward(*grads[:place], *kept, *others, values["gates"], *state, reverse)
        gradients = {"gates": of_gates, **dict(zip(states, more, strict=False))}
        start = state[0][..., None, :]
        before = jnp.concatenate([hs[..., 1:, :], start] if reverse else [start, hs[..., :-1, :]], -2)
        pushed = of_gates
        if mode == "GRU":  # the reset gate multiplies the product of the last gate
            pushed = jnp.concatenate([of_gates[..., : 2 * hs.shape[-1]], more[-1]], -1)
            gradients["bias"] = more[-1].sum(tuple(range(pushed.ndim - 1)))
        every = [list(range(pushed.ndim - 1))] * 2
        gradients["weight"] = jax.lax.dot_general(pushed, before, (every, ([], [])))  # type: ignore[arg-type]
        return gradients

    return _taking(("grads", *results, *arguments, "reverse"), found)


def _taking(names: Sequence[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with these parameters, which `Operator.derivative` reads."""
    taken = lambda **values: function(**values)
    parameters = [inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY) for one in names]
    taken.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return taken


def _second(mode: str, grads: Arrays, reverse: bool, **arrays: jax.Array) -> dict[str, jax.Array]:
    """The derivative of "backward", as if this operator computed the kept arrays itself. The gradients of the kept
    arrays are therefore zero.
    """
    zeros = {one: jnp.zeros_like(arrays.pop(one)) for one in ("slopes", "first", "second")}

    def function(arrays: dict[str, jax.Array]) -> Arrays:
        return _transposed(mode, reverse, arrays, _whole(mode, arrays, reverse)[2])

    (found,) = jax.vjp(function, arrays)[1](tuple(grads))
    return dict(found) | zeros
