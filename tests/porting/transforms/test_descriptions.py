"""Buffers that a constructor computes with."""

import pytest

from ..ported import check, module

INIT = """
self.register_buffer("index", torch.tensor([2, 0]))
self.register_buffer("freqs", torch.arange(3.0) + 1)
rest = []
for i in range(3):
    if not i in self.index:
        rest += [i]
self.register_buffer("rest", torch.tensor(rest))
order = torch.cat((self.index, self.rest))
inverse = torch.zeros_like(order)
for i in range(len(order)):
    inverse[order[i]] = i
self.register_buffer("inverse", inverse)
self.register_buffer("outer", self.freqs[None, :] * self.freqs.view(-1, 1) + torch.outer(self.freqs, self.freqs))
self.register_buffer("picked", self.outer[:, self.index].cumsum(0))
self.count = int(self.index[0]) + len(self.index) + self.index.shape[0]
self.largest = max(float(one) for one in self.freqs)
self.register_buffer("copy", self.freqs.clone())
self.freqs.mul_(2.0)
self.copy[0] = 5.0
if self.freqs is not None:
    self.copy.data[1:].fill_(3.0)
"""


@pytest.mark.slow
def test_equal(tmp_path):
    lines = "x = x[:, self.inverse] * self.copy + self.freqs @ self.outer\nx = x @ self.picked"
    lines += "\nreturn x * self.count + self.largest"
    with_run, _ = check(tmp_path, module(lines, INIT))
    assert "order = jnp.concatenate((self.index.value, self.rest.value))" in with_run.text
    assert (
        "if not i in self.index.value:" in with_run.text and "+ len(self.index) + self.index.shape[0]" in with_run.text
    )
    assert "self.freqs.mul_(2.0)" in with_run.text and 'buffer("copy", self.freqs.clone())' in with_run.text


@pytest.mark.parametrize("value", ["torch.tensor(2.0)", "2.0"])
def test_an_attribute_that_may_be_a_number(value, tmp_path):
    before = """
    class Inner(nn.Module):
        def __init__(self, by=1.0):
            super().__init__()
            if torch.is_tensor(by):
                self.register_buffer("by", by)
            else:
                self.by = by

        def forward(self, x):
            return x * self.by
    """
    with_run, _ = check(tmp_path, module("return self.inner(x)", f"self.inner = Inner({value})", before=before))
    assert ".value" not in with_run.text
