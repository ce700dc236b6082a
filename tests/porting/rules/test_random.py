"""Rules of random numbers: shapes and dtypes of the database's samples, and moments that torch documents."""

import jax
import numpy as np
import pytest
import torch

from funcnet.porting.expression_facts.fact import fact_of
from funcnet.porting.rewriting.rewriter import port_expression
from tests.database import convert

from .exceptions_pointwise import EXCEPTIONS
from .op_samples import ENVIRONMENT, agree, cases, check

NAMES = [
    "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal/in_place",
    "normal/number_mean", "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_samples_of_the_database(name, form):
    agree(name, form, EXCEPTIONS)


TENSORS = {
    "x": torch.zeros(2, 3),
    "p": torch.full((2, 3), 0.5, dtype=torch.float64),
    "i": torch.arange(6).reshape(2, 3),
}

CALLS = [
    "torch.rand(2, 3)", "torch.rand((2, 3))", "torch.rand(4, generator=None)", "torch.rand(2, dtype=torch.float64)",
    "torch.rand(*x.shape, 1, device=x.device)", "torch.randn(x.shape)", "torch.randn(())", "torch.rand_like(x)",
    "torch.rand_like(x + 1)", "torch.randn_like(x[0])", "torch.randn_like(i, dtype=torch.float32)",
    "torch.randint(5, (2, 3))",
    "torch.randint(2, 5, (2,))", "torch.randint(0, 5, size=[2, 3], dtype=torch.int32)",
    "torch.randint(high=4, size=(2,))",
    "torch.randint(0, 5, (2,), dtype=torch.float32)", "torch.randint_like(i, 5)", "torch.randint_like(x, 2, 5)",
    "torch.randperm(5)", "torch.randperm(5, dtype=torch.int32)", "torch.normal(0.0, 2.0, (2, 3))", "torch.normal(x, p)",
    "torch.normal(1.0, 2.0, size=(4,))", "torch.normal(x)", "torch.normal(x, 0.5)", "torch.normal(mean=1.0, std=p)",
    "torch.bernoulli(p)", "p.bernoulli()", "p.bernoulli(0.3)", "torch.bernoulli(x, 0.3)", "torch.bernoulli(p * 0.5)",
    "torch.multinomial(p, 2)", "p.multinomial(num_samples=5, replacement=True)", "torch.poisson(p)",
    "torch.binomial(p * 10, p)",
    "x.normal_()", "x.normal_(0, 0.02)", "x.normal_(mean=1.0, std=2.0)", "x.uniform_()", "x.uniform_(-1, 1)",
    "x.exponential_()", "x.exponential_(2.0)", "x.bernoulli_()", "x.bernoulli_(0.3)", "p.bernoulli_(p)",
    "x.geometric_(0.3)",
    "x.cauchy_()", "x.cauchy_(1.0, 2.0)", "x.log_normal_()", "i.random_(5)", "i.random_(2, 5)", "x.random_(3)",
    "torch.empty(2, 3).normal_()", "torch.empty(2, 3).uniform_(-1, 1)", "torch.zeros(2).normal_(0, 2)",
    "torch.ones(2).bernoulli_(0.2)",
]  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_shapes_and_dtypes(text):
    assert check(text, TENSORS) is None


# {call on an array of 40000 zeros: (mean, standard deviation)}, from torch's documentation
MOMENTS = {
    "torch.rand(40000)": (0.5, 12**-0.5), "torch.randn(40000)": (0, 1), "torch.rand_like(z)": (0.5, 12**-0.5),
    "torch.randint(2, 5, (40000,))": (3, (2 / 3) ** 0.5), "torch.randint(3, z.shape)": (1, (2 / 3) ** 0.5),
    "torch.normal(0.0, 2.0, (40000,))": (0, 2), "torch.normal(1.0, 2.0, (40000,))": (1, 2),
    "torch.normal(z, 3.0)": (0, 3),
    "torch.normal(mean=2.0, std=z + 1)": (2, 1), "torch.bernoulli(z + 0.3)": (0.3, 0.21**0.5),
    "z.bernoulli(0.2)": (0.2, 0.4), "torch.poisson(z + 4)": (4, 2), "torch.binomial(z + 10, z + 0.5)": (5, 2.5**0.5),
    "z.normal_(1, 2)": (1, 2), "z.normal_(0, 0.5)": (0, 0.5), "z.uniform_(-1, 3)": (1, 4 * 12**-0.5),
    "z.bernoulli_(0.2)": (0.2, 0.4),
    "(z + 0).uniform_(-1, 3)": (1, 4 * 12**-0.5), "(z + 0).normal_(1, 2)": (1, 2), "z.exponential_(2.0)": (0.5, 0.5),
    "z.geometric_(0.5)": (2, 2**0.5), "torch.log(z.log_normal_(0, 0.5))": (0, 0.5), "z.random_(3)": (1, (2 / 3) ** 0.5),
    "z.random_(2, 5)": (3, (2 / 3) ** 0.5), "z.cauchy_(1.0, 2.0).atan2(z + 1).tanh().abs() * 0 + 1": (1, 0),
    "torch.multinomial(z[:2] + 1, 40000, True)": (0.5, 0.5), "torch.randperm(40000) / 40000": (0.5, 12**-0.5),
}  # fmt: skip


@pytest.mark.parametrize("text", MOMENTS)
def test_moments(text):
    zeros = torch.zeros(40000)
    torch.manual_seed(0)
    theirs = eval(text, {"torch": torch, "z": zeros.clone()}).double().numpy()
    written, undecided = port_expression(text, {"z": fact_of(zeros)})
    assert not undecided
    with jax.numpy_dtype_promotion("standard"):
        ours = np.asarray(eval(written, {**ENVIRONMENT, "z": jax.numpy.zeros(40000)}), np.float64)
    mean, deviation = MOMENTS[text]
    for drawn in (theirs, ours):
        assert drawn.shape == (40000,)
        assert abs(drawn.mean() - mean) <= 5 * deviation / 200
        assert abs(drawn.std() - deviation) <= 0.05 * deviation


def test_cauchy_has_its_median_and_quartiles():
    x = torch.zeros(40000)
    with jax.numpy_dtype_promotion("standard"):
        ours = eval(
            port_expression("x.cauchy_(1.0, 2.0)", {"x": fact_of(x)})[0], {**ENVIRONMENT, "x": convert.array(x)}
        )
    np.testing.assert_allclose(np.quantile(np.asarray(ours), [0.25, 0.5, 0.75]), [-1, 1, 3], atol=0.1)


def test_what_is_registered():
    assert port_expression("x.random_()", {"x": fact_of(TENSORS["x"])})[1][0].level == "blocks"
    assert port_expression("torch.Generator", {})[0] == "jax.Array"
