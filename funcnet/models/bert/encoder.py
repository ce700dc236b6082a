"""The layers of BERT, their stack, and the pooler.

Letters: `B batch, T sequence, D width, I intermediate width, H heads, N layers, P sequences packed into one row`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet import nn
from funcnet.functional.sharding import placed
from funcnet.models.bert.activation import activate, activation, shown
from funcnet.models.bert.attention import BertAttention, BertSelfOutput
from funcnet.models.bert.configuration import BertConfig
from funcnet.nn.module.sharding import rules

__all__ = ["BertEncoder", "BertLayer", "BertPooler"]


class BertIntermediate(nn.Module):
    """intermediate_act_fn(dense(x)). Call: (B, T, D) -> (B, T, I).

    The attribute `intermediate_act_fn` may be replaced by another function, a module, or a name that `hidden_act`
    accepts.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = activation(config.hidden_act)

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        return activate(self.intermediate_act_fn, self.dense(hidden_states))

    def extra_repr(self) -> str:
        return shown(self, "intermediate_act_fn")


class BertOutput(BertSelfOutput):
    """LayerNorm(input + dropout(dense(x))). Call: (B, T, I), (B, T, D) -> (B, T, D)."""

    def __init__(self, config: BertConfig):
        super().__init__(config, config.intermediate_size)


class Trail(NamedTuple):
    """The hidden states and attention weights that the caller requested from all layers. A `Trail` is passed from layer
    to layer, in a loop or a scan.

    `layer` is the number of layers that have run. `hidden_states` (N, B, T, D) are the outputs of the layers, and
    `attentions` (N, B, H, T, T) their attention weights; each is None if it is not requested.
    """

    layer: jax.Array
    hidden_states: jax.Array | None
    attentions: jax.Array | None

    def after(self, hidden_states: jax.Array, weights: jax.Array | None) -> "Trail":
        """Return a new `Trail`, to which the outputs of one more layer were added."""
        if self.attentions is not None and weights is None:
            raise ValueError(
                "BertModel: output_attentions=True needs all attention weights at once; expected a config without "
                "attention_block_size and a mesh without the axis 'context', got at least one of the two."
            )
        write = lambda rows, row: None if rows is None or row is None else rows.at[self.layer].set(row)
        return Trail(self.layer + 1, write(self.hidden_states, hidden_states), write(self.attentions, weights))


class BertLayer(nn.Module):
    """One layer: attention, then two dense layers with an activation between them. The attention and the dense layers
    each end with a residual sum and LayerNorm.

    Call: hidden_states (B, T, D), bias from `attention_bias` -> (B, T, D). If the first argument is a pair
    (hidden_states, `Trail`), the output is such a pair too.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(
        self, hidden_states: jax.Array | tuple[jax.Array, Trail], bias: jax.Array | None = None
    ) -> jax.Array | tuple[jax.Array, Trail]:
        hidden_states, trail = hidden_states if isinstance(hidden_states, tuple) else (hidden_states, None)
        attended, weights = self.attention(hidden_states, bias)
        out = self.output(self.intermediate(attended), attended)
        return out if trail is None else (out, trail.after(out, weights))


class BertEncoder(nn.Module):
    """The stack of layers.

    Call: hidden_states (B, T, D), bias, and the static flags output_attentions and output_hidden_states -> a tuple. Its
    first item is the output of the last layer (B, T, D). With `output_hidden_states`, a tuple of the input and the
    outputs of all layers follows. With `output_attentions`, a tuple of the attention weights (B, H, T, T) of all layers
    follows.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.heads = config.num_attention_heads
        self.layer = nn.Repeat(BertLayer(config), config.num_hidden_layers, scan=config.scan_layers)

    def forward(
        self,
        hidden_states: jax.Array,
        bias: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> tuple:
        if not output_attentions and not output_hidden_states:
            return (self.layer(hidden_states, bias),)
        batch, length, _ = hidden_states.shape

        def rows(*shape: int, axes: tuple[int | None, ...]) -> jax.Array:
            zeros = jnp.zeros((self.layer.n, batch, *shape), hidden_states.dtype)
            return placed(zeros, hidden_states, (None, *axes))

        trail = Trail(
            jnp.int32(0),
            rows(*hidden_states.shape[1:], axes=(0, 1, 2)) if output_hidden_states else None,
            rows(self.heads, length, length, axes=(0, None, None, None)) if output_attentions else None,
        )
        last, trail = self.layer((hidden_states, trail), bias)
        states = ((hidden_states, *trail.hidden_states),) if output_hidden_states else ()
        weights = (tuple(trail.attentions),) if output_attentions else ()
        return (last, *states, *weights)


class BertPooler(nn.Module):
    """The pooled output: activation(dense(x)) for the vector x of the first token. The activation is tanh.

    Call: hidden_states (B, T, D) -> (B, D). With the positions (B, P) of the first tokens of packed sequences
    -> (B, P, D).
    """

    sharding_rules = rules({"dense.weight": ("fsdp",), "dense.bias": ()})

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = F.tanh

    def forward(self, hidden_states: jax.Array, positions: jax.Array | None = None) -> jax.Array:
        if positions is None:
            first = hidden_states[:, 0]
        else:
            first = jnp.take_along_axis(hidden_states, positions[:, :, None], axis=1)
        return activate(self.activation, self.dense(first))

    def extra_repr(self) -> str:
        return shown(self, "activation")
