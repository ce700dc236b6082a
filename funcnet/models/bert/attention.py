"""Self-attention, with its output layer.

Letters: `B batch, T sequence, Q queries (= T), K keys (= T), H heads, E width of a head, D = H·E width`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import functional as F
from funcnet import nn
from funcnet.functional import checks
from funcnet.functional.attention_core import attend
from funcnet.functional.context_mesh import CONTEXT, context_size
from funcnet.models.bert.configuration import BertConfig
from funcnet.nn.module.sharding import rules

__all__ = ["BertAttention", "BertSelfOutput", "attention_bias"]


def attention_bias(attention_mask: jax.Array | None, dtype: jnp.dtype) -> jax.Array | None:
    """Convert an attention mask to the bias (B, 1, 1, K) or (B, 1, Q, K), which is added to the attention scores so
    that masked keys get no weight.

    The bias of a masked key is the lowest finite number of `dtype`, not -inf. Therefore a query whose keys are all
    masked attends to all of them equally, as in transformers, instead of giving NaN.

    The mask is (B, K), or (B, Q, K) for a separate mask per query: 1 or True means attend, 0 or False means hide. An
    additive mask, in which 0 means attend, would have the opposite effect. Therefore numbers other than 0 and 1 raise
    an error. Under `jit`, the values of the mask are unknown. The bias is then NaN at entries other than 0 and 1.
    """
    if attention_mask is None:
        return None
    if attention_mask.ndim not in (2, 3):
        raise ValueError(
            "attention_bias: attention_mask has the wrong rank; expected (batch, keys) or (batch, queries, keys), got "
            f"{attention_mask.shape}."
        )
    shown = attention_mask[:, None, None, :] if attention_mask.ndim == 2 else attention_mask[:, None]
    bias = jnp.where(shown.astype(bool), 0.0, jnp.finfo(dtype).min).astype(dtype)
    if attention_mask.dtype == bool:
        return bias
    if isinstance(attention_mask, np.ndarray) or checks.known(attention_mask):
        numbers = np.asarray(attention_mask)
        if (strange := numbers[(numbers != 0) & (numbers != 1)]).size:
            raise ValueError(
                "attention_bias: attention_mask contains a number other than 0 and 1; expected 1 for keys that are "
                f"attended to and 0 for other keys, got {float(strange.flat[0]):g}. For an additive mask (0 and -1e9), "
                "pass `mask == 0`."
            )
    return jnp.where((shown == 0) | (shown == 1), bias, jnp.nan)


class BertSelfAttention(nn.Module):
    """Multi-head self-attention: queries, keys and values are projections of the same vectors.

    With relative positions, a table contains a vector d for each distance between query and key, from -(P-1) to P-1,
    where P is `max_position_embeddings`. "relative_key" adds query·d to the scores. "relative_key_query" adds query·d +
    key·d.

    Call: hidden_states (B, T, D), bias from `attention_bias` -> (output (B, T, D), attention weights (B, H, T, T)). The
    weights are None if the config has `attention_block_size`, or the surrounding mesh splits the sequence.

    Reference: Shaw et al. 2018, arXiv:1803.02155; Huang et al. 2020, arXiv:2009.13658, methods 1 to 4
    """

    shards_sequences = True

    def __init__(self, config: BertConfig):
        super().__init__()
        self.heads = config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.block_size, self.context_parallel = config.attention_block_size, config.context_parallel
        self.kind, self.longest = config.position_embedding_type, config.max_position_embeddings
        if self.kind != "absolute":
            self.distance_embedding = nn.Embedding(2 * self.longest - 1, config.hidden_size // self.heads)

    def forward(self, hidden_states: jax.Array, bias: jax.Array | None = None) -> tuple[jax.Array, jax.Array | None]:
        split = (*hidden_states.shape[:-1], self.heads, hidden_states.shape[-1] // self.heads)
        query = self.query(hidden_states).reshape(split)  # (B, T, H, E)
        key = self.key(hidden_states).reshape(split)
        value = self.value(hidden_states).reshape(split)
        if self.block_size is not None or (context_size() > 1 and self.context_parallel == "ring"):
            return self.in_parts(query, key, value, bias).reshape(hidden_states.shape), None
        relative = None if self.kind == "absolute" else self.relative(query, key)
        attended, weights = attend(
            query, key, value, relative, bias, dropout=self.dropout, dtype=query.dtype, heads_last=True
        )
        return attended.reshape(hidden_states.shape), weights

    def sharding_sizes(self) -> dict[str, tuple[str, int]]:
        return {"attention heads": ("tensor", self.heads)}

    def in_parts(self, query: jax.Array, key: jax.Array, value: jax.Array, bias: jax.Array | None) -> jax.Array:
        """Return the output of the attention (B, T, H, E) without storing all scores. The devices of a mesh may each
        hold a part of the sequence.
        """
        if self.kind != "absolute":
            raise ValueError(
                "BertSelfAttention: relative positions cannot be combined with attention_block_size or a mesh with the "
                f"axis {CONTEXT!r}; expected position_embedding_type='absolute', got {self.kind!r}."
            )
        rate = self.dropout.p if self.dropout.training else 0.0
        query, key, value = (one.swapaxes(1, 2) for one in (query, key, value))  # (B, H, T, E)
        rng = self.dropout.make_rng() if checks.draws(rate) or rate > 0 else None
        how: dict[str, Any] = {"context_parallel": self.context_parallel, "block_size": self.block_size}
        attended = F.scaled_dot_product_attention(query, key, value, bias, rate, rng=rng, **how)
        return attended.swapaxes(1, 2)  # (B, T, H, E)

    def relative(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """Return the relative scores (B, H, T, T) for query and key (B, T, H, E), scaled like the other scores."""
        place, scale = jnp.arange(query.shape[1]), query.shape[-1] ** -0.5
        distances = self.distance_embedding(place[:, None] - place + self.longest - 1)  # (T, T, E)
        scores = jnp.einsum("bqhe,qke->bhqk", query * scale, distances)
        if self.kind == "relative_key_query":
            scores = scores + jnp.einsum("bkhe,qke->bhqk", key * scale, distances)
        return scores


class BertSelfOutput(nn.Module):
    """LayerNorm(input + dropout(dense(x))). Call: (B, T, `width`), (B, T, D) -> (B, T, D). `width` is D by default."""

    sharding_rules = rules({"dense.weight": ("fsdp", "tensor"), "dense.bias": ()})

    def __init__(self, config: BertConfig, width: int | None = None):
        super().__init__()
        self.dense = nn.Linear(width or config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: jax.Array, input_tensor: jax.Array) -> jax.Array:
        return self.LayerNorm(self.dropout(self.dense(hidden_states)) + input_tensor)


class BertAttention(nn.Module):
    """The first half of a layer: self-attention and its output layer.

    Call: hidden_states (B, T, D), bias from `attention_bias` -> (output (B, T, D), attention weights (B, H, T, T)).
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertSelfOutput(config)

    def forward(self, hidden_states: jax.Array, bias: jax.Array | None = None) -> tuple[jax.Array, jax.Array | None]:
        attended, weights = self.self(hidden_states, bias)
        return self.output(attended, hidden_states), weights
