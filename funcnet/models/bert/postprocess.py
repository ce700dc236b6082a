"""What the logits of a head say, as JSON: classes, numbers, choices, tags of words and the entities they spell.

Letters: `N texts, C classes, T tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entity", "choices", "classes", "entities", "first_tokens", "softmax", "spell_entities", "tags"]

_OUTSIDE = "O"


def classes(logits: NDArray[Any], labels: Sequence[str], problem_type: str | None) -> list[dict[str, Any]]:
    """What a head over whole texts says of each.

    Args:
        logits: (N, C).
        labels: names of the C classes; not looked at for a number.
        problem_type: as in Hugging Face's config: "regression", "multi_label_classification", else one label a text.

    Returns:
        For each text {"value"}, or of several numbers {"values"}; {"labels", "probabilities"} with all labels of more
        than even odds; or {"label", "probability", "probabilities"}.

    Raises:
        ValueError: two classes of one name, whose probabilities could not be told apart.

    Example:
        >>> classes(np.array([[0.0, np.log(3.0)]]), ["no", "yes"], None)
        [{'label': 'yes', 'probability': 0.75, 'probabilities': {'no': 0.25, 'yes': 0.75}}]
    """
    logits = np.asarray(logits, np.float64)
    if problem_type == "regression":
        return [{"value": row[0]} if len(row) == 1 else {"values": row} for row in logits.tolist()]
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"bert.postprocess: two classes of one name; expected a name for each, got {', '.join(map(repr, labels))}. "
            "Rename them in config.json: id2label."
        )
    several = problem_type == "multi_label_classification"
    out: list[dict[str, Any]] = []
    for row in 1 / (1 + np.exp(-logits)) if several else softmax(logits):
        chances = dict(zip(labels, row.tolist(), strict=True))
        if several:
            out.append({"labels": [n for n, p in chances.items() if p > 0.5], "probabilities": chances})
        else:
            best = labels[int(row.argmax())]
            out.append({"label": best, "probability": chances[best], "probabilities": chances})
    return out


def choices(logits: NDArray[Any], texts: Sequence[str]) -> dict[str, Any]:
    """Which of several texts goes on best.

    >>> choices(np.array([0.0, 0.0, 1e3]), ["a", "b", "c"])
    {'choice': 2, 'text': 'c', 'probabilities': [0.0, 0.0, 1.0]}
    """
    chances = softmax(logits)
    best = int(chances.argmax())
    return {"choice": best, "text": texts[best], "probabilities": chances.tolist()}


def tags(
    logits: NDArray[Any], word_ids: Sequence[int | None], words: Sequence[str], labels: Sequence[str]
) -> dict[str, Any]:
    """The tag of every word, and the entities where tags are those of entities.

    Args:
        logits: (T, C). The first token of a word speaks for it.
        word_ids: (T,) which word a token belongs to; None for special tokens.
        words: all of them; those that were cut off, or that no token stands for, are outside.
        labels: names of the C tags.

    Returns:
        {"tokens": words, "tags"}, and "entities", a list of {type, first, last, text}, if `spell_entities(labels)`.

    Example:
        >>> tags(np.array([[0, 0], [0, 1.0], [0, 0]]), [None, 0, None], ["Ann"], ["O", "B-PER"])["entities"]
        [{'type': 'PER', 'first': 0, 'last': 0, 'text': 'Ann'}]
    """
    found = [_OUTSIDE if _OUTSIDE in labels else labels[0]] * len(words)
    for place, word in first_tokens(word_ids):
        found[word] = labels[int(logits[place].argmax())]
    said: dict[str, Any] = {"tokens": list(words), "tags": found}
    if spell_entities(labels):
        said["entities"] = [
            {**entity._asdict(), "text": " ".join(words[entity.first : entity.last + 1])} for entity in entities(found)
        ]
    return said


def spell_entities(labels: Sequence[str]) -> bool:
    """Whether tags are those of entities, such as `B-PER` and `O`.

    >>> spell_entities(["O", "B-PER", "I-PER"]), spell_entities(["NN", "VB"])
    (True, False)
    """
    return all(tag == _OUTSIDE or (len(tag) > 2 and tag[0] in "BIES" and tag[1] == "-") for tag in labels)


def first_tokens(word_ids: Sequence[int | None]) -> list[tuple[int, int]]:
    """(place, word) of the first token of every word.

    >>> first_tokens([None, 0, 0, 1, None])
    [(1, 0), (3, 1)]
    """
    before = [None, *word_ids]
    return [(p, w) for p, (w, last) in enumerate(zip(word_ids, before, strict=False)) if w is not None and w != last]


class Entity(NamedTuple):
    """A run of words, `last` included, counted from 0."""

    type: str
    first: int
    last: int


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities that the tags of one sentence spell.

    A tag is `O`, or a prefix and a type (`B-PER`): B begins, I is inside, E ends, S is an entity alone. An entity also
    begins where an inside tag follows `O` or another type, and ends where the next one begins: so IOB1, IOB2 and IOBES
    are read alike, and a model's impossible sequences too.

    >>> entities(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [Entity(type='PER', first=0, last=1), Entity(type='LOC', first=3, last=3), Entity(type='LOC', first=4, last=4)]

    Reference: Tjong Kim Sang and De Meulder, 2003, CoNLL-2003's `conlleval`
    """
    found = []
    before, kind, begin = _OUTSIDE, "", 0
    for place, tag in enumerate([*tags, _OUTSIDE]):
        prefix, _, name = tag.partition("-")
        name = name or "_"
        if _ends(before, prefix, kind, name):
            found.append(Entity(kind, begin, place - 1))
        if _begins(before, prefix, kind, name):
            begin = place
        before, kind = prefix, name
    return found


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Over the last axis, in float64.

    >>> softmax(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    powers = np.exp(np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _ends(before: str, prefix: str, kind: str, name: str) -> bool:
    """Whether an entity ends between two tags."""
    if before == _OUTSIDE:
        return False
    return before in ("E", "S") or prefix in ("B", "S", _OUTSIDE) or kind != name


def _begins(before: str, prefix: str, kind: str, name: str) -> bool:
    """Whether an entity begins at the second of two tags."""
    if prefix == _OUTSIDE:
        return False
    return prefix in ("B", "S") or before in ("E", "S", _OUTSIDE) or kind != name
