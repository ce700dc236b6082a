"""Notice draws from random generators that a process has only once, such as `np.random`.

In workers, the numbers of such draws depend on how many workers there are and on their timing. See `item_rng`.
"""

from __future__ import annotations

import pickle
import random
import sys
import warnings
from typing import Any

import numpy as np

__all__ = ["WATCHED", "DrawsWarning", "generator_states", "used_generators"]

WATCHED = 16  # batches of a worker process, or of a loader with threads. Reading the states takes about 0.1 ms.


def generator_states() -> dict[str, Any]:
    """Return the states of the global random generators of NumPy, of Python, and of torch if it is imported."""
    key = np.random.get_state(legacy=False)  # noqa: NPY002
    states: dict[str, Any] = {"np.random": pickle.dumps(key), "random": random.getstate()}
    read = getattr(sys.modules.get("torch"), "get_rng_state", None)
    return states if read is None else {**states, "torch": read().numpy().tobytes()}


def used_generators(before: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the global generators whose states differ from those in `before`.

    Example:
        >>> before = generator_states()
        >>> _ = random.random()
        >>> used_generators(before)
        ('random',)
    """
    now = generator_states()
    return tuple(name for name in before if before[name] != now[name])


class DrawsWarning:
    """Warns once that the workers of a loader draw from global generators.

    Args:
        dataset: text that names the dataset.

    Attributes:
        left: for how many further batches a loader with threads watches the generators.
    """

    def __init__(self, dataset: str):
        self._dataset, self._has_warned, self.left = dataset, False, WATCHED

    def __call__(self, names: tuple[str, ...]) -> None:
        if self._has_warned:
            return
        self._has_warned, self.left = True, 0
        warnings.warn(
            f"DataLoader: {self._dataset} draws random numbers from {' and '.join(names)} in its workers, so the "
            "numbers depend on the number of workers and their timing, and differ after a resume; expected draws from "
            "item_rng() of funcnet.data, which depend only on the seed, the epoch and the item.",
            UserWarning,
            stacklevel=5,
        )
