"""Models for fine-tuning: classification and regression of sequences, multiple choice, and classification of tokens.

Letters: `B batch, T sequence, D width, C classes (or choices), L labels`.
"""

from typing import Any

import jax

from funcnet import losses, nn
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.initialise import initialise
from funcnet.models.bert.modeling import BertModel, outputs

__all__ = ["BertForMultipleChoice", "BertForSequenceClassification", "BertForTokenClassification"]


class BertForSequenceClassification(nn.Module):
    """BERT with a linear layer on the pooled output, for one class per sequence, several classes, or regression.

    Args:
        config: `num_labels` is the number of logits, L. `problem_type` selects the loss; if it is None, see
            `losses.sequence_classification`.

    Call: the inputs of `BertModel`, and labels as for `losses.sequence_classification` -> logits (B, L). If labels are
    given, the loss comes before the logits. Hidden states and attentions, if requested, come last.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertForSequenceClassification(bert.BertConfig.preset("tiny", vocab_size=100, num_labels=5))
        >>> params, state = model.init(jax.random.key(0))
        >>> ids = jnp.array([[2, 17, 3], [2, 9, 3]])
        >>> (loss, logits), _ = model.apply(params, state, ids, labels=jnp.array([4, 0]))
        >>> logits.shape
        (2, 5)

    Reference: transformers.BertForSequenceClassification
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(_classifier_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        initialise(self.classifier, config.initializer_range)

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        labels: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        asked = (output_attentions, output_hidden_states)
        _, pooled_output, *more = self.bert(input_ids, attention_mask, token_type_ids, position_ids, *asked)
        logits = self.classifier(self.dropout(pooled_output))
        if labels is None:
            return outputs(None, [logits], more)
        kind = self.config.problem_type
        return outputs(losses.sequence_classification(logits, labels, kind).mean, [logits], more)


class BertForMultipleChoice(nn.Module):
    """BERT with a linear layer that gives one score per choice from its pooled output. The choice with the largest
    score is the answer.

    Call: input_ids, attention_mask, token_type_ids, position_ids as for `BertModel`, but (B, C, T); labels (B,), the
    index of the correct choice -> logits (B, C). If labels are given, the loss comes before the logits. Hidden states
    (B·C, T, D) and attentions, if requested, come last.

    Raises:
        ValueError: if input_ids does not have three dimensions; see also `BertModel`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertForMultipleChoice(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> params, state = model.init(jax.random.key(0))
        >>> model.apply(params, state, jnp.ones((2, 4, 7), jnp.int32))[0].shape
        (2, 4)

    Reference: transformers.BertForMultipleChoice
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(_classifier_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, 1)
        initialise(self.classifier, config.initializer_range)

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        labels: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        if input_ids.ndim != 3:
            raise ValueError(
                "BertForMultipleChoice: input_ids has the wrong rank; expected (batch, choices, sequence), got "
                f"{input_ids.shape}. Stack the choices of a question along dimension 1."
            )
        flat = lambda x: x if x is None or x.ndim < 3 else x.reshape(-1, *x.shape[2:])
        given = [flat(x) for x in (input_ids, attention_mask, token_type_ids, position_ids)]
        _, pooled_output, *more = self.bert(*given, output_attentions, output_hidden_states)
        logits = self.classifier(self.dropout(pooled_output)).reshape(input_ids.shape[:2])
        return outputs(None if labels is None else losses.cross_entropy(logits, labels).mean, [logits], more)


class BertForTokenClassification(nn.Module):
    """BERT with a linear layer that classifies every token, for example in named entity recognition. It has no pooler.

    Args:
        config: `num_labels` is the number of logits per token, L.

    Call: the inputs of `BertModel`, and labels (B, T), where -100 is ignored -> logits (B, T, L). If labels are given,
    the loss comes before the logits. Hidden states and attentions, if requested, come last.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertForTokenClassification(bert.BertConfig.preset("tiny", vocab_size=100, num_labels=9))
        >>> params, state = model.init(jax.random.key(0))
        >>> model.apply(params, state, jnp.array([[2, 17, 3]]))[0].shape
        (1, 3, 9)

    Reference: transformers.BertForTokenClassification
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.config = config
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(_classifier_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        initialise(self.classifier, config.initializer_range)

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        labels: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        asked = (output_attentions, output_hidden_states)
        sequence_output, _, *more = self.bert(input_ids, attention_mask, token_type_ids, position_ids, *asked)
        logits = self.classifier(self.dropout(sequence_output))
        return outputs(None if labels is None else losses.cross_entropy(logits, labels).mean, [logits], more)


def _classifier_dropout(config: BertConfig) -> float:
    return config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
