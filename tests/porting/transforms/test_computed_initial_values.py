"""Constructors that compute with the initial values of parameters."""

import jax
import numpy as np
import pytest

from funcnet.porting.running.loading import load

from ..ported import check, module

WRITTEN = {
    "index": "self.w.data[:] = weight",
    "copy": "self.w.data.copy_(weight)",
    "no_grad": "with torch.no_grad():\n    self.w.copy_(weight)",
}


@pytest.mark.slow
@pytest.mark.parametrize("first", ["torch.cumsum(self.w.data, dim=0)", "self.w.data.cumsum(0)"])
@pytest.mark.parametrize("how", WRITTEN)
def test_a_value_that_is_written_back(first, how, tmp_path):
    init = f"""
n = 5
self.w = nn.Parameter(torch.arange(15.0).view(5, 3))
weight = {first}
weight = weight / torch.arange(1, n + 1).to(weight).sqrt()[:, None]
{WRITTEN[how]}
self.w.data /= 2
"""
    for ported in check(tmp_path, module("return x * self.w.sum(0)", init)):
        assert "weight = self.w.data.clone().change(lambda w: " in ported.text
        assert "weight = weight.clone().change(lambda weight, n=n: weight / " in ported.text
        theirs = load(ported.source, "Net").module.Net().w.detach().numpy()
        net = load(ported.path, "Net").module.Net()
        np.testing.assert_allclose(net.init(jax.random.key(0))[0]["w"], theirs, rtol=1e-6)


def test_several_steps(tmp_path):
    init = """
        self.w = nn.Parameter(torch.arange(15.0).view(5, 3))
        new = self.w.data * 2
        new = new + 1
        new = torch.flip(new, [0])
        self.w.data.copy_(new)
    """
    check(tmp_path, module("return x * self.w.sum(0)", init))
