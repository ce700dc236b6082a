"""The losses of model heads. Each loss is a sum and the number of its terms, as `funcnet.train` requires.

The mean of several batch means gives the rows of a small batch more weight than the rows of a large batch. The sums and
the numbers are therefore added over micro-batches and devices before the total sum is divided by the total number. A
model that is called with `labels` divides within each batch instead.

Letters: `B batch, T sequence, C classes`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet.functional.checks import wide_dtype

__all__ = [
    "IGNORE",
    "LossSum",
    "cross_entropy",
    "multi_label",
    "question_answering",
    "regression",
    "sequence_classification",
]

IGNORE = -100
"""The label of entries that are ignored, as in torch and transformers."""


class LossSum(NamedTuple):
    """A loss in the form that `funcnet.train` requires.

    Attributes:
        sum: (), the sum of the terms that are not ignored, in at least float32.
        number: (), the number of these terms, in the same dtype.

    Example:
        >>> float(LossSum(jnp.array(6.0), jnp.array(3.0)).mean), float(LossSum(jnp.array(0.0), jnp.array(0.0)).mean)
        (2.0, 0.0)
    """

    sum: jax.Array
    number: jax.Array

    @property
    def mean(self) -> jax.Array:
        """Return sum / number, or 0 if all terms are ignored. torch returns NaN in that case, which would spread to the
        parameters.
        """
        return self.sum / jnp.maximum(self.number, 1)


def cross_entropy(logits: jax.Array, labels: jax.Array, mask: jax.Array | None = None) -> LossSum:
    """Return `-log softmax(logits)[label]`, with one term per label.

    The result is the loss for masked tokens, next sentences, sequence and token classification, and multiple choice.

    Args:
        logits: (…, C).
        labels: (…), integers below C. Entries of -100 are ignored.
        mask: booleans that broadcast to the labels. Labels whose entry in `mask` is False (such as those of padding
            rows) are ignored too.

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if the labels are not of an integer dtype.

    >>> cross_entropy(jnp.zeros((3, 2)), jnp.array([0, 1, -100]))
    LossSum(sum=Array(1.3862944, dtype=float32), number=Array(2., dtype=float32))
    """
    _require("cross_entropy", "labels", labels, logits.shape[:-1])
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise TypeError(f"losses.cross_entropy: labels must be class indices; expected integers, got {labels.dtype}.")
    if mask is not None:
        labels = jnp.where(mask, labels, IGNORE)
    rows, ids = _at_least_float32(logits).reshape(-1, logits.shape[-1]), labels.reshape(-1)
    losses = F.cross_entropy(rows, ids, ignore_index=IGNORE, reduction="none")
    return LossSum(losses.sum(), (ids != IGNORE).sum().astype(losses.dtype))


def regression(logits: jax.Array, labels: jax.Array, mask: jax.Array | None = None) -> LossSum:
    """Return `(logits - labels)²`, with one term per entry.

    Args:
        logits: (B, C).
        labels: (B, C), or (B,) if C is 1. A label of -100 is not ignored. Use `mask` to ignore rows.
        mask: (B,) booleans. Rows whose entry in `mask` is False are ignored.

    Raises:
        ValueError: if the shapes do not match.

    >>> regression(jnp.array([[1.0], [5.0]]), jnp.array([3.0, 0.0]), mask=jnp.array([True, False])).mean
    Array(4., dtype=float32)
    """
    if logits.shape[-1] == 1 and labels.shape == logits.shape[:-1]:
        labels = labels[..., None]
    _require("regression", "labels", labels, logits.shape)
    logits = _at_least_float32(logits)
    return _total((logits - labels.astype(logits.dtype)) ** 2, _rows("regression", mask, logits))


def multi_label(logits: jax.Array, labels: jax.Array, mask: jax.Array | None = None) -> LossSum:
    """Return the binary cross-entropy of independent labels, with one term per entry.

    Args:
        logits: (B, C).
        labels: (B, C), 0 or 1. Entries of -100 are ignored.
        mask: (B,) booleans. Rows whose entry in `mask` is False are ignored.

    Raises:
        ValueError: if the shapes do not match.

    >>> multi_label(jnp.zeros((1, 3)), jnp.array([[1.0, 0.0, -100.0]]))
    LossSum(sum=Array(1.3862944, dtype=float32), number=Array(2., dtype=float32))
    """
    _require("multi_label", "labels", labels, logits.shape)
    logits = _at_least_float32(logits)
    counted = (labels != IGNORE) & _rows("multi_label", mask, logits)
    target = jnp.where(counted, labels, 0).astype(logits.dtype)
    return _total(F.binary_cross_entropy_with_logits(logits, target, reduction="none"), counted)


def sequence_classification(
    logits: jax.Array, labels: jax.Array, problem_type: str | None = None, mask: jax.Array | None = None
) -> LossSum:
    """Return the loss of sequence classification or regression for a `problem_type`.

    Args:
        logits: (B, C).
        labels: (B,) integers for "single_label_classification"; (B, C) of 0 and 1 for "multi_label_classification";
            (B, C), or (B,) if C is 1, for "regression".
        problem_type: one of these names. None chooses the problem type as transformers does: "regression" for one
            logit, otherwise "single_label_classification" for integer labels and "multi_label_classification" for
            floating labels.
        mask: (B,) booleans. Rows whose entry in `mask` is False are ignored.

    Raises:
        ValueError: if `problem_type` is unknown, or the shapes do not match.
        TypeError: if `problem_type` is "single_label_classification" and the labels are not of an integer dtype.

    >>> sequence_classification(jnp.zeros((2, 3)), jnp.array([0, 2])).mean
    Array(1.0986123, dtype=float32)
    """
    if problem_type is None:
        one_class = "single_label_classification" if jnp.issubdtype(labels.dtype, jnp.integer) else None
        problem_type = "regression" if logits.shape[-1] == 1 else one_class or "multi_label_classification"
    if problem_type == "regression":
        return regression(logits, labels, mask)
    if problem_type == "multi_label_classification":
        return multi_label(logits, labels, mask)
    if problem_type == "single_label_classification":
        return cross_entropy(logits, labels, mask)
    raise ValueError(
        "losses.sequence_classification: problem_type is unknown; expected 'regression', "
        f"'single_label_classification' or 'multi_label_classification', got {problem_type!r}."
    )


def question_answering(
    start_logits: jax.Array,
    end_logits: jax.Array,
    start_positions: jax.Array,
    end_positions: jax.Array,
    mask: jax.Array | None = None,
) -> tuple[LossSum, LossSum]:
    """Return two losses, the cross-entropies of the start and of the end of the answer.

    In each of the two losses, `sum` is halved, but `number` is not. The sum of the two means is therefore the average
    of the two cross-entropies. This average is the total loss.

    Args:
        start_logits, end_logits: (B, T).
        start_positions, end_positions: (B,) integers. -100 and positions beyond the sequence are ignored.
        mask: (B,) booleans. Rows whose entry in `mask` is False are ignored.

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if the positions are not of an integer dtype.

    Differs from transformers: -100 is ignored, whereas transformers treats it as position 0.

    >>> zeros, place = jnp.zeros((1, 4)), jnp.array([2])
    >>> start, end = question_answering(zeros, zeros, place, place)
    >>> start.mean + end.mean
    Array(1.3862944, dtype=float32)
    """

    def half(logits: jax.Array, positions: jax.Array) -> LossSum:
        outside = (positions == IGNORE) | (positions >= logits.shape[-1])
        total, number = cross_entropy(logits, jnp.where(outside, IGNORE, jnp.maximum(positions, 0)), mask)
        return LossSum(total / 2, number)

    return half(start_logits, start_positions), half(end_logits, end_positions)


def _at_least_float32(logits: jax.Array) -> jax.Array:
    return logits.astype(wide_dtype(logits))


def _rows(where: str, mask: jax.Array | None, logits: jax.Array) -> jax.Array:
    """Return `mask` as booleans of shape (B, 1), which are True for the rows that count. Without a mask, all rows
    count.
    """
    if mask is None:
        return jnp.ones((logits.shape[0], 1), bool)
    _require(where, "mask", mask, logits.shape[:1])
    return mask.astype(bool)[:, None]


def _total(losses: jax.Array, counted: jax.Array) -> LossSum:
    counted = jnp.broadcast_to(counted, losses.shape)
    return LossSum(jnp.where(counted, losses, 0).sum(), counted.sum().astype(losses.dtype))


def _require(where: str, name: str, given: jax.Array, shape: tuple[int, ...]) -> None:
    if given.shape != shape:
        raise ValueError(
            f"losses.{where}: {name} does not match the logits; expected shape {shape}, got {given.shape}."
        )
