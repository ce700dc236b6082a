"""Outputs move where another name holds the tensor that a statement changes, and only there."""

import ast
import textwrap

import pytest
import torch

from funcnet.porting.proving.rebinding import rebind
from funcnet.porting.running.loading import construct, forward, load

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU(inplace=True)
        self.first = nn.ReLU(True)
        self.options = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1, True), nn.LeakyReLU(0.2, inplace=True))
        self.register_buffer("seen", torch.zeros(4))
        self.seen += 1

    def forward(self, x):
"""
# Bodies of forward in which the changed tensor has one name.
ALONE = {
    "augmented": "y = x * 2\ny += x\ny *= 3\ny -= 1\ny /= 2\ny **= 2\nreturn y",
    "method": "y = x * 2\ny.add_(x)\ny.mul_(2).sub_(1)\ny.clamp_(min=0.5)\ny.masked_fill_(y > 1, 0)\nreturn y",
    "copy": "y = torch.empty_like(x)\ny.copy_(x)\ny.zero_()\ny.fill_(3.0)\nreturn y",
    "value": "y = x * 2\nz = y.mul_(2) + y\nreturn z, y",
    "items": "y = torch.zeros(2, 4)\nfor i in range(2):\n    y[i] = x[i] * i\ny[:, 1] += 2\ny[0][1] = 5\nreturn y",
    "dtype": "y = torch.zeros(2, 4)\ny += x.double()\nreturn y",
    "list": "y = []\ny += [x, x]\nkept = {}\nkept['a'] = x\nkept['a'] = x + 1\nn = 1\nn += 2\nreturn y, kept, n",
    "tuple": "y = (x,)\ny += (x,)\ny = list(y)\ny[0] = x + 1\nreturn y",
    "buffer": "self.seen += 2\nreturn self.seen * x",
    "closure": "y = x * 2\ndef change():\n    y[0] = 1.0\n    y.add_(1)\nchange()\nreturn y",
    "comprehension": "ys = [x * i for i in range(3)]\n[y.add_(1) for y in ys]\nreturn ys",
    "functional": "y = F.relu(x * 2, True)\nF.relu_(y)\ntorch.relu_(y)\ny = F.elu(y, 1.0, inplace=True)\nreturn y",
    "layers": "return self.act(x * 1), self.first(x * 1), self.options(x * 1)",
    "nested": "y = x * 1\nif y.sum() > -1e9:\n    with torch.no_grad():\n        y += 1\nreturn y",
}
# Bodies in which another name, or a view, holds the tensor.
SHARED = {
    "augmented": "y = x * 2\nz = y\ny += 1\nreturn z",
    "method": "y = x * 2\nz = y\ny.add_(1)\nreturn z",
    "value": "y = x * 2\nz = y\nw = y.mul_(3)\nreturn z + w",
    "items": "y = x * 2\nz = y\ny[0] = 7.0\nreturn z",
    "view": "y = x * 2\nz = y[0]\nz += 1\nreturn y",
    "inplace layer": "y = x * 1\nz = self.act(y)\nreturn y + z",
    "inplace by position": "y = x * 1\nz = self.first(y)\nreturn y + z",
    "inplace function": "y = x * 1\nz = F.relu(y, inplace=True)\nreturn y + z",
    "function with an underscore": "y = x * 1\nz = y\nF.relu_(y)\nreturn z",
    "parameter of a function": "def change(t):\n    t += 1\n    return t\ny = x * 2\nchange(y)\nreturn y",
    "attribute": "z = self.seen\nself.seen += 1\nreturn z",
    "default": "def act(t, inplace=True):\n    return F.relu(t, inplace=inplace)\ny = x * 1\nz = act(y)\nreturn y + z",
    "dictionary": "y = x * 1\nz = F.relu(y, **{'inplace': True})\nreturn y + z",
}


def outputs(tmp_path, body):
    """What the model gives as it stands, and rebound. Each run has its own model with the same weights."""
    (tmp_path / "net.py").write_text(HEAD + textwrap.indent(body, " " * 8) + "\n")
    found = []
    for transform in (None, lambda _, tree: rebind(tree)):
        torch.manual_seed(0)
        loaded = load(tmp_path / "net.py", "Net", transform=transform)
        model = construct(loaded).eval()
        x = torch.linspace(-1, 1, 8).reshape(2, 4)
        found.append(torch.utils._pytree.tree_leaves(forward(loaded, model, (x,), {})))
    return found


@pytest.mark.parametrize("name", ALONE)
def test_outputs_stay_where_the_tensor_has_one_name(name, tmp_path):
    plain, rebound = outputs(tmp_path, ALONE[name])
    for one, other in zip(plain, rebound, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
        assert getattr(one, "dtype", None) == getattr(other, "dtype", None)


@pytest.mark.parametrize("name", SHARED)
def test_outputs_move_where_another_name_holds_the_tensor(name, tmp_path):
    plain, rebound = outputs(tmp_path, SHARED[name])
    assert any(not torch.equal(one, other) for one, other in zip(plain, rebound, strict=True))


def test_constructors_and_names_of_other_scopes_are_left_alone():
    text = textwrap.dedent("""
        table = {}
        def remember(key, value):
            table[key] = value
            global count
            count.add_(1)
        def reset_parameters(self):
            w = self.weight
            w.zero_()
        class A:
            n = 1
            def __init__(self, w):
                w += 1
        """)
    assert ast.unparse(rebind(ast.parse(text))) == ast.unparse(ast.parse(text))
