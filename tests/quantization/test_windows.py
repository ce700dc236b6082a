"""Checks of stride, padding and dilation, and the number of windows, which is torch's."""

import pytest
import torch

from funcnet.quantization.windows import as_padding, as_sizes, window_counts


@pytest.mark.parametrize(
    "kernel, stride, padding, dilation", [((3, 2), (2, 1), (1, 0), (1, 3)), ((1, 5), (3, 4), (0, 2), (1, 2))]
)
def test_the_number_of_windows_is_torch_s(kernel, stride, padding, dilation):
    right = torch.nn.functional.conv2d(
        torch.zeros(1, 1, 11, 14), torch.zeros(1, 1, *kernel), None, stride, padding, dilation
    )
    pads = as_padding("conv", padding, 2)
    assert window_counts("conv", (11, 14), kernel, stride, pads, dilation) == right.shape[2:]


def test_forms_of_padding():
    assert as_padding("conv", 2, 2) == as_padding("conv", [2, (2, 2)], 2) == ((2, 2), (2, 2))
    assert as_padding("conv", [(0, 3)], 1) == ((0, 3),)


@pytest.mark.parametrize("bad", [-1, (1, 2, 3), [(1, 2, 3), 1], [(-1, 0), 0]])
def test_bad_padding(bad):
    with pytest.raises(ValueError, match="conv: bad padding; expected an integer >= 0, or a sequence of length 2 of"):
        as_padding("conv", bad, 2)


@pytest.mark.parametrize("bad", [0, (1,), (1, 0), (1, 1, 1)])
def test_bad_sizes(bad):
    with pytest.raises(ValueError, match="conv: bad stride; expected 2 positive integers or one"):
        as_sizes("conv", "stride", bad, 2)


def test_no_window():
    with pytest.raises(
        ValueError, match=r"kernel is larger than the padded input; expected at least \(5,\), got \(4,\)"
    ):
        window_counts("conv", (2,), (3,), (1,), ((1, 1),), (2,))
