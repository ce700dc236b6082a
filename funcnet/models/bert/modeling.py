"""The models: `BertModel`, the encoder with its pooler, and `BertForPreTraining`, with both heads on top.

Letters: `B batch, T sequence, S slots (places for masked positions), D width, V vocabulary`.
"""

import jax
import jax.numpy as jnp

from funcnet import nn
from funcnet.models.bert.attention import attention_bias
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.embeddings import BertEmbeddings
from funcnet.models.bert.encoder import BertEncoder, BertPooler
from funcnet.models.bert.heads import BertPreTrainingHeads

__all__ = ["BertForPreTraining", "BertModel"]


class BertModel(nn.Module):
    """BERT without a head.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to make the pooled output; without it the model gives None in its place.

    Call:
        - input_ids (B, T): integers below `vocab_size`.
        - attention_mask (B, T), or (B, T, T): 1 or True for what is attended to; None: everything.
        - token_type_ids (B, T): which of the two sentences; None: all the first.
        - position_ids (B, T) or (T,): None: 0, 1, ….

        -> (sequence_output (B, T, D), pooled_output (B, D)).

    Raises:
        ValueError: a sequence longer than the position table; wrong ranks; randomness without `rng` in training.

    Differs from transformers: gives a plain pair. Starts from the truncated normal of Google's BERT (at two standard
    deviations), where transformers draws from the whole one.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertModel(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> params, state = model.init(jax.random.key(0))
        >>> (sequence, pooled), _ = model.apply(params, state, jnp.array([[2, 17, 3]]))
        >>> sequence.shape, pooled.shape
        ((1, 3, 128), (1, 128))

    Reference: Devlin et al. 2018, arXiv:1810.04805; transformers.BertModel
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True):
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        _initialise(self, config.initializer_range)

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array | None]:
        hidden_states = self.embeddings(input_ids, token_type_ids, position_ids)
        sequence_output = self.encoder(hidden_states, attention_bias(attention_mask, hidden_states.dtype))
        return sequence_output, None if self.pooler is None else self.pooler(sequence_output)


class BertForPreTraining(nn.Module):
    """BERT with the two heads of its pretraining: masked words, and whether the second sentence follows the first.

    Call: as `BertModel`, and
        - masked_positions (B, S): the places whose words are to be guessed. The head then runs on them alone, which is
          most of its cost saved. None: on all.

        -> (prediction_logits (B, S, V), or (B, T, V) without `masked_positions`; seq_relationship_logits (B, 2), whose
        class 0 is "follows").

    The word table serves as the decoder's weight too: `cls.predictions.decoder.weight` and
    `bert.embeddings.word_embeddings.weight` are one leaf, which lives under the latter name.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertForPreTraining(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> params, state = model.init(jax.random.key(0))
        >>> ids, places = jnp.array([[2, 4, 17, 3]]), jnp.array([[1]])
        >>> (words, follows), _ = model.apply(params, state, ids, masked_positions=places)
        >>> words.shape, follows.shape
        ((1, 1, 100), (1, 2))

    Reference: Devlin et al. 2018, arXiv:1810.04805; transformers.BertForPreTraining
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.cls = BertPreTrainingHeads(config)
        _initialise(self.cls, config.initializer_range)
        self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        masked_positions: jax.Array | None = None,
    ) -> tuple[jax.Array, jax.Array]:
        sequence_output, pooled_output = self.bert(input_ids, attention_mask, token_type_ids, position_ids)
        if masked_positions is not None:
            sequence_output = jnp.take_along_axis(sequence_output, masked_positions[:, :, None], axis=1)
        return self.cls(sequence_output, pooled_output)


def _initialise(module: nn.Module, std: float) -> None:
    """Google's start: weights from N(0, std²) cut at two standard deviations, biases zero, the padding row zero."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            part.weight[part.padding_idx].zero_()
