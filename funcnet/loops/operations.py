"""Operations on arrays, from which loop nests are made.

An `ArrayValue` is an array: an input, a constant, or a result of an `Operation`. A `Block` is a list of operations with
inputs and outputs; the bodies of loops and the branches of conditionals are blocks too.

The operations are JAX's primitives, reduced to fewer forms. Elementwise operations have JAX's names. All operations
that only view an array in another shape become `reshape`, `transpose`, `broadcast`, `slice` and `reverse`. Convolutions
and windows have no padding: a `pad` before them pads their input.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.typing import ArrayLike

__all__ = ["ELEMENTWISE", "ArrayValue", "Block", "Operation", "needed", "read_by"]

# fmt: off
ELEMENTWISE = frozenset([
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp", "clz",
    "cos", "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "fixed_point_product", "floor", "ge",
    "gt", "high_product", "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne",
    "neg", "nextafter", "not", "or", "population_count", "pow", "rem", "round", "rounding_divide", "rsqrt", "select_n",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "sub",
    "tan", "tanh", "xor",
])
# fmt: on


@dataclass(eq=False)
class ArrayValue:
    """An array of a program.

    Args:
        shape: sizes of the array.
        dtype: dtype of the elements.
        constant: the numbers of the array, if they are known before the program runs.
        operation: the operation that computes the array. None for an input or a constant.
        position: position of the array among the results of `operation`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    constant: np.ndarray | None = None
    operation: "Operation | None" = None
    position: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.size * self.dtype.itemsize

    @classmethod
    def of(cls, array: "ArrayLike") -> "ArrayValue":
        """Return a constant value."""
        array = np.asarray(array)
        return cls(array.shape, array.dtype, array)


@dataclass(eq=False)
class Block:
    """A list of operations in the order in which they run, with the inputs and outputs of the list."""

    inputs: list[ArrayValue] = field(default_factory=list)
    operations: list["Operation"] = field(default_factory=list)
    outputs: list[ArrayValue] = field(default_factory=list)


@dataclass(eq=False)
class Operation:
    """An operation of a block, which computes arrays from other arrays.

    Args:
        name: name of the operation, such as "add" or "dot".
        operands: the arrays that the operation reads.
        settings: parameters that are not arrays, such as axes.
        layer: the name of the layer that the operation belongs to, such as "bert.encoder.layer.0".
        results: the arrays that the operation computes.
        blocks: the bodies of a loop or a conditional.
    """

    name: str
    operands: list[ArrayValue]
    settings: dict[str, Any]
    layer: str
    results: list[ArrayValue] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


def needed(block: Block) -> Block:
    """Remove the operations whose results nothing reads, and return the block."""
    needed = {id(v) for v in block.outputs}
    kept = []
    for operation in reversed(block.operations):
        if any(id(r) in needed for r in operation.results):
            kept.append(operation)
            needed |= {id(v) for v in read_by(operation)}
    block.operations = kept[::-1]
    return block


def read_by(operation: Operation) -> list[ArrayValue]:
    """Return the values that an operation reads, including the values that the blocks of the operation read."""
    inner = [v for b in operation.blocks for o in b.operations for v in read_by(o)]
    return [*operation.operands, *inner, *(v for b in operation.blocks for v in b.outputs)]
