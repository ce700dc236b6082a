"""Arrays from several files, indexed as if they were one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.arguments import shown
from funcnet.data.checks import require_iterable, require_unmasked

__all__ = ["Joined"]


class Joined:
    """The concatenation of arrays (N, …) of one dtype. The arrays are not copied.

    Args:
        arrays: at least one array. Memory-mapped arrays stay on disk until they are used.

    Attributes:
        arrays: the arrays, as a tuple.
        dtype: common dtype of the arrays.

    Raises:
        ValueError: if there is no array, or the arrays differ in dtype or in a dimension other than the first.
        TypeError: if `arrays` is not a list of arrays with at least one dimension.

    Example:
        >>> joined = Joined([np.array([5, 6]), np.array([], np.int64), np.array([7])])
        >>> len(joined), joined[np.array([[2, 0], [1, 1]])].tolist(), np.asarray(joined).tolist()
        (3, [[7, 5], [6, 6]], [5, 6, 7])
    """

    def __init__(self, arrays: Sequence[NDArray[Any]]):
        require_iterable("Joined", "arrays", arrays, "a list of arrays")
        wrong = [one for one in arrays if not hasattr(one, "dtype") or not getattr(one, "ndim", 0)]
        if wrong:
            raise TypeError(f"Joined: arrays has no rows; expected arrays (N, …), got {shown(wrong[0])}.")
        for place, array in enumerate(arrays):
            require_unmasked("Joined", f"array {place}", array)
        types = sorted({str(array.dtype) for array in arrays})
        if len(types) != 1:
            got = ", ".join(types) or "no array"
            raise ValueError(
                f"Joined: the arrays have different dtypes; expected the same dtype for all arrays, got {got}."
            )
        shapes = sorted({array.shape[1:] for array in arrays})
        if len(shapes) > 1:
            raise ValueError(
                f"Joined: the arrays have different shapes; expected rows of one shape, got rows of shapes {shapes}."
            )
        self.arrays = tuple(arrays)
        self.dtype = arrays[0].dtype
        self._ends = np.cumsum([len(array) for array in arrays])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, indices: NDArray[np.int64] | int) -> NDArray[Any]:
        """Return the entries at `indices`, an integer or an integer array of any shape, with values in [0, len).

        The result has the shape of `indices`, followed by the remaining dimensions of the arrays.
        """
        if len(self.arrays) == 1:
            return self.arrays[0][indices]
        indices = np.asarray(indices)
        which = np.searchsorted(self._ends, indices, "right")
        out = np.empty(np.shape(indices) + self.arrays[0].shape[1:], self.dtype)
        for number in np.unique(which).tolist():
            here = which == number
            array = self.arrays[number]
            out[here] = array[indices[here] - (self._ends[number] - len(array))]
        return out

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> NDArray[Any]:
        whole = self.arrays[0] if len(self.arrays) == 1 else np.concatenate(self.arrays)
        return np.array(whole, dtype, copy=copy)
