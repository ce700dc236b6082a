"""MultiheadAttention, as in torch/nn/modules/activation.py.

Letters: `B batch, H heads, L queries, S keys, D embed_dim`.
"""

from typing import Any

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet.functional.multi_head_attention import map_arrays
from funcnet.nn import init
from funcnet.nn.core.module import Module
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.linear import Linear

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear with the name that torch's `repr` shows for `out_proj`."""


class MultiheadAttention(Module):
    """Attention in several heads, between projections: `concat(head_1, …, head_H) W_outᵀ + b_out`.

    Args:
        embed_dim: D, the width of the queries and of the result.
        num_heads: H, which divides D.
        dropout: the probability with which a weight is zeroed in training.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned key and value follow the given ones.
        add_zero_attn: whether a key and value of zeros follow.
        kdim, vdim: the widths of key and value, D by default.
        batch_first: whether inputs and result are (B, L, D) rather than (L, B, D). It has no effect without a batch.
        dtype: of the params, float32 by default.

    Params: in_proj_weight (3D, D), the rows for query, key, value; with other widths q_proj_weight (D, D),
        k_proj_weight (D, kdim), v_proj_weight (D, vdim): Xavier-uniform, the packed one as the one matrix that it is.
        in_proj_bias (3D,) and out_proj.bias (D,), zeros; out_proj.weight (D, D), as in Linear; bias_k and bias_v
        (1, 1, D), Xavier-normal.
    Call: query (L, B, D), key (S, B, kdim), value (S, B, vdim) -> ((L, B, D), weights (B, L, S) or None), or all of
        them without B. Masks as in `F.multi_head_attention_forward`, in which True hides.

    Differs from torch: there is no fast path in eval, so outputs at padded positions are not zeroed; only the
        others can be compared. A query with every key hidden gives NaN with `need_weights` and gets 0 from the
        attention without, as in torch outside its fast path.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.MultiheadAttention(8, 2, batch_first=True)
        >>> params, state = layer.init(jax.random.key(0))
        >>> x = jnp.ones((5, 3, 8))
        >>> (y, weights), _ = layer.apply(params, state, x, x, x)
        >>> y.shape, weights.shape
        ((5, 3, 8), (5, 3, 3))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """

    out_proj: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: Any = None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: the heads share the width; expected embed_dim a positive multiple of num_heads, "
                f"got embed_dim={embed_dim} and num_heads={num_heads}."
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        packed = self.kdim == embed_dim and self.vdim == embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, width in widths.items():
            self.register_parameter(name, None if packed else Parameter((embed_dim, width), dtype=dtype))
        whole = Parameter((3 * embed_dim, embed_dim), dtype=dtype) if packed else None
        self.register_parameter("in_proj_weight", whole)
        self.register_parameter("in_proj_bias", Parameter(3 * embed_dim, dtype=dtype) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter((1, 1, embed_dim), dtype=dtype) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def forward(
        self,
        query: jax.Array,
        key: jax.Array,
        value: jax.Array,
        key_padding_mask: jax.Array | None = None,
        need_weights: bool = True,
        attn_mask: jax.Array | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[jax.Array, jax.Array | None]:
        turn = self.batch_first and query.ndim == 3
        if turn:
            query, key, value = map_arrays(lambda x: jnp.moveaxis(x, 1, 0), query, key, value)
        y, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=self.in_proj_weight is None,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            rng=self.make_rng() if self.training and 0 < self.dropout < 1 else None,
        )
        return jnp.moveaxis(y, 0, 1) if turn else y, weights

    def merge_masks(
        self, attn_mask: jax.Array | None, key_padding_mask: jax.Array | None, query: jax.Array
    ) -> tuple[jax.Array | None, int | None]:
        """Merges the two masks, and gives the kind as torch's number: 1 for the padding mask alone, 2 for both.

        Args:
            attn_mask: (L, L) or (B·H, L, L).
            key_padding_mask: (B, L), of the same dtype.
            query: (B, L, D).

        Returns:
            (mask, kind): (None, None) without masks, (key_padding_mask, 1) with that alone, else
            (their sum, or their `or` if boolean, (B, H, L, L); 2).

        Raises:
            TypeError: masks of two dtypes.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        both = (batch, self.num_heads, length, length)
        shape = both if attn_mask.ndim == 3 else (1, 1, length, length)
        merged = jnp.broadcast_to(attn_mask.reshape(shape), both)
        if key_padding_mask is None:
            return merged, 2
        if attn_mask.dtype != key_padding_mask.dtype:
            raise TypeError(
                f"MultiheadAttention.merge_masks: the dtypes differ; expected one, got attn_mask {attn_mask.dtype} and "
                f"key_padding_mask {key_padding_mask.dtype}. Make both boolean, or both floating."
            )
        return jnp.add(merged, key_padding_mask[:, None, None]), 2
