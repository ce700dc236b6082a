"""How right tags are, by whole entities: the rule of CoNLL's `conlleval`, which seqeval's default follows."""

from collections.abc import Sequence

from funcnet.models.bert.postprocess import entities

__all__ = ["entity_scores"]


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
