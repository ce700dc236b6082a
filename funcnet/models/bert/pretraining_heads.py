"""The heads of pretraining.

Letters: `B batch, S slots (or the sequence), D width, V rows of the word table, P sequences packed into one row`.
"""

import jax
import jax.numpy as jnp

from funcnet import nn
from funcnet.models.bert.activation import activate, activation, shown
from funcnet.models.bert.configuration import BertConfig
from funcnet.nn.module.sharding import rules

__all__ = ["BertOnlyMLMHead", "BertOnlyNSPHead", "BertPreTrainingHeads"]


class BertPredictionHeadTransform(nn.Module):
    """LayerNorm(transform_act_fn(dense(x))). Call: (…, D) -> (…, D)."""

    sharding_rules = rules({"dense.weight": ("fsdp",), "dense.bias": ()})

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_act_fn = activation(config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        return self.LayerNorm(activate(self.transform_act_fn, self.dense(hidden_states)))

    def extra_repr(self) -> str:
        return shown(self, "transform_act_fn")


class BertLMPredictionHead(nn.Module):
    """Computes a score for each word of the vocabulary. Call: (…, D) -> (…, V). Padding rows of the word table get the
    lowest finite score.

    The model ties the weight of the decoder to the word table. The bias of the decoder is also the `bias` of this
    module. The bias is thus one array with two names, both of which are in Hugging Face's files.
    """

    sharding_rules = rules({"bias": ("tensor",)})

    def __init__(self, config: BertConfig):
        super().__init__()
        self.words, rows = config.vocab_size, config.vocab_size + config.vocab_padding
        self.bias = nn.Parameter(rows, nn.init.zeros())
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, rows)
        self.decoder.bias = self.bias

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        scores = self.decoder(self.transform(hidden_states))
        if self.words == scores.shape[-1]:
            return scores
        # Padding rows get no probability, no loss and no gradient, whatever values training gives them.
        return jnp.where(jnp.arange(scores.shape[-1]) < self.words, scores, jnp.finfo(scores.dtype).min)


class BertOnlyMLMHead(nn.Module):
    """The head that predicts masked words. Call: sequence_output (B, S, D) -> (B, S, V)."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)

    def forward(self, sequence_output: jax.Array) -> jax.Array:
        return self.predictions(sequence_output)


class BertOnlyNSPHead(nn.Module):
    """The head for next-sentence prediction. Call: pooled_output (B, D) or (B, P, D) -> (B, 2) or (B, P, 2)."""

    sharding_rules = rules({"seq_relationship.**": ()})

    def __init__(self, config: BertConfig):
        super().__init__()
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled_output: jax.Array) -> jax.Array:
        return self.seq_relationship(pooled_output)


class BertPreTrainingHeads(nn.Module):
    """Both heads of pretraining. Call: sequence_output (B, S, D), pooled_output (B, D) or (B, P, D) -> (B, S, V), (B,
    2) or (B, P, 2).
    """

    sharding_rules = rules({"seq_relationship.**": ()})

    def __init__(self, config: BertConfig):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, sequence_output: jax.Array, pooled_output: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.predictions(sequence_output), self.seq_relationship(pooled_output)
