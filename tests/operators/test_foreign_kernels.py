"""What kernels in other languages get: the arguments that are not arrays, and the last dimension."""

import jax
import numpy as np
import pytest

from funcnet import operators
from tests.operators import samples


def lowered(schema, *arguments, dims=None):
    """The program of a call of a kernel that is never run, for arrays float32 () and (2, 3)."""
    assert samples.library()
    one = operators.define(schema, dims)
    one.reference(lambda x, **others: x)
    one.impl("cpu", operators.ForeignKernel("test_scale"))
    return [
        jax.jit(lambda x: one(x, *arguments)).lower(np.zeros(shape, np.float32)).as_text() for shape in ((), (2, 3))
    ]


def test_attributes():
    text, _ = lowered(
        "kernel::a(Tensor x, float f, int i, bool b, str s, float[] l, int[] m, Scalar t, Scalar u, int? n=None)"
        " -> Tensor",
        1, 2, True, "same", [1, 2.5], [], 3, 4.5,
    )  # fmt: skip
    for shown in (
        "f = 1.000000e+00 : f64", "i = 2 : i64", "b = true", 's = "same"',
        "l = dense<[1.000000e+00, 2.500000e+00]> : tensor<2xf64>", "m = dense<> : tensor<0xi64>",
        "t = 3 : i64", "u = 4.500000e+00 : f64",
    ):  # fmt: skip
        assert shown in text, shown
    assert "n = " not in text


@pytest.mark.parametrize(
    ("kind", "value"), [("bool[]", [True]), ("str[]", ["a"]), ("ScalarType", "int8"), ("complex", 1j)]
)
def test_types_without_a_form(kind, value):
    with pytest.raises(
        TypeError, match=rf"argument 'a' of the type {kind.replace('[]', '..')} has no form for a kernel"
    ):
        lowered(f"kernel::{kind.strip('[]')}(Tensor x, {kind} a) -> Tensor", value)


def test_an_array_whose_dimensions_are_all_mapped_has_one_more():
    texts = lowered("kernel::b(Tensor x) -> Tensor", dims="... -> ...")
    assert "tensor<1xf32>" in texts[0] and "tensor<2x3x1xf32>" in texts[1]
    texts = lowered("kernel::c(Tensor x) -> Tensor")
    assert "reshape" not in texts[1]
