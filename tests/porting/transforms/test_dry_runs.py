"""Constructors that run layers to learn a size: the port has torch's sizes, and uses of values are registered."""

import textwrap

import pytest

from ..ported import check, module, port_text

LAYERS = "self.conv = nn.Conv2d(1, 4, 3, stride=2)\nself.norm = nn.BatchNorm2d(4)\n"
USE = "return self.fc(torch.flatten(self.norm(self.conv(x)), 1))"
INPUT = "torch.randn(2, 1, 9, 11)"
EQUAL = {
    "a shape": ("self.fc = nn.Linear(self.norm(self.conv(torch.zeros(1, 1, 9, 11))).flatten(1).shape[1], 2)", ""),
    "no gradients": (
        """
        with torch.no_grad():
            n = self.conv(torch.zeros(1, 1, 9, 11)).numel()
        self.fc = nn.Linear(n, 2)
    """,
        "",
    ),
    "forward by name": (
        "n = self.conv.forward(torch.zeros(1, 1, 9, 11)).data.view(1, -1).size(1)\nself.fc = nn.Linear(n, 2)",
        "",
    ),
    "a shape of NumPy's": (
        """
        out = self.conv(torch.zeros(1, 1, 9, 11))
        self.fc = nn.Linear(out.cpu().data.numpy().reshape(-1).shape[0], 2)
    """,
        "",
    ),
    "a loop over layers": (
        """
        x = torch.ones((1, 1, 9, 11))
        for layer in [self.conv, nn.ReLU(), self.norm]:
            x = layer(x)
        x = F.relu(x)
        n = 1
        for size in x.shape[1:]:
            n *= size
        self.fc = nn.Linear(n, 2)
    """,
        "",
    ),
    "a helper": (
        "self.fc = nn.Linear(self._size((1, 9, 11)), 2)",
        """
        def _size(self, shape):
            o = self.norm(self.conv(torch.zeros(1, *shape)))
            return int(math.prod(o.size()))
    """,
    ),
    "a helper that returns the output": (
        "out = self._run((1, 9, 11))\nself.fc = nn.Linear(out.view(out.size(0), -1).size(-1), 2)",
        """
        def _run(self, shape):
            return self.conv(torch.zeros(1, *shape))
    """,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUAL)
def test_sizes(name, tmp_path):
    lines, more = EQUAL[name]
    ported, _ = check(tmp_path, module(USE, LAYERS + textwrap.dedent(lines).strip("\n"), more=more), INPUT)
    assert "nn.dry_run(" in ported.text


def test_a_method_that_forward_uses_too(tmp_path):
    more = """
    def features(self, x, double=False):
        return self.deeper(x)

    def deeper(self, x):
        return torch.flatten(self.norm(self.conv(x)), 1)
    """
    lines = LAYERS + "self.fc = nn.Linear(self.features(torch.zeros(1, 1, 9, 11), double=True).shape[1], 2)"
    for ported in check(tmp_path, module("return self.fc(self.features(x))", lines, more=more), INPUT):
        assert 'nn.dry_run(self, jnp.zeros((1, 1, 9, 11)), double=True, method="features").shape[1]' in ported.text
        assert "return self.fc(self.features(x))" in ported.text


def test_several_outputs(tmp_path):
    lines = """
    self.rnn = nn.LSTM(3, 4, batch_first=True)
    y, (h, c) = self.rnn(torch.zeros(2, 5, 3))
    self.fc = nn.Linear(y.shape[-1] + h.size(2), 2)
    """
    text = module("y, (h, c) = self.rnn(x)\nreturn self.fc(torch.cat([y[:, -1], h[0]], 1))", lines)
    check(tmp_path, text, "torch.randn(2, 5, 3)")


def test_a_module_that_runs_itself(tmp_path):
    """As containers do that give each new layer the output's shape of the layers before it."""
    before = """
    class Chain(nn.ModuleDict):
        def __init__(self, shape):
            super().__init__()
            self.shape = shape

        def append(self, width):
            out = self(torch.zeros(self.shape))
            self.add_module(str(len(self)), nn.Linear(out.shape[-1], width))

        def forward(self, x):
            for layer in self.values():
                x = layer(x)
            return x
    """
    lines = "self.chain = Chain([2, 3])\nself.chain.append(5)\nself.chain.append(4)"
    ported, _ = check(tmp_path, module("return self.chain(x)", lines, before=before))
    assert "nn.dry_run(self, jnp.zeros(self.shape))" in ported.text


def test_random_numbers_of_a_dry_run_are_not_registered(tmp_path):
    lines = LAYERS + "self.fc = nn.Linear(self.conv(torch.rand(1, 1, 9, 11)).flatten(1).shape[1], 2)"
    check(tmp_path, module(USE, lines), INPUT)


def test_what_is_not_decided_in_an_argument_stays_registered(tmp_path):
    lines = LAYERS + "self.fc = nn.Linear(self.conv(torch.no_such(1, 1, 9, 11)).numel(), 2)"
    assert port_text(tmp_path, module(USE, lines)).levels == {"blocks"}


def test_layers_without_parameters_are_run(tmp_path):
    """Their output is known, so it can be kept."""
    lines = (
        'self.register_buffer("grid", nn.Upsample(scale_factor=2)(torch.arange(3.0).view(1, 1, 3)), persistent=False)'
    )
    check(tmp_path, module("return x * self.grid[0, 0, :3]", lines))


def test_values_that_are_kept(tmp_path):
    lines = "self.fc = nn.Linear(3, 3)\ny = self.fc(torch.ones(1, 3))\nself.start = nn.Parameter(y.detach() * 2)"
    ported, _ = check(tmp_path, module("return self.fc(x) + self.start", lines), levels={"start differs"})
    (entry,) = ported.entries
    assert entry.text == "y = self.fc(torch.ones(1, 3))" and "nn.Parameter(y.detach() * 2)" in entry.why


@pytest.mark.parametrize(
    "lines",
    [
        "y = self.fc(torch.ones(1, 3))\nself.n = float(y.mean())",
        "self.n = self.fc(torch.ones(1, 3)).mean().item()",
        "self.n = 2 if self.fc(torch.ones(1, 3)).mean() > 0 else 3",
    ],
)
def test_numbers_that_are_computed_from_values_block(lines, tmp_path):
    text = module("return self.fc(x) * self.n", "self.fc = nn.Linear(3, 3)\n" + lines)
    ported = port_text(tmp_path, text, "Net()", "torch.randn(2, 3)")
    assert "blocks" in ported.levels and "a number is computed from its output" in str(ported.entries)
