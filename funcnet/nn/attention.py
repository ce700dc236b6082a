"""MultiheadAttention, as in torch/nn/modules/activation.py.

Letters: `B batch, H heads, L queries, S keys, D embed_dim`.
"""

from collections.abc import Hashable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.functional.context_parallel import How
from funcnet.functional.multi_head_attention import map_arrays
from funcnet.nn import init
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.linear import Linear
from funcnet.nn.module.module import Module
from funcnet.nn.module.sharding import rules

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """The Linear layer `out_proj` of MultiheadAttention, under the class name that torch's `repr` shows for it."""


class MultiheadAttention(Module):
    """Multi-head attention with input and output projections: `concat(head_1, …, head_H) W_outᵀ + b_out`.

    Args:
        embed_dim: width of the queries and of the output, D.
        num_heads: number of heads, H, which must divide D.
        dropout: probability of zeroing each attention weight in training.
        bias: if True, the projections have biases.
        add_bias_kv: if True, append a learnable key and value to the given keys and values.
        add_zero_attn: if True, append one key and one value of zeros to the given keys and values.
        kdim, vdim: widths of the keys and of the values; D by default.
        batch_first: if True, inputs and output are (B, L, D) instead of (L, B, D). batch_first has no effect on inputs
            without a batch dimension.
        dtype: dtype of the params; float32 by default.
        axis_name, context_parallel, block_size: how the attention of long sequences is computed without their weights,
            as in `F.multi_head_attention_forward`. `axis_name` is only for calls inside your own `jax.shard_map`.

    Params: in_proj_weight (3D, D) stacks the projection matrices of query, key and value. If kdim or vdim is not D,
        q_proj_weight (D, D), k_proj_weight (D, kdim) and v_proj_weight (D, vdim) replace in_proj_weight. These weights
        are initialised with `init.xavier_uniform`, and in_proj_weight counts as one matrix of shape (3D, D). The biases
        in_proj_bias (3D,) and out_proj.bias (D,) are zeros. The weight out_proj.weight (D, D) is initialised like the
        weight of `Linear`. With add_bias_kv, the learnable key bias_k and value bias_v, both (1, 1, D), are initialised
        with `init.xavier_normal`.
    Call: query (L, B, D), key (S, B, kdim), value (S, B, vdim) -> ((L, B, D), weights (B, L, S) or None). The batch
        dimension B is optional in all shapes. The masks work as in `F.multi_head_attention_forward`. True in a boolean
        mask hides a key. If the surrounding mesh has an axis `context`, as in a run with the mesh "data=2,context=4",
        the sequences are split along it, unless the weights are needed: then the compiler gathers the keys. Pass
        need_weights=False.

    Differs from torch: in eval, torch's fast path sets the outputs at padded positions to 0. This layer has no fast
        path and computes these outputs like all others. With `need_weights=True`, the output for a query whose keys are
        all hidden is NaN, as in torch outside its fast path. With `need_weights=False`, a query whose keys are all
        hidden gives zeros as the input of the output projection.

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

    sharding_rules = rules(
        {
            **dict.fromkeys(["in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"], ("tensor", "fsdp")),
            "in_proj_bias": ("tensor",),
            "out_proj.weight": ("fsdp", "tensor"),
            "out_proj.bias": (),
        }
    )
    shards_sequences = True
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
        dtype: DTypeLike | None = None,
        axis_name: Hashable | None = None,
        context_parallel: Literal["ring", "gather"] = "ring",
        block_size: int | None = None,
    ):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: embed_dim cannot be split into heads; expected a positive multiple of num_heads, "
                f"got embed_dim={embed_dim} and num_heads={num_heads}."
            )
        How(axis_name, context_parallel, block_size).check("MultiheadAttention")
        self.axis_name, self.block_size = axis_name, block_size
        self.context_parallel: Literal["ring", "gather"] = context_parallel
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

    def sharding_sizes(self) -> dict[str, tuple[str, int]]:
        return {"attention heads": ("tensor", self.num_heads)}

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
            rng=self.make_rng() if self.training and checks.draws(self.dropout) else None,
            axis_name=self.axis_name,
            context_parallel=self.context_parallel,
            block_size=self.block_size,
        )
        return jnp.moveaxis(y, 0, 1) if turn else y, weights

    def merge_masks(
        self, attn_mask: jax.Array | None, key_padding_mask: jax.Array | None, query: jax.Array
    ) -> tuple[jax.Array | None, int | None]:
        """Merge `attn_mask` and `key_padding_mask` into one mask. Return this mask and torch's number for its kind, 1
        or 2.

        Args:
            attn_mask: (L, L) or (B·H, L, L).
            key_padding_mask: (B, L), of the same dtype as `attn_mask`.
            query: (B, L, D).

        Returns:
            (mask, kind). If both masks are None, the result is (None, None). If only `attn_mask` is None, the result is
            (key_padding_mask, 1). If `attn_mask` is given, the result is (merged mask (B, H, L, L), 2). Boolean masks
            are merged with `or`, and floating-point masks are added.

        Raises:
            TypeError: if the dtypes of the masks differ.
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
                "MultiheadAttention.merge_masks: the dtypes differ; expected masks of the same dtype, got attn_mask "
                f"{attn_mask.dtype} and key_padding_mask {key_padding_mask.dtype}. Make both masks boolean or both "
                "floating-point."
            )
        return jnp.add(merged, key_padding_mask[:, None, None]), 2
