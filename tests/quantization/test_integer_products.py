"""Exact sums of products of int8: both ways to compute them against NumPy's 64-bit integers and torch."""

import numpy as np
import pytest
import torch

from funcnet.quantization import integer_products
from funcnet.quantization.integer_products import convolve, dot

WAYS = ["", "_in_float32", "_in_integers"]


def extreme(shape, seed):
    """Return values of int8, most of them at the limits, so that sums are large."""
    rng = np.random.default_rng(seed)
    return np.where(rng.uniform(size=shape) < 0.9, -128, rng.integers(-128, 128, shape)).astype(np.int8)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("terms", [1, 1024, 1025, 5000])
def test_dot(way, terms):
    x, weight = extreme((3, 2, terms), 0), extreme((7, terms), 1)
    ours = (getattr(integer_products, f"_dot{way}") if way else dot)(x, weight)
    np.testing.assert_array_equal(ours, x.astype(np.int64) @ weight.T.astype(np.int64))


@pytest.mark.parametrize("way", [*WAYS, "_in_int32"])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("channels, kernel", [(6, (3, 2)), (600, (3, 3))])
@pytest.mark.parametrize("stride, dilation", [((1, 1), (1, 1)), ((2, 1), (1, 2))])
def test_convolve(way, groups, channels, kernel, stride, dilation):
    x, weight = extreme((2, channels, 8, 9), 0), extreme((3, channels // groups, *kernel), 1)
    function = getattr(integer_products, f"_convolve{way}") if way else convolve
    right = torch.nn.functional.conv2d(
        torch.from_numpy(x).double(), torch.from_numpy(weight).double(), None, stride, 0, dilation, groups
    )
    np.testing.assert_array_equal(function(x, weight, stride, dilation, groups), right.numpy())


def test_a_kernel_of_more_positions_than_float32_holds():
    x, weight = extreme((1, 1, 1, 2500), 0), extreme((2, 1, 1, 1100), 1)
    right = torch.nn.functional.conv2d(torch.from_numpy(x).double(), torch.from_numpy(weight).double(), None, 700)
    np.testing.assert_array_equal(convolve(x, weight, (700, 700), (1, 1), 1), right.numpy())
