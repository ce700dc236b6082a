"""Metrics for GLUE and similar data, as scikit-learn defines them, in float64.

Letters: `N examples, C classes`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = Sequence[Any] | NDArray[Any]

__all__ = ["accuracy", "confusion", "f1_binary", "f1_macro", "f1_micro", "matthews", "pearson", "spearman"]


def accuracy(labels: Values, predicted: Values) -> float:
    """Return the share of N predictions that are right. In arrays (N, C), the prediction for a row is right if all of
    its C entries are right.

    >>> accuracy([0, 1, 1, 2], [0, 1, 2, 2])
    0.75
    """
    right = np.asarray(labels) == np.asarray(predicted)
    return float(right.reshape(len(right), -1).all(axis=1).mean())


def confusion(labels: Values, predicted: Values, classes: int) -> NDArray[np.int64]:
    """Return the confusion matrix: (C, C) counts, with one row per label and one column per predicted class.

    >>> confusion([0, 1, 1], [0, 1, 0], 2).tolist()
    [[1, 0], [1, 1]]
    """
    table = np.zeros((classes, classes), np.int64)
    np.add.at(table, (np.asarray(labels, np.int64), np.asarray(predicted, np.int64)), 1)
    return table


def f1_binary(labels: Any, predicted: Any) -> float:
    """Return the F1 score of class 1, or 0 if class 1 does not occur. The score is 2 r / (l + p): r examples have label
    1 and prediction 1, l examples have label 1, and p examples have prediction 1.

    >>> round(f1_binary([1, 1, 0, 0], [1, 0, 1, 0]), 3)
    0.5
    """
    labels, predicted = np.asarray(labels) == 1, np.asarray(predicted) == 1
    return _f1(int((labels & predicted).sum()), int(labels.sum()), int(predicted.sum()))


def f1_macro(labels: Values, predicted: Values) -> float:
    """Return the unweighted mean of the F1 scores of all classes that occur, or of all C columns of (N, C) booleans.

    >>> round(f1_macro([0, 0, 1, 2], [0, 1, 1, 2]), 4)
    0.7778
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.ndim == 2:
        pairs = list(zip(labels.astype(bool).T, predicted.astype(bool).T, strict=True))
    else:
        classes = np.union1d(labels, predicted)
        pairs = [(labels == c, predicted == c) for c in classes]
    return float(np.mean([_f1(int((a & b).sum()), int(a.sum()), int(b.sum())) for a, b in pairs]))


def f1_micro(labels: Values, predicted: Values) -> float:
    """Return the F1 score over all entries of (N, C) booleans, without averaging over the columns.

    >>> round(f1_micro([[1, 0], [1, 1]], [[1, 1], [0, 1]]), 4)
    0.6667
    """
    labels, predicted = np.asarray(labels, bool), np.asarray(predicted, bool)
    return _f1(int((labels & predicted).sum()), int(labels.sum()), int(predicted.sum()))


def matthews(labels: Values, predicted: Values) -> float:
    """Return the Matthews correlation for any number of classes. The result is 0 if all labels are the same class, or
    all predictions are the same class.

    >>> round(matthews([1, 1, 1, 0], [1, 0, 1, 1]), 4)
    -0.3333

    Reference: Gorodkin, 2004, "Comparing two K-category assignments by a K-category correlation coefficient"
    """
    _, codes = np.unique(np.concatenate([np.asarray(labels), np.asarray(predicted)]), return_inverse=True)
    count = len(codes) // 2
    table = confusion(codes[:count], codes[count:], int(codes.max()) + 1).astype(np.float64)
    labelled, guessed, total = table.sum(1), table.sum(0), table.sum()
    covariance = np.trace(table) * total - labelled @ guessed
    spread = (total**2 - labelled @ labelled) * (total**2 - guessed @ guessed)
    return float(covariance / np.sqrt(spread)) if spread > 0 else 0.0


def pearson(x: Any, y: Any) -> float:
    """Return the linear correlation of x and y, N numbers each, or 0 if all values of x, or all values of y, are equal.

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    """
    x, y = (np.asarray(v, np.float64) - np.mean(v, dtype=np.float64) for v in (x, y))
    spread = np.sqrt((x @ x) * (y @ y))
    return float(np.clip(x @ y / spread, -1, 1)) if spread > 0 else 0.0


def spearman(x: Values, y: Values) -> float:
    """Return the linear correlation of the ranks of x and y. Equal numbers share the mean of their ranks.

    >>> round(spearman([1, 2, 3, 3], [1, 4, 9, 8]), 4)
    0.9487
    """
    return pearson(_ranks(np.asarray(x)), _ranks(np.asarray(y)))


def _ranks(x: NDArray[Any]) -> NDArray[np.float64]:
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def _f1(both: int, labelled: int, predicted: int) -> float:
    return 2 * both / (labelled + predicted) if labelled + predicted else 0.0
