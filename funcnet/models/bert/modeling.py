"""`BertModel`, the encoder with its pooler, and the models for pretraining, which add heads to it.

Letters: `B batch, T sequence, S slots (masked positions per row), P sequences packed into one row, D width,
V rows of the word table, N layers, H heads`.
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
from funcnet.models.bert.initialise import initialise
from funcnet.models.bert.pretraining_heads import BertOnlyMLMHead, BertOnlyNSPHead, BertPreTrainingHeads

__all__ = ["BertForMaskedLM", "BertForNextSentencePrediction", "BertForPreTraining", "BertModel", "outputs"]


def outputs(loss: jax.Array | None, logits: Sequence[jax.Array], more: Sequence[Any]) -> Any:
    """Return the output of a model with a head: a tuple (loss, *logits, *more), as in transformers. If the tuple would
    have only one item, return this item.
    """
    out = (*(() if loss is None else (loss,)), *logits, *more)
    return out if len(out) > 1 else out[0]


class BertModel(nn.Module):
    """BERT without a head.

    Args:
        config: sizes and options.
        add_pooling_layer: whether to compute the pooled output. If False, the model returns None instead.

    Call:
        - input_ids (B, T): integers below `vocab_size`.
        - attention_mask (B, T), or (B, T, T) for a separate mask per query: 1 or True at positions to attend to. None
          means all positions. Additive masks are refused: numbers other than 0 and 1 in a mask raise an error, or make
          the output NaN under `jit`.
        - token_type_ids (B, T): 0 in the first sentence, 1 in the second one. None means 0 everywhere.
        - position_ids (B, T) or (T,): positions of the tokens. None means 0, 1, ….
        - output_attentions, output_hidden_states: whether to return attention weights and hidden states too. These two
          flags are static under `jit`.
        - pooled_positions (B, P): positions of the first tokens of the sequences in a packed row. None means one
          sequence, which begins at 0. A packed row needs an attention_mask (B, T, T) by which each sequence attends
          only to itself, and position_ids that start at 0 in each sequence.

        -> (sequence_output (B, T, D), pooled_output (B, D) or (B, P, D)). If requested, a tuple of N + 1 hidden states
        (B, T, D) follows, beginning with the output of the embeddings. If requested, a tuple of the attention weights
        (B, H, T, T) of the N layers comes last.

    Raises:
        ValueError: if a sequence is longer than the position table, an input has the wrong rank, the mask is additive,
            or `rng` is missing in training with dropout.

    Differs from transformers: the model returns plain tuples. The initial weights are drawn from a normal distribution
    truncated at two standard deviations, as in Google's BERT; in transformers, it is not truncated.

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
    """BERT with the two heads of its pretraining: for masked words and for next-sentence prediction.

    Call: the inputs of `BertModel`, and
        - masked_positions (B, S): positions to predict. The head then runs only on these positions, which saves most of
          its cost. None means all positions.
        - labels (B, T), or (B, S) with `masked_positions`: ids of the original words; -100 is ignored.
        - next_sentence_label (B,), or (B, P) with `pooled_positions`: 0 if the second sentence follows the first, 1 if
          it is random; -100 is ignored.

        -> (prediction_logits (B, S, V), or (B, T, V) without `masked_positions`; seq_relationship_logits (B, 2), or
        (B, P, 2), whose class 0 is "follows"). If labels are given, the loss comes before the logits. The loss is the
        sum of the mean losses of the heads for which there are labels. Hidden states and attentions, if requested, come
        last.

    The word table is also the decoder's weight: `cls.predictions.decoder.weight` and
    `bert.embeddings.word_embeddings.weight` are one leaf, which is stored under the latter name.

    Differs from transformers: if only one kind of labels is given, its loss is returned; transformers returns no loss.

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
    """BERT with the head for masked words only, without a pooler.

    Call: the inputs of `BertModel`, and `masked_positions` and `labels` as for `BertForPreTraining` -> logits
    (B, T, V), or (B, S, V) with `masked_positions`. If labels are given, the loss comes before the logits. Hidden
    states and attentions, if requested, come last.

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
    """BERT with the head for next-sentence prediction only.

    Call: the inputs of `BertModel`, and labels (B,), or (B, P) with `pooled_positions`: 0 if the second sentence
    follows the first, 1 if it is random -> logits (B, 2) or (B, P, 2). If labels are given, the loss comes before the
    logits. Hidden states and attentions, if requested, come last.

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
    """Return the vectors of a sequence at the positions `places` (B, S), or all vectors if `places` is None."""
    if places is None:
        return sequence_output
    return jnp.take_along_axis(sequence_output, places[:, :, None], axis=1)
