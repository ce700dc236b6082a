"""Dimensions, sizes and dtypes as torch reads them."""

import itertools

import jax.numpy as jnp
import pytest
import torch

from funcnet.torchlike import arguments
from tests.database.convert import DTYPES

ALL = [torch.bool, torch.uint8, torch.int8, torch.int32, torch.float16, torch.bfloat16, torch.float32, torch.complex64]


@pytest.mark.parametrize("first", ALL)
def test_common_dtype_is_torchs(first):
    for second in ALL:
        if {first, second} == {torch.float16, torch.complex64}:
            continue
        want = DTYPES[torch.result_type(torch.ones(2, dtype=first), torch.ones(2, dtype=second))]
        got = arguments.common_dtype(jnp.ones(2, DTYPES[first]), jnp.ones(2, DTYPES[second]))
        assert got == want, (first, second)
    for number in (True, 2, 0.5, *[1j] * (first is not torch.float16)):  # JAX has no complex numbers of float16
        want = DTYPES[torch.result_type(torch.ones(2, dtype=first), number)].replace("int64", "int32")
        assert arguments.common_dtype(jnp.ones(2, DTYPES[first]), number) == want, (first, number)


def test_dimensions():
    assert [arguments.axis_of("f", d, 3) for d in range(-3, 3)] == [0, 1, 2, 0, 1, 2]
    assert arguments.axis_of("f", -1, 0) == arguments.axis_of("f", 0, 0) == 0
    for dim, ndim in ((3, 3), (-4, 3), (1, 0), (-2, 0)):
        with pytest.raises(ValueError, match="f: dim is out of range"):
            arguments.axis_of("f", dim, ndim)
    assert arguments.axes_of("f", (), 2) == arguments.axes_of("f", None, 2) == (0, 1)
    assert arguments.axes_of("f", [-1], 2) == (1,) and arguments.axes_of("f", 0, 0) == ()
    with pytest.raises(ValueError, match="twice"):
        arguments.axes_of("f", (1, -1), 2)
    with pytest.raises(TypeError):
        arguments.axis_of("f", 1.0, 3)


def test_sizes():
    for given in ((2, 3), ((2, 3),), ([2, 3],), (torch.Size([2, 3]),)):
        assert arguments.sizes_of("f", given) == (2, 3)
    assert not any(arguments.sizes_of("f", empty) for empty in itertools.chain(((), ((),))))
