"""The table of the model classes, by their names in `config.json`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from funcnet.models.bert.classification import (
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from funcnet.models.bert.modeling import (
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertModel,
)
from funcnet.models.bert.question_answering import BertForQuestionAnswering

__all__ = ["ARCHITECTURES"]

ARCHITECTURES: Mapping[str, Any] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            BertModel,
            BertForPreTraining,
            BertForMaskedLM,
            BertForNextSentencePrediction,
            BertForSequenceClassification,
            BertForTokenClassification,
            BertForMultipleChoice,
            BertForQuestionAnswering,
        )
    }
)
"""{name in the field `architectures` of `config.json`: class of the model}."""
