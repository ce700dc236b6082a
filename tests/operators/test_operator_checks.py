"""`operators.check`: it passes the operators of `samples.py`, and finds each kind of mistake."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import operators
from tests.operators.samples import SAMPLES

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
numbers = itertools.count()


def square(dims="... -> ...", derivative="2 * self * grad", reference=lambda self: self * self):
    one = operators.define(f"checked::f{next(numbers)}(Tensor self) -> Tensor", dims)
    one.reference(reference)
    one.derivative(self=derivative)
    return one


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"joined"}))
def test_right_operators_pass(name):
    operator = operators.get({"leaky": "test::leaky_relu", "layer_norm": "test::norm", "product": "test::mul",
                              "moments": "test::var_mean", "foreign": "test::scale",
                              "pallas": "test::pallas_square"}.get(name, f"test::{name}"))  # fmt: skip
    found = operators.check(operator, [SAMPLES[name].arrays])
    assert set(found.values()) == {"passed"}


def test_a_list_of_arrays():
    arguments = {"parts": SAMPLES["joined"].arrays, "factors": [2, 3]}
    found = operators.check(operators.get("test::stack_sum"), [arguments])
    assert found.pop("sharding") == "left out: the operator has no dimensions ..."
    assert set(found.values()) == {"passed"}


def findings(one, arguments=(X,)):
    with pytest.raises(AssertionError, match=f"{one.schema.full_name} is wrong; expected no findings"):
        operators.check(one, [arguments])
    found = operators.check(one, [arguments], raises=False)
    return {name: text for name, text in found.items() if text != "passed"}


def test_a_wrong_derivative():
    found = findings(square(derivative="3 * self * grad"))
    assert found == {
        "derivatives": "sample 0: the derivative of self differs from finite differences by 0.5 of the largest value"
    }


def test_a_missing_derivative():
    one = operators.define(f"checked::f{next(numbers)}(Tensor self) -> Tensor")
    one.reference(lambda self: self)
    assert findings(one)["derivatives"] == "sample 0: the derivative of self is missing"


def test_another_value_on_this_platform():
    one = square()
    one.impl("cpu", lambda self: self * self + 0.1)
    found = findings(one)
    assert (
        found["implementations"] == "sample 0: the implementation for cpu differs from the reference by 0.1 of the "
        "largest value"
    )
    assert {"vmap", "jit", "sharding"} < set(found)


def test_another_dtype_on_another_platform():
    one = square()
    one.impl("tpu", lambda self: (self * self).astype(jnp.bfloat16))
    assert "for tpu returns another type" in findings(one)["types"]


def test_dimensions_that_are_not_mapped_through():
    one = square(reference=lambda self: self * self.sum(0), derivative=lambda grad, self: grad)
    found = findings(one)
    assert "devices that share the dimensions ... communicate: all-reduce" in found["sharding"]
    assert "vmap differs" in found["vmap"]


def test_a_kernel_that_is_wrong_under_vmap():
    one = operators.define(f"checked::f{next(numbers)}(Tensor x, Tensor w) -> Tensor", "... d, d -> ... d")
    one.reference(lambda x, w: x * w)
    one.derivative(x="grad * w", w="(grad * x).reshape(-1, w.shape[0]).sum(0)")
    one.impl("cpu", lambda x, w: x * w if x.ndim <= 2 else x * w * 0 + 99)
    assert "vmap differs" in findings(one, (X, X[0]))["vmap"]


def test_a_derivative_that_is_wrong_under_vmap():
    one = square("... d -> ... d", "result * (grad - (grad * result).sum(0, keepdims=True))",
                 lambda self: jax.nn.softmax(self, -1))  # fmt: skip
    assert "the gradient of vmap differs" in findings(one, (X[0],))["derivatives"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(divide|invalid value)")
def test_what_is_no_mistake():
    one = operators.define(f"checked::f{next(numbers)}(Tensor x, Tensor key) -> (Tensor, Tensor, Tensor)")
    one.reference(lambda x, key: (x / 0 * jax.random.uniform(key), x.argmax(-1).astype(jnp.int32), x > 0))
    one.derivative(x=lambda grads, key: grads[0] / 0 * jax.random.uniform(key, dtype=grads[0].dtype))
    found = operators.check(one, [(X, jax.random.key(0))], raises=False)
    assert found.pop("sharding").startswith("left out") and "finite differences" in found.pop("derivatives")
    assert set(found.values()) == {"passed"}, found
    whole = operators.define(f"checked::f{next(numbers)}(Tensor x) -> (Tensor, Tensor)", "... d -> ... d, ...")
    whole.reference(lambda x: (2 * x, x.argmax(-1).astype(jnp.int32)))
    whole.derivative(x="2 * grads[0]")
    parts = operators.define(f"checked::f{next(numbers)}(Tensor x) -> Tensor")
    parts.composite(lambda x: whole(x)[0])
    assert set(operators.check(whole, [(X,)]).values()) == {"passed"}
    assert (
        operators.check(parts, [(X,)])["derivatives"]
        == "left out: the operator is composite, so its derivatives are those of its parts"
    )
    with pytest.raises(ValueError, match="expected at least one sample, got none"):
        operators.check(parts, [])


def test_an_operator_with_a_memory():
    counted = itertools.count()
    one = square(reference=lambda self: self * self + next(counted))
    assert "so it depends on more than its arguments" in findings(one)["purity"]


def test_an_implementation_that_fails():
    one = square()

    def fails(self):
        raise RuntimeError("no such kernel")

    one.impl("cpu", fails)
    assert findings(one)["jit"] == "sample 0: RuntimeError: no such kernel"


def test_integers_have_no_derivatives():
    one = operators.define(f"checked::f{next(numbers)}(Tensor self) -> Tensor")
    one.reference(lambda self: self + 1)
    found = operators.check(one, [(np.arange(3, dtype=np.int32),)])
    assert (
        found["derivatives"] == "left out: no argument is an array of real or complex numbers"
        and jax.device_count() == 8
    )


Z = X + 1j * X[::-1] + np.float32(0.5)


@pytest.mark.parametrize(
    ("formula", "other", "reference", "arrays"),
    [
        ("grad * other", "grad * self", lambda self, other: self * other, (Z, Z[::-1])),
        ("astype(grad / abs(self), self.dtype) * conj(self)", "grad", lambda self, other: abs(self) + other, (Z, X)),
        (
            "real(grad * other)",
            "grad * astype(self, other.dtype)",
            lambda self, other: self.astype(other.dtype) * other,
            (X, Z),
        ),
    ],
    ids=["complex", "complex to real", "real to complex"],
)
def test_complex_arguments_and_results(formula, other, reference, arrays):
    for factor in ("", "2 * "):
        one = operators.define(
            f"checked::c{next(numbers)}(Tensor self, Tensor other) -> Tensor", dims="..., ... -> ..."
        )
        one.reference(reference)
        one.derivative(self=factor + formula, other=other)
        found = operators.check(one, [arrays], raises=False)
        assert ("the derivative of self differs" in found.pop("derivatives")) == bool(factor)
        assert set(found.values()) == {"passed"}


def test_the_conjugate_of_a_complex_derivative_is_wrong():
    one = operators.define(f"checked::c{next(numbers)}(Tensor self, Tensor other) -> Tensor", dims="..., ... -> ...")
    one.reference(lambda self, other: self * other)
    one.derivative(self="grad * conj(other)", other="grad * conj(self)")  # as in torch's derivatives.yaml
    found = findings(one, (Z, Z[::-1]))
    assert list(found) == ["derivatives"]
    assert "the derivative of self differs from finite differences" in found["derivatives"]
