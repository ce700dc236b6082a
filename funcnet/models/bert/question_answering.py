"""A model that finds the answer to a question in a passage. Letters: `B batch, T sequence`."""

from typing import Any

import jax

from funcnet import losses, nn
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.initialise import initialise
from funcnet.models.bert.modeling import BertModel, outputs

__all__ = ["BertForQuestionAnswering"]


class BertForQuestionAnswering(nn.Module):
    """BERT with a linear layer that gives two logits per token: for the start and the end of the answer. It has no
    pooler.

    Call: the inputs of `BertModel`, and start_positions and end_positions (B,) as for `losses.question_answering` ->
    (start_logits (B, T), end_logits (B, T)). If the positions are given, the loss comes before the logits. Hidden
    states and attentions, if requested, come last.

    Raises:
        ValueError: if `config.num_labels` is not 2, or only one of start_positions and end_positions is given; see also
            `BertModel`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import bert
        >>> model = bert.BertForQuestionAnswering(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> params, state = model.init(jax.random.key(0))
        >>> (start, end), _ = model.apply(params, state, jnp.array([[2, 17, 3]]))
        >>> start.shape, end.shape
        ((1, 3), (1, 3))

    Reference: transformers.BertForQuestionAnswering
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        if config.num_labels != 2:
            raise ValueError(
                "BertForQuestionAnswering: num_labels is wrong; expected 2 (the start and the end), got "
                f"{config.num_labels}."
            )
        self.config = config
        self.bert = BertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        initialise(self.qa_outputs, config.initializer_range)

    def forward(
        self,
        input_ids: jax.Array,
        attention_mask: jax.Array | None = None,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
        start_positions: jax.Array | None = None,
        end_positions: jax.Array | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> Any:
        if (start_positions is None) != (end_positions is None):
            raise ValueError(
                "BertForQuestionAnswering: one of the targets is missing; expected start_positions and "
                "end_positions, got one of them. Pass both, or neither."
            )
        asked = (output_attentions, output_hidden_states)
        sequence_output, _, *more = self.bert(input_ids, attention_mask, token_type_ids, position_ids, *asked)
        logits = self.qa_outputs(sequence_output)  # (B, T, 2)
        ends = (logits[..., 0], logits[..., 1])
        if start_positions is None or end_positions is None:
            return outputs(None, ends, more)
        start, end = losses.question_answering(*ends, start_positions, end_positions)
        return outputs(start.mean + end.mean, ends, more)
