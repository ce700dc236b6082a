"""Recurrent cells, as in torch/nn/modules/rnn.py. Letters: `B batch, I input_size, H hidden_size`. B is optional."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.functional.rnn_cells import pair
from funcnet.nn import init
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base class of the recurrent cells, which creates their parameters.

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: if True, the cell has the biases b_ih and b_hh.
        num_chunks: number of gates.
        dtype: dtype of the parameters, float32 by default.

    Params: weight_ih (num_chunks · H, I), weight_hh (num_chunks · H, H), bias_ih and bias_hh (num_chunks · H,), all
        initialised from U(±1/√hidden_size).

    Example:
        >>> from funcnet import nn
        >>> nn.RNNCellBase(2, 3, True, num_chunks=4).weight_hh.shape
        (12, 3)

    Reference: torch.nn.RNNCellBase.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, *, dtype: DTypeLike | None = None
    ):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_ih = Parameter((num_chunks * hidden_size, input_size), dtype=dtype)
        self.weight_hh = Parameter((num_chunks * hidden_size, hidden_size), dtype=dtype)
        self.register_parameter("bias_ih", Parameter(num_chunks * hidden_size, dtype=dtype) if bias else None)
        self.register_parameter("bias_hh", Parameter(num_chunks * hidden_size, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _step(self, cell: Callable[..., Any], input: jax.Array, hx: list[Any] | None) -> list[jax.Array]:
        """Run `cell` for one step on a batch or on a single input, and return the list of new states."""
        where = type(self).__name__
        input = checks.floating(where, "input", input)
        for name, array in {"input": input, **{f"hx[{i}]": h for i, h in enumerate(hx or ())}}.items():
            if jnp.ndim(array) not in (1, 2):
                raise ValueError(
                    f"{where}: {name} has the wrong rank; expected 2 dimensions, or 1 without a batch, got shape "
                    f"{jnp.shape(array)}."
                )
        batched = input.ndim == 2
        x = input if batched else input[None]
        if hx is None:
            hx = [jnp.zeros((x.shape[0], self.hidden_size), x.dtype)] * (2 if cell is F.lstm_cell else 1)
        elif not batched:
            hx = [jnp.asarray(h)[None] for h in hx]
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        out = cell(x, hx if cell is F.lstm_cell else hx[0], *weights)
        new = list(out) if cell is F.lstm_cell else [out]
        return new if batched else [h[0] for h in new]

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        shown += [f"bias={self.bias}"] if self.bias is not True else []
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        shown += [f"nonlinearity={nonlinearity}"] if nonlinearity != "tanh" else []
        return ", ".join(shown)


class RNNCell(RNNCellBase):
    """One step of an Elman RNN, `h' = act(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh)`.

    Args:
        input_size: size of x.
        hidden_size: size of h.
        bias: if True, the cell has the biases b_ih and b_hh.
        nonlinearity: the activation function act, 'tanh' or 'relu'.
        dtype: dtype of the parameters, float32 by default.

    Params: as in `RNNCellBase`, with num_chunks=1.
    Call: input (B, I), and hx (B, H) or None for zeros -> new state (B, H). Without a batch, B is omitted from all
        shapes.

    Raises:
        ValueError: if the shapes do not fit, or the nonlinearity is unknown. The shapes and the nonlinearity are
            checked when the cell is called.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> cell = nn.RNNCell(3, 5)
        >>> params, state = cell.init(jax.random.key(0))
        >>> cell.apply(params, state, jnp.ones((2, 3)))[0].shape
        (2, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RNNCell.html
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: jax.Array, hx: jax.Array | None = None) -> jax.Array:
        if self.nonlinearity not in ("tanh", "relu"):  # checked at the call, as in torch
            raise ValueError(f"RNNCell: nonlinearity is unknown; expected 'tanh' or 'relu', got {self.nonlinearity!r}.")
        cell = F.rnn_tanh_cell if self.nonlinearity == "tanh" else F.rnn_relu_cell
        return self._step(cell, input, None if hx is None else [hx])[0]


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory (LSTM).

    The cell computes `i, f, g, o = x W_ihᵀ + b_ih + h W_hhᵀ + b_hh`, `c' = σ(f) c + σ(i) tanh(g)` and
    `h' = σ(o) tanh(c')`.

    Args:
        input_size: size of x.
        hidden_size: size of h and c.
        bias: if True, the cell has the biases b_ih and b_hh.
        dtype: dtype of the parameters, float32 by default.

    Params: as in `RNNCellBase`, with num_chunks=4.
    Call: input (B, I), and hx = (h, c), each (B, H), or None for zeros -> (h', c'). Without a batch, B is omitted from
        all shapes.

    Raises:
        ValueError: if the shapes do not fit.
        TypeError: if the inputs are not floating-point, their dtypes differ, or hx is not a pair.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> cell = nn.LSTMCell(3, 5)
        >>> params, state = cell.init(jax.random.key(0))
        >>> (h, c), _ = cell.apply(params, state, jnp.ones((2, 3)))
        >>> h.shape, c.shape
        ((2, 5), (2, 5))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTMCell.html
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: DTypeLike | None = None):
        super().__init__(input_size, hidden_size, bias, num_chunks=4, dtype=dtype)

    def forward(self, input: jax.Array, hx: Sequence[jax.Array] | None = None) -> tuple[jax.Array, jax.Array]:
        h, c = self._step(F.lstm_cell, input, None if hx is None else pair("LSTMCell", hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit (GRU).

    The cell computes `r, z = σ(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh)`, `n = tanh(x W_inᵀ + b_in + r (h W_hnᵀ + b_hn))` and
    `h' = (1 - z) n + z h`. W_in, b_in, W_hn and b_hn are the last H rows of weight_ih, bias_ih, weight_hh and bias_hh.

    Args:
        input_size: size of x.
        hidden_size: size of h.
        bias: if True, the cell has the biases b_ih and b_hh.
        dtype: dtype of the parameters, float32 by default.

    Params: as in `RNNCellBase`, with num_chunks=3.
    Call: input (B, I), and hx (B, H) or None for zeros -> new state (B, H). Without a batch, B is omitted from all
        shapes.

    Raises:
        ValueError: if the shapes do not fit.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> cell = nn.GRUCell(3, 5)
        >>> params, state = cell.init(jax.random.key(0))
        >>> cell.apply(params, state, jnp.ones(3))[0].shape
        (5,)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GRUCell.html
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, *, dtype: DTypeLike | None = None):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def forward(self, input: jax.Array, hx: jax.Array | None = None) -> jax.Array:
        return self._step(F.gru_cell, input, None if hx is None else [hx])[0]
