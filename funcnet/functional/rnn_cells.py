"""Single steps of recurrent cells. Letters: `B batch, I input_size, H hidden_size`.

These functions are `torch.rnn_tanh_cell`, `torch.rnn_relu_cell`, `torch.lstm_cell` and `torch.gru_cell`, with the same
argument names. The functions that process a whole sequence are in `rnn.py`. Half-precision inputs are processed in
float32, and the results are rounded once at the end.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.hyperbolic import precise_tanh
from funcnet.functional.linear import linear

__all__ = ["gru_cell", "lstm_cell", "pair", "rnn_relu_cell", "rnn_tanh_cell"]


def rnn_tanh_cell(
    input: jax.Array,
    hx: jax.Array,
    w_ih: jax.Array,
    w_hh: jax.Array,
    b_ih: jax.Array | None = None,
    b_hh: jax.Array | None = None,
) -> jax.Array:
    """Compute one step, `h' = tanh(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh)`.

    Args:
        input: (B, I), floating-point.
        hx: (B, H).
        w_ih: (H, I).
        w_hh: (H, H).
        b_ih, b_hh: (H,).

    Returns:
        h', (B, H).

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> rnn_tanh_cell(jnp.ones((1, 2)), jnp.zeros((1, 3)), jnp.zeros((3, 2)), jnp.zeros((3, 3)))
        Array([[0., 0., 0.]], dtype=float32)

    Reference: torch.rnn_tanh_cell.
    """
    return _elman_cell("F.rnn_tanh_cell", precise_tanh, input, hx, w_ih, w_hh, b_ih, b_hh)


def rnn_relu_cell(
    input: jax.Array,
    hx: jax.Array,
    w_ih: jax.Array,
    w_hh: jax.Array,
    b_ih: jax.Array | None = None,
    b_hh: jax.Array | None = None,
) -> jax.Array:
    """Compute one step of `rnn_tanh_cell` with max(·, 0) in place of tanh.

    Example:
        >>> rnn_relu_cell(jnp.ones((1, 2)), jnp.zeros((1, 3)), jnp.ones((3, 2)), jnp.zeros((3, 3)))
        Array([[2., 2., 2.]], dtype=float32)

    Reference: torch.rnn_relu_cell.
    """
    return _elman_cell("F.rnn_relu_cell", jax.nn.relu, input, hx, w_ih, w_hh, b_ih, b_hh)


def lstm_cell(
    input: jax.Array,
    hx: Sequence[jax.Array],
    w_ih: jax.Array,
    w_hh: jax.Array,
    b_ih: jax.Array | None = None,
    b_hh: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Compute one step of long short-term memory (LSTM).

    The step is `i, f, g, o = x W_ihᵀ + b_ih + h W_hhᵀ + b_hh`, `c' = σ(f) c + σ(i) tanh(g)`, `h' = σ(o) tanh(c')`.

    Args:
        input: (B, I), floating-point.
        hx: (h, c), each (B, H).
        w_ih: (4 · H, I), with the gates in the order i, f, g, o.
        w_hh: (4 · H, H).
        b_ih, b_hh: (4 · H,).

    Returns:
        (h', c'), each (B, H).

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if an array is not floating-point, the dtypes differ, or hx is not a pair.

    Example:
        >>> zeros = jnp.zeros((1, 1))
        >>> h, c = lstm_cell(jnp.ones((1, 2)), (zeros, zeros + 2), jnp.zeros((4, 2)), jnp.zeros((4, 1)))
        >>> c
        Array([[1.]], dtype=float32)

    Reference: torch.lstm_cell.
    """
    h, c = pair("F.lstm_cell", hx)
    by_input, by_state, (h, c), dtype = _cell("F.lstm_cell", 4, input, [h, c], w_ih, w_hh, b_ih, b_hh)
    i, f, g, o = jnp.split(by_input + by_state, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * precise_tanh(g)
    return (jax.nn.sigmoid(o) * precise_tanh(c)).astype(dtype), c.astype(dtype)


def gru_cell(
    input: jax.Array,
    hx: jax.Array,
    w_ih: jax.Array,
    w_hh: jax.Array,
    b_ih: jax.Array | None = None,
    b_hh: jax.Array | None = None,
) -> jax.Array:
    """Compute one step of a gated recurrent unit (GRU).

    The step is `r, z = σ(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh)`, `n = tanh(x W_inᵀ + b_in + r (h W_hnᵀ + b_hn))`, `h' = (1 -
    z) n + z h`.

    Args:
        input: (B, I), floating-point.
        hx: (B, H).
        w_ih: (3 · H, I), with the gates in the order r, z, n.
        w_hh: (3 · H, H).
        b_ih, b_hh: (3 · H,).

    Returns:
        h', (B, H).

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> gru_cell(jnp.ones((1, 2)), jnp.ones((1, 1)), jnp.zeros((3, 2)), jnp.zeros((3, 1)))
        Array([[0.5]], dtype=float32)

    Reference: torch.gru_cell.
    """
    by_input, by_state, (h,), dtype = _cell("F.gru_cell", 3, input, [hx], w_ih, w_hh, b_ih, b_hh)
    (r_x, z_x, n_x), (r_h, z_h, n_h) = jnp.split(by_input, 3, -1), jnp.split(by_state, 3, -1)
    r, z = jax.nn.sigmoid(r_x + r_h), jax.nn.sigmoid(z_x + z_h)
    n = precise_tanh(n_x + r * n_h)
    return (n + z * (h - n)).astype(dtype)


def _elman_cell(
    where: str, act: Callable[[jax.Array], jax.Array], input: jax.Array, hx: jax.Array, *weights: Any
) -> jax.Array:
    by_input, by_state, _, dtype = _cell(where, 1, input, [hx], *weights)
    return act(by_input + by_state).astype(dtype)


def _cell(
    where: str,
    gates: int,
    input: jax.Array,
    hx: list[Any],
    w_ih: jax.Array,
    w_hh: jax.Array,
    b_ih: jax.Array | None,
    b_hh: jax.Array | None,
) -> Any:
    """Check the arguments of a cell, and return (`x W_ihᵀ + b_ih`, `h W_hhᵀ + b_hh`, states, dtype of the result). The
    returned arrays are at least float32.
    """
    input = checks.floating(where, "input", input)
    names = [f"hidden{i}" for i in range(len(hx))]
    hx = [checks.floating(where, name, h) for name, h in zip(names, hx, strict=True)]
    given = {**dict(zip(names, hx, strict=True)), "w_ih": w_ih, "w_hh": w_hh, "b_ih": b_ih, "b_hh": b_hh}
    checks.one_dtype(where, input=input, **given)
    size = w_hh.shape[-1]
    shapes = {"w_ih": (gates * size, w_ih.shape[-1]), "w_hh": (gates * size, size)}
    for name, shape in {**shapes, "b_ih": (gates * size,), "b_hh": (gates * size,)}.items():
        checks.shape_of(where, name, given[name], shape, f"The cell has {gates} gates of hidden_size {size}.")
    if input.ndim != 2 or input.shape[1] != w_ih.shape[1]:
        raise ValueError(
            f"{where}: input does not match w_ih; expected (batch, input_size = {w_ih.shape[1]}), got {input.shape}. "
            "Check input_size."
        )
    for name, h in zip(names, hx, strict=True):
        why = f"Its shape is (batch, hidden_size), with the input's batch size {input.shape[0]}."
        checks.shape_of(where, name, h, (input.shape[0], size), why)
    wide = checks.wide_dtype(input)
    states = [h.astype(wide) for h in hx]
    b_ih, b_hh = (None if b is None else b.astype(wide) for b in (b_ih, b_hh))
    by_input = linear(input.astype(wide), w_ih.astype(wide), b_ih)
    return by_input, linear(states[0], w_hh.astype(wide), b_hh), states, input.dtype


def pair(where: str, hx: Sequence[jax.Array]) -> list[Any]:
    if isinstance(hx, (tuple, list)) and len(hx) == 2:
        return list(hx)
    got = f"a sequence of length {len(hx)}" if isinstance(hx, (tuple, list)) else type(hx).__name__
    raise TypeError(f"{where}: hx is not a pair; expected (h, c), got {got}. An LSTM requires both states.")
