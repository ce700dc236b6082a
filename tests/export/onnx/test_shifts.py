"""Shifts of every integer dtype, by no place, by some, by all and by more, against Python's integers."""

import jax
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, graph_of, run

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def truth(name, x, by, bits):
    """The shift of a Python integer, in two's complement of so many bits."""
    by = by % 2**bits  # negative places are large ones
    value = x % 2**bits
    if name == "shift_left":
        return value << min(by, bits)
    if name == "shift_right_logical":
        return value >> by
    return (value - 2**bits if value >= 2 ** (bits - 1) else value) >> by


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["shift_left", "shift_right_logical", "shift_right_arithmetic"])
def test_shifts(name, dtype):
    limits = np.iinfo(dtype)
    numbers = [0, 1, 5, limits.max, limits.max - 1, limits.max // 3, limits.min, limits.min // 3]
    counts = [0, 1, 3, limits.bits - 1, limits.bits, limits.bits + 1, 100, limits.max, limits.min, -1 % limits.max]
    x = np.repeat(np.array(numbers, dtype), len(counts))
    by = np.tile(np.array(counts, dtype), len(numbers))
    with jax.enable_x64(True):
        (got,) = run(graph_of(getattr(lax, name), [x, by], rewritten=True), [x, by])
        theirs = np.asarray(getattr(lax, name)(x, by))
    expected = [truth(name, int(a), int(b), limits.bits) % 2**limits.bits for a, b in zip(x, by, strict=True)]
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.view(f"uint{limits.bits}"), np.array(expected, f"uint{limits.bits}"))
    np.testing.assert_array_equal(got, theirs)


def test_a_shift_by_one_number():
    x = np.arange(-12, 12, dtype=np.int32).reshape(4, 6)
    agrees(lambda x: (x >> 2, x << 3, x // 4 == x >> 2), x, dynamic="n, _", others=[x[:2]])
