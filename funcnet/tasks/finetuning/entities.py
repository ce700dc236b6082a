"""Tags -> entities, and their F1: the rule of CoNLL's `conlleval`, which seqeval's default follows.

A tag is `O`, or a prefix and a type (`B-PER`): B begins, I is inside, E ends, S is an entity alone. An entity also
begins where an inside tag follows `O` or another type, and ends where the next one begins: so IOB1, IOB2 and IOBES are
read alike, and a model's impossible sequences too.
"""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Entity", "entities", "entity_scores"]


class Entity(NamedTuple):
    """A run of words, `last` included, counted from 0."""

    type: str
    first: int
    last: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence.

    >>> entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [Entity(type='PER', first=0, last=1), Entity(type='LOC', first=3, last=3), Entity(type='LOC', first=4, last=4)]

    Reference: Tjong Kim Sang and De Meulder, 2003, CoNLL-2003's `conlleval`
    """
    found = []
    before, kind, begin = "O", "", 0
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        name = name or "_"
        if _ends(before, prefix, kind, name):
            found.append(Entity(kind, begin, place - 1))
        if _begins(before, prefix, kind, name):
            begin = place
        before, kind = prefix, name
    return found


def entity_scores(labels: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of whole entities: right are those with the same type and the same words.

    Args:
        labels, predicted: sentences of tags, of the same lengths.

    Returns:
        {"precision", "recall", "f1"}, over all types together; 0 where nothing is there to divide by.

    >>> entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "O"]])
    {'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666}

    Reference: seqeval's `f1_score` with its default mode
    """
    true = {(row, entity) for row, tags in enumerate(labels) for entity in entities(tags)}
    guessed = {(row, entity) for row, tags in enumerate(predicted) for entity in entities(tags)}
    both = len(true & guessed)
    precision, recall = both / max(1, len(guessed)), both / max(1, len(true))
    return {"precision": precision, "recall": recall, "f1": 2 * both / max(1, len(true) + len(guessed))}


def _ends(before: str, prefix: str, kind: str, name: str) -> bool:
    """Whether an entity ends between two tags."""
    if before == "O":
        return False
    return before in ("E", "S") or prefix in ("B", "S", "O") or kind != name


def _begins(before: str, prefix: str, kind: str, name: str) -> bool:
    """Whether an entity begins at the second of two tags."""
    if prefix == "O":
        return False
    return prefix in ("B", "S") or before in ("E", "S", "O") or kind != name
