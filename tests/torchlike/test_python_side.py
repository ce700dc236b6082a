"""Helpers that have no tensors, against torch's."""

import pytest
import torch
from torch.nn.modules.utils import _ntuple

import funcnet.torchlike as tl


@pytest.mark.parametrize("x", [3, 2.5, (1, 2), [1, 2, 3], "ab", None])
def test_ntuple(x):
    assert tl.ntuple(x, 2) == _ntuple(2)(x)


def test_no_context():
    for context in (tl.no_context("cpu", enabled=False), torch.autocast("cpu", enabled=False)):
        with context:
            assert torch.ones(1).dtype == torch.float32
