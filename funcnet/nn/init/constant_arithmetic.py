"""Arithmetic with buffers in constructors, such as `self.index + 1`.

If a buffer starts as an array or a constant, a constructor can use the buffer like its initial array. Such arithmetic
works until `init` makes the arrays of the net. After `init`, the array of the buffer is in the state.
"""

from collections.abc import Callable
from typing import Any

import jax

__all__ = ["Constant"]


def _operation(name: str) -> Callable[..., Any]:
    def operation(self: "Constant", *others: object) -> Any:
        return getattr(self.value, name)(*(one.value if isinstance(one, Constant) else one for one in others))

    operation.__name__ = name
    return operation


class Constant:
    """A leaf that supports arithmetic if its array is known before `init` (see `Buffer.value`). `==` compares two
    leaves by identity and not by their arrays.
    """

    @property
    def value(self) -> jax.Array:
        raise NotImplementedError

    def __jax_array__(self) -> jax.Array:
        return self.value

    __add__, __sub__, __mul__, __truediv__ = map(_operation, ("__add__", "__sub__", "__mul__", "__truediv__"))
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(_operation, ("__radd__", "__rsub__", "__rmul__", "__rtruediv__"))
    __floordiv__, __mod__, __pow__, __matmul__ = map(_operation, ("__floordiv__", "__mod__", "__pow__", "__matmul__"))
    __rfloordiv__, __rmod__ = map(_operation, ("__rfloordiv__", "__rmod__"))
    __rpow__, __rmatmul__ = map(_operation, ("__rpow__", "__rmatmul__"))
    __and__, __or__, __xor__, __invert__ = map(_operation, ("__and__", "__or__", "__xor__", "__invert__"))
    __lt__, __le__, __gt__, __ge__ = map(_operation, ("__lt__", "__le__", "__gt__", "__ge__"))
    __neg__, __abs__ = map(_operation, ("__neg__", "__abs__"))
