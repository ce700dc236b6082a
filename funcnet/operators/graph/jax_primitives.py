"""The nodes of JAX's primitives, which are those that torch would record for the same code."""

from typing import Any

from funcnet.operators.graph.jax_shape_primitives import SHAPE_RULES
from funcnet.operators.graph.jaxpr_equation import Equation, Rule, unknown_node
from funcnet.operators.graph.torch_operations.composite_operations import einsum_pair, matmul
from funcnet.operators.graph.torch_operations.tape import TapeValue

__all__ = ["FUNCTIONS", "RULES"]


def _one(operation: str, **settings: Any) -> Rule:
    """The rule of a primitive that is an operation of torch."""

    def rule(equation: Equation) -> list[TapeValue]:
        results = equation.arrays()
        return [equation.tape.run(operation, *equation.given, out=results[0], **settings)]

    return rule


def _commutative(operation: str, **settings: Any) -> Rule:
    """The rule of a sum or a product. Torch puts a number after the tensor: `2 * x` is `x * 2`."""

    def rule(equation: Equation) -> list[TapeValue]:
        given = equation.given[::-1] if equation.is_number(0) else equation.given
        return [equation.tape.run(operation, *given, out=equation.arrays()[0], **settings)]

    return rule


def _detached(equation: Equation) -> list[TapeValue]:
    return [TapeValue(one.array) for one in equation.given]


def _subtraction(equation: Equation) -> list[TapeValue]:
    if equation.is_number(0):
        return [equation.tape.run("rsub.Scalar", equation.given[1], out=equation.arrays()[0], alpha=1)]
    return _one("sub.Tensor", alpha=1)(equation)


def _division(equation: Equation) -> list[TapeValue]:
    numerator, denominator = equation.given
    if equation.is_number(0):
        inverse = equation.tape.run("reciprocal", denominator, out=1 / denominator.array)
        return [equation.tape.run("mul.Tensor", inverse, numerator, out=equation.arrays()[0])]
    return _one("div.Tensor")(equation)


def _power(equation: Equation) -> list[TapeValue]:
    base, exponent = equation.given
    out = equation.arrays()[0]
    if exponent.edge is None and not exponent.shape:
        return [equation.tape.run("pow.Tensor_Scalar", base, out=out, exponent=exponent.array.item())]
    if base.edge is None and not base.shape:
        return [equation.tape.run("pow.Scalar", exponent, out=out, self=base.array.item())]
    return [equation.tape.run("pow.Tensor_Tensor", base, exponent, out=out)]


def _integer_power(equation: Equation) -> list[TapeValue]:
    exponent, out = equation.params.get("y", 2), equation.arrays()[0]
    if exponent == -1:
        return [equation.tape.run("reciprocal", *equation.given, out=out)]
    return [equation.tape.run("pow.Tensor_Scalar", *equation.given, out=out, exponent=exponent)]


def _selection(equation: Equation) -> list[TapeValue]:
    which, *cases = equation.given
    if len(cases) != 2 or which.dtype != bool:
        return unknown_node(equation)
    return [equation.tape.run("where.self", which, cases[1], cases[0], out=equation.arrays()[0])]


def _conversion(equation: Equation) -> list[TapeValue]:
    out = equation.arrays()[0]
    (given,) = equation.given
    if out.dtype == given.dtype:
        return [given]
    return [equation.tape.run("_to_copy", given, out=out)]


def _clamped(equation: Equation) -> list[TapeValue]:
    low, x, high = equation.given
    out = equation.arrays()[0]
    return [equation.tape.run("clamp", x, out=out, min=low.array.item(), max=high.array.item())]


def _product(equation: Equation) -> list[TapeValue]:
    """Products that `torch.matmul` computes, and the products of `torch.einsum`."""
    a, b = equation.given
    (sum_a, sum_b), (batch_a, batch_b) = dims = equation.params["dimension_numbers"]
    out = equation.arrays()[0]
    leading = tuple(range(len(batch_a)))
    is_matmul = (
        tuple(batch_a) == leading == tuple(batch_b)
        and tuple(sum_a) == (a.ndim - 1,)
        and tuple(sum_b) == (max(b.ndim - 2, 0),)
        and (b.ndim <= 2 if not leading else a.ndim == b.ndim == len(leading) + 2)
    )
    found = matmul(equation.tape, a, b) if is_matmul else einsum_pair(equation.tape, a, b, dims)
    return [TapeValue(out, found.edge)]


def _rectified(equation: Equation) -> list[TapeValue]:
    return [equation.tape.run("relu", *equation.given)]


def _convolution(equation: Equation) -> list[TapeValue]:
    params = equation.params
    settings = {"stride": tuple(params["window_strides"]), "dilation": tuple(params["rhs_dilation"])}
    out = equation.arrays()[0]
    return [equation.tape.run("convolution", *equation.given, None, out=out, **settings)]


def _maximum(equation: Equation) -> list[TapeValue]:
    operation = {"max": "maximum", "min": "minimum"}[equation.name]
    return [equation.tape.run(operation, *equation.given, out=equation.arrays()[0])]


FUNCTIONS: dict[str, Rule] = {"relu": _rectified}  # JAX's functions that define their own derivatives
_UNARY = (
    "exp log tanh sin cos tan asin acos atan sinh cosh asinh acosh atanh sqrt rsqrt log1p expm1 erf erfc neg abs sign "
    "floor ceil round exp2 lgamma digamma"
)
RULES: dict[str, Rule] = {
    **{name: _one(name) for name in _UNARY.split()},
    **SHAPE_RULES,
    "erf_inv": _one("erfinv"),
    "logistic": _one("sigmoid"),
    "add": _commutative("add.Tensor", alpha=1),
    "add_any": _one("add.Tensor", alpha=1),
    "sub": _subtraction,
    "mul": _commutative("mul.Tensor"),
    "div": _division,
    "pow": _power,
    "integer_pow": _integer_power,
    "square": _integer_power,
    "max": _maximum,
    "min": _maximum,
    "atan2": _one("atan2"),
    "rem": _one("fmod.Tensor"),
    "clamp": _clamped,
    "select_n": _selection,
    "convert_element_type": _conversion,
    "dot_general": _product,
    "conv_general_dilated": _convolution,
    "copy": _one("clone"),
    "copy_p": _one("clone"),
    "stop_gradient": _detached,
}
