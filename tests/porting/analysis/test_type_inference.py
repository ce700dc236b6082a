"""Facts from the source alone: the kind of the value that a line at the end of a function gives."""

import libcst as cst
import pytest

from funcnet.porting.reading.sources import ModelSource, read
from funcnet.porting.rewriting.rewritten_file import inference_of

from ..made_up import write
from ..ported import HEAD, module

BEFORE = """
from typing import List, Optional, Tuple

class Other(nn.Module):
    def forward(self, x):
        return x.sum(), 1

def pair(a, b=1.0):
    return a, b

def named(x: Optional[Tensor], n: int, shape: Tuple[int, int], t: "torch.Tensor" = None) -> Tensor:
    u = x
    return u
"""
INIT = """
self.lin, self.lstm = nn.Linear(3, 3), nn.LSTM(3, 3)
self.other = Other()
self.n = 3
self.ws = nn.ParameterList([])
self.register_buffer("mean", torch.zeros(3))
"""
MORE = """
@property
def total(self):
    return self.lin.weight.sum()

def helper(self, t):
    return t.shape
"""


def named(source: ModelSource, name: str) -> cst.CSTNode:
    """The class or function of this name."""
    return next(one for one in source.tree.body if getattr(getattr(one, "name", None), "value", "") == name)


def kinds(tmp_path, expression: str, lines: str = "", arguments: str = "x") -> set[str]:
    """The kinds that are inferred for an expression at the end of `forward`."""
    text = HEAD + module(f"{lines}\nfound = {expression}", INIT, arguments, BEFORE, MORE)
    source = read(write(tmp_path, {"net.py": text}) / "net.py")
    inference = inference_of(source, None)
    forward = named(source, "Net").body.body[1]
    return set(inference.fact(forward.body.body[-1].body[0].value).kinds)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("x", "tensor"), ("x + 1", "tensor"), ("x[0]", "tensor"), ("-x", "tensor"), ("x > 0", "tensor"),
        ("x.T", "tensor"), ("self.scale", "parameter"), ("self.lin", "module"), ("self.lin(x)", "tensor"),
        ("self.lstm(x)", ""), ("self.lin.weight", "tensor"), ("self.mean", "tensor"), ("self.n", "int"),
        ("self.total", "tensor"), ("self.training", "bool"), ("self.ws[0]", "parameter"), ("self.other(x)[1]", "int"),
        ("self.other(x)[0]", "tensor"), ("x.shape", "tuple"), ("x.shape[0]", "int"), ("x.shape[1:]", "tuple"),
        ("x.size(0)", "int tuple"), ("x.dtype", "dtype"), ("x.device", "device"), ("x.dim()", "int"),
        ("x.unbind(1)", "tuple"), ("x.unbind(1)[0]", "tensor"), ("F.relu(x)", "tensor"), ("torch.float32", "dtype"),
        ("torch.zeros(2)", "tensor"), ("math.pi", "float"), ("math.ceil(2.5)", "int"), ("[1, 2]", "list"),
        ("(1, x)[1]", "tensor"), ("{'a': 1}", "dict"), ("'a' + 'b'", "str"), ("f'{x}'", "str"), ("1 / 2", "float"),
        ("1 + 2", "int"), ("2 ** 0.5", "float"), ("1 < 2", "bool"), ("x is None", "bool"), ("not x", "bool"),
        ("None", "none"), ("x if x is None else 1", "tensor int"), ("len(x)", "int"), ("max(1, 2)", "int"),
        ("range(3)", "other"), ("slice(1)", "slice"), ("pair(x)[0]", "tensor"), ("pair(x)[1]", "float"),
        ("self.helper(x)", "tuple"), ("named(x, 1, (1, 2))", "tensor"), ("unknown(x)", ""),
        ("unknown.permute(0, 1)", "tensor"), ("unknown.split(1)", ""), ("lambda t: t", "function"),
        ("nn.Linear", "class"), ("...", "ellipsis"), ("(y := x)", "tensor"), ("x.byte()", "tensor"),
        ("round(2.5)", "int"), ("round(2.5, 1)", "float"), ("round(2, 1)", "int"), ("round(x, 2)", "tensor"),
        ("sum([x, x])", "tensor"), ("max([1, 2])", "int"), ("min(x.shape)", "int"), ("max(1, 2.5)", "int float"),
        ("F.max_pool2d(x, 2)", "tensor"), ("F.max_pool2d(x, 2, return_indices=True)", "tuple"),
        ("F.max_pool2d(x, 2, return_indices=True)[1]", "tensor"), ("F.max_pool2d(x, 2, return_indices=n)", ""),
        ("F.max_pool1d(x, 2, 2, 0, 1, False, True)", "tuple"), ("F.adaptive_max_pool2d(x, 2, True)", "tuple"),
        ("F.adaptive_max_pool2d(x, 2, False)", "tensor"), ("F.max_pool2d_with_indices(x, 2)", "tuple"),
        ("F.multi_head_attention_forward(x)", "tuple"), ("F.multi_head_attention_forward(x)[1]", "tensor none"),
        ("nn.MaxPool2d(2)(x)", "tensor"), ("nn.MaxPool2d(2, return_indices=True)(x)", ""),
        ("nn.AdaptiveLogSoftmaxWithLoss(3, 3, [1])(x, x)", ""),
    ],
)  # fmt: skip
def test_expressions(expression, found, tmp_path):
    assert kinds(tmp_path, expression) == set(found.split())


@pytest.mark.parametrize(
    ("lines", "expression", "found"),
    [
        ("a, b = x.shape", "b", "int"),
        ("a, *b = x.unbind(0)", "b", "list"),
        ("for i, t in enumerate(x): pass", "i", "int"),
        ("for i, t in enumerate(x): pass", "t", "tensor"),
        ("for a, b in zip(x, [1]): pass", "b", "int"),
        ("for n, p in self.named_parameters(): pass", "p", "parameter"),
        ("for m in self.modules(): pass", "m", "module"),
        ("y = x\ny = self.lin(y)", "y", "tensor"),
        ("y = 1\nif x is None:\n    y = None", "y", "int none"),
        ("y = y", "y", ""),
        ("y = x\nz = y\ny = unknown()", "z", "tensor"),
        ("y = x\nfor i in x:\n    z = y\n    y = unknown()", "z", ""),
        ("y = unknown()", "y", ""),
    ],
)
def test_names(lines, expression, found, tmp_path):
    assert kinds(tmp_path, expression, lines) == set(found.split())


def test_arguments_of_forward(tmp_path):
    assert kinds(tmp_path, "mask", arguments="x, mask=None") == {"tensor", "none"}
    assert kinds(tmp_path, "flag", arguments="x, flag=True") == {"bool"}
    assert kinds(tmp_path, "n", arguments="x, n: int = None") == {"int"}
    assert kinds(tmp_path, "more", arguments="x, *more") == set()
    both = (
        "if both is None:\n    c = torch.zeros(2)\nelse:\n    c, d = both\n    c = c.to(x.dtype)\ne, both = unknown(c)"
    )
    assert kinds(tmp_path, "c", both, "x, both: tuple[Tensor, Tensor] = None") == {"tensor"}
    assert kinds(tmp_path, "c", both, "x, both: tuple[torch.Tensor, ...] | None = None") == {"tensor"}
    assert kinds(tmp_path, "all[0]", arguments="x, all: List[Tensor]") == {"tensor"}


@pytest.mark.parametrize(
    ("name", "found"), [("u", "tensor none"), ("x", "tensor none"), ("n", "int"), ("shape", "tuple"), ("t", "tensor")]
)
def test_annotations(name, found, tmp_path):
    text = HEAD + module("return x", before=BEFORE.replace("return u", f"return {name}").replace("-> Tensor", ""))
    source = read(write(tmp_path, {"net.py": text}) / "net.py")
    inference = inference_of(source, None)
    assert set(inference.returned(named(source, "named")).kinds) == set(found.split())
