"""The heads that there are. A new one is a file beside this one, and a row here."""

from funcnet.heads.answer import Answer
from funcnet.heads.choice import Choice
from funcnet.heads.fill_mask import FillMask
from funcnet.heads.head import Head, TrainedHead
from funcnet.heads.labels import Labels
from funcnet.heads.text import Classify, Regress
from funcnet.heads.tokens import Tokens

__all__ = ["HEADS", "trained_head"]

HEADS: tuple[type[Head], ...] = (FillMask, Classify, Labels, Regress, Tokens, Choice, Answer)


def trained_head(name: str) -> type[TrainedHead]:
    """The head that `funcnet finetune NAME` trains.

    >>> trained_head("pairs").__name__
    'Classify'
    """
    return next(head for head in HEADS if name in head.names and issubclass(head, TrainedHead))
