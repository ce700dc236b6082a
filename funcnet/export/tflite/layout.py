"""Arrange the dimensions of tensors: channels are last in LiteRT's convolutions and poolings, and second in the net.

A value with four dimensions may have two tensors. One has the plain order (N, C, H, W). The other one has channels
last: (N, H, W, C). An operator asks for the order that it needs. If the value has no tensor in this order yet, an
operator TRANSPOSE makes one from the other tensor. If the bytes are the same in both orders, a RESHAPE is used instead.
"""

from collections.abc import Sequence

import numpy as np

from funcnet.export.tflite.writing import TfliteFile
from funcnet.quantization import QuantizedNet

__all__ = ["Tensors"]

_LAST, _PLAIN = (0, 2, 3, 1), (0, 3, 1, 2)


class Tensors:
    """The tensors of a `.tflite` file that hold the values of an integer net. The methods identify values and tensors
    by their numbers.

    Args:
        file: the file.
        net: the net.
    """

    def __init__(self, file: TfliteFile, net: QuantizedNet):
        self.file, self.net = file, net
        self._made: dict[tuple[int, bool], int] = {}

    def new(self, number: int, last: bool = False) -> int:
        """Add a tensor for a computed value: (N, H, W, C) if `last`, otherwise in the order of the net."""
        value = self.net.values[number]
        shape = [value.shape[axis] for axis in _LAST] if last else value.shape
        made = self.file.tensor(f"value{number}", shape, value.dtype, value.qparams)
        self._made[number, last] = made
        return made

    def plain(self, number: int) -> int:
        """Return the tensor of a value in the order of the net, such as (N, C, H, W)."""
        if (number, False) not in self._made and number in self.net.constants:
            value = self.net.values[number]
            made = self.file.tensor(
                f"value{number}", value.shape, value.dtype, value.qparams, self.net.constants[number]
            )
            self._made[number, False] = made
        return self._in(number, False)

    def last(self, number: int) -> int:
        """Return the tensor (N, H, W, C) of a value with four dimensions, or of a constant with at most four."""
        if (number, True) not in self._made and number in self.net.constants:
            value, array = self.net.values[number], self.net.constants[number]
            array = array.reshape(*[1] * (4 - array.ndim), *array.shape).transpose(_LAST)
            self._made[number, True] = self.file.tensor(
                f"value{number}", array.shape, value.dtype, value.qparams, array
            )
        return self._in(number, True)

    def is_last(self, numbers: Sequence[int]) -> bool:
        """Return whether an operator that accepts both orders should read these values as (N, H, W, C)."""
        four = [number for number in numbers if len(self.net.values[number].shape) == 4]
        return bool(four) and any((number, True) in self._made for number in four)

    def either(self, number: int, last: bool) -> int:
        """Return the tensor of a value: (N, H, W, C) if `last`, otherwise in the order of the net."""
        return self.last(number) if last else self.plain(number)

    def ints(self, values: Sequence[int] | np.ndarray) -> int:
        """Add a constant tensor of int32, and return its number."""
        array = np.asarray(values, np.int32)
        return self.file.tensor("constant", array.shape, "int32", values=array)

    def _in(self, number: int, last: bool) -> int:
        if (number, last) not in self._made:
            source, (_, channels, height, width) = self._made[number, not last], self.net.values[number].shape
            made = self.new(number, last)
            if channels == 1 or height * width == 1:
                shape = [self.net.values[number].shape[axis] for axis in (_LAST if last else range(4))]
                self.file.operator(
                    "RESHAPE", [source, self.ints(shape)], [made], "ReshapeOptions", newShape=[int(n) for n in shape]
                )
            else:
                order = self.ints(_LAST if last else _PLAIN)
                self.file.operator("TRANSPOSE", [source, order], [made], "TransposeOptions", version=2)
        return self._made[number, last]
