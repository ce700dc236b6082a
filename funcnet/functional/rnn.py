"""Recurrent layers. Letters: `T time, B batch, I input_size, H hidden_size, P size of h, G size of all gates`.

These functions are `torch.rnn_tanh`, `torch.rnn_relu`, `torch.lstm` and `torch.gru`, with the same argument names. The
loop over time is in `recurrence.py`, and single steps are in `rnn_cells.py`. The size G is H times the number of gates
of the cell. The size P equals H unless the layer is an LSTM with a projection. Half-precision inputs are processed in
float32, and the results are rounded once at the end.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.functional import checks
from funcnet.functional.dropout import dropout as drop
from funcnet.functional.linear import linear
from funcnet.functional.recurrence import recur
from funcnet.functional.recurrence_kernel import has_kernel, steps
from funcnet.functional.rnn_cells import pair
from funcnet.random import Rate

__all__ = ["gru", "lstm", "rnn_relu", "rnn_tanh"]

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def rnn_tanh(
    input: jax.Array,
    hx: jax.Array,
    params: Sequence[jax.Array],
    has_biases: bool,
    num_layers: int,
    dropout: Rate,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: ArrayLike | None = None,
    rng: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Run layers of `h_t = tanh(x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh)` over time.

    Args:
        input: (T, B, I), or (B, T, I) with batch_first.
        hx: the initial state of every layer and direction, (num_layers · directions, B, H). `batch_first` does not
            change this shape.
        params: the arrays of every layer, with the forward direction before the reverse direction. Each direction has
            w_ih (G, I) and w_hh (G, P). If `has_biases` is True, b_ih (G,) and b_hh (G,) follow. For an LSTM with a
            projection, w_hr (P, H) comes last. For every layer after the first, I is directions · P.
        has_biases: whether `params` contains biases.
        num_layers: number of layers. Each layer reads the output of the previous layer.
        dropout: probability with which an entry between two layers is set to 0 in training.
        train: whether to apply dropout.
        bidirectional: whether every layer also runs over the reversed sequence. The outputs of both directions are
            concatenated, forward first.
        batch_first: whether the batch is the first dimension of the input and the output, and time the second.
        lengths: (B,) integers, the number of valid steps of each sequence; None means all steps. `lengths` may be
            traced, so that batches with different lengths share one compiled program. The forward direction stops at
            the last valid step, and the reverse direction starts at this step. After the last valid step, the input is
            ignored and the output is 0. For a length of 0, the last state equals the initial state.
        rng: a random key, required if `train` is True, 0 < dropout < 1 and there are several layers.

    Returns:
        (output, h_n). output is h of the last layer at every step, (T, B, directions · P), or (B, T, directions · P)
        with batch_first. h_n is the last h of every layer and direction, in the shape of `hx`.

    Raises:
        ValueError: if the shapes or the number of params do not match, a length is out of range, there are no steps, or
            `rng` is required but None.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Differs from torch: packed sequences are not accepted; pass `lengths` instead (`nn.utils.rnn` packs and pads).

    Example:
        >>> x, h0 = jnp.ones((3, 1, 2)), jnp.zeros((1, 1, 4))
        >>> params = [jnp.zeros((4, 2)), jnp.zeros((4, 4)), jnp.ones(4), jnp.zeros(4)]
        >>> output, h_n = rnn_tanh(x, h0, params, True, 1, 0.0, False, False, False, lengths=jnp.array([2]))
        >>> print(output[:, 0, 0], h_n.shape)
        [0.7615942 0.7615942 0.       ] (1, 1, 4)

    Reference: torch.rnn_tanh; Elman 1990.
    """
    settings = (has_biases, num_layers, dropout, train, bidirectional, batch_first, lengths, rng)
    output, (h_n,) = _layers("F.rnn_tanh", "RNN_TANH", input, [hx], params, *settings)
    return output, h_n


def rnn_relu(
    input: jax.Array,
    hx: jax.Array,
    params: Sequence[jax.Array],
    has_biases: bool,
    num_layers: int,
    dropout: Rate,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: ArrayLike | None = None,
    rng: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Run the layers of `rnn_tanh` with max(·, 0) in place of tanh.

    Example:
        >>> params = [jnp.ones((1, 1)), jnp.ones((1, 1))]
        >>> rnn_relu(jnp.ones((3, 1, 1)), jnp.zeros((1, 1, 1)), params, False, 1, 0.0, False, False, False)[0].ravel()
        Array([1., 2., 3.], dtype=float32)

    Reference: torch.rnn_relu.
    """
    settings = (has_biases, num_layers, dropout, train, bidirectional, batch_first, lengths, rng)
    output, (h_n,) = _layers("F.rnn_relu", "RNN_RELU", input, [hx], params, *settings)
    return output, h_n


def lstm(
    input: jax.Array,
    hx: Sequence[jax.Array],
    params: Sequence[jax.Array],
    has_biases: bool,
    num_layers: int,
    dropout: Rate,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: ArrayLike | None = None,
    rng: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Run layers of long short-term memory (LSTM), which apply `lstm_cell` at every step.

    Args:
        hx: (h_0, c_0), of shapes (num_layers · directions, B, P) and (num_layers · directions, B, H).
        params: as in `rnn_tanh`. G is 4 · H, with the gates in the order i, f, g, o.
        input, has_biases, num_layers, dropout, train, bidirectional, batch_first, lengths, rng: as in `rnn_tanh`.

    Returns:
        (output, h_n, c_n). output is h of the last layer at every step, and h_n and c_n are the last states, with the
        shapes of `hx`.

    Raises:
        ValueError, TypeError: as in `rnn_tanh`.

    Example:
        >>> x, zeros = jnp.ones((3, 1, 2)), jnp.zeros((1, 1, 4))
        >>> params = [jnp.zeros((16, 2)), jnp.zeros((16, 4))]
        >>> output, h_n, c_n = lstm(x, (zeros, zeros), params, False, 1, 0.0, False, False, False)
        >>> output.shape, c_n.shape
        ((3, 1, 4), (1, 1, 4))

    Reference: torch.lstm; Hochreiter and Schmidhuber 1997; the projection: Sak et al. 2014.
    """
    settings = (has_biases, num_layers, dropout, train, bidirectional, batch_first, lengths, rng)
    output, (h_n, c_n) = _layers("F.lstm", "LSTM", input, pair("F.lstm", hx), params, *settings)
    return output, h_n, c_n


def gru(
    input: jax.Array,
    hx: jax.Array,
    params: Sequence[jax.Array],
    has_biases: bool,
    num_layers: int,
    dropout: Rate,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: ArrayLike | None = None,
    rng: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Run layers of gated recurrent units (GRU), which apply `gru_cell` at every step.

    Args:
        params: as in `rnn_tanh`. G is 3 · H, with the gates in the order r, z, n.
        input, hx, has_biases, num_layers, dropout, train, bidirectional, batch_first, lengths, rng: as in `rnn_tanh`.

    Returns:
        (output, h_n), as returned by `rnn_tanh`.

    Raises:
        ValueError, TypeError: as in `rnn_tanh`.

    Example:
        >>> x, h0 = jnp.ones((3, 1, 2)), jnp.ones((1, 1, 4))
        >>> params = [jnp.zeros((12, 2)), jnp.zeros((12, 4))]
        >>> gru(x, h0, params, False, 1, 0.0, False, False, False)[0][:, 0, 0]
        Array([0.5  , 0.25 , 0.125], dtype=float32)

    Reference: torch.gru; Cho et al. 2014, except that the reset gate is applied after the product, as in cuDNN.
    """
    settings = (has_biases, num_layers, dropout, train, bidirectional, batch_first, lengths, rng)
    output, (h_n,) = _layers("F.gru", "GRU", input, [hx], params, *settings)
    return output, h_n


def _layers(
    where: str,
    mode: str,
    input: jax.Array,
    hx: list[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: Rate,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    lengths: ArrayLike | None,
    rng: jax.Array | None,
) -> tuple[jax.Array, list[jax.Array]]:
    """Check the arguments, run all layers, and return (output of the last layer, last states of every layer and
    direction).
    """
    input, hx, layers = _checked(where, mode, input, hx, params, has_biases, num_layers, bidirectional, batch_first)
    wide = checks.wide_dtype(input)
    x = (input.swapaxes(0, 1) if batch_first else input).astype(wide)
    states = [h.astype(wide) for h in hx]
    mask = _mask(where, lengths, x)
    if mask is not None:
        x = jnp.where(mask, x, 0)  # otherwise, values in the padding, even NaN, would reach the weights' gradient
    directions, last = 2 if bidirectional else 1, []
    for layer in range(num_layers):
        outs = []
        for number in range(layer * directions, (layer + 1) * directions):
            own, reverse = [p.astype(wide) for p in layers[number]], number % directions == 1
            state = tuple(s[number] for s in states)
            if has_kernel(mode, x, own, mask):
                gates, weights = _gates(mode, x.swapaxes(0, 1), own, has_biases)
                out, state = steps(mode, reverse, gates, state, weights)
                out = out.swapaxes(0, 1)
            else:
                gates, weights = _gates(mode, x, own, has_biases)
                out, state = recur(mode, reverse, gates, state, weights, mask)
            outs.append(out)
            last.append(state)
        x = jnp.concatenate(outs, -1) if bidirectional else outs[0]
        x = x if mask is None else jnp.where(mask, x, 0)
        if layer < num_layers - 1 and train and (checks.draws(dropout) or dropout > 0):
            key = None if rng is None else jax.random.fold_in(rng, layer)
            x = drop(x, dropout, rng=key)
    x = x.swapaxes(0, 1) if batch_first else x
    return x.astype(input.dtype), [jnp.stack(s).astype(input.dtype) for s in zip(*last, strict=True)]


def _gates(mode: str, x: jax.Array, params: Sequence[Any], has_biases: bool) -> tuple[jax.Array, Any]:
    """Return the contribution of the input x to the gates at all steps, and the weights that `recur` requires."""
    w_ih, w_hh, *rest = params
    if mode == "GRU":
        if not has_biases:
            return linear(x, w_ih), (w_hh, None)
        (b_ih, b_hh), at = rest, 2 * w_hh.shape[-1]
        inside = b_hh[at:]  # the reset gate multiplies this bias, so it is added in the loop
        return linear(x, w_ih, b_ih + jnp.concatenate([b_hh[:at], jnp.zeros_like(inside)])), (w_hh, inside)
    bias = rest[0] + rest[1] if has_biases else None
    projection = rest[-1] if len(rest) % 2 else None
    return linear(x, w_ih, bias), (w_hh, projection)


def _mask(where: str, lengths: ArrayLike | None, x: jax.Array) -> jax.Array | None:
    """Return a mask (T, B, 1) that is True for the valid steps, or None if all steps are valid."""
    if lengths is None:
        return None
    steps, batch = x.shape[:2]
    given, lengths = lengths, checks.integers(where, "lengths", lengths)
    checks.shape_of(where, "lengths", lengths, (batch,), "Pass one length per sequence of the batch.")
    if not isinstance(given, jax.core.Tracer) and getattr(given, "is_fully_addressable", True):
        known = np.asarray(given)
        if known.size and (known.min() < 0 or known.max() > steps):
            raise ValueError(
                f"{where}: lengths are out of range; expected 0 to {steps}, the number of steps, got {known.min()} to "
                f"{known.max()}."
            )
        if known.size and known.min() == steps:
            return None
    return (jnp.arange(steps, dtype=lengths.dtype)[:, None] < lengths)[:, :, None]


def _checked(
    where: str,
    mode: str,
    input: jax.Array,
    hx: list[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[jax.Array, list[jax.Array], list[list[Any]]]:
    """Check the arguments, and return (input, initial states, parameters of every layer and direction)."""
    input = checks.floating(where, "input", input)
    if input.ndim != 3:
        raise ValueError(
            f"{where}: input has the wrong rank; expected (time, batch, input_size), or (batch, time, input_size) "
            f"with batch_first, got {input.shape}."
        )
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    if steps == 0:
        raise ValueError(
            f"{where}: the sequence is empty; expected at least 1 step, got an input of shape {input.shape}."
        )
    count, directions = num_layers * (2 if bidirectional else 1), 2 if bidirectional else 1
    each, more = divmod(len(params), count)  # arrays of a layer and direction: w_ih, w_hh, b_ih, b_hh, w_hr
    bare = 4 if has_biases else 2
    if more or each not in ((bare, bare + 1) if mode == "LSTM" else (bare,)):
        raise ValueError(
            f"{where}: params has the wrong length; expected {bare} arrays for each of {num_layers} layers in "
            f"{directions} directions ({bare + 1} for an LSTM with projection), got {len(params)}. List the arrays in "
            "the order of torch's all_weights."
        )
    layers = [list(params[i * each : (i + 1) * each]) for i in range(count)]
    if layers[0][0].shape[-1] != input.shape[-1]:
        raise ValueError(
            f"{where}: input does not match w_ih; expected input_size {layers[0][0].shape[-1]} in the last dimension, "
            f"got {input.shape}. Check input_size."
        )
    names = ["h_0", "c_0"][: len(hx)]
    hx = [checks.floating(where, name, h) for name, h in zip(names, hx, strict=True)]
    given = {f"params[{i}]": p for i, p in enumerate(params)}
    checks.one_dtype(where, input=input, **dict(zip(names, hx, strict=True)), **given)
    size = layers[0][0].shape[0] // _GATES[mode]
    out = layers[0][-1].shape[0] if each == bare + 1 else size  # P: w_hr is the last array, (P, H)
    for name, h, width in zip(names, hx, (out, size), strict=False):  # only an LSTM has c_0
        why = "Its shape is (num_layers · directions, batch, size), also with batch_first."
        checks.shape_of(where, name, h, (count, batch, width), why)
    for number, layer in enumerate(layers):
        width = input.shape[-1] if number < directions else directions * out  # a later layer reads h of all directions
        wide = _GATES[mode] * size
        expected = [(wide, width), (wide, out)] + [(wide,)] * (bare - 2) + [(out, size)] * (each - bare)
        for place, (array, shape) in enumerate(zip(layer, expected, strict=True)):
            name = f"params[{number * each + place}]"
            checks.shape_of(where, name, array, shape, f"The array belongs to layer {number // directions}.")
    return input, hx, layers
