"""Changes in place: what stands for them in small modules, and that these equal torch's."""

import pytest

from ..ported import check, compared, module, port_text

BUFFER = 'self.register_buffer("mean", torch.zeros(3))'

EQUAL = {
    "statements": ("y = x.clone()\ny.mul_(2).add_(x, alpha=0.5).clamp_(min=0)\ny.t_()\nreturn y", ""),
    "read afterwards": ("y = x.add_(1)\nz = x * 2\nreturn y, z", ""),
    "in an expression": ("return F.relu(x.sub_(0.5)) + x", ""),
    "in a test": ("if x.shape[0] > 1 and x.add_(1) is not None:\n    x = x * 2\nreturn x", ""),
    "returned": ("return x.mul_(2)", ""),
    "a view under the same name": ("x = x.view(-1, 3)\nx.add_(1)\nx.unsqueeze_(0)\nx.transpose_(1, 2)\nreturn x", ""),
    "items of a list": ("xs = [x.clone(), x * 2]\nxs[0].add_(1)\nxs[1] += 3\nreturn xs", ""),
    "items of a dict": ("d = {'a': x * 1}\nd['a'].mul_(2)\nd['a'] *= 2\nreturn d['a']", ""),
    "a part": ("y = x * 1\ny[0].add_(1)\ny[:, 1].mul_(2).sub_(x[:, 0])\ny[1, 2].fill_(7.0)\nreturn y", ""),
    "a part in an assignment": ("y = x[0].add_(1)\nreturn x, y", ""),
    "a buffer": ("self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)\nreturn x + self.mean", BUFFER),
    "a buffer in an assignment": ("y = self.mean.add_(1)\nreturn x + self.mean + y", BUFFER),
    "a returned buffer": ("return self.mean.add_(1)", BUFFER),
    "operators": ("a = x * 1\na -= 1\na *= 2\na /= 3\na **= 2\nm = x > 0\nm &= x < 1\nm |= x > 2\nreturn a, m", ""),
    "a comprehension": ("return [t.mul_(2) for t in [x * 1, x * 2]]", ""),
    "functions of torch": ("""
        q = x + 0
        torch.relu_(q)
        r = x + 0
        torch.clamp_(r, min=0)
        o = torch.sigmoid_(r)
        return q, r, o
    """, ""),
    "functions of F": ("g = x - 1\nF.relu_(g)\nk = x + 0\nF.leaky_relu_(k, 0.2)\nreturn g, k", ""),
    "inplace=True": ("h = x * 2\nF.relu(h, inplace=True)\nreturn h, F.elu(x + 0, inplace=True)", ""),
    "inplace=True, read afterwards": ("t = x + 0\nu = F.relu(t, True)\nw = t * 1\nreturn u, w", ""),
    "inplace=False": ("t = x + 0\nF.relu(t, inplace=False)\nF.relu(t)\nreturn t", ""),
    "dropout": ("v = x + 0\nF.dropout(v, 0.5, self.training, True)\nreturn v", ""),
    "a plain layer": ("h = x * 2\nself.act(h)\nreturn h", "self.act = nn.ReLU()"),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name, tmp_path):
    forward, init = EQUAL[name]
    check(tmp_path, module(forward, init))


def test_an_in_place_layer(tmp_path):
    """Its output is changed by its caller, so gradients of the layer's output are not compared."""
    lines = "h = x * 2\nself.act(h)\nk = x - 1\ny = self.act(k)\nreturn h, y + k"
    ported = port_text(tmp_path, module(lines, "self.act = nn.ReLU(inplace=True)"), "Net()", "torch.randn(2, 3)")
    assert "h = self.act(h)" in ported.text and "y = (k := self.act(k))" in ported.text
    compared(ported, "Net()", "torch.randn(2, 3)", eager=True)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("x.add_(1)", "x = x + 1"),
        ("y = x.add_(1)", "y = (x := x + 1)"),
        ("x = x.add_(1)", "x = x + 1"),
        ("F.relu(x, inplace=True)", "x = F.relu(x)"),
        ("F.relu_(x)", "x = F.relu(x)"),
        ("y = self.mean.add_(1)", "y = self.mean = self.mean + 1"),
        ("x[0].add_(1)", "x = x.at[0].set(x[0] + 1)"),
    ],
)
def test_written(line, written, tmp_path):
    ported = port_text(tmp_path, module(f"y = x\n{line}\nreturn x", BUFFER))
    assert f"        {written}\n" in ported.text and not ported.entries


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("return x.relu() + self.mean.add_(1)", "self.mean is changed inside"),
        ("y = x * 1\ny.data.clamp_(min=0)\nreturn y", "without its gradient"),
        ("y = x * 1\ny.data = y.data * 2\nreturn y", "An attribute of a tensor is assigned"),
        ("return F.rrelu_(x)", "There is no rule for torch.nn.functional.rrelu_"),
    ],
)
def test_not_decided(lines, why, tmp_path):
    ported = port_text(tmp_path, module(lines, BUFFER), "Net()", "torch.randn(2, 3)")
    assert any(why in entry.why for entry in ported.entries if entry.level == "blocks"), ported.text


def test_a_buffer_that_is_copied_into(tmp_path):
    text = module("self.mean.data.copy_(x.detach().mean(0))\nreturn x + self.mean", BUFFER)
    with_run, _ = check(tmp_path, text)
    assert "self.mean = jax.lax.stop_gradient(jnp.broadcast_to(" in with_run.text


@pytest.mark.parametrize(
    "change", ["F.relu(t, inplace=True)", "F.relu(t, True)", "F.leaky_relu(t, 0.2, True)", "relu_(t)", "other(t)"]
)
def test_a_function_whose_only_change_is_a_call_of_torch(change, tmp_path):
    before = f"from torch import relu_\nfrom torch import sigmoid_ as other\n\ndef act(t):\n    {change}\n"
    check(tmp_path, module("act(x)\nreturn x", before=before))
