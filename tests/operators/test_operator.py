"""Declaring operators: calls, implementations, derivatives and names that are wrong, the table, and entry points."""

import copy
import importlib.metadata
import itertools
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import operators
from funcnet.operators import operator as registry
from tests.processes import ROOT

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
numbers = itertools.count()


def define(schema="NAME(Tensor self, float slope=0.5) -> Tensor", dims="... -> ...", reference=None):
    one = operators.define(schema.replace("NAME", f"made::f{next(numbers)}"), dims)
    one.reference(reference or (lambda self, slope: jnp.where(self > 0, self, slope * self)))
    return one


# ------------------------------------------------------------------------------------------------------ arguments


def test_all_types_of_arguments():
    seen = []

    def reference(x, n, sizes, flag, mode, dtype, scalar, other, weight, *, eps):
        seen.append((n, sizes, flag, mode, dtype, scalar, other, weight, eps))
        return x

    schema = (
        "NAME(Tensor x, int n, int[2] sizes=1, bool flag=False, str mode='same', ScalarType? dtype=None, "
        "Scalar scalar=1, float? other=None, Tensor? weight=None, *, float eps=1e-5) -> Tensor"
    )
    one = define(schema, None, reference)
    one(X, 3)
    assert seen[-1] == (3, (1, 1), False, "same", None, 1, None, None, 1e-5)
    one(X, n=np.int64(4), sizes=[2, 3], flag=True, mode="full", dtype=jnp.float32, scalar=2.5, other=3, eps=1)
    assert seen[-1] == (4, (2, 3), True, "full", np.dtype("float32"), 2.5, 3.0, None, 1.0)
    assert isinstance(seen[-1][-1], float)
    one(X, 3, weight=X)
    assert seen[-1][-2].shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "named", "error"),
    [
        ((), {}, "argument 'self' is missing; expected made::f.*Tensor self"),
        ((X, 0.1, 2), {}, "too many arguments; expected at most 2, got 3"),
        ((X,), {"slop": 1}, "argument 'slop' is unknown; expected made::f"),
        ((X,), {"self": X}, "argument 'self' is given twice"),
        ((1.0,), {}, "argument 'self' is wrong; expected an array, got 1.0"),
        ((None,), {}, "argument 'self' is wrong; expected an array, got None"),
        ((X, "0.1"), {}, "argument 'slope' is wrong; expected a number, got '0.1'"),
        ((X, True), {}, "argument 'slope' is wrong; expected a number, got True"),
        (
            (X, jnp.float32(1)),
            {},
            r"argument 'slope' is wrong; expected a number, got float32\[\]\. Pass traced values",
        ),
    ],
)
def test_wrong_arguments(arguments, named, error):
    with pytest.raises(TypeError, match=error):
        define()(*arguments, **named)


@pytest.mark.parametrize(
    ("given", "error"),
    [([1, 2, 3], "expected 2 values, got"), ([1, 2.5], "expected an integer, got 2.5"), (None, "an integer, got None")],
)
def test_wrong_lists(given, error):
    one = define("NAME(Tensor self, int[2] sizes) -> Tensor", None, lambda self, sizes: self)
    with pytest.raises(TypeError, match=f"argument 'sizes' is wrong; .*{error}"):
        one(X, given)


def test_lists_of_arrays():
    one = define("NAME(Tensor[] parts, Tensor[]? more=None) -> Tensor", None, lambda parts, more: sum(parts))
    np.testing.assert_array_equal(one([X, X, X]), 3 * X)
    with pytest.raises(TypeError, match=r"argument 'parts' is wrong; expected a list of arrays, got .*array\("):
        one(X)


# ------------------------------------------------------------------------------------------------ implementations


def test_the_implementation_is_chosen_by_platform_and_dtype():
    one = define("NAME(Tensor self) -> Tensor", reference=lambda self: self)
    one.impl("cpu", lambda self: self + 1, dtypes=["float32"])
    one.impl("tpu", lambda self: self + 2)
    assert float(one(jnp.float32(0))) == 1 and float(one(jnp.bfloat16(0))) == 0
    lowered = jax.jit(one).trace(X).lower(lowering_platforms=("tpu",)).as_text()
    assert "2.000000e+00" in lowered and "1.000000e+00" not in lowered
    one.impl("cpu", lambda self: self + 3)  # the last one wins
    assert float(jax.jit(lambda x: one(x))(jnp.bfloat16(0))) == 3


def test_an_implementation_must_have_the_type_of_the_reference():
    one = define("NAME(Tensor self) -> Tensor", reference=lambda self: self)
    one.impl("cpu", lambda self: self.astype(jnp.bfloat16))
    with pytest.raises(
        TypeError, match=r"for cpu returns another type than .*; expected float32\[2, 3\], got bfloat16"
    ):
        one(X)
    two = define("NAME(Tensor self) -> Tensor", reference=lambda self: self.sum(-1))
    with pytest.raises(ValueError, match=r"the reference returns another shape; expected \(\(2, 3\),\) by dims"):
        two(X)
    three = define("NAME(Tensor self) -> (Tensor, Tensor)", None, reference=lambda self: self)
    with pytest.raises(ValueError, match="the reference returns 1 results; expected 2 by the signature"):
        three(X)


def test_dtypes_of_implementations():
    for dtypes in ([jnp.float32], "float32", [np.dtype("float32")]):
        one = define("NAME(Tensor self) -> Tensor", reference=lambda self: self)
        one.impl("cpu", lambda self: self + 1, dtypes=dtypes)
        assert float(one(jnp.float32(0))) == 1 and int(one(jnp.int32(0))) == 0
    with pytest.raises(ValueError, match="unknown dtype; expected names such as float32, got 'float33'"):
        one.impl("cpu", lambda self: self, dtypes="float33")


def test_equal_numbers_of_different_types_have_different_programs():
    one = define("NAME(Tensor x, Scalar s) -> Tensor", reference=lambda x, s: jnp.full_like(x, s, jnp.asarray(s).dtype))
    x = jnp.arange(3)
    assert [one(x, s).dtype.name for s in (2, 2.0, 2, True)] == ["int32", "float32", "int32", "bool"]
    two = define("NAME(Tensor x, float s) -> Tensor", reference=lambda x, s: jnp.copysign(x, s))
    assert [float(two(jnp.float32(1), s)) for s in (0.0, -0.0)] == [1, -1]
    three = define("NAME(Tensor x) -> Tensor", reference=lambda x: x.astype(float))
    assert three(x).dtype == np.float32
    with jax.enable_x64(True):
        assert three(np.arange(3, dtype=np.int32)).dtype == np.float64


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("made::a(Tensor(a!) x) -> Tensor(a!)", "changes an argument, or its results are not arrays"),
        ("made::b(Tensor x) -> int", "results are not arrays; expected results of the type Tensor"),
        ("made::c(Tensor x) -> Tensor[]", "its results are not arrays"),
        ("made::d(Tensor?[] x) -> Tensor", r"a list with optional arrays; expected Tensor\[\], got Tensor\?\[\]"),
        ("made::e(Tensor x, int x) -> Tensor", "two arguments with the same name"),
        ("made::f(...) -> Tensor", "has '...' or two arguments"),
    ],
)
def test_signatures_of_no_pure_function(schema, error):
    with pytest.raises(ValueError, match=error):
        operators.define(schema)


def test_copies_are_the_same_operator():
    one = define()
    assert copy.deepcopy(one) is one and pickle.loads(pickle.dumps(one)) is one


def test_debug_nans_finds_the_operation():
    one = define("NAME(Tensor x) -> Tensor", reference=lambda x: jnp.log(x))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        one(-jnp.ones(3))
    assert np.isnan(one(-jnp.ones(3))).all()


def test_names_that_are_wrong():
    one = define()
    with pytest.raises(ValueError, match=f"{one.schema.full_name} is already defined; expected another name, got"):
        operators.define(str(one.schema))
    with pytest.raises(ValueError, match="unknown platform; expected cpu, cuda, rocm, tpu, got 'gpu'"):
        one.impl("gpu", lambda self, slope: self)
    with pytest.raises(ValueError, match="derivative: unknown argument; expected self, got 'slope'"):
        one.derivative(slope="grad")
    bare = operators.define("made::bare(Tensor x) -> Tensor")
    with pytest.raises(
        ValueError, match=r"made::bare: the operator has no reference; expected a function in jax.numpy"
    ):
        bare(X)


# ---------------------------------------------------------------------------------------------------- derivatives


def test_derivatives_that_are_wrong():
    one = define()
    with pytest.raises(ValueError, match=r"the derivative of 'self' is missing; .* operator.derivative"):
        jax.grad(lambda x: one(x).sum())(X)
    taken = define("NAME(Tensor x, float result) -> Tensor", reference=lambda x, result: x)
    with pytest.raises(ValueError, match="an argument of the operator has the name 'result', which stands for"):
        taken.derivative(x="grad")
    for given, error in (
        ("grad +", "the formula does not parse; expected an expression, got 'grad \\+'"),
        ("grad * alpha", "unknown name; expected self, slope, grad, result, or a function of jax.numpy, got 'alpha'"),
        (lambda grad, other: grad, "the function has an unknown parameter; .* got 'other'"),
    ):
        with pytest.raises(ValueError, match=f"derivative: self: .*{error}"):
            one.derivative(self=given)
    one.derivative(self="grad.sum()")
    with pytest.raises(
        ValueError, match=r"derivative of 'self' has another type; expected float32\[2,3\], got float32"
    ):
        jax.grad(lambda x: one(x).sum())(X)


def test_a_joint_derivative_runs_once():
    seen = []

    def joint(grad, self, other):
        seen.append(1)
        return {"self": grad * other, "other": grad * self}

    one = define("NAME(Tensor self, Tensor other) -> Tensor", "..., ... -> ...", lambda self, other: self * other)
    one.derivative(joint)
    found = jax.grad(lambda x, y: one(x, y).sum(), (0, 1))(X, X + 1)
    np.testing.assert_array_equal(found, (X + 1, X))
    assert len(seen) == 1
    one.derivative(other="7 * grad")
    found = jax.grad(lambda x, y: one(x, y).sum(), (0, 1))(X, X + 1)
    np.testing.assert_array_equal(found, (X + 1, np.full_like(X, 7)))


def test_a_change_is_seen_by_the_next_call():
    one = define("NAME(Tensor self) -> Tensor", reference=lambda self: self)
    assert float(one(jnp.float32(1))) == 1
    one.impl("cpu", lambda self: self + 3)
    assert float(one(jnp.float32(1))) == 4
    one.derivative(self="grad")
    assert float(jax.grad(one)(jnp.float32(1))) == 1
    one.derivative(self="2 * grad")
    assert float(jax.grad(one)(jnp.float32(1))) == 2
    outer = define("NAME(Tensor self) -> Tensor", reference=lambda self: one(self))
    assert float(outer(jnp.float32(1))) == 4
    one.impl("cpu", lambda self: self + 5)
    assert float(outer(jnp.float32(1))) == 6


def test_a_composite_operator_falls_apart():
    leaky = define()
    both = operators.define("made::both(Tensor x) -> Tensor")
    both.composite(lambda x: leaky(leaky(x, 0.5)) + 1)
    names = [equation.primitive.name for equation in jax.make_jaxpr(both)(X).eqns]
    assert names == [leaky.schema.full_name] * 2 + ["add"]
    np.testing.assert_array_equal(both(X), np.where(X > 0, X, 0.25 * X) + 1)
    for change in (lambda: both.impl("cpu", lambda x: x), lambda: both.derivative(x="grad")):
        with pytest.raises(ValueError, match="the operator is composite, so this would have no effect"):
            change()
    with pytest.raises(ValueError, match=r"would have no effect; expected none\. Give them to the operators"):
        leaky.composite(lambda self, slope: self)


# ------------------------------------------------------------------------------------------------------- registry


def test_the_table():
    one = define()
    one.impl("cuda", lambda self, slope: self, dtypes=["float32", "bfloat16"])
    one.impl("tpu", lambda self, slope: self)
    (row,) = [row for row in operators.table() if row["operator"] == one.schema.full_name]
    assert list(row.values())[1:] == ["reference", "float32, bfloat16, reference", "reference", "all"]


class Point:
    def __init__(self, name, load):
        self.name, self.value, self.load, self.dist = name, "package.module", load, None


def test_operators_of_other_packages(monkeypatch):
    points = [Point("theirs", lambda: lambda: operators.define("theirs::f(Tensor x) -> Tensor"))]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    registry.load.cache_clear()
    assert operators.get("theirs::f").schema.name == "f"
    with pytest.raises(KeyError, match=r"unknown operator; expected one of theirs::f.*, got 'theirs::g'"):
        operators.get("theirs::g")

    def broken():
        raise RuntimeError("no compiler")

    points[:] = [Point("broken", broken)]
    registry.load.cache_clear()
    with pytest.raises(ImportError, match=r"entry point 'broken' = 'package.module' .* RuntimeError: no compiler"):
        operators.get("theirs::g")
    registry.load.cache_clear()


def test_examples_define_operators_with_different_names():
    """One process runs many examples, and a name can be defined once."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "funcnet").rglob("*.py"))]
    names = [name for text in texts for name in re.findall(r'define\("(doctest::\w+)', text)]
    assert len(names) == len({*names}) > 3
