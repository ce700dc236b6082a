"""BERT models, and functions that load and save them. Names and files are those of Hugging Face."""

from funcnet import losses
from funcnet.models.bert.architectures import ARCHITECTURES
from funcnet.models.bert.classification import (
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from funcnet.models.bert.configuration import PRESETS, BertConfig
from funcnet.models.bert.modeling import (
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertModel,
)
from funcnet.models.bert.patterned_initialisation import QUICK_START_RATES, quick_start
from funcnet.models.bert.pretrained import from_pretrained, save_pretrained
from funcnet.models.bert.question_answering import BertForQuestionAnswering
from funcnet.models.bert.vocabulary_padding import pad_vocab, unpad_vocab

__all__ = [
    "ARCHITECTURES",
    "PRESETS",
    "QUICK_START_RATES",
    "BertConfig",
    "BertForMaskedLM",
    "BertForMultipleChoice",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertModel",
    "from_pretrained",
    "losses",
    "pad_vocab",
    "quick_start",
    "save_pretrained",
    "unpad_vocab",
]
