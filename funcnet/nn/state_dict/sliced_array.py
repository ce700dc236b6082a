"""An array that is read slice by slice, so that a device can load only its part of a leaf from a file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import DTypeLike
from numpy.typing import NDArray

from funcnet.nn.init.composed import copied

__all__ = ["SlicedArray"]


class SlicedArray:
    """The array of a leaf. A slice is read when it is needed, and is cast as `load_state_dict` casts it.

    Args:
        layers: the arrays of all layers of a stack, or one array. They may be views of a memory-mapped file.
        stacks: the number of layers of each stack that contains the leaf. `()` stands for a single array.
        dtype: dtype of the leaf.

    Example:
        >>> whole = SlicedArray([np.arange(6).reshape(2, 3), np.zeros((2, 3))], (2,), np.float32)
        >>> whole.shape
        (2, 2, 3)
        >>> whole[0, :, 1:]
        array([[1., 2.],
               [4., 5.]], dtype=float32)
    """

    def __init__(self, layers: Sequence[Any], stacks: tuple[int, ...], dtype: DTypeLike):
        self._layers, self._stacks, self._dtype = layers, stacks, dtype
        self.shape: tuple[int, ...] = (*stacks, *layers[0].shape)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        """Return a slice as an array on the host. Only this slice is read."""
        index = (*index, *(slice(None),) * (len(self.shape) - len(index)))
        count = len(self._stacks)
        chosen = np.arange(len(self._layers)).reshape(self._stacks)[index[:count]]
        read = [np.asarray(copied(self._layers[i][index[count:]], self._dtype)) for i in np.ravel(chosen)]
        return np.reshape(np.stack(read), (*np.shape(chosen), *read[0].shape)) if count else read[0]
