"""Classes: inheritance, mixins, containers, and functions with their own derivative, against torch."""

import pytest

from ..ported import check, module

BEFORE = """
from collections import OrderedDict
from functools import partial

class MyLinear(nn.Linear):
    def forward(self, input):
        return super().forward(input) * 2 + super(MyLinear, self).forward(input)

class Block(nn.Sequential):
    def __init__(self, dim):
        layers = [nn.Linear(dim, dim), nn.GELU()]
        super().__init__(*layers)

class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, *args, **kwargs):
        return self.fn(x, *args, **kwargs) + x

class Called(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def __call__(self, x):
        return x * self.w
"""


def test_inheritance(tmp_path):
    forward = "return self.seq[-1](self.own(x) + self.seq(x)), self.wrapped(x), self.called(x), self.part(x)"
    init = """
    self.own, self.seq = MyLinear(3, 3), Block(3)
    self.wrapped, self.called = Residual(nn.Linear(3, 3)), Called()
    self.part = partial(self.seq.forward)
    """
    check(tmp_path, module(forward, init, before=BEFORE), training=(False,))


def test_containers(tmp_path):
    forward = """
    y = self.dict["a"](x) + self.named.b(x) + self.total * self.FACTOR
    for name, layer in self.dict.items():
        y = layer(y)
    for i, layer in enumerate(self.named):
        y = layer(y) * (i + 1)
    return y, self.head(y), len(self.named)
    """
    init = """
    self.dict = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))})
    self.named = nn.Sequential(OrderedDict([("a", nn.Linear(3, 3, bias=False)), ("b", nn.Tanh())]))
    self.w = nn.Parameter(torch.ones(3))
    self.head = nn.Identity() if self.FACTOR > 5 else nn.Linear(3, 2)
    """
    more = "FACTOR = 2.0\n\n@property\ndef total(self):\n    return self.w.sum()"
    check(tmp_path, module(forward, init, before=BEFORE, more=more), training=(False,))


def test_mixins(tmp_path):
    before = """
    class Helper:
        def helper(self, x):
            return F.dropout(x * self.w, 0.5, self.training)

        @staticmethod
        def total(x):
            return x.sum(-1, keepdim=True)
    """
    text = module("return self.helper(x) + self.total(x)", "self.w = nn.Parameter(torch.ones(3))", before=before)
    check(tmp_path, text.replace("class Net(nn.Module)", "class Net(Helper, nn.Module)"))


def test_arguments(tmp_path):
    more = """
    def go(self, x: "Tensor", mask: "torch.Tensor | None" = None, *, flag: bool = False) -> "Tensor":
        return x * 2 if flag and mask is None else x

    def passed_on(self, *args, **kwargs):
        return self.named(*args, **kwargs)

    def named(self, x, *, k):
        return x * k

    def several(self, *xs, **named):
        return sum(xs).mul(2) + torch.stack(xs).sum(0) + named["a"].view(2, 3) + torch.cat(xs)[:2]
    """
    forward = "return self.go(x, mask=None, flag=True) + self.passed_on(x, k=2) + self.several(x, x, a=x)"
    check(tmp_path, module(forward, more=more), training=(False,))


@pytest.mark.parametrize("base", ["torch.autograd.Function", "Function"])
def test_functions_with_a_derivative(base, tmp_path):
    before = f"""
    from torch.autograd import Function

    class Straight({base}):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.round()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() < 1).to(g.dtype)
    """
    with_run, _ = check(tmp_path, module("return Straight.apply(x)", before=before), training=(False,))
    assert "@tl.autograd_function\nclass Straight:\n" in with_run.text
