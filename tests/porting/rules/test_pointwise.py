"""Rules of pointwise functions against torch: the database's samples, corners, and calls that the database lacks."""

import math

import pytest
import torch

from .exceptions_pointwise import EXCEPTIONS
from .op_samples import agree, cases, check


def words(text):
    return text.split()


NAMES = words("""
    abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min complex conj conj_physical copysign cos
    cosh deg2rad digamma div/floor_rounding div/no_rounding_mode div/trunc_rounding erf erfc erfinv exp exp2 expm1
    float_power floor floor_divide fmax fmin fmod frac frexp gcd heaviside hypot i0 igamma igammac imag lcm ldexp lerp
    lgamma log log10 log1p log2 logaddexp logaddexp2 logit maximum minimum mul mvlgamma/mvlgamma_p_1
    mvlgamma/mvlgamma_p_3 mvlgamma/mvlgamma_p_5 nan_to_num neg nextafter polar polygamma/polygamma_n_0
    polygamma/polygamma_n_1 polygamma/polygamma_n_2 polygamma/polygamma_n_3 polygamma/polygamma_n_4 positive pow
    rad2deg real reciprocal remainder resolve_conj resolve_neg round round/decimals_0 round/decimals_3
    round/decimals_neg_3 rsqrt rsub sgn sigmoid sign signbit sin sinc sinh sqrt square sub tan tanh true_divide trunc
    view_as_complex view_as_real xlogy
""")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_samples_of_the_database(name, form):
    agree(name, form, EXCEPTIONS)


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


GRID = (-2.5, -2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
ONE = numbers(*GRID)
ALL = {
    "a": numbers(*[a for a in GRID for _ in GRID]), "b": numbers(*[b for _ in GRID for b in GRID]),
}  # fmt: skip
INTEGERS = {"i": torch.tensor([-7, -3, -1, 0, 1, 2, 5, 7]), "j": torch.tensor([2, -2, 3, 5, -3, 3, -2, -7])}
COMPLEX = {"c": torch.complex(ONE.detach(), ONE.detach().flip(0))}

CORNERS = [
    *(f"torch.{name}(a)" for name in words(
        "abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh ceil cos "
        "cosh "
        "deg2rad erf erfc erfinv exp exp2 expm1 fix floor frac i0 log log10 log1p log2 nan_to_num neg negative "
        "positive "
        "rad2deg real reciprocal round sgn sigmoid sign signbit sin sinc sinh square tan tanh trunc")),
    *(f"a.pow({exponent})" for exponent in (0, 1, 2, 3, -1, -2, 1.5)),
    *(f"torch.pow({base}, a)" for base in (1, 2, -1)),
    "torch.clamp(a, 0, 1)", "a.clip(max=0.5)", "a.clamp(min=-1)", "torch.clamp_min(a, 0)", "a.clamp_max(1)",
    "torch.rsub(a, 2, alpha=3)", "a.round(decimals=1)", "a.square()", "a.sqrt().nan_to_num(nan=None)",
    "torch.nan_to_num(a.log(), 1.0, neginf=5.0)", "torch.logit(a.abs() / 5)", "a.logit(0.1)", "2 * -a.abs()**2",
]  # fmt: skip
PAIRS = [
    *(f"torch.{name}(a, b)" for name in words(
        "add sub subtract mul multiply div divide true_divide maximum minimum fmax fmin atan2 arctan2 copysign "
        "logaddexp "
        "logaddexp2 remainder fmod xlogy ldexp")),
    "torch.add(a, b, alpha=2)", "a.sub(b, alpha=0.5)", "torch.lerp(a, b, 0.3)", "torch.lerp(a, b, 0.7)",
    "a.lerp(b, a * b)",
    "torch.lerp(a * 2, b, 0.5)", "torch.addcmul(a, a, b, value=2)", "a.addcdiv(a, b + 3)",
    "a.addcdiv(a, b + 3, value=0.5)",
    "torch.div(a, b, rounding_mode='floor')", "a.div(b, rounding_mode='trunc')", "a.div(b, rounding_mode=None)",
    "torch.floor_divide(a.detach(), b.detach())", "torch.nextafter(a.detach(), b.detach())", "torch.clamp(a, min=b)",
    "torch.heaviside(a.detach(), b.detach())", "torch.view_as_complex(torch.stack([a, b], -1)).abs()",
    "torch.view_as_real(torch.complex(a, b) * 2)", "torch.real(torch.complex(a, b))",
    "torch.polar(a.detach().abs(), b.detach())",
    "torch.complex(a, b).angle()", "torch.igamma(a.detach().abs() + 1, b.abs())",
]  # fmt: skip
WHOLE = [
    *(f"torch.{name}(i, j)" for name in words(
        "add sub mul div floor_divide remainder fmod maximum minimum bitwise_and bitwise_or bitwise_xor gcd lcm atan2 "
        "heaviside float_power copysign ldexp")),
    *(f"torch.{name}(i)" for name in words(
        "abs neg sign sgn ceil floor round trunc square bitwise_not signbit exp sin tanh reciprocal sinc expm1 exp2 "
        "angle "
        "deg2rad nan_to_num")),
    "torch.div(i, j, rounding_mode='floor')", "torch.div(i, j, rounding_mode='trunc')", "torch.pow(i, 2)",
    "i.abs().pow(0.5)",
    "torch.pow(2, i.abs())", "torch.clamp(i, 0, 3)", "torch.clamp(i, 0.5)", "torch.add(i, 0.5)", "i.mul(2.5)",
    "i.mul(i > 0)",
    "i.abs().bitwise_left_shift(2)", "i.bitwise_right_shift(1)", "torch.addcmul(i, i, j)", "torch.xlogy(i, j.abs())",
    "torch.add(i > 0, i > 1)", "(i > 0).bitwise_not()", "(i > 0).bitwise_and(j > 0)", "torch.mul(i > 0, 0.5)",
]  # fmt: skip
COMPLEXES = [
    *(f"torch.{name}(c)" for name in words(
        "abs angle exp sgn conj conj_physical real imag square sqrt log sin tanh reciprocal view_as_real neg "
        "resolve_conj "
        "is_complex")),
    "c.real", "c.imag", "c.mul(c)", "c.pow(2)", "c.conj()", "c.is_complex()", "c.real.is_complex()",
]  # fmt: skip


@pytest.mark.parametrize("text", CORNERS)
def test_corners_of_one_argument(text):
    assert check(text, {"a": ONE}) is None
    assert check(text, {"a": numbers(0.0, -1.0, 1.0)}) is None


@pytest.mark.parametrize("text", PAIRS)
def test_corners_of_two_arguments(text):
    assert check(text, ALL) is None


@pytest.mark.parametrize("text", WHOLE)
def test_integers_and_booleans(text):
    assert check(text, INTEGERS) is None


@pytest.mark.parametrize("text", COMPLEXES)
def test_complex_numbers(text):
    assert check(text, COMPLEX) is None


@pytest.mark.slow
def test_special_functions():
    a = numbers(-20.3, -8.3, -7.7, -0.5, 0.3, 1.0, 4.5, 30.0)
    for text in ("torch.digamma(a)", "a.lgamma()", *(f"torch.polygamma({n}, a)" for n in range(4)), "a.polygamma(1)"):
        assert check(text, {"a": a}) is None
    assert check("torch.mvlgamma(a, 2)", {"a": numbers(0.6, 1.0, 2.0)}) is None
    assert check("torch.rsqrt(a)", {"a": numbers(0.5, math.pi)}) is None
    assert check("torch.frexp(a)", {"a": numbers(0.0, 1.0, -5.0).detach()}) is None
