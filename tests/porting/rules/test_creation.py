"""Rules of new tensors against torch."""

import numpy as np
import pytest
import torch

from funcnet.porting.expression_facts.fact import Fact, fact_of
from funcnet.porting.rewriting.rewriter import port_expression

from .exceptions_pointwise import EXCEPTIONS
from .op_samples import agree, cases, check

NAMES = [
    "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "fill", "full", "full_like", "linspace",
    "linspace/tensor_overload", "logspace", "logspace/tensor_overload", "new_empty", "new_empty_strided", "new_full",
    "new_ones", "new_zeros", "ones", "ones_like", "scalar_tensor", "tril_indices", "triu_indices", "zero_", "zeros",
    "zeros_like",
]  # fmt: skip
MANY = {"logspace": 60, "logspace/tensor_overload": 60}  # of 401 and 1201 samples, which differ in numbers only


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_samples_of_the_database(name, form):
    agree(name, form, EXCEPTIONS, limit=MANY.get(name))


TENSORS = {"x": torch.arange(6.0, dtype=torch.float64).reshape(2, 3), "v": torch.ones(3), "i": torch.arange(3)}

CALLS = [
    # data
    "torch.tensor(2.5)", "torch.tensor([1, 2])", "torch.tensor([[1.0], [2.0]], dtype=torch.float64, device='cpu')",
    "torch.tensor([v[0], v[1]])", "torch.tensor(True)", "torch.tensor([])", "torch.as_tensor([1.5, 2.0])",
    "torch.as_tensor(x)",
    "torch.as_tensor(3, dtype=torch.float32)", "torch.asarray([1, 2], dtype=torch.int32)", "torch.scalar_tensor(2)",
    "torch.scalar_tensor(2, dtype=torch.int64)", "x.new_tensor([1, 2])", "x.new_tensor([1, 2], dtype=torch.int64)",
    # the old constructors
    "torch.Tensor([1, 2])", "torch.FloatTensor([[1, 2]])", "torch.LongTensor([1, 2])",
    "torch.BoolTensor([True, False])",
    "torch.DoubleTensor([1])", "torch.IntTensor([3])", "torch.ByteTensor([3])", "torch.HalfTensor([0.5])",
    "torch.Tensor()",
    "torch.Tensor(2, 3).shape", "torch.FloatTensor(4).shape", "torch.LongTensor(2, 3).dtype == torch.long",
    "x.new([1, 2])", "x.new(2, 3).shape", "x.new(4).shape", "x.new()",
    # filled
    "torch.zeros(2, 3)", "torch.zeros((2, 3))", "torch.zeros([2, 3], dtype=x.dtype)", "torch.zeros(size=(2,))",
    "torch.zeros(())",
    "torch.zeros(*x.shape, 4)", "torch.zeros(x.shape)", "torch.zeros(4)", "torch.ones(2, *x.shape)",
    "torch.ones(x.shape[0], 1)",
    "torch.full((2, 3), 1.5)", "torch.full((2,), 1)", "torch.full((), True)",
    "torch.full((2,), 1, dtype=torch.float64)",
    "torch.full(size=(2,), fill_value=float('-inf'))", "torch.full_like(x, 2)",
    "torch.zeros_like(x, dtype=torch.int64)",
    "x.new_zeros(2, 3)", "x.new_zeros((2, 3))", "x.new_ones(4, dtype=torch.int64)", "x.new_full((2,), 7)",
    "i.new_ones(2)",
    "torch.fill(x, 3)", "x.clone().fill_(3)", "x.clone().zero_()", "x.clone().copy_(v)", "x.clone().copy_(i)",
    "torch.empty(2, 3).shape", "x.new_empty(2).shape", "torch.empty((2, 3), dtype=torch.long).dtype == torch.int64",
    # sequences
    "torch.arange(5)", "torch.arange(5.0)", "torch.arange(1, 5)", "torch.arange(1, 5, 2)", "torch.arange(0, 1, 0.25)",
    "torch.arange(end=4)", "torch.arange(start=1, end=4)", "torch.arange(start=1, end=9, step=3)",
    "torch.arange(5, 0, -2)",
    "torch.arange(3, dtype=torch.float32, device=x.device)", "torch.arange(0, x.shape[1], dtype=x.dtype)",
    "torch.linspace(0, 1, 5)", "torch.linspace(0, 9, steps=4)", "torch.linspace(-1, 1, 1)", "torch.logspace(0, 1, 5)",
    "torch.logspace(0, 3, 4, base=2)", "torch.eye(3)", "torch.eye(2, 3)", "torch.eye(2, m=3, dtype=torch.int64)",
    "torch.tril_indices(3, 4)", "torch.triu_indices(3, 4, 1)", "torch.tril_indices(3, 3, offset=-1, dtype=torch.int32)",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_calls(text):
    assert check(text, TENSORS) is None


def test_numpy_arrays():
    array = np.arange(3, dtype=np.float32)
    facts = {"a": fact_of(array), "b": fact_of(b"")}
    assert port_expression("torch.from_numpy(a)", facts)[0] == "jnp.asarray(a)"
    assert port_expression("torch.frombuffer(b, dtype=torch.int8)", facts)[0] == "jnp.frombuffer(b, jnp.int8)"


def test_what_is_not_known():
    """A number is a size, and a list is data."""
    assert port_expression("torch.Tensor(n)", {"n": Fact(frozenset({"int"}))})[0] == "jnp.zeros(n, jnp.float32)"
    assert port_expression("torch.Tensor(n)", {"n": Fact(frozenset({"list"}))})[0] == "jnp.array(n, jnp.float32)"
    assert port_expression("torch.Tensor(n)", {"n": Fact()})[1][0].level == "blocks"
    assert port_expression("torch.range(0, 3)", {})[1][0].level == "blocks"


def test_classes_in_annotations():
    for name in ("Tensor", "FloatTensor", "LongTensor", "cuda.BoolTensor"):
        assert port_expression(f"torch.{name}", {})[0] == "jax.Array"
