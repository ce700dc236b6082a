"""Finds the entities in the tags of words, and computes the metrics of entities. Entities and metrics follow the rules
of CoNLL.
"""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["OUTSIDE", "Entity", "entities", "entity_scores", "spell_entities"]

OUTSIDE = "O"


class Entity(NamedTuple):
    """An entity, which consists of the words with the indices `first` to `last`, both included."""

    type: str
    first: int
    last: int


def spell_entities(labels: Sequence[str]) -> bool:
    """Return whether all tags mark entities, that is, have a form such as `B-PER` or `O`.

    >>> spell_entities(["O", "B-PER", "I-PER"]), spell_entities(["NN", "VB"])
    (True, False)
    """
    return all(tag == OUTSIDE or (len(tag) > 2 and tag[0] in "BIES" and tag[1] == "-") for tag in labels)


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities in the tags of one sentence.

    A tag is `O`, or a prefix and a type, such as `B-PER`. The prefix is B at the start, I inside and E at the end of an
    entity, and S for an entity of one word. An entity also begins at an inside tag that follows `O` or a tag of a
    different type. An entity ends before the next one begins. These rules cover IOB1, IOB2, IOBES, and invalid
    sequences that a model may predict.

    >>> entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [Entity(type='PER', first=0, last=1), Entity(type='LOC', first=3, last=3), Entity(type='LOC', first=4, last=4)]

    Reference: Tjong Kim Sang and De Meulder, 2003, CoNLL-2003's `conlleval`
    """
    found = []
    before, kind, begin = OUTSIDE, "", 0
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, name = tag.partition("-")
        name = name or "_"
        changes = before in ("E", "S") or prefix in ("B", "S") or kind != name
        if before != OUTSIDE and (changes or prefix == OUTSIDE):
            found.append(Entity(kind, begin, place - 1))
        if prefix != OUTSIDE and (changes or before == OUTSIDE):
            begin = place
        before, kind = prefix, name
    return found


def entity_scores(labels: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return precision, recall and F1 of entities. An entity is correct if its type and all of its words are correct.

    Args:
        labels, predicted: the true and the predicted tags of each sentence, with the same lengths.

    Returns:
        {"precision", "recall", "f1"}, over all types together. Precision, recall or F1 is 0 if its denominator is 0.

    >>> entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "O"]])
    {'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666}

    Reference: seqeval's `f1_score` with its default mode
    """
    true = {(row, entity) for row, tags in enumerate(labels) for entity in entities(tags)}
    guessed = {(row, entity) for row, tags in enumerate(predicted) for entity in entities(tags)}
    both = len(true & guessed)
    precision, recall = both / max(1, len(guessed)), both / max(1, len(true))
    return {"precision": precision, "recall": recall, "f1": 2 * both / max(1, len(true) + len(guessed))}
