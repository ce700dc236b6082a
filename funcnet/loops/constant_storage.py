"""Lay out the constants of a module in memory. Equal arrays are stored only once. The arrays are in the order in which
the code first reads them.

A constant that is the right operand of a matrix product is stored in panels of eight columns, as the product reads it.
Other readers of the constant find their elements in the panels. An embedding table that is also the matrix of the
decoder is therefore stored once. In panels of integers, the entries of two rows are adjacent in each column.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from funcnet.loops.index import Index, join
from funcnet.loops.nest import Location, Parts
from funcnet.loops.operations import ArrayValue

__all__ = ["PANEL", "Parts", "Weight", "Weights", "evaluated", "known_bytes", "packed"]

PANEL = 8


@dataclass(frozen=True)
class Weight:
    """The key of a stored constant: the digest of its bytes, followed by its shape, and its dtype."""

    digest: str
    dtype: str


@dataclass
class Weights:
    """All constants of a module."""

    arrays: dict[Weight, np.ndarray] = field(default_factory=dict)
    offsets: dict[Weight, int] = field(default_factory=dict)
    size: int = 0
    keys: dict[int, tuple[ArrayValue, Weight]] = field(default_factory=dict)  # {id of a value: (value, its key)}
    panels: dict[Weight, int] = field(default_factory=dict)  # {matrix that a product reads: axis of the sum}

    def add(self, array: np.ndarray) -> Weight:
        """Store an array, unless it is already stored, and return its key."""
        array = np.ascontiguousarray(array)
        key = _key(array)
        if key not in self.arrays:
            self.arrays[key], self.offsets[key] = array, self.size
            self.size += -(-array.nbytes // 16) * 16
        return key

    def read_in_panels(self, value: ArrayValue, axis: int) -> None:
        """Announce that a matrix product reads a constant matrix, and sums over the axis `axis` of the matrix."""
        self.panels.setdefault(self._key_of(value), axis)

    def find(self, value: ArrayValue, index: Sequence[Index], parts: Parts) -> tuple[Location, Index]:
        """Return the location of a constant, and the position of an element in it.

        The function `parts` splits a column's index into the number of its panel and its place in the panel.
        """
        axis = self.panels.get(self._key_of(value))
        if axis is None:
            return self.whole(value), join(index, value.shape)
        assert value.constant is not None
        k, n = value.shape[axis], value.shape[1 - axis]
        key = self.add(packed(np.moveaxis(value.constant, axis, 0)[None]))
        panel, lane = parts(index[1 - axis], (-(-n // PANEL), PANEL))
        return Location(key, key.dtype), join([panel, index[axis], lane], (1, k, PANEL))

    def whole(self, value: ArrayValue) -> Location:
        """Store a constant without panels, and return its location."""
        assert value.constant is not None
        key = self.add(value.constant)
        return Location(key, key.dtype)

    def _key_of(self, value: ArrayValue) -> Weight:
        if id(value) not in self.keys:
            assert value.constant is not None
            self.keys[id(value)] = value, _key(np.ascontiguousarray(value.constant))
        return self.keys[id(value)][1]

    def data(self) -> bytes:
        """Return the bytes of all constants, in the order in which they are in memory."""
        out = bytearray(self.size)
        for key, array in self.arrays.items():
            out[self.offsets[key] : self.offsets[key] + array.nbytes] = array.tobytes()
        return bytes(out)


def _key(array: np.ndarray) -> Weight:
    return Weight(hashlib.sha256(array.data if array.size else b"").hexdigest() + str(array.shape), str(array.dtype))


def evaluated(value: ArrayValue) -> np.ndarray | None:
    """Return the numbers of a value if it is a constant, or a view or a conversion of a constant. Else return None."""
    if value.constant is not None:
        return value.constant
    operation = value.operation
    if operation is None or operation.name not in _NUMPY or not operation.operands:
        return None
    inner = evaluated(operation.operands[0])
    return None if inner is None else _NUMPY[operation.name](inner, value, operation.settings)


def known_bytes(value: ArrayValue) -> int | None:
    """Return the size in bytes of the constant from which `evaluated` computes the value, or None if there is none."""
    while value.constant is None:
        operation = value.operation
        if operation is None or operation.name not in _NUMPY or not operation.operands:
            return None
        value = operation.operands[0]
    return value.nbytes


def _broadcast(x: np.ndarray, out: ArrayValue, settings: dict) -> np.ndarray:
    sizes = [1] * len(out.shape)
    for size, axis in zip(x.shape, settings["dims"], strict=True):
        sizes[axis] = size
    return np.broadcast_to(x.reshape(sizes), out.shape)


def _slice(x: np.ndarray, out: ArrayValue, settings: dict) -> np.ndarray:
    starts, strides = settings["start"], settings["strides"]
    return x[tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, out.shape, strides, strict=True))]


def _convert(x: np.ndarray, out: ArrayValue, settings: dict) -> np.ndarray:
    return np.asarray(jnp.asarray(x).astype(out.dtype))  # NumPy converts NaN and large numbers differently


_NUMPY = {
    "reshape": lambda x, out, settings: x.reshape(out.shape),
    "transpose": lambda x, out, settings: x.transpose(settings["permutation"]),
    "broadcast": _broadcast,
    "slice": _slice,
    "reverse": lambda x, out, settings: np.flip(x, settings["axes"]),
    "convert": _convert,
}


def packed(matrix: np.ndarray, step: int = 1) -> np.ndarray:
    """Return matrices (batch, K, N) as panels (batch, ⌈N / 8⌉, ⌈K / step⌉, 8, step), padded with zeros.

    Example:
        >>> packed(np.arange(4.0).reshape(1, 2, 2))[0, 0, :, :3, 0]
        array([[0., 1., 0.],
               [2., 3., 0.]])
    """
    batch, k, n = matrix.shape
    panels, steps = -(-n // PANEL), -(-k // step)
    out = np.zeros((batch, steps * step, panels * PANEL), matrix.dtype)
    out[:, :k, :n] = matrix
    return np.ascontiguousarray(out.reshape(batch, steps, step, panels, PANEL).transpose(0, 3, 1, 4, 2))
