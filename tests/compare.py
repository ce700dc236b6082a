"""How far apart two tensors are, in the one way that the tests of whole models use."""

from collections.abc import Iterable

import numpy as np


def relative(ours, reference, all_references: Iterable) -> float:
    """The largest absolute difference in a tensor, over the larger of its reference's largest entry and 1e-3 of the
    largest entry among all reference tensors of that kind.

    (An attention key's bias has no gradient by mathematics; it is thereby compared absolutely.)
    """
    ours, reference = np.asarray(ours), np.asarray(reference)
    assert ours.shape == reference.shape, f"shapes differ: {ours.shape} and {reference.shape}"
    largest = max((np.abs(np.asarray(r)).max(initial=0) for r in all_references), default=0)
    scale = max(np.abs(reference).max(initial=0), 1e-3 * largest)
    difference = np.abs(ours - reference).max(initial=0)
    return float(difference / scale) if scale else float(difference)


def furthest(ours: dict, reference: dict) -> tuple[float, str]:
    """(the largest `relative` among the tensors of two dicts of the same names, whose it is)."""
    assert set(ours) == set(reference), set(ours) ^ set(reference)
    kind = list(reference.values())
    return max((relative(ours[name], reference[name], kind), name) for name in reference)
