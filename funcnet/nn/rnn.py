"""Recurrent layers, as in torch/nn/modules/rnn.py. The recurrent cells, which compute a single step, are in
`rnn_cells.py`.

Letters: `B batch, T time, I input_size, H hidden_size, P size of h (proj_size, or H without a projection), D number of
directions (1 or 2), L num_layers`. The batch dimension B is optional.
"""

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.functional.pack_and_pad import pad_packed_sequence, repack
from funcnet.functional.packed_sequence import PackedSequence
from funcnet.functional.rnn_cells import pair
from funcnet.nn import init
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

Lengths = ArrayLike | None  # the lengths (B,) of padded sequences
Start = list[Any] | None  # the states before the first step

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """Base class of RNN, LSTM and GRU, which creates the parameters and handles packed, padded and unbatched inputs.

    Args:
        mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, dtype: as in `LSTM`.

    Example:
        >>> from funcnet import nn
        >>> [name for name, _ in nn.RNNBase("GRU", 2, 3, bias=False, bidirectional=True).named_parameters()]
        ['weight_ih_l0', 'weight_hh_l0', 'weight_ih_l0_reverse', 'weight_hh_l0_reverse']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNBase.html
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        _check_settings(type(self).__name__, locals())
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first = bias, batch_first
        self.dropout = dropout if isinstance(dropout, jax.core.Tracer) else float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        size, gates = proj_size or hidden_size, _GATES[mode] * hidden_size
        for number, names in enumerate(self._names()):
            width = input_size if number < self._directions else size * self._directions
            shapes = {"weight_ih": (gates, width), "weight_hh": (gates, size), "weight_hr": (proj_size, hidden_size)}
            for name in names:
                setattr(self, name, Parameter(shapes.get(name[:9], (gates,)), dtype=dtype))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _names(self) -> list[list[str]]:
        """Return a list of torch's parameter names for each layer and direction, in the order that `F.lstm` expects."""
        kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        kinds += ["weight_hr"] if self.proj_size else []
        suffixes = ["", "_reverse"][: self._directions]
        return [[f"{kind}_l{n}{suffix}" for kind in kinds] for n in range(self.num_layers) for suffix in suffixes]

    @property
    def all_weights(self) -> list[list[Any]]:
        """One list of parameters for each layer and direction. The parameters are arrays inside forward, and
        descriptions elsewhere.
        """
        return [[getattr(self, name) for name in names] for names in self._names()]

    def flatten_parameters(self) -> None:
        """Do nothing. In torch, `flatten_parameters` moves the weights into one block of memory for cuDNN. XLA does not
        need this.
        """

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _recur(self, input: jax.Array | PackedSequence, hx: Start, lengths: Lengths) -> tuple[Any, list[jax.Array]]:
        """Run all layers on a packed, padded or unbatched input, and return (output, last states)."""
        where = type(self).__name__
        if isinstance(input, PackedSequence):
            return self._recur_packed(where, input, hx, lengths)
        input = checks.floating(where, "input", input)
        if input.ndim not in (2, 3):
            raise ValueError(
                f"{where}: input has the wrong rank; expected 3 dimensions, or 2 without a batch, got shape "
                f"{input.shape}."
            )
        for name, h in zip(("h_0", "c_0"), hx or (), strict=False):
            if isinstance(h, tuple | list):
                raise TypeError(
                    f"{where}: {name} is not an array; expected an array, got {type(h).__name__}. Only an LSTM has a "
                    "pair of states."
                )
            if jnp.ndim(h) != input.ndim:
                raise ValueError(
                    f"{where}: {name} and input differ in rank; expected {input.ndim} dimensions, got shape "
                    f"{jnp.shape(h)}. Add a batch dimension to both, or to neither."
                )
        if input.ndim == 3:
            return self._recur_padded(input, hx, lengths, self.batch_first)
        hx = None if hx is None else [jnp.asarray(h)[:, None] for h in hx]  # (D · L, P or H) -> (D · L, 1, P or H)
        lengths = None if lengths is None else checks.integers(where, "lengths", lengths)[None]
        output, last = self._recur_padded(input[:, None], hx, lengths, False)  # (T, 1, I), even if batch_first
        return output[:, 0], [h[:, 0] for h in last]  # (T, D · P), and (D · L, P or H) each

    def _recur_packed(self, where: str, input: PackedSequence, hx: Start, lengths: Lengths) -> tuple[Any, list[Any]]:
        if lengths is not None:
            raise ValueError(f"{where}: a packed batch already has lengths; expected lengths=None, got an array.")
        if input.data.ndim != 2:
            raise ValueError(
                f"{where}: the packed data has the wrong rank; expected (steps, input_size), got {input.data.shape}. "
                "Pack sequences of shape (length, input_size)."
            )
        padded, known = pad_packed_sequence(input)
        output, last = self._recur_padded(padded, hx, known, False)
        return repack(input, output), last

    def _recur_padded(self, input: jax.Array, hx: Start, lengths: Lengths, batch_first: bool) -> tuple[Any, list[Any]]:
        if hx is None:
            shape = (self.num_layers * self._directions, input.shape[0 if batch_first else 1])
            hx = [jnp.zeros((*shape, self.proj_size or self.hidden_size), input.dtype)]
            hx += [jnp.zeros((*shape, self.hidden_size), input.dtype)] if self.mode == "LSTM" else []
        run: Any = {"LSTM": F.lstm, "GRU": F.gru, "RNN_TANH": F.rnn_tanh, "RNN_RELU": F.rnn_relu}[self.mode]
        draws = self.training and checks.draws(self.dropout) and self.num_layers > 1
        output, *last = run(
            input,
            hx if self.mode == "LSTM" else hx[0],
            [weight for weights in self.all_weights for weight in weights],
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            bool(self.bidirectional),
            batch_first,
            lengths=lengths,
            rng=self.make_rng() if draws else None,
        )
        return output, last

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        shown += [f"proj_size={self.proj_size}"] if self.proj_size != 0 else []
        shown += [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        shown += [f"bias={self.bias}"] if self.bias is not True else []
        shown += [f"batch_first={self.batch_first}"] if self.batch_first is not False else []
        shown += [f"dropout={self.dropout}"] if self.dropout != 0 else []
        shown += [f"bidirectional={self.bidirectional}"] if self.bidirectional is not False else []
        return ", ".join(shown)


class LSTM(RNNBase):
    """Long short-term memory (LSTM) layers over a sequence.

    Each step computes `i, f, g, o = x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh`, `c_t = σ(f) c_{t-1} + σ(i) tanh(g)` and
    `h_t = σ(o) tanh(c_t)`. With proj_size > 0, h_t is also multiplied by `W_hrᵀ`. The input x_t of each layer after the
    first is the h_t of the previous layer.

    Args:
        input_size: size of x_t.
        hidden_size: size of c_t, and of h_t if there is no projection.
        num_layers: number of layers.
        bias: if True, the layers have the biases b_ih and b_hh.
        batch_first: if True, the batch dimension comes before time in input and output (but not in the states).
        dropout: probability of zeroing each entry of a layer's output in training. The last layer has no dropout.
        bidirectional: if True, each layer also runs from the last step to the first, with separate weights
            (`…_reverse`). The outputs of both directions are concatenated, forward first.
        proj_size: size to which h_t is projected. proj_size=0 means no projection, so that h_t has size hidden_size.
        dtype: dtype of the parameters, float32 by default.

    Params: weight_ih_l0 (4 · H, I), weight_hh_l0 (4 · H, P), bias_ih_l0 and bias_hh_l0 (4 · H,), and with proj_size
        weight_hr_l0 (P, H). With bidirectional, parameters of the same shapes with the suffix _reverse come next. The
        parameters of the other layers end in _l1, _l2, …, with D · P in place of I in the shapes. All parameters are
        initialised from U(±1/√hidden_size).
    Call: input, hx=None, *, lengths=None -> output, (h_n, c_n).
        input: (T, B, I), (B, T, I) with batch_first, (T, I) without a batch, or a PackedSequence
            (`nn.utils.rnn`).
        hx: (h_0 (L · D, B, P), c_0 (L · D, B, H)), zeros by default. For a PackedSequence, the states are in the order
            that the sequences had before packing.
        lengths: (B,) integers from 0 to T, the number of valid steps of each padded sequence. Without a batch,
            `lengths` is one number. Under `jit`, the lengths may be traced, so that batches of any lengths share one
            compiled program. For a PackedSequence, in contrast, `jit` compiles once for each set of lengths. The
            reverse direction starts at the last valid step of each sequence. The padding does not affect h_n and c_n,
            and the output at padded steps is 0. The result is the same as for a PackedSequence of the sequences without
            padding.
        output: the h_t of the last layer, (T, B, D · P), in the same layout as the input.
        h_n, c_n: final states, with the shapes of hx.

    Raises:
        ValueError: if a size is invalid, if shapes or lengths do not fit, or if dropout needs an `rng` that is missing.
        TypeError: if a setting has the wrong type, if the inputs are not floating-point, if their dtypes differ, or if
            hx is not a pair.

    Differs from torch: torch has no `lengths`. Unlike torch, the constructor checks the types of all sizes, including
        that of `proj_size`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.LSTM(3, 5, num_layers=2, bidirectional=True, batch_first=True)
        >>> params, state = layer.init(jax.random.key(0))
        >>> run = jax.jit(lambda x, lengths: layer.apply(params, state, x, lengths=lengths)[0])
        >>> output, (h_n, c_n) = run(jnp.ones((2, 7, 3)), jnp.array([7, 4]))
        >>> output.shape, h_n.shape, bool(output[1, 4:].any())
        ((2, 7, 10), (4, 2, 5), False)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: DTypeLike | None = None,
    ):
        settings = (num_layers, bias, batch_first, dropout, bidirectional, proj_size)
        super().__init__("LSTM", input_size, hidden_size, *settings, dtype=dtype)

    def forward(
        self, input: jax.Array | PackedSequence, hx: Sequence[jax.Array] | None = None, *, lengths: Lengths = None
    ) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        output, (h_n, c_n) = self._recur(input, None if hx is None else pair("LSTM", hx), lengths)
        return output, (h_n, c_n)


class _OneState(RNNBase):
    def forward(
        self, input: jax.Array | PackedSequence, hx: jax.Array | None = None, *, lengths: Lengths = None
    ) -> tuple[Any, jax.Array]:
        output, (h_n,) = self._recur(input, None if hx is None else [hx], lengths)
        return output, h_n


class GRU(_OneState):
    """Gated recurrent unit (GRU) layers over a sequence.

    Each step computes `r, z = σ(x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh)`,
    `n = tanh(x_t W_inᵀ + b_in + r (h_{t-1} W_hnᵀ + b_hn))` and `h_t = (1 - z) n + z h_{t-1}`. W_in, b_in, W_hn and b_hn
    are the last H rows of weight_ih_l0, bias_ih_l0, weight_hh_l0 and bias_hh_l0 (here of the first layer).

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype: as in `LSTM`.
        proj_size: must be None, because only `LSTM` has a projection.

    Params: as in `LSTM`, with 3 · H in place of 4 · H.
    Call: input, hx=None, *, lengths=None -> output, h_n, as in `LSTM` but without the state c.

    Raises:
        ValueError, TypeError: if the arguments are invalid, as in `LSTM`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.GRU(3, 5)
        >>> params, state = layer.init(jax.random.key(0))
        >>> (output, h_n), _ = layer.apply(params, state, jnp.ones((7, 2, 3)))
        >>> output.shape, h_n.shape
        ((7, 2, 5), (1, 2, 5))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRU.html
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        proj_size: None = None,
        dtype: DTypeLike | None = None,
    ):
        _no_projection("GRU", proj_size)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype=dtype
        )


class RNN(_OneState):
    """Elman RNN layers `h_t = act(x_t W_ihᵀ + b_ih + h_{t-1} W_hhᵀ + b_hh)` over a sequence.

    Args:
        nonlinearity: the activation function act, 'tanh' or 'relu'.
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype: as in `LSTM`.
        proj_size: must be None, because only `LSTM` has a projection.

    Params: as in `LSTM`, with H in place of 4 · H.
    Call: input, hx=None, *, lengths=None -> output, h_n, as in `LSTM` but without the state c.

    Raises:
        ValueError: if the nonlinearity is unknown or another argument is invalid, as in `LSTM`.
        TypeError: if the inputs are invalid, as in `LSTM`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.RNN(3, 5, 2, "relu")
        >>> params, state = layer.init(jax.random.key(0))
        >>> (output, h_n), _ = layer.apply(params, state, jnp.ones((7, 2, 3)))
        >>> output.shape, h_n.shape
        ((7, 2, 5), (2, 2, 5))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNN.html
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        proj_size: None = None,
        dtype: DTypeLike | None = None,
    ):
        _no_projection("RNN", proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity is unknown; expected 'tanh' or 'relu', got {nonlinearity!r}.")
        settings = (num_layers, bias, batch_first, dropout, bidirectional)
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, *settings, dtype=dtype)
        self.nonlinearity = nonlinearity


def _no_projection(where: str, proj_size: object) -> None:
    if proj_size is not None:
        raise ValueError(f"{where}: only LSTM supports proj_size; expected None, got {proj_size}. Omit proj_size.")


def _check_settings(where: str, given: dict[str, Any]) -> None:
    """Check the settings of a recurrent layer in the same order as torch's constructor."""
    dropout, num_layers = given["dropout"], given["num_layers"]
    is_traced = isinstance(dropout, jax.core.Tracer)
    is_number = isinstance(dropout, numbers.Real) and not isinstance(dropout, bool)
    if not is_traced and not (is_number and 0 <= dropout <= 1):
        raise ValueError(f"{where}: dropout is not a probability; expected a number from 0 to 1, got {dropout!r}.")
    if num_layers == 1 and (is_traced or dropout > 0):
        warnings.warn(
            f"{where}: dropout applies only between layers, so it has no effect with one layer; got dropout={dropout} "
            "and num_layers=1. Use num_layers greater than 1, or add an nn.Dropout.",
            stacklevel=4,
        )
    kinds = {"bias": bool, "batch_first": bool, "input_size": int, "hidden_size": int, "num_layers": int}
    for name, kind in {**kinds, "proj_size": int}.items():
        if not isinstance(given[name], kind):
            raise TypeError(
                f"{where}: {name} has the wrong type; expected {kind.__name__}, got {type(given[name]).__name__}."
            )
        if kind is int and given[name] <= (-1 if name == "proj_size" else 0):
            least = "at least 0 (0 means no projection)" if name == "proj_size" else "greater than zero"
            raise ValueError(f"{where}: {name} is too small; expected {least}, got {given[name]}.")
    if given["proj_size"] >= given["hidden_size"]:
        raise ValueError(
            f"{where}: proj_size is too large; expected less than hidden_size={given['hidden_size']}, got "
            f"{given['proj_size']}. A projection must reduce the size of h."
        )
    if given["mode"] not in _GATES:
        raise ValueError(f"{where}: mode is unknown; expected one of {', '.join(_GATES)}, got {given['mode']!r}.")
