"""The comparison without `jit`: equal models have no difference, others have one."""

import jax
import pytest
import torch

from funcnet import nn
from funcnet.porting.proving.eager_proof import NOT_TRACED, eager_differences


class Theirs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x, *, scale):
        return {"y": self.fc(self.norm(x)) * scale if x.sum() > 1000 else -self.fc(self.norm(x)), "count": x > 0}


class Ours(nn.Module):
    def __init__(self, sign=-1):
        super().__init__()
        self.norm, self.fc, self.sign = nn.BatchNorm1d(3), nn.Linear(3, 2), sign

    def forward(self, x, *, scale):
        return {"y": self.fc(self.norm(x)) * (scale if x.sum() > 1000 else self.sign), "count": x > 0}


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True])
def test_differences(training):
    x, scale = torch.randn(4, 3), torch.ones(())
    theirs = Theirs()
    for double in (False, True):
        with jax.enable_x64(double):
            found = eager_differences(torch, theirs, Ours(), (x,), {"scale": scale}, training, double)
            assert found.largest < (1e-12 if double else 1e-5)
            wrong = eager_differences(torch, theirs, Ours(1), (x,), {"scale": scale}, training, double)
    assert wrong.forward > 1 and wrong.gradients > 1 and wrong.buffers < 1e-12


def test_what_jit_refuses():
    with pytest.raises(NOT_TRACED):
        jax.jit(lambda x: x if x > 0 else -x)(1.0)


@pytest.mark.slow
def test_a_gradient_that_is_zero_but_for_rounding():
    """A bias before BatchNorm: its gradient is compared in units of the gradient of the layer's weight."""
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8))
    ours = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8))
    with jax.enable_x64(True):
        found = eager_differences(torch, theirs, ours, (torch.randn(64, 3),), {}, True, True)
    assert found.largest < 1e-12
