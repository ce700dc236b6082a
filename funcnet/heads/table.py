"""The table of all heads. A new head is a new file in this folder, and an entry in this table."""

from funcnet.heads.answer import Answer
from funcnet.heads.choice import Choice
from funcnet.heads.fill_mask import MaskedWords
from funcnet.heads.head import Head, TrainedHead
from funcnet.heads.labels import Labels
from funcnet.heads.text import Classify, Regress
from funcnet.heads.tokens import Tokens

__all__ = ["HEADS", "TRAINED", "trained_head"]

TRAINED: tuple[type[TrainedHead], ...] = (Classify, Labels, Regress, Tokens, Choice, Answer)
"""The heads that `funcnet finetune` trains."""

HEADS: tuple[type[Head], ...] = (MaskedWords, *TRAINED)
"""All heads: those of `TRAINED`, and the one that fills masks."""


def trained_head(name: str) -> type[TrainedHead]:
    """Return the head that `funcnet finetune NAME` trains.

    >>> trained_head("pairs").__name__
    'Classify'
    """
    return next(head for head in TRAINED if name in head.names)
