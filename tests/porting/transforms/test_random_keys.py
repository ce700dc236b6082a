"""Random numbers: every kind of function gets its keys, and draws what torch draws with the same uniform numbers."""

import pytest

from ..ported import check, module, port_text

FREE = """
def free(t, p=0.1):
    return t * inner(t, p=p)

def inner(t, *, p):
    if p == 0:
        return t
    r = 1 - p + torch.rand((t.shape[0],) + (1,) * (t.ndim - 1), dtype=t.dtype, device=t.device)
    r.floor_()
    return t.div(1 - p) * r
"""
EQUAL = {
    "free functions": ("return free(x), free(x, p=0.5)", FREE, ""),
    "functions inside": (
        """
        def noise(t, scale=1.0):
            return t + torch.randn_like(t) * scale
        f = lambda t: t + torch.rand_like(t)
        return noise(x), f(x), [torch.rand(1) * x for _ in range(2)]
    """,
        "",
        "",
    ),
    "static and class methods": (
        "return self.stat(x), Net.stat(x), self.cls_(x)",
        "",
        """
        @staticmethod
        def stat(t):
            return t * torch.rand(3)

        @classmethod
        def cls_(cls, t):
            return cls.stat(t) * torch.rand(3)
    """,
    ),
    "methods": (
        """
        y = x
        for _ in range(2):
            y = self.noise(y)
        return y
    """,
        "",
        """
        def noise(self, t):
            return t + torch.randn_like(t)
    """,
    ),
    "gumbel noise": (
        """
        u = torch.rand_like(x).clamp(1e-9, 1)
        g = -torch.log(-torch.log(u))
        return F.softmax((x + g) / 0.5, dim=-1)
    """,
        "",
        "",
    ),
    "dropout": (
        """
        a, b = F.dropout(x), F.dropout(x, 0.3, self.training)
        return a, b, F.dropout(x, p=0.2, training=self.training)
    """,
        "",
        "",
    ),
    "no dropout": ("return F.dropout(x, 0.0), F.dropout(x, 0.5, training=False)", "", ""),
    "filled tensors": (
        """
        a, b = torch.empty_like(x).normal_(), x.new_empty(2, 1).bernoulli_(0.8)
        return a * x, b * x, torch.empty(2, 3).uniform_(-1, 1) * x
    """,
        "",
        "",
    ),
    "shapes": (
        """
        a = torch.randn(x.shape) * x + torch.randn(*x.shape) + torch.randn(x.size(0), 1)
        return a + torch.normal(0.0, 2.0, size=(2, 3))
    """,
        "",
        "",
    ),
    "integers": (
        """
        a = torch.bernoulli(torch.full_like(x, 0.3))
        return x[torch.randperm(2)], x * torch.randint(0, 3, (3,)), x * a
    """,
        "",
        "",
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name, tmp_path):
    forward, before, more = EQUAL[name]
    check(tmp_path, module(forward, before=before, more=more))


def test_drop_path(tmp_path):
    before = """
    def drop_path(x, drop_prob: float = 0., training: bool = False, scale_by_keep: bool = True):
        if drop_prob == 0. or not training:
            return x
        keep_prob = 1 - drop_prob
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)  # all dimensions
        random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
        if keep_prob > 0.0 and scale_by_keep:
            random_tensor.div_(keep_prob)
        return x * random_tensor

    class DropPath(nn.Module):
        def __init__(self, drop_prob: float = 0., scale_by_keep: bool = True):
            super(DropPath, self).__init__()
            self.drop_prob = drop_prob
            self.scale_by_keep = scale_by_keep

        def forward(self, x):
            return drop_path(x, self.drop_prob, self.training, self.scale_by_keep)

        def extra_repr(self):
            return f'drop_prob={round(self.drop_prob,3):0.3f}'
    """
    check(tmp_path, module("return x + self.dp(x)", "self.dp = DropPath(0.5)", before=before))


def test_draws_that_python_reads_are_eager(tmp_path):
    lines = """
        if self.training and torch.rand(1).item() < 0.7:
            x = x * 2
        if torch.rand(1) < 0.1:
            x = x + 1
        return x
    """
    check(tmp_path, module(lines), levels={"eager only"})


def test_random_numbers_of_python_stay(tmp_path):
    lines = "if self.training and random.random() < 2:\n    x = x * 2\nreturn x"
    check(tmp_path, module(lines, before="import random"))


def test_an_object_without_keys_goes_to_the_register(tmp_path):
    before = "class Helper:\n    def noise(self, x):\n        return x + torch.randn_like(x)"
    ported = port_text(tmp_path, module("return Helper().noise(x)", before=before), "Net()", "torch.randn(2, 3)")
    assert [one.why for one in ported.entries] == ["Random numbers are drawn where no key can be made."]


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("torch.empty(2, 3).normal_()", "jax.random.normal(self.make_rng(), (2, 3))"),
        ("torch.empty(2, 3).uniform_()", "jax.random.uniform(self.make_rng(), (2, 3))"),
        ("F.dropout(x, 0.5)", "F.dropout(x, 0.5, rng=self.make_rng())"),
        ("F.dropout(x, 0.0)", "F.dropout(x, 0.0)"),
    ],
)
def test_written(line, written, tmp_path):
    assert f"return {written}" in port_text(tmp_path, module(f"return {line}")).text


def test_a_key_gets_a_line_of_its_own_where_the_arguments_have(tmp_path):
    text = port_text(tmp_path, module("return F.dropout(\n    x,\n    0.5,\n)")).text
    assert "F.dropout(\n            x,\n            0.5,\n            rng=self.make_rng(),\n        )\n" in text


def test_an_array_that_a_constructor_fills(tmp_path):
    """It is no draft, because it becomes a parameter in another form. A parameter keeps the call."""
    init = """
    start = torch.empty(2, 3)
    nn.init.uniform_(start, -0.5, b=0.5)
    self.w = nn.Parameter(start.repeat(2, 1))
    nn.init.normal_(self.w, std=0.1)
    """
    with_run, _ = check(tmp_path, module("return x @ self.w.T", init), levels={"start differs"})
    drawn = "start = nn.init.uniform(-0.5, b=0.5)(jax.random.key(0), start.shape, start.dtype)"
    assert drawn in with_run.text and "nn.init.normal_(self.w, std=0.1)" in with_run.text
