"""Rules of dtypes, casts and values that leave JAX, against torch."""

import jax
import jax.numpy as jnp
import pytest
import torch

from funcnet.porting.expression_facts.fact import Fact, fact_of
from funcnet.porting.rewriting.rewriter import port_expression
from tests.database.convert import DTYPES

from .op_samples import ENVIRONMENT, agree, cases, check

NAMES = [
    "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "clone", "contiguous", "double", "float", "half",
    "int", "item",
    "long", "short", "to",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_samples_of_the_database(name, form):
    agree(name, form)


X = torch.tensor([[0.0, -1.5, 2.5], [3.0, 7.25, 0.5]], dtype=torch.float64)
TENSORS = {
    "x": X, "g": X.clone().requires_grad_(), "h": X.to(torch.bfloat16), "n": torch.tensor([1, 0, 3]), "m": X > 0,
    "one": torch.tensor(2.5, dtype=torch.float64), "c": torch.complex(X, X),
}  # fmt: skip
NAMED = [name for name, one in vars(torch).items() if isinstance(one, torch.dtype) and one in DTYPES]


def ported(text: str):
    """The value of a call with JAX in 64 bits."""
    facts = {name: fact_of(tensor) for name, tensor in TENSORS.items()}
    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(x.detach().float().numpy()) for name, x in TENSORS.items() if not x.is_complex()}
        return eval(port_expression(text, facts)[0], {**ENVIRONMENT, **arrays})


@pytest.mark.parametrize("name", NAMED)
def test_every_dtype(name):
    wanted = {"int64": "int32"}.get(DTYPES[getattr(torch, name)], DTYPES[getattr(torch, name)])
    for text in ("x.to(?)", "x.to(dtype=?)", "x.type(?)", "torch.zeros(2, dtype=?)"):
        assert ported(text.replace("?", f"torch.{name}")).dtype == wanted, text


def test_every_method():
    methods = [
        "float",
        "double",
        "half",
        "bfloat16",
        "long",
        "int",
        "short",
        "char",
        "byte",
        "bool",
        "cfloat",
        "cdouble",
    ]
    for name in methods:
        wanted = DTYPES[getattr(X, name)().dtype].replace("int64", "int32")
        assert ported(f"x.{name}()").dtype == wanted, name


TYPES = ["Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"]


@pytest.mark.parametrize("name", TYPES)
def test_types_of_tensors(name):
    wanted = DTYPES[X.type(f"torch.{name}Tensor").dtype].replace("int64", "int32")
    assert ported(f"x.type('torch.{name}Tensor')").dtype == wanted
    named = {"kind": Fact(frozenset({"class"}), name=f"torch.{name}Tensor"), "x": fact_of(X)}
    assert wanted in port_expression("x.type(kind)", named)[0]


CALLS = [
    "g.to(torch.float32)", "g.to('cpu')", "g.to('cpu', torch.float32)", "g.to(device='cpu', dtype=torch.float32)",
    "g.to(g)",
    "n.to(x)", "n.to(tensor=x)", "g.to(x.device)", "g.to(x.device, non_blocking=True)",
    "g.to('cpu', torch.float64, True, True)",
    "n.to(x.dtype)", "n.to(dtype=x.dtype, copy=True)", "n.to(torch.float32, copy=True)", "x.to('cpu', None)",
    "n.type_as(x)",
    "g.clone()", "torch.clone(g)", "g.contiguous()", "g.cpu()", "g.detach() * g", "torch.detach(g) * g", "g.data * g",
    "x.requires_grad_()", "m.float()", "m.long()", "x.int()", "x.bool()", "h.float()", "one.item()", "n[2].item()",
    "x.tolist()",
    "torch.is_floating_point(x)", "n.is_floating_point()", "c.is_complex()", "x.dtype.is_floating_point",
    "n.dtype.is_complex",
    "n.is_signed()", "m.is_signed()", "x.is_signed()", "x.element_size()", "x.itemsize", "x.dtype.itemsize", "x.nbytes",
    "torch.is_tensor(x)", "torch.is_tensor(3)", "x.is_cuda", "x.is_cpu", "x.is_sparse", "x.is_meta", "x.is_quantized",
    "x.get_device()", "x.is_conj()", "x.dtype == torch.float64", "x.dtype == torch.double", "m.dtype == torch.bool",
    "h.dtype in (torch.float16, torch.bfloat16)", "torch.finfo(torch.float32).max", "torch.finfo(torch.float32).min",
    "torch.finfo(torch.bfloat16).eps", "torch.finfo(torch.float16).tiny", "torch.finfo().eps",
    "torch.iinfo(torch.int32).max", "torch._cast_Long(x)", "torch._cast_Float(m, False)", "torch._cast_Byte(m)",
    "torch.promote_types(torch.float16, torch.float32) == torch.float32",
    "torch.result_type(h, m) == torch.bfloat16",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_calls(text):
    assert check(text, TENSORS) is None


def test_targets_that_are_not_known():
    x = {"x": fact_of(X), "d": Fact(frozenset({"device", "str"})), "y": Fact(), "t": Fact(frozenset({"none", "dtype"}))}
    assert port_expression("x.to(d)", x)[0] == "x"
    assert port_expression("x.to(y)", x)[0] == "tl.to(x, y)"
    assert port_expression("x.to(dtype=y)", x)[0] == "x.astype(y)"
    assert port_expression("x.to(dtype=t)", x)[0] == "x if t is None else x.astype(t)"
    assert port_expression("x.to(d, t)", x)[0] == "x if t is None else x.astype(t)"


@pytest.mark.parametrize("text", ["x.item()", "x.tolist()", "x.numpy()", "x.is_nonzero()"])
def test_values_that_leave_jax(text):
    assert [one.level for one in port_expression(text, {"x": fact_of(X)})[1]] == ["eager only"]


REGISTERED = ["x.backward()", "x.grad", "x.requires_grad", "x.register_hook(f)", "x.type()", "x.chalf()"]


@pytest.mark.parametrize("text", REGISTERED)
def test_what_is_registered(text):
    assert [one.level for one in port_expression(text, {"x": fact_of(X)})[1]] == ["blocks"]


def test_numpy_and_constants():
    x = {"x": fact_of(X)}
    assert port_expression("x.numpy()", x)[0] == "np.asarray(x)"
    assert port_expression("x.device", x)[0] == port_expression("x.layout", x)[0] == "None"
    assert port_expression("torch.get_default_dtype()", x)[0] == "jnp.result_type(float)"
    assert port_expression("torch.dtype", x)[0] == "jnp.dtype"
