"""The loop over time of one direction of a recurrent layer.

Letters: `T time, B batch, H hidden, P size of h, G size of all gates`.

The input's contribution to the gates is computed first, for all steps at once, so that each step needs only one matrix
product. The derivative is a custom JVP rule, which works in forward and reverse mode and for higher derivatives. The
rule multiplies the tangent of the recurrent weight W_hh by the states of all steps in one product outside the loop.
Automatic differentiation would instead add a matrix to the gradient of W_hh at every step of the backward pass. The
size G is H times the number of gates of the cell. The size P equals H unless the layer is an LSTM with a projection.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from funcnet.functional.hyperbolic import tanh_slope
from funcnet.functional.sharding import placed
from funcnet.operators.varying_axes import vary_like

__all__ = ["MODES", "push", "recur", "run"]

State = tuple[jax.Array, ...]
Weights = tuple[jax.Array | None, ...]


def recur(
    mode: str, reverse: bool, gates: jax.Array, state: State, weights: Weights, mask: jax.Array | None
) -> tuple[jax.Array, State]:
    """Run a recurrent cell over all time steps.

    Args:
        mode: the kind of cell, a key of `MODES` such as "LSTM".
        reverse: if True, run the cell from the last time step to the first.
        gates: (T, B, G), the input's contribution to the gates, which is `x W_ihᵀ` plus all biases, except the bias
            that a GRU multiplies by its reset gate.
        state: the state before the first step: (h,), or (h, c) for an LSTM. h is (B, P), and c is (B, H).
        weights: a pair of w_hh (G, P) and a second array or None. The second array is w_hr (P, H) for an LSTM with a
            projection, and b_hn (H,) for a GRU with biases.
        mask: (T, B, 1), False at steps that leave the state unchanged. None means that all steps update the state.

    Returns:
        (h, state): h of all steps, (T, B, P), and the state after the last step.

    Example:
        >>> h, (last,) = recur("RNN_RELU", False, jnp.ones((3, 1, 1)), (jnp.zeros((1, 1)),), (jnp.eye(1), None), None)
        >>> h.ravel(), last.ravel()
        (Array([1., 2., 3.], dtype=float32), Array([3.], dtype=float32))
    """
    start = tuple(placed(vary_like(s, gates, *state, *weights, mask), gates, (1, None)) for s in state)
    return _recur(mode, reverse, gates, start, weights, mask)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _recur(
    mode: str, reverse: bool, gates: jax.Array, state: State, weights: Weights, mask: jax.Array | None
) -> tuple[jax.Array, State]:
    h, state, _ = run(mode, reverse, gates, state, weights, mask, keep=False)
    return h, state


@functools.partial(_recur.defjvp, symbolic_zeros=True)
def _recur_jvp(mode: str, reverse: bool, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    (gates, state, weights, mask), (d_gates, d_state, d_weights, _) = primals, tangents
    # before: (T, B, P), h before each step. kept: arrays of all steps, (T, B, …)
    h, last, (before, kept) = run(mode, reverse, gates, state, weights, mask, keep=True)
    d_gates = _filled(d_gates, gates)
    inner, outer = MODES[mode].weights_moved(before, kept, d_weights)  # (T, B, G) and (T, B, P), or None
    if inner is not None:
        d_gates = d_gates + MODES[mode].into_gates(inner, kept)
    d_state = tuple(_filled(d, s) for d, s in zip(d_state, state, strict=True))
    d_h, d_last = push(mode, reverse, d_gates, d_state, weights, kept, outer, mask)
    return (h, last), (d_h, d_last)


def push(
    mode: str, reverse: bool, d_gates: jax.Array, d_state: State, weights: Weights, kept: Any, outer: Any, mask: Any
) -> tuple[jax.Array, State]:
    """Return the tangents of the results of `run`, which are linear in those of the gates and of the first state.

    Args:
        d_gates: tangent of the gates, (T, B, G), which contains what the tangent of W_hh adds.
        d_state: tangent of the state before the first step.
        kept: what `run` has kept.
        outer: what the tangent of a projection adds to that of h, (T, B, P), or None.
        mode, reverse, weights, mask: as in `recur`.
    """
    w_hh: Any = weights[0]

    def step(d_state: State, xs: tuple[Any, ...]) -> tuple[State, jax.Array]:
        d_gates, outer, kept, mask = xs
        # The transpose of this form reads w_hh along its rows. `@ w_hh.T` took twice the time on CPU.
        pushed = lax.dot_general(d_state[0], w_hh, (((1,), (1,)), ((), ())))  # (B, P) times (G, P)ᵀ -> (B, G)
        d_gates = d_gates + MODES[mode].into_gates(pushed, kept)
        new = MODES[mode].linear(d_gates, d_state, weights, kept, outer)
        new = _kept_where(mask, new, d_state)
        return new, new[0]

    d_last, d_h = lax.scan(step, d_state, (d_gates, outer, kept, mask), reverse=reverse)
    return d_h, d_last


def run(
    mode: str, reverse: bool, gates: jax.Array, state: State, weights: Weights, mask: jax.Array | None, keep: bool
) -> tuple[jax.Array, State, Any]:
    """Return (h, last state, kept). The first two are the results of `recur`. If `keep`, `kept` contains h before each
    step, and the arrays of each step from which the cell computes tangents.
    """
    transposed = weights[0].T  # type: ignore[union-attr]  # once, not at every step

    def step(state: State, xs: tuple[Any, ...]) -> tuple[State, Any]:
        gates, mask = xs
        new, kept = MODES[mode].step(gates, state[0] @ transposed, state, weights)  # (B, P) times (P, G) -> (B, G)
        new = _kept_where(mask, new, state)
        return new, (new[0], (state[0], kept) if keep else None)

    # Also with `reverse`, entry t of the results is that of time step t.
    last, (h, kept) = lax.scan(step, state, (gates, mask), reverse=reverse)
    return h, last, kept


def _kept_where(mask: jax.Array | None, new: State, old: State) -> State:
    return new if mask is None else tuple(jnp.where(mask, n, o) for n, o in zip(new, old, strict=True))


def _filled(tangent: jax.Array | SymbolicZero, primal: jax.Array) -> jax.Array:
    return jnp.zeros_like(primal) if isinstance(tangent, SymbolicZero) else tangent


def _product(x: jax.Array, matrix: jax.Array | SymbolicZero | None) -> jax.Array | None:
    """Return `x matrixᵀ`, or None if `matrix` is None or a symbolic zero."""
    if matrix is None or isinstance(matrix, SymbolicZero):
        return None
    return lax.dot_general(x, matrix, (((x.ndim - 1,), (1,)), ((), ())))


# A cell has four methods. `step` returns the next state and the arrays `kept`, from which the other three compute
# tangents: `weights_moved` for all steps at once, `linear` for one step, and `into_gates` for either.


class _Elman:
    """An Elman cell, `h' = act(gates + h W_hhᵀ)`."""

    def __init__(self, act: Callable[[jax.Array], jax.Array], slope: Callable[[jax.Array], jax.Array]):
        self.act, self.slope = act, slope

    def step(self, gates: jax.Array, pushed: jax.Array, state: State, weights: Weights) -> tuple[State, Any]:
        x = gates + pushed
        return (self.act(x),), self.slope(x)

    def weights_moved(self, before: jax.Array, kept: jax.Array, d_weights: Weights) -> tuple[Any, Any]:
        """Return what the tangents of the weights add to two other tangents: to that of the gates (through `h W_hhᵀ`),
        and to that of h (through a projection).
        """
        return _product(before, d_weights[0]), None

    def into_gates(self, pushed: jax.Array, kept: jax.Array) -> jax.Array:
        return pushed

    def linear(self, d_gates: jax.Array, d_state: State, weights: Weights, kept: jax.Array, outer: Any) -> State:
        return (kept * d_gates,)


class _LSTM:
    """An LSTM cell, `c' = σ(f) c + σ(i) tanh(g)`, `h' = σ(o) tanh(c')`. A projection multiplies h' by W_hr."""

    def step(self, gates: jax.Array, pushed: jax.Array, state: State, weights: Weights) -> tuple[State, Any]:
        before, projection = state[1], weights[1]
        size = before.shape[-1]
        # σ is applied to all gates (including g) at once, after a barrier. Slicing first took twice the time on CPU.
        i, f, _, o = jnp.split(lax.optimization_barrier(lax.logistic(gates + pushed)), 4, -1)  # (B, 4H) -> (B, H) each
        x = gates[:, 2 * size : 3 * size] + pushed[:, 2 * size : 3 * size]
        g = jnp.tanh(x)
        c = f * before + i * g
        shown = jnp.tanh(c)
        # the derivatives of c' with respect to the inputs of i, f and g, and of o tanh(c') with respect to that of o
        slopes = [g * i * (1 - i), before * f * (1 - f), i * tanh_slope(x), shown * o * (1 - o)]
        kept = (jnp.concatenate(slopes, -1), f, o * tanh_slope(c))
        if projection is None:
            return (o * shown, c), (*kept, None)
        # h before the projection is kept too, because the tangent of W_hr is multiplied by it. (B, H) -> (B, P)
        return (_product(o * shown, projection), c), (*kept, o * shown)  # type: ignore[return-value]

    def weights_moved(self, before: jax.Array, kept: tuple[jax.Array, ...], d_weights: Weights) -> tuple[Any, Any]:
        return _product(before, d_weights[0]), _product(kept[3], d_weights[1])

    def into_gates(self, pushed: jax.Array, kept: tuple[jax.Array, ...]) -> jax.Array:
        return pushed

    def linear(
        self, d_gates: jax.Array, d_state: State, weights: Weights, kept: tuple[jax.Array, ...], outer: Any
    ) -> State:
        slopes, f, slope_of_c, _ = kept
        i, f_gate, g, o = jnp.split(slopes * d_gates, 4, -1)
        c = f * d_state[1] + (i + f_gate + g)
        h: Any = o + slope_of_c * c
        if weights[1] is not None:
            h = _product(h, weights[1])  # (B, H) -> (B, P)
        return h if outer is None else h + outer, c


class _GRU:
    """A GRU cell, `n = tanh(gates_n + σ(r) (h W_hnᵀ + b_hn))`, `h' = (1 - σ(z)) n + σ(z) h`."""

    def step(self, gates: jax.Array, pushed: jax.Array, state: State, weights: Weights) -> tuple[State, Any]:
        (before,), bias = state, weights[1]
        size = before.shape[-1]
        reset_and_update = gates[:, : 2 * size] + pushed[:, : 2 * size]
        r, z = jnp.split(lax.optimization_barrier(lax.logistic(reset_and_update)), 2, -1)
        not_r, not_z = jnp.split(lax.logistic(-reset_and_update), 2, -1)  # computing 1 - r and 1 - z would lose digits
        candidate = pushed[:, 2 * size :] if bias is None else pushed[:, 2 * size :] + bias
        x = gates[:, 2 * size :] + r * candidate
        n = jnp.tanh(x)
        by_n = not_z * tanh_slope(x)
        # the derivatives of h' with respect to the inputs of r, z and n
        slopes = [by_n * candidate * r * not_r, (before - n) * z * not_z, by_n]
        return (n + z * (before - n),), (jnp.concatenate(slopes, -1), z, r)

    def weights_moved(self, before: jax.Array, kept: tuple[jax.Array, ...], d_weights: Weights) -> tuple[Any, Any]:
        pushed, bias = _product(before, d_weights[0]), d_weights[1]
        if bias is None or isinstance(bias, SymbolicZero):
            return pushed, None
        moved = jnp.pad(bias, (2 * bias.size, 0))  # (H,) -> (3H,); like h W_hnᵀ, b_hn goes through the reset gate
        return jnp.broadcast_to(moved, (*before.shape[:2], moved.size)) if pushed is None else pushed + moved, None

    def into_gates(self, pushed: jax.Array, kept: tuple[jax.Array, ...]) -> jax.Array:
        r = kept[2]  # (B, H) in one step, (T, B, H) for all steps
        others, candidate = jnp.split(pushed, [2 * r.shape[-1]], -1)  # 3H -> 2H and H
        return jnp.concatenate([others, r * candidate], -1)

    def linear(
        self, d_gates: jax.Array, d_state: State, weights: Weights, kept: tuple[jax.Array, ...], outer: Any
    ) -> State:
        slopes, z, _ = kept
        r, z_gate, n = jnp.split(slopes * d_gates, 3, -1)
        return (z * d_state[0] + (r + z_gate + n),)


MODES: dict[str, Any] = {
    "RNN_TANH": _Elman(jnp.tanh, tanh_slope),
    "RNN_RELU": _Elman(lambda x: jnp.maximum(x, 0), lambda x: (x > 0).astype(x.dtype)),
    "LSTM": _LSTM(),
    "GRU": _GRU(),
}
