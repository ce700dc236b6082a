"""The plan of circular padding, which torch computes by copying slices into an empty tensor.

Reference: aten/src/ATen/native/PadNd.cpp, `_pad_circular_symint`.
"""

from collections.abc import Sequence

import numpy as np

from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue

__all__ = ["circular"]


def circular(tape: Tape, x: TapeValue, pad: Sequence[int]) -> TapeValue:
    """Pad with the entries of the other end. `pad` has two numbers for each dimension, the last dimension first."""
    sides = [(x.ndim - 1 - n, pad[2 * n], pad[2 * n + 1]) for n in range(len(pad) // 2)]
    shape = list(x.shape)
    for dim, left, right in sides:
        shape[dim] += left + right
    middle, part = [slice(None)] * x.ndim, x
    for dim, left, right in sides:
        middle[dim] = slice(max(left, 0), shape[dim] - max(right, 0))
        start, end = max(-left, 0), x.shape[dim] - max(-right, 0)
        part = tape.run("slice.Tensor", part, dim=dim, start=start, end=end, step=1)
    padded = _copied(tape, TapeValue(np.zeros(shape, x.dtype)), tuple(middle), part)
    for dim, left, right in sides:
        before, after = max(left, 0), shape[dim] - max(right, 0)
        if left > 0:
            padded = _copied_slice(tape, padded, dim, (0, left), (after - left, after))
        if right > 0:
            padded = _copied_slice(tape, padded, dim, (after, shape[dim]), (before, before + right))
    return padded


def _copied_slice(tape: Tape, base: TapeValue, dim: int, to: tuple[int, int], source: tuple[int, int]) -> TapeValue:
    part = tape.run("slice.Tensor", base, dim=dim, start=source[0], end=source[1], step=1)
    return _copied(tape, base, (slice(None),) * dim + (slice(*to),), part)


def _copied(tape: Tape, base: TapeValue, where: tuple[slice, ...], part: TapeValue) -> TapeValue:
    array = base.array.copy()
    array[where] = part.array
    return tape.node("CopySlices", [base.edge, part.edge], [array])[0]
