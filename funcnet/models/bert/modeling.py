"""The models of pretraining: `BertModel`, the encoder with its pooler, and the heads that it is pretrained with.

Letters: `B batch, T sequence, S slots (places for masked positions), P sequences packed into one row, D width,
V vocabulary, N layers, H heads`.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import losses, nn
from funcnet.models.bert.attention import attention_bias
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.embeddings import BertEmbeddings
from funcnet.models.bert.encoder import BertEncoder, BertPooler
from funcnet.models.bert.heads import BertOnlyMLMHead, BertOnlyNSPHead, BertPreTrainingHeads
from funcnet.models.bert.initialise import initialise

__all__ = ["BertForMaskedLM", "BertForNextSentencePrediction", "BertForPreTraining", "BertModel", "outputs"]


def outputs(loss: jax.Array | None, logits: Sequence[jax.Array], more: Sequence[Any]) -> Any:
    """What a model with a head returns: transformers' tuple, or a single array.

    >>> outputs(None, ["logits"], []), outputs("loss", ["logits"], ["hidden states"])
    ('logits', ('loss', 'logits', 'hidden states'))
    """
    out = (*(() if loss is None else (loss,)), *logits, *more)
    return out if len(out) > 1 else out[0]


class BertModel(nn.Module):
    """BERT without a head.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to make the pooled output; without it the model returns None in its place.

    Call:
        - input_ids (B, T): integers below `vocab_size`.
        - attention_mask (B, T), or (B, T, T): 1 or True for what is attended to; None: everything. It is
          no additive mask: numbers other than 0 and 1 are refused, and give NaN under `jit`.
        - token_type_ids (B, T): which of the two sentences; None: the first one everywhere.
        - position_ids (B, T) or (T,): None: 0, 1, ….
        - output_attentions, output_hidden_states: static.
        - pooled_positions (B, P): where the sequences of a packed row begin; None: one sequence, at 0. A packed row
          needs an attention_mask (B, T, T) that shows each sequence only itself, and position_ids anew for each.

        -> (sequence_output (B, T, D), pooled_output (B, D) or (B, P, D)), and after it, if requested: a tuple of the
        N + 1 hidden states (B, T, D), the embeddings' output first; a tuple of the N layers' weights (B, H, T, T).

    Raises:
        ValueError: a sequence longer than the position table; wrong ranks; an additive mask; randomness without `rng`
            in training.

    Differs from transformers: returns plain tuples. Starts from the truncated normal of Google's BERT (at two standard
    deviations); transformers draws from the whole normal.

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
        initialise(self, config.initializer_range)

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        pooled_positions: jax.Array | None = None,
    ) -> tuple:
        hidden_states = self.embeddings(input_ids, token_type_ids, position_ids)
        bias = attention_bias(attention_mask, hidden_states.dtype)
        sequence_output, *more = self.encoder(hidden_states, bias, output_attentions, output_hidden_states)
        pooled = None if self.pooler is None else self.pooler(sequence_output, pooled_positions)
        return (sequence_output, pooled, *more)


class BertForPreTraining(nn.Module):
    """BERT with the two heads of its pretraining: masked words, and whether the second sentence follows the first.

    Call: as `BertModel`, and
        - masked_positions (B, S): the places to predict. The head then runs only on them, which saves most of its cost.
          None: all places.
        - labels (B, T), or (B, S) with `masked_positions`: the words; -100 does not count.
        - next_sentence_label (B,), or (B, P) with `pooled_positions`: 0 follows, 1 is random, -100 does not count.

        -> (prediction_logits (B, S, V), or (B, T, V) without `masked_positions`; seq_relationship_logits (B, 2), or
        (B, P, 2), whose class 0 is "follows"). With labels the loss comes first, the sum of the means of those that
        are given; hidden states and attentions come last.

    The word table is also the decoder's weight: `cls.predictions.decoder.weight` and
    `bert.embeddings.word_embeddings.weight` are one leaf, which lives under the latter name.

    Differs from transformers: one kind of labels without the other gives its loss; transformers ignores it.

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
        initialise(self.cls, config.initializer_range)
        self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        masked_positions: jax.Array | None = None,
        labels: jax.Array | None = None,
        next_sentence_label: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        pooled_positions: jax.Array | None = None,
    ) -> tuple:
        asked = (output_attentions, output_hidden_states, pooled_positions)
        sequence_output, pooled_output, *more = self.bert(
            input_ids, attention_mask, token_type_ids, position_ids, *asked
        )
        words, follows = self.cls(_at(sequence_output, masked_positions), pooled_output)
        given = [(words, labels), (follows, next_sentence_label)]
        means = [losses.cross_entropy(logits, wanted).mean for logits, wanted in given if wanted is not None]
        return outputs(sum(means[1:], means[0]) if means else None, [words, follows], more)


class BertForMaskedLM(nn.Module):
    """BERT with only the head for masked words, and no pooler.

    Call: as `BertModel`, and `masked_positions` and `labels` as `BertForPreTraining` -> prediction logits (B, T, V), or
    (B, S, V) with `masked_positions`; with labels the loss comes
    first; hidden states and attentions, if requested, come last.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertForMaskedLM(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> params, state = model.init(jax.random.key(0))
        >>> words = jnp.array([[2, 4, 17, 3]])
        >>> (loss, logits), _ = model.apply(params, state, words, labels=jnp.array([[-100, 9, -100, -100]]))
        >>> loss.shape, logits.shape
        ((), (1, 4, 100))

    Reference: transformers.BertForMaskedLM
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.bert = BertModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config)
        initialise(self.cls, config.initializer_range)
        self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        masked_positions: jax.Array | None = None,
        labels: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        asked = (output_attentions, output_hidden_states)
        sequence_output, _, *more = self.bert(input_ids, attention_mask, token_type_ids, position_ids, *asked)
        words = self.cls(_at(sequence_output, masked_positions))
        return outputs(None if labels is None else losses.cross_entropy(words, labels).mean, [words], more)


class BertForNextSentencePrediction(nn.Module):
    """BERT with the head that predicts whether the second sentence follows the first.

    Call: as `BertModel`, and labels (B,), or (B, P) with `pooled_positions`: 0 follows, 1 is random -> logits (B, 2) or
    (B, P, 2); with labels the loss comes
    first; hidden states and attentions, if requested, come last.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertForNextSentencePrediction(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> params, state = model.init(jax.random.key(0))
        >>> model.apply(params, state, jnp.array([[2, 17, 3]]))[0].shape
        (1, 2)

    Reference: transformers.BertForNextSentencePrediction
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.cls = BertOnlyNSPHead(config)
        initialise(self.cls, config.initializer_range)

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        labels: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        pooled_positions: jax.Array | None = None,
    ) -> Any:
        asked = (output_attentions, output_hidden_states, pooled_positions)
        _, pooled_output, *more = self.bert(input_ids, attention_mask, token_type_ids, position_ids, *asked)
        logits = self.cls(pooled_output)
        return outputs(None if labels is None else losses.cross_entropy(logits, labels).mean, [logits], more)


def _at(sequence_output: jax.Array, places: jax.Array | None) -> jax.Array:
    """The vectors at `places` (B, S); all of them for None."""
    if places is None:
        return sequence_output
    return jnp.take_along_axis(sequence_output, places[:, :, None], axis=1)
