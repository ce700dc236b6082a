"""Functions that change running statistics: outputs, gradients and buffers against torch."""

import pytest

from ..ported import check, module, port_text

BUFFERS = """
self.register_buffer("running_mean", torch.zeros(3))
self.register_buffer("running_var", torch.ones(3))
self.flag = True
"""
STATS = "self.running_mean, self.running_var"
CHOSEN = ", ".join(f"self.running_{one} if not self.training or self.flag else None" for one in ("mean", "var"))

EQUAL = {
    "none": "w = self.scale.repeat(3)\nx = F.batch_norm(x, None, None, w, training=True)\nreturn x * 2",
    "none given": "return F.instance_norm(x[:, :, None] * torch.arange(4.0))",
    "not in training": f"return F.relu(F.batch_norm(x, {STATS}))",
    "assigned": f"x = F.batch_norm(x, {STATS}, training=self.training, momentum=0.3)\nreturn x",
    "returned": f"return F.batch_norm(x, {STATS}, None, None, self.training, 0.1, 1e-3)",
    "inside": f"# Why.\ny = torch.relu(F.batch_norm(x, {STATS}, training=True)) + x\nreturn y",
    "chosen": f"return F.batch_norm(x, {CHOSEN}, training=self.training or not self.flag)",
    "names that are taken": f"normalized = x * 2\nnew_mean = x + 1\n"
    f"return normalized + new_mean + F.batch_norm(x, {CHOSEN}, training=True)",
    "local": "m = self.running_mean.repeat(2)\nv = self.running_var.repeat(2)\n"
    "y = F.batch_norm(torch.cat([x, x * 2], 1), m, v, training=True)\nreturn y, m, v",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUAL)
def test_equal(name, tmp_path):
    check(tmp_path, module(EQUAL[name], BUFFERS), "torch.randn(4, 3)")


def test_what_is_written(tmp_path):
    assert f"x, {STATS} = F.batch_norm(" in port_text(tmp_path, module(EQUAL["assigned"], BUFFERS)).text
    text = port_text(tmp_path, module(EQUAL["chosen"], BUFFERS)).text
    assert f"if new_mean is not None:\n            {STATS} = new_mean, new_var\n" in text


def test_not_decided(tmp_path):
    lines = f"return F.batch_norm(x, {STATS}, training=True) if self.flag else x"
    entries = port_text(tmp_path, module(lines, BUFFERS)).entries
    assert [one.level for one in entries] == ["blocks"] and "not assigned" in entries[0].why
