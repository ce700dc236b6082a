"""Functions that torch composes from other operations: `reshape`, `matmul`, `linear`, reductions.

Reference: aten/src/ATen/native/TensorShape.cpp, LinearAlgebra.cpp and Linear.cpp of torch.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue

__all__ = ["contiguous", "einsum_pair", "linear", "matmul", "reduced", "reshape"]


def contiguous(tape: Tape, x: TapeValue) -> TapeValue:
    """Return a contiguous copy of an array, or the array itself if it is already contiguous."""
    return x if x.is_contiguous else tape.run("clone", x)


def reshape(tape: Tape, x: TapeValue, size: Sequence[int]) -> TapeValue:
    """A view if the strides allow one, otherwise a view of a copy."""
    array = x.array.reshape(size)
    if x.is_contiguous or not array.size:
        return tape.run("view", x, size=array.shape)
    if np.may_share_memory(array, x.array):
        return tape.run("_reshape_alias", x, size=array.shape)
    return tape.run("_unsafe_view", tape.run("clone", x), size=array.shape)


def linear(tape: Tape, x: TapeValue, weight: TapeValue, bias: TapeValue | None = None) -> TapeValue:
    """`x·weightᵀ + bias`."""
    if x.ndim == 2 and bias is not None:
        return tape.run("addmm", bias, x, tape.run("t", weight), alpha=1, beta=1)
    if bias is not None and x.is_contiguous and weight.ndim == 2:
        rows = reshape(tape, x, (-1, x.shape[-1]))
        product = tape.run("addmm", bias, rows, tape.run("t", weight), alpha=1, beta=1)
        return tape.run("view", product, size=(*x.shape[:-1], weight.shape[0]))
    product = matmul(tape, x, tape.run("t", weight))
    return product if bias is None else tape.run("add.Tensor", product, bias, alpha=1)


def matmul(tape: Tape, a: TapeValue, b: TapeValue) -> TapeValue:
    """`torch.matmul`: products of vectors, matrices, and batches of matrices."""
    match min(a.ndim, 3), min(b.ndim, 3):
        case 1, 1:
            return tape.run("dot", a, b)
        case 2, 1:
            return tape.run("mv", a, b)
        case 1, 2:
            return tape.run("squeeze_.dim", tape.run("mm", tape.run("unsqueeze", a, dim=0), b), dim=0)
        case 2, 2:
            return tape.run("mm", a, b)
    if _folds(a, b):
        return _folded(tape, a, b)
    return _batched(tape, a, b)


def _folds(a: TapeValue, b: TapeValue) -> bool:
    """Whether the larger array becomes one matrix, so that no batch of products is needed."""
    larger, smaller = (a, b) if a.ndim >= b.ndim else (b, a)
    if larger.ndim < 3 or smaller.ndim > 2:
        return False
    if smaller.requires_grad:
        return True
    if a.ndim == 2:
        return False
    array = larger.array if a is larger else larger.array.swapaxes(-1, -2)
    return array.size == 0 or np.may_share_memory(array.reshape(-1, array.shape[-1]), array)


def _folded(tape: Tape, a: TapeValue, b: TapeValue) -> TapeValue:
    transposed = b.ndim > a.ndim
    if transposed:
        larger = tape.run("transpose.int", b, dim0=-1, dim1=-2)
        smaller = tape.run("t", a) if a.ndim == 2 else a
    else:
        larger, smaller = a, b
    size = [*larger.shape[:-1], *smaller.shape[1:]]
    rows = reshape(tape, larger, (math.prod(larger.shape[:-1]), larger.shape[-1]))
    product = tape.run("mm" if smaller.ndim == 2 else "mv", rows, smaller)
    result = tape.run("_unsafe_view", product, size=size)
    if not transposed:
        return result
    return contiguous(tape, tape.run("transpose.int", result, dim0=-1, dim1=-2))


def _batched(tape: Tape, a: TapeValue, b: TapeValue) -> TapeValue:
    # torch expands a batch of one matrix only if it needs no gradient. The gradient would have the size of the batch.
    if a.ndim == b.ndim == 3 and a.shape[0] != b.shape[0]:
        if a.shape[0] == 1 and a.requires_grad:
            return matmul(tape, tape.run("squeeze.dim", a, dim=0), b)
        if b.shape[0] == 1 and b.requires_grad:
            return matmul(tape, a, tape.run("squeeze.dim", b, dim=0))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    n, p = (a.shape[-2] if a.ndim > 1 else 1), (b.shape[-1] if b.ndim > 1 else 1)  # (*, n, m) times (*, m, p)
    first = _expanded(tape, a, batch, (n, a.shape[-1]))  # a vector (m,) expands to (*, 1, m), but not to (*, m, 1)
    second = _expanded(tape, b if b.ndim > 1 else tape.run("unsqueeze", b, dim=1), batch, (a.shape[-1], p))
    product = tape.run("bmm", first, second)  # (all of *, n, p)
    if b.ndim == 1:
        product = tape.run("squeeze.dim", product, dim=-1)
    size = [*batch, *([n] if a.ndim > 1 else []), *([p] if b.ndim > 1 else [])]
    return tape.run("_unsafe_view", product, size=size)


def _expanded(tape: Tape, x: TapeValue, batch: Sequence[int], matrix: tuple[int, int]) -> TapeValue:
    wide = tape.run("expand", x, size=(*batch, *matrix))
    return reshape(tape, wide, (math.prod(batch), *matrix))


def einsum_pair(tape: Tape, a: TapeValue, b: TapeValue, dims: tuple[Any, Any]) -> TapeValue:
    """A product over any dimensions of two arrays, computed as by `torch.einsum`.

    Args:
        dims: the dimension numbers of `lax.dot_general`.
    """
    (sum_a, sum_b), (batch_a, batch_b) = dims
    free_a = [d for d in range(a.ndim) if d not in (*sum_a, *batch_a)]
    free_b = [d for d in range(b.ndim) if d not in (*sum_b, *batch_b)]
    batch = [a.shape[d] for d in batch_a]
    total = math.prod(a.shape[d] for d in sum_a)
    rows, columns = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    left = tape.run("permute", a, dims=(*batch_a, *free_a, *sum_a))
    right = tape.run("permute", b, dims=(*batch_b, *sum_b, *free_b))
    left = reshape(tape, left, (math.prod(batch), math.prod(rows), total))
    right = reshape(tape, right, (math.prod(batch), total, math.prod(columns)))
    product = tape.run("bmm", left, right)
    result = tape.run("view", product, size=(*batch, *rows, *columns))
    return tape.run("permute", result, dims=tuple(range(result.ndim)))


def reduced(tape: Tape, x: TapeValue, reduction: str) -> TapeValue:
    """The mean or the sum of a loss, or the loss itself."""
    if reduction == "none":
        return x
    return tape.run("mean" if reduction == "mean" else "sum", x)
