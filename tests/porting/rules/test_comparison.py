"""Rules of comparisons, logic and `where` against torch."""

import pytest
import torch

from .exceptions_pointwise import EXCEPTIONS
from .op_samples import agree, cases, check


def words(text):
    return text.split()


NAMES = words(
    "allclose eq equal ge gt isclose isfinite isin isinf isnan isneginf isposinf isreal le logical_and logical_not "
    "logical_or logical_xor lt ne where"
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_samples_of_the_database(name, form):
    agree(name, form, EXCEPTIONS)


INF, NAN = float("inf"), float("nan")
X = torch.tensor([-INF, -1.0, -0.0, 0.0, 0.5, 1.0, INF, NAN], dtype=torch.float64)
TENSORS = {"x": X, "y": X.flip(0), "m": X > 0, "i": torch.arange(-3, 5), "g": X[1:6].clone().requires_grad_()}


@pytest.mark.parametrize(
    "text",
    [
        *(f"x.{name}(y)" for name in words("eq ne not_equal lt less le less_equal gt greater ge greater_equal")),
        *(f"torch.{name}(x, 0)" for name in words("eq ne not_equal lt less le less_equal gt greater ge greater_equal")),
        *(f"torch.{name}(x)" for name in words("isnan isinf isfinite isneginf isposinf isreal logical_not")),
        *(f"torch.{name}(i, m)" for name in words("logical_and logical_or logical_xor")),
        "torch.isclose(x, y, equal_nan=True)", "x.isclose(y, rtol=0.5, atol=1.0)", "x.allclose(x)", "torch.equal(i, i)",
        "torch.allclose(x, x, equal_nan=True)", "torch.equal(i, i[:2])", "i.equal(i + 1)", "torch.isin(i, i[2:4])",
        "torch.isin(i, 2, invert=True)", "torch.isin(elements=i, test_elements=i[:2], assume_unique=True)",
        "i[:1].is_nonzero()", "torch.is_nonzero(i[3])", "torch.where(m, x, y)", "x.where(m, 0)",
        "torch.where(m, 1.0, 0.0)",
        "torch.where(i > 0, i, 0.5)", "torch.where(condition=m, input=x, other=y)", "torch.where(g > 0, g, g * g)",
        "torch.where(g == 0, 0.0, g.abs().sqrt())", "(~m).logical_and(m)", "not i[0].gt(i[1])",
    ],
)  # fmt: skip
def test_calls(text):
    assert check(text, TENSORS) is None
