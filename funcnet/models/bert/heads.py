"""What pretraining puts on top of the encoder. Letters: `B batch, S slots, D width, V vocabulary`."""

import jax

from funcnet import nn
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.encoder import activation

__all__ = ["BertPreTrainingHeads"]


class BertPredictionHeadTransform(nn.Module):
    """LayerNorm(activation(dense(x))). Call: (…, D) -> (…, D)."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = activation(config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        return self.LayerNorm(self.activation(self.dense(hidden_states)))


class BertLMPredictionHead(nn.Module):
    """Scores of the words. Call: (…, D) -> (…, V).

    The decoder's weight is the word table's (`BertForPreTraining` ties them). Its bias is this module's `bias`: one
    leaf with the two names that Hugging Face's files hold.
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.bias = nn.Parameter(config.vocab_size, nn.init.zeros())
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.decoder.bias = self.bias

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        return self.decoder(self.transform(hidden_states))


class BertPreTrainingHeads(nn.Module):
    """Both heads. Call: sequence_output (B, S, D), pooled_output (B, D) -> (B, S, V), (B, 2).

    Reference: transformers.models.bert.modeling_bert.BertPreTrainingHeads
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, sequence_output: jax.Array, pooled_output: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.predictions(sequence_output), self.seq_relationship(pooled_output)
