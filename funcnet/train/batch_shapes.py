"""The shapes of batches: a text, and a step that says when new shapes compile a new program."""

import hashlib
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from funcnet.train.state import TrainState
from funcnet.tree import PyTree

__all__ = ["ShapeWatch", "Shapes", "describe_shapes", "digest_of_arrays"]

Shapes = tuple[Any, tuple[tuple[str, tuple[int, ...]], ...]]  # structure; dtype and shape of each leaf


class ShapeWatch:
    """A step that prints a line when a batch has new shapes, because a new program is compiled for them. The shapes of
    the first batch are expected.

    Args:
        step: the compiled step, `step(state, batch, key)`, where `state` has the attribute `step`.
        say: function that prints a line.
        known: the shapes for which the step has been compiled, which this object extends.
        rows: number of leading dimensions that count rows: 2 under pmap, otherwise 1.

    Example:
        >>> from types import SimpleNamespace
        >>> watch = ShapeWatch(lambda state, batch, key: state, print, set())
        >>> for rows in (4, 4, 3):
        ...     state = watch(SimpleNamespace(step=8), {"x": np.zeros((rows, 2))}, None)
        Step 9: program 2 of the training step was compiled in ... s, for a batch with new shapes (x: float64[3, 2])...
    """

    def __init__(self, step: Callable[..., Any], say: Callable[[str], None], known: set[Shapes], rows: int = 1):
        self._step, self._say, self._known, self._rows = step, say, known, rows

    def __call__(self, state: TrainState, batch: PyTree, key: jax.Array | None) -> Any:
        """Run the step."""
        found = _shapes_of(batch)
        if found in self._known or not self._known:
            self._known.add(found)
            return self._step(state, batch, key)
        number, begun = int(state.step) + 1, time.perf_counter()
        result = self._step(state, batch, key)
        seconds, advice = time.perf_counter() - begun, self._advice(found)
        self._known.add(found)
        self._say(
            f"Step {number:,}: program {len(self._known)} of the training step was compiled in {seconds:.1f} s, for a "
            f"batch with new shapes ({describe_shapes(batch)}). {advice}"
        )
        return result

    def _advice(self, found: Shapes) -> str:
        inner = lambda shapes: (shapes[0], tuple((dtype, shape[self._rows :]) for dtype, shape in shapes[1]))
        if inner(found) in map(inner, self._known):
            return "Only the number of rows is new. With drop_last=True, a DataLoader omits a smaller last batch."
        return (
            "Pad all batches to a few lengths, for example with BucketBatchSampler and PaddedCollate of funcnet.data: "
            "docs/data.md."
        )


def describe_shapes(batch: PyTree) -> str:
    """Return the names, dtypes and shapes of a batch, for a message.

    >>> describe_shapes({"x": np.zeros((2, 3), np.float32)})
    'x: float32[2, 3]'
    """
    shape = lambda leaf: f"{getattr(leaf, 'dtype', type(leaf).__name__)}{list(np.shape(leaf))}"
    leaves = jax.tree_util.tree_leaves_with_path(batch)
    named = [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]
    return ", ".join(f"{name}: {shape(leaf)}" if name else shape(leaf) for name, leaf in named)


def digest_of_arrays(batch: PyTree) -> str:
    """Return the SHA-256 digest of the names, dtypes, shapes and bytes of a batch.

    >>> zeros = np.zeros(2)
    >>> digest_of_arrays({"x": zeros}) == digest_of_arrays({"x": zeros.copy()}) != digest_of_arrays({"y": zeros})
    True
    """
    found = hashlib.sha256(describe_shapes(batch).encode())
    for leaf in jax.tree.leaves(batch):
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()


def _shapes_of(batch: PyTree) -> Shapes:
    leaves, structure = jax.tree.flatten(batch)
    return structure, tuple((str(leaf.dtype), tuple(leaf.shape)) for leaf in leaves)
