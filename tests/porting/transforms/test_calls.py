"""Calls of functions and methods: small modules against torch, and no silent trap for receivers of unknown kind."""

import re

import pytest

from funcnet.porting.expression_facts.fact import UNKNOWN, Fact
from funcnet.porting.rewriting.rewriter import port_expression
from tests.porting_files import PAGE, lines

from ..ported import check, module, port_text

TRAPS = [
    code
    for line in lines(PAGE.read_text("utf-8"))
    if line.section in ("Silent traps", "Gradients at corners") and not line.mark
    for code in line.code(0)
    if not re.search(r"; | \* |^v\[", code)
]
NAMES = ["x", "y", "p", "a", "s", "v", "w", "h", "n", "m", "i", "j", "e", "z"]


@pytest.mark.parametrize("code", TRAPS)
def test_no_trap_is_left(code):
    """A line whose meaning differs in JAX is ported or in the register, whatever is known."""
    for fact in (UNKNOWN, Fact(frozenset({"tensor"}))):
        written, undecided = port_expression(code, dict.fromkeys(NAMES, fact))
        assert written != code or any(one.level == "blocks" for one in undecided)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("torch.utils.checkpoint.checkpoint_sequential(f, 2, x)", "nn.remat"),
        ("torch.distributed.all_reduce(x)", "psum"),
        ("torch.foo.bar(x)", "There is no rule for torch.foo.bar"),
        ("torch.nn.foo(x)", "funcnet has no torch.nn.foo"),
        ("u.split(2)", "whether u is a tensor"),
        ("x.backward()", "jax.grad"),
    ],
)
def test_register(text, why):
    facts = {"x": Fact(frozenset({"tensor"})), "u": UNKNOWN, "f": UNKNOWN}
    _, undecided = port_expression(text, facts)
    assert any(why in f"{one.why} {one.write}" for one in undecided if one.level == "blocks")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("torch.jit.is_scripting()", "False"),
        ("abs(x)", "tl.abs(x)"),
        ("abs(k)", "abs(k)"),
        ("s.split(',')", "s.split(',')"),
        ("x.to(u)", "tl.to(x, u)"),
        ("torch.Tensor.view(x, -1)", "x.reshape(-1)"),
        ("(x + y).view(-1)", "(x + y).reshape(-1)"),
        ("-x.sum(0)", "-x.sum(axis=0)"),
        ("x.t() @ y.t()", "x.T @ y.T"),
    ],
)
def test_written(text, written):
    tensor = Fact(frozenset({"tensor"}), "float32", (2, 3))
    facts = {"x": tensor, "y": tensor, "k": Fact(frozenset({"int"})), "s": Fact(frozenset({"str"})), "u": UNKNOWN}
    ported, undecided = port_expression(text, facts)
    assert ported == written and not undecided


SHAPES = """
b, c = x.shape
n, *rest = x.shape
y = x.view(x.size(0), -1).view(*x.shape[:1], -1).reshape(x.shape[:-1] + (1, -1))
r = x.shape + torch.Size([1])
z = torch.zeros(*x.shape[:-1], max(x.shape)) + torch.zeros(x.size()) + torch.ones(b, c)
w = x.reshape(r) + x.new_zeros(r)
k = x.view(b, -1) if c > 2 else x
e = x.expand(4, *x.shape).reshape(-1, c)
t = x[..., None][:, None, :, 0][:, 0] + x[None][0]
if (h := x.shape[1]) > 2 and 0 < b <= 5 < 10:
    t = t * h
v = x.mean(list(range(1, x.dim()))) + x.sum(dim=tuple(range(1, x.ndim)))
assert x.shape == (b, c) and isinstance(x.shape[0], int), f"bad {x.shape}, {tuple(x.shape)}, {list(x.size())}"
numbers = [int(x.shape[1] / 2), len(x), len(x.shape), x.numel(), x.shape.numel(), x.size(-1), x.size(dim=0), *rest]
return y, z, w, k, e, t * x.shape[-1] ** -0.5, v, numbers, list(x.size()[1:])
"""
OPERATORS = """
m = x > 0
a = x @ x.t() ** 2 - -x @ x.T
b = x ** 2 + 2 ** x + x % 2 + 1 / (x + 5)
c = ~m & (x < 1) | m ^ m
d = m * x + (1 - m.float()) * x - m.int()
f = torch.where(m, x, torch.zeros_like(x)) + torch.where(x > 0, 1.0, 0.0) + x.where(m, x.new_tensor(0.0))
g = (x > 0).sum() + m.sum(1) + m.float().mean()
h = abs(x) + pow(x, 2) + sum(x) + divmod(7, 2)[0]
return a, b, c, d, f, g, h
"""
METHODS = """
v, j = x.max(dim=-1)
(w, k), n = x.topk(2, dim=1), x.median()
i = x.max(1)[0] + x.min(dim=1)[1] + x.sort(1)[0][:, 0] + x.std(1) + x.var(1, unbiased=False)
o = x.repeat(2, 1).split(2, 0)[0] + x.chunk(2, 1)[0][:, :1] + x.transpose(0, 1).T + x.norm(2)
p = x.mul(2).add(1).div(3).sub(x, alpha=2) + x.squeeze(0) + x.unsqueeze(0)[0]
return v, j, w, k, n, i, o, p, Tensor.view(x, -1), torch.Tensor.sum(x, 0)
"""
ITERATION = """
ys = [row * i for i, row in enumerate(x)]
for i, col in enumerate(x.unbind(1)):
    ys.append(col * i)
ys += [a + b for a, b in zip(x, x * 2)]
a, b = x
c, d, e = x.chunk(3, dim=-1)
f, g = torch.split(x, [1, 2], dim=1)
q = torch.cat([*x.chunk(3, 1), x], 1)
return ys, a + b, c + d + e, f, g, q, list(map(torch.relu, [x, x - 1])), sum(t.sum() for t in x)
"""
DEVICES = """
device = x.device
a = torch.zeros(3, device=device) + x.to(device)
b = torch.arange(3, device=x.device, dtype=x.dtype) * x
c = x.to(a) + a.to(x.dtype) + x.to(dtype=torch.float32, device=x.device) + a.type_as(x)
d = x.to("cpu").cpu().to(device, non_blocking=True).to(device=device, dtype=a.dtype)
e = torch.tensor([1.0, 2, 3]).to(x) * x + torch.ones_like(x, device=x.device).to(next(self.parameters()).device)
if x.is_cuda or x.device != self.scale.device:
    e = e * 2
return a, b, c, d, e, x.new_zeros(3) + x.new_full((3,), 2) * x
"""
OUTPUTS = """
o = {"a": x, "b": [x * 2, (x, x + 1)]}
o["c"] = x.sum()
o.update(d=x.mean())
p = Pair(x, y=x * 2)
l = [x]
l.extend([x, x])
return o, p, l, p.x + p[1], p._replace(x=x * 3), {k: v * 2 for k, v in o.items() if k != "b"}
"""
PAIR = """
from typing import NamedTuple, Optional

class Pair(NamedTuple):
    x: torch.Tensor
    y: Optional[Tensor] = None
"""


@pytest.mark.parametrize(
    ("forward", "before"),
    [(SHAPES, ""), (OPERATORS, ""), (ITERATION, ""), (DEVICES, ""), (OUTPUTS, PAIR)],
    ids=["shapes", "operators", "iteration", "devices", "outputs"],
)
def test_equal(forward, before, tmp_path):
    check(tmp_path, module(forward, before=before), training=(False,))


@pytest.mark.slow
def test_methods(tmp_path):
    check(tmp_path, module(METHODS), training=(False,))


def test_checkpoints(tmp_path):
    before = "import torch.utils.checkpoint\nfrom torch.utils.checkpoint import checkpoint"
    lines = """
    if self.training:
        y = torch.utils.checkpoint.checkpoint(self.lin, x, use_reentrant=False)
    else:
        y = self.lin(x)
    return y, checkpoint(self.lin, y, use_reentrant=False)
    """
    check(tmp_path, module(lines, "self.lin = nn.Linear(3, 3)", before=before))


def test_options_in_a_dict(tmp_path):
    before = """
    def options(x):
        return {"device": x.device, "dtype": x.dtype}
    """
    lines = """
    again = dict(device=x.device, dtype=x.dtype)
    return torch.cat((x, torch.zeros((2, 1), **options(x)), torch.full((2, 1), 2, **again)), dim=1)
    """
    check(tmp_path, module(lines, before=before), training=(False,))


def test_an_argument_that_is_left_out_is_not_asked_for(tmp_path):
    lines = "return x * torch.ones(3, dtype=x.dtype, requires_grad=x.requires_grad)"
    check(tmp_path, module(lines), training=(False,))


def test_parameters_of_functions_that_are_mapped(tmp_path):
    lines = """
    a, b = map(lambda t: t.float(), (x, x * 2))
    a *= 3
    if x.shape[0] == 5:
        a, b = map(lambda t: t.sum(1).double(), (a, b))
    return a, b
    """
    check(tmp_path, module(lines), training=(False,))


def test_methods_that_cannot_be_a_tensors_by_their_arguments(tmp_path):
    more = "def words(self, text, sep):\n    return text.split(), text.split(','), text.split(sep)"
    lines = "return x if x.shape[0] == 2 else self.words(x, x)"
    ported = port_text(tmp_path, module(lines, more=more), "Net()", "torch.randn(2, 3)")
    assert len(ported.entries) == 1 and "text.split(), text.split(','), " in ported.text


def test_the_wrapper_of_old_versions_stops_gradients(tmp_path):
    lines = "return x * self.scale * Variable(x * self.scale) + Variable(torch.ones(3))"
    before = "from torch.autograd import Variable"
    ported, _ = check(tmp_path, module(lines, before=before), training=(False,))
    assert not ported.entries
