"""Parameters and buffers in constructors: their initial values, and everything that torch users do to them."""

import jax
import numpy as np
import pytest
import torch

from funcnet.porting.running.loading import load

from ..ported import check, module, port_text


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("nn.Parameter(torch.randn(3, 3))", "nn.Parameter((3, 3), nn.init.normal())"),
        ("nn.Parameter(torch.randn(1, 3) * 0.02)", "nn.Parameter((1, 3), nn.init.normal(std=0.02))"),
        ("nn.Parameter(0.02 * torch.randn(3))", "nn.Parameter(3, nn.init.normal(std=0.02))"),
        ("nn.Parameter(torch.empty(3).normal_())", "nn.Parameter(3, nn.init.normal())"),
        ("nn.Parameter(torch.ones(1, 3))", "nn.Parameter((1, 3), nn.init.ones())"),
        ("nn.Parameter(torch.ones(3, dtype=torch.float64))", "nn.Parameter(jnp.ones(3, jnp.float64))"),
        ("nn.Parameter(torch.zeros(3), requires_grad=False)", "nn.Parameter(3, nn.init.zeros(), requires_grad=False)"),
        (
            "nn.Parameter(torch.rand(3))",
            "nn.Parameter(3, lambda key, shape, dtype: jax.random.uniform(key, shape, dtype))",
        ),
        (
            "nn.Parameter(torch.randn(3) * s)",
            "nn.Parameter(3, lambda key, shape, dtype, s=s: jax.random.normal(key, shape, dtype) * s)",
        ),
    ],
)
def test_written(line, written, tmp_path):
    ported = port_text(tmp_path, module("return x * self.w", f"s = 3\nself.w = {line}"))
    assert f"self.w = {written}\n" in ported.text and not ported.entries


VALUES = {
    "copies": """
        self.h = nn.Linear(3, 3)
        self.k = nn.Linear(3, 3)
        nn.init.eye_(self.h.weight)
        nn.init.constant_(self.h.bias, 0.25)
        for p, q in zip(self.k.parameters(), self.h.parameters()):
            p.data.copy_(q.data)
            p.requires_grad = False
        for name, p in self.h.named_parameters():
            self.register_buffer("ema_" + name, p.clone().detach().data)
        self.register_buffer("row", self.k.weight.data[0].clone())
        self.h.bias.data = self.row.data.clone()
        self.w = nn.Parameter(self.row.detach().clone())
    """,
    "fills": """
        self.w = nn.Parameter(torch.empty(1, 3))
        nn.init.constant_(self.w, 0.5)
        self.w.data.mul_(2.0)
        self.w.data[0, 1] = 7.0
    """,
    "an integer": "self.n = 3\nself.w = nn.Parameter(torch.empty(1, 3).fill_(self.n))",
    "old constructors": "self.w = nn.Parameter(torch.Tensor(1, 3))\nself.w.data.fill_(0.25)\nself.w.data[0].zero_()",
    "layers": """
        self.h = nn.Linear(3, 3)
        self.h.weight.data.copy_(torch.eye(3))
        self.h.bias.data.fill_(0.1)
        self.w = self.h.bias
    """,
    "no_grad": """
        self.h = nn.Linear(3, 3)
        with torch.no_grad():
            self.h.weight.fill_(0.5)
            self.h.bias.zero_()
            self.h.bias[0] = 1.0
            self.h.weight[0].fill_(2.0)
        self.w = self.h.weight
    """,
    "apply": "self.h = nn.Linear(3, 3)\nself.w = nn.Parameter(torch.ones(3))\nself.apply(self._init_weights)",
    "modules": """
        self.h = nn.Linear(3, 3)
        self.w = nn.Parameter(torch.ones(3))
        for m in self.modules():
            if isinstance(m, nn.Linear):
                m.weight.data.fill_(0.02)
                if m.bias is not None:
                    m.bias.data.zero_()
    """,
    "named parameters": """
        self.h = nn.Linear(3, 3)
        self.w = nn.Parameter(torch.ones(3))
        for n, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.eye_(p)
            elif 'bias' in n:
                p.data.fill_(0)
    """,
    "scalars": "self.w = nn.Parameter(torch.ones([]) * math.log(1 / 0.07))\nself.v = nn.Parameter(torch.tensor(0.5))",
    "tied weights": """
        self.h, self.k = nn.Linear(3, 3), nn.Linear(3, 3)
        self.h.weight.data.fill_(0.5)
        self.h.bias.data.zero_()
        self.k.bias.data.zero_()
        self.k.weight = self.h.weight
        self.w = self.k.weight
    """,
    "lists": """
        self.ws = nn.ParameterList([nn.Parameter(torch.full((3,), float(i))) for i in range(2)])
        self.w = self.ws[1]
    """,
    "names made in a loop": """
        for i in range(2):
            setattr(self, f'layer{i}', nn.Linear(3, 3, bias=False))
            self.add_module('extra%d' % i, nn.BatchNorm1d(3))
            getattr(self, f'layer{i}').weight.data.fill_(i)
        self.w = self.layer1.weight
    """,
    "sinusoids": """
        pe = torch.zeros(5, 4)
        position = torch.arange(0, 5, dtype=torch.float).unsqueeze(1)
        div = torch.exp(torch.arange(0, 4, 2).float() * (-math.log(10000.0) / 4))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer('w', pe[:1, :3])
        self.register_buffer('none', None)
        self.register_buffer('mask', torch.tril(torch.ones(3, 3)).bool(), persistent=False)
    """,
}  # fmt: skip
INIT = """
def _init_weights(self, m):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.3)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.constant_(m.bias, 0)
    elif isinstance(m, (nn.LayerNorm, nn.Embedding)):
        nn.init.constant_(m.weight, 1.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_initial_values(name, tmp_path):
    """The weights that the constructor leaves are torch's, by name, and the model computes the same."""
    text = module("return x * self.w.sum()", VALUES[name], more=INIT if name == "apply" else "")
    for ported in check(tmp_path, text, training=(False,)):
        theirs = load(ported.source, "Net").module.Net().state_dict()
        net = load(ported.path, "Net").module.Net()
        ours = net.state_dict(*net.init(jax.random.key(0)))
        assert list(ours) == list(theirs)
        for key, tensor in theirs.items():
            np.testing.assert_allclose(ours[key], tensor.numpy(), rtol=1e-6, err_msg=key)


@pytest.mark.slow
def test_random_initial_values_have_torchs_spread(tmp_path):
    init = """
        self.w = nn.Parameter(torch.FloatTensor(200, 300).uniform_(-0.1, 0.3))
        self.v = nn.Parameter(torch.Tensor(200, 300))
        self.v.data.normal_(1.0, 0.02)
        self.u = nn.Parameter(torch.randn(200, 300) * 0.5 + 2)
    """  # fmt: skip
    ported = port_text(tmp_path, module("return x * self.w.sum()", init))
    assert not ported.entries
    net = load(ported.path, "Net").module.Net()
    params, _ = net.init(jax.random.key(0))
    torch.manual_seed(0)
    for name, tensor in load(ported.source, "Net").module.Net().named_parameters():
        if tensor.numel() > 1:
            np.testing.assert_allclose(params[name].mean(), tensor.mean().item(), atol=0.01)
            np.testing.assert_allclose(params[name].std(), tensor.std().item(), rtol=0.02)


DRAFTS = """
@torch.inference_mode()
def signs_(t):
    return t.bernoulli_(0.5).mul_(2).add_(-1)


def scale_(t, d: int):
    with torch.no_grad():
        return nn.init.uniform_(t, -d, d)


def fill_(x, how, chunks):
    if how == "signs":
        fill = signs_
    else:
        fill = nn.init.normal_
    start = 0
    for size in chunks:
        x.data[..., start : start + size] = fill(torch.empty(*x.shape[:-1], 1))
        start += size
"""


@pytest.mark.slow
def test_drafts(tmp_path):
    """A tensor that is initialised before a parameter takes its values is drawn by `net.init` too."""
    init = """
        self.w = nn.Parameter(torch.empty(200, 3))
        fill_(self.w, "signs", [2, 1])
        self.v = nn.Parameter(nn.init.normal_(torch.empty(200, 3), std=0.5))
        self.u = nn.Parameter(torch.empty(2, 300))
        start = torch.empty(300, dtype=self.u.dtype, device=self.u.device)
        start = scale_(start, 2)
        with torch.no_grad():
            self.u.copy_(start)
        last = torch.empty(4)
        nn.init.ones_(last)
        self.t = nn.Parameter(last)
    """
    lines = "return x * self.w.sum() + self.v.sum() + self.u.sum() + self.t.sum()"
    for ported in check(tmp_path, module(lines, init, before=DRAFTS), training=(False,)):
        assert "self.v = nn.init.normal_(nn.Parameter((200, 3)), std=0.5)" in ported.text
        net = load(ported.path, "Net").module.Net()
        params, _ = net.init(jax.random.key(0))
        w, u = np.asarray(params["w"]), np.asarray(params["u"])
        assert set(np.unique(w)) == {-1.0, 1.0} and (w[:, 0] == w[:, 1]).all() and (w[:, 0] != w[:, 2]).any()
        assert (u[0] == u[1]).all() and 1.9 < abs(u).max() <= 2 and abs(np.std(params["v"]) - 0.5) < 0.1
        np.testing.assert_array_equal(params["t"], np.ones(4))
        assert not np.array_equal(net.init(jax.random.key(1))[0]["w"], w)


def test_drafts_that_are_computed_with_are_arrays(tmp_path):
    init = "start = torch.empty(3)\nself.w = nn.Parameter(start.fill_(2.0) * 2)"
    check(tmp_path, module("return x * self.w", init))
