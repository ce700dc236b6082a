"""TransformerEncoderLayer and TransformerDecoderLayer, as in torch/nn/modules/transformer.py.

Letters: `B batch, S length of the source, T length of the target, D d_model, F dim_feedforward, H heads`.

The masks work as in `nn.MultiheadAttention`. True in a boolean mask hides a key, and a floating-point mask is added to
the attention scores. The masks src_mask, tgt_mask and memory_mask have the shape (queries, keys) or (B·H, queries,
keys). Masks whose names end in `_key_padding_mask` have the shape (B, keys), or (keys,) without a batch. An argument
is_causal, tgt_is_causal or memory_is_causal states that the mask is causal, but the mask itself is still required.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.nn.attention import MultiheadAttention
from funcnet.nn.dropout import Dropout
from funcnet.nn.linear import Linear
from funcnet.nn.module.module import Module
from funcnet.nn.module.sharding import rules
from funcnet.nn.normalization import LayerNorm

__all__ = ["Activation", "Mask", "TransformerDecoderLayer", "TransformerEncoderLayer"]

Activation = str | Callable[[jax.Array], jax.Array]
Mask = jax.Array | None


class _Layer(Module):
    """Base class of TransformerEncoderLayer and TransformerDecoderLayer, with their residual connections and their
    feed-forward block.
    """

    sharding_rules = rules({"linear2.weight": ("fsdp", "tensor"), "linear2.bias": ()})
    norm_first: bool
    activation: Any
    linear1: Any
    linear2: Any
    dropout: Any

    def _add(
        self, x: jax.Array, norm: Callable[[jax.Array], jax.Array], block: Callable[[jax.Array], jax.Array]
    ) -> jax.Array:
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _feed_forward(self, x: jax.Array) -> jax.Array:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention followed by a feed-forward block of two linear layers, both with residual connections.

    Args:
        d_model: width of the model, D.
        nhead: number of attention heads, H, which must divide D.
        dim_feedforward: width between the two linear layers, F.
        dropout: dropout probability, which applies to attention weights too.
        activation: 'relu', 'gelu', a module, or a function of one array.
        layer_norm_eps: eps of both LayerNorms.
        batch_first: if True, input and output are (B, S, D) instead of (S, B, D).
        norm_first: if True, LayerNorm comes before each block instead of after the residual sum.
        bias: if True, the Linear and LayerNorm layers have biases.
        dtype: dtype of the parameters, float32 by default.

    Params: self_attn (see `MultiheadAttention`), linear1 (F, D), linear2 (D, F), norm1, norm2.
    Call: src (S, B, D), (B, S, D) or (S, D) -> the same shape. If the masks hide every key of a query, the attention
        adds only the bias of its output projection to that query.

    Differs from torch: in eval, torch's fast path sets the outputs at padded positions to 0. This layer has no fast
        path, so only its outputs at the other positions are the same as torch's.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        >>> params, state = layer.init(jax.random.key(0))
        >>> padded = jnp.array([[False, False, True]])
        >>> layer.apply(params, state, jnp.ones((1, 3, 8)), src_key_padding_mask=padded)[0].shape
        (1, 3, 8)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _function(type(self).__name__, activation)

    def forward(
        self, src: jax.Array, src_mask: Mask = None, src_key_padding_mask: Mask = None, is_causal: bool = False
    ) -> jax.Array:
        def attend(x: jax.Array) -> jax.Array:
            y, _ = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)
            return self.dropout1(y)

        x = self._add(src, self.norm1, attend)
        return self._add(x, self.norm2, lambda x: self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory (the output of an encoder) and a feed-forward block, each with a residual
    connection.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype: as
            in `TransformerEncoderLayer`.

    Params: self_attn, multihead_attn (see `MultiheadAttention`), linear1 (F, D), linear2 (D, F), norm1, norm2, norm3.
    Call: tgt (T, B, D), memory (S, B, D) -> (T, B, D). With batch_first, tgt (B, T, D), memory (B, S, D) -> (B, T, D).
        The batch dimension B is optional.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((1, 3, 8)), jnp.ones((1, 5, 8)))[0].shape
        (1, 3, 8)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoderLayer.html
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        attention: dict[str, Any] = {"dropout": dropout, "bias": bias, "batch_first": batch_first, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _function(type(self).__name__, activation)

    def forward(
        self,
        tgt: jax.Array,
        memory: jax.Array,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> jax.Array:
        def attend(x: jax.Array) -> jax.Array:
            y, _ = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)
            return self.dropout1(y)

        def remember(x: jax.Array) -> jax.Array:
            y, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )
            return self.dropout2(y)

        x = self._add(tgt, self.norm1, attend)
        x = self._add(x, self.norm2, remember)
        return self._add(x, self.norm3, lambda x: self.dropout3(self._feed_forward(x)))


def _function(where: str, activation: Activation) -> Callable[[jax.Array], jax.Array]:
    if callable(activation):
        return activation
    named: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": F.relu, "gelu": F.gelu}
    if activation not in named:
        raise ValueError(
            f"{where}: activation is unknown; expected 'relu', 'gelu' or a function, got {activation!r}. "
            "Pass the function itself instead of its name."
        )
    return named[activation]
