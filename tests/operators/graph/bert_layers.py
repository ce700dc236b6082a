"""A layer of BERT in the words of transformers, with `F.scaled_dot_product_attention`.

Letters: `B batch, T sequence, H heads, E width of a head, D = H·E`.
"""

from typing import Any

import jax

from funcnet import functional as F
from funcnet import nn


class SdpaSelfAttention(nn.Module):
    def __init__(self, config: Any):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout_prob = config.attention_probs_dropout_prob

    def forward(self, hidden_states: jax.Array, attention_mask: jax.Array | None) -> jax.Array:
        shape = (hidden_states.shape[0], -1, self.num_attention_heads, self.attention_head_size)
        query_layer = self.query(hidden_states).reshape(shape).swapaxes(1, 2)
        key_layer = self.key(hidden_states).reshape(shape).swapaxes(1, 2)
        value_layer = self.value(hidden_states).reshape(shape).swapaxes(1, 2)
        attn_output = F.scaled_dot_product_attention(
            query_layer,
            key_layer,
            value_layer,
            attn_mask=attention_mask,
            dropout_p=self.dropout_prob if self.training else 0.0,
            rng=self.make_rng() if self.training else None,
        )
        return attn_output.swapaxes(1, 2).reshape(hidden_states.shape)


class Output(nn.Module):
    def __init__(self, config: Any, width: int):
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: jax.Array, input_tensor: jax.Array) -> jax.Array:
        hidden_states = self.dropout(self.dense(hidden_states))
        return self.LayerNorm(hidden_states + input_tensor)


class Attention(nn.Module):
    def __init__(self, config: Any):
        super().__init__()
        self.self = SdpaSelfAttention(config)
        self.output = Output(config, config.hidden_size)

    def forward(self, hidden_states: jax.Array, attention_mask: jax.Array | None) -> jax.Array:
        return self.output(self.self(hidden_states, attention_mask), hidden_states)


class Intermediate(nn.Module):
    def __init__(self, config: Any):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        return F.gelu(self.dense(hidden_states))


class SdpaBertLayer(nn.Module):
    def __init__(self, config: Any):
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Intermediate(config)
        self.output = Output(config, config.intermediate_size)

    def forward(self, hidden_states: jax.Array, attention_mask: jax.Array | None = None) -> jax.Array:
        attention_output = self.attention(hidden_states, attention_mask)
        return self.output(self.intermediate(attention_output), attention_output)
