"""`torch.no_grad` and other context managers and decorators: values and gradients are torch's."""

import pytest

from ..ported import check, module, port_text

BUFFERS = """
self.register_buffer("mean", torch.zeros(3))
self.register_buffer("rows", torch.zeros(2, 3))
self.register_buffer("count", torch.tensor(0))
"""

EQUAL = {
    "buffers": """
        with torch.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.rows[0] = x[0]
            self.rows[1].copy_(x[1])
            self.rows[1, 0] += x.sum()
            self.count += 1
        return x * self.mean, self.rows * x, self.count""",
    "an exponential moving average": """
        if self.training:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), 0.1)
                self.rows = self.rows * 0.5 + x * 0.5
        return x * self.mean + self.rows""",
    "values": """
        with torch.no_grad():
            t = x.mean()
            u, v = x.max(), x.min()
            w = torch.zeros(3)
            w[0] = x.sum()
            w += x.sum(0)
            a: Tensor = x * 2
            if (b := x.sum()) is not None:
                same = x
        return t * x, u * x, v * x, w * x, a * x, b * x, same * x""",
    "collections": """
        ys, d = [], {}
        with torch.no_grad():
            xs = [x * 2, x * 3]
            ys.append(x * 2)
            d["k"] = x * 3
            q = [t * 2 for t in x]
            f = lambda t: t * 2
            z = f(x)
        return ys[0] * x, d["k"] * x, xs[1] * x, q[0] * x[0], z * x""",
    "decorators": """
        a = self.stats(x)
        b, c = self.two(x)
        return x * a + b * x + c * x, self.same(x) * x""",
    "modes": """
        with torch.set_grad_enabled(False):
            a = x.mean()
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            with torch.enable_grad():
                b = x.mean()
        return a * x, b * x""",
    "autocast": """
        with torch.autocast(device_type="cpu", enabled=False):
            y = x.float() * 2
        return y""",
    "detach": "y = x.detach()\nz = x.clone().detach().clone()\nw = x.data\nreturn y * x, z * x, w * x",
    "a function inside": """
        @torch.no_grad()
        def inner(t):
            t = t * 2
            return t
        return inner(x) * x""",
}
METHODS = """
@torch.no_grad()
def stats(self, x):
    return x.mean(0)

@torch.no_grad()
def two(self, x):
    m = x.mean(0)
    return m, m * 2

@torch.no_grad()
def same(self, x):
    return x
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUAL)
def test_equal(name, tmp_path):
    check(tmp_path, module(EQUAL[name], BUFFERS, more=METHODS if name == "decorators" else ""))


def test_the_mode_of_training_passes(tmp_path):
    lines = "with torch.set_grad_enabled(self.training):\n    c = x.mean()\nreturn c * x"
    check(tmp_path, module(lines), training=(True,))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("y = x * 1\nwith torch.no_grad():\n    y[0] = 3.0\nreturn y * x", "without its gradient"),
        ("with torch.set_grad_enabled(x.ndim > 2):\n    y = x * 2\nreturn y", "Whether gradients are computed"),
        ("with torch.no_grad() if x.ndim > 2 else nullcontext():\n    y = x * 2\nreturn y", "stop_gradient"),
    ],
)
def test_not_decided(lines, why, tmp_path):
    text = module(lines, before="from contextlib import nullcontext")
    entries = port_text(tmp_path, text, "Net()", "torch.randn(2, 3)").entries
    assert any(why in f"{one.why} {one.write}" for one in entries if one.level == "blocks")


def test_compilers_decorators_go(tmp_path):
    before = """
    @torch.jit.script
    def gate(x):
        return x * torch.sigmoid(x)
    """
    more = "@torch.jit.export\n@staticmethod\ndef twice(x):\n    return x * 2"
    with_run, _ = check(tmp_path, module("return gate(x) + self.twice(x)", before=before, more=more))
    assert "jit" not in with_run.text and "@staticmethod" in with_run.text


def test_other_managers_stay(tmp_path):
    lines = "with torch.no_grad(), contextlib.suppress(KeyError):\n    y = x * 2\nreturn y * x"
    with_run, _ = check(tmp_path, module(lines, before="import contextlib"))
    assert "with contextlib.suppress(KeyError):" in with_run.text


def test_comments_of_a_block_stay(tmp_path):
    lines = "# above\nwith torch.no_grad():  # no gradient\n    # inner\n    y = x * 2\n    # end\nreturn y"
    text = port_text(tmp_path, module(lines)).text
    assert [text.find(one) > 0 for one in ("# above", "# no gradient", "# inner", "# end")] == [True] * 4
