"""Element-wise functions: arithmetic, exponentials, rounding, special functions, complex numbers."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

# {torch's name: name in jax.numpy}, for functions of one array
_UNARY = {
    "acos": "arccos", "arccos": "arccos", "acosh": "arccosh", "arccosh": "arccosh", "asin": "arcsin",
    "arcsin": "arcsin", "asinh": "arcsinh", "arcsinh": "arcsinh", "atan": "arctan", "arctan": "arctan",
    "atanh": "arctanh", "arctanh": "arctanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "deg2rad": "deg2rad",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "fix": "trunc", "floor": "floor", "log": "log", "log10": "log10",
    "log1p": "log1p", "log2": "log2", "rad2deg": "rad2deg", "sgn": "sign", "sign": "sign", "signbit": "signbit",
    "sin": "sin", "sinc": "sinc", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip

# {torch's name: name in jax.numpy}, for functions of two arrays
_BINARY = {
    "gcd": "gcd", "hypot": "hypot", "lcm": "lcm", "logaddexp": "logaddexp",
    "logaddexp2": "logaddexp2", "maximum": "maximum", "minimum": "minimum", "nextafter": "nextafter",
}  # fmt: skip

_ARITHMETIC = (
    rule("both.abs(input)", "tl.abs(input)", kind="semantic", note="The gradient of jnp.abs at 0 is 1."),
    rule("both.absolute(input)", "tl.abs(input)", kind="semantic", note="The gradient of jnp.abs at 0 is 1."),
    rule("both.add(input, other)", "input + other"),
    rule("both.add(input, other, *, alpha=1)", "input + alpha * other"),
    rule("both.add(input, alpha, other)", "input + alpha * other"),
    *(
        row
        for name in ("sub", "subtract")
        for row in (
            rule(f"both.{name}(input, other)", "input - other"),
            rule(f"both.{name}(input, other, *, alpha=1)", "input - alpha * other"),
        )
    ),
    rule("torch.rsub(input, other)", "other - input"),
    rule("torch.rsub(input, other, *, alpha=1)", "other - alpha * input"),
    rule("both.mul(input, other)", "input * other"),
    rule("both.multiply(input, other)", "input * other"),
    *(
        row
        for name in ("div", "divide")
        for row in (
            rule(f"both.{name}(input, other, *, rounding_mode=None)", "input / other"),
            rule(
                f"both.{name}(input, other, *, rounding_mode)",
                "input // other",
                when="'floor' in (rounding_mode.value,)",
                kind="semantic",
            ),
            rule(
                f"both.{name}(input, other, *, rounding_mode)",
                "tl.div(input, other, rounding_mode=rounding_mode)",
                kind="semantic",
            ),
        )
    ),
    rule("both.true_divide(input, other)", "input / other"),
    rule("both.floor_divide(input, other)", "input // other"),
    rule("both.remainder(input, other)", "input % other"),
    rule("both.fmod(input, other)", "jnp.fmod(input, other)"),
    rule("both.pow(input, exponent)", "input**exponent"),
    rule("both.float_power(input, exponent)", "jnp.float_power(input, exponent)"),
    rule("both.square(input)", "input**2"),
    rule("both.neg(input)", "-input"),
    rule("both.negative(input)", "-input"),
    rule("both.positive(input)", "input"),
    rule("both.reciprocal(input)", "1 / input"),
    rule("both.rsqrt(input)", "jax.lax.rsqrt(input)"),
    rule("both.frac(input)", "jnp.fmod(input, 1)"),
    rule("both.round(input, *, decimals=0)", "jnp.round(input, decimals)"),
    rule("both.addcmul(input, tensor1, tensor2, *, value=1)", "input + tensor1 * tensor2"),
    rule("both.addcmul(input, tensor1, tensor2, *, value=1)", "input + value * tensor1 * tensor2"),
    rule("both.addcmul(input, value, tensor1, tensor2)", "input + value * tensor1 * tensor2"),
    rule("both.addcdiv(input, tensor1, tensor2, *, value=1)", "input + tensor1 / tensor2"),
    rule("both.addcdiv(input, tensor1, tensor2, *, value=1)", "input + value * tensor1 / tensor2"),
    rule("both.addcdiv(input, value, tensor1, tensor2)", "input + value * tensor1 / tensor2"),
    rule("both.lerp(input, end, weight)", "input + weight * (end - input)"),
    rule("both.lerp(input, end, weight)", "tl.lerp(input, end, weight)"),
)

_BOUNDS = (
    rule("both.clamp(input, min=None, max=None)", "tl.clamp(input, min=min, max=max)", kind="semantic"),
    rule("both.clip(input, min=None, max=None)", "tl.clamp(input, min=min, max=max)", kind="semantic"),
    rule("both.clamp_min(input, min)", "tl.clamp(input, min=min)", kind="semantic"),
    rule("both.clamp_max(input, max)", "tl.clamp(input, max=max)", kind="semantic"),
    # If two entries are equal, torch gives the gradient to the first array, and jax.numpy to the second one.
    rule("both.fmax(input, other)", "jnp.fmax(other, input)", kind="semantic"),
    rule("both.fmin(input, other)", "jnp.fmin(other, input)", kind="semantic"),
    rule(
        "both.nan_to_num(input, nan, posinf=None, neginf=None)",
        "jnp.nan_to_num(input, posinf=posinf, neginf=neginf)",
        when="(None,).count(nan.value)",
    ),
    rule(
        "both.nan_to_num(input, nan=0.0, posinf=None, neginf=None)",
        "jnp.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)",
    ),
)

_SPECIAL = (
    rule("both.digamma(input)", "tl.digamma(input)"),
    rule("both.erf(input)", "jax.lax.erf(input)"),
    rule("both.erfc(input)", "jax.lax.erfc(input)"),
    rule("both.erfinv(input)", "jax.lax.erf_inv(input)"),
    rule("both.i0(input)", "tl.i0(input)"),
    rule("both.igamma(input, other)", "jax.scipy.special.gammainc(input, other)"),
    rule("both.igammac(input, other)", "jax.scipy.special.gammaincc(input, other)"),
    rule("both.lgamma(input)", "jax.lax.lgamma(input)"),
    rule("both.logit(input, eps=None)", "jax.scipy.special.logit(input)"),
    rule(
        "both.logit(input, eps=None)",
        "jax.scipy.special.logit(tl.clamp(input, min=eps, max=1 - eps))",
        when="not eps.is_only('none')",
        kind="semantic",
    ),
    rule("both.mvlgamma(input, p)", "jax.scipy.special.multigammaln(input, p)"),
    rule("torch.polygamma(n, input)", "tl.polygamma(n, input)"),
    rule("Tensor.polygamma(input, n)", "tl.polygamma(n, input)"),
    rule("both.sigmoid(input)", "jax.nn.sigmoid(input)"),
    rule("both.atan2(input, other)", "tl.atan2(input, other)", kind="semantic"),
    rule("both.arctan2(input, other)", "tl.atan2(input, other)", kind="semantic"),
    rule("both.xlogy(input, other)", "tl.xlogy(input, other)", kind="semantic"),
    rule("both.copysign(input, other)", "tl.copysign(input, other)", kind="semantic"),
    rule("both.heaviside(input, values)", "jnp.heaviside(input, values)", when="'int' not in input.dtype"),
    rule("both.heaviside(input, values)", "jnp.heaviside(input, values).astype(input.dtype)"),
    rule("both.frexp(input)", "jnp.frexp(input)", result="tuple", note="A tuple without names."),
    rule("both.ldexp(input, other)", "input * 2.0**other"),
)

_BITS = (
    rule("both.bitwise_and(input, other)", "input & other"),
    rule("both.bitwise_or(input, other)", "input | other"),
    rule("both.bitwise_xor(input, other)", "input ^ other"),
    rule("both.bitwise_not(input)", "~input"),
    rule("both.bitwise_left_shift(input, other)", "input << other"),
    rule("both.bitwise_right_shift(input, other)", "input >> other"),
)

_COMPLEX = (
    rule("both.angle(input)", "tl.angle(input)", kind="semantic"),
    rule("torch.real(input)", "input.real"),
    rule("torch.imag(input)", "input.imag"),
    rule("Tensor.real", "input.real"),
    rule("Tensor.imag", "input.imag"),
    rule("both.conj(input)", "input.conj()"),
    rule("both.conj_physical(input)", "input.conj()"),
    rule("both.resolve_conj(input)", "input"),
    rule("both.resolve_neg(input)", "input"),
    rule("torch.complex(real, imag)", "jax.lax.complex(real, imag)", when="(real.shape,) == (imag.shape,)"),
    rule("torch.complex(real, imag)", "jax.lax.complex(*jnp.broadcast_arrays(real, imag))"),
    rule("torch.polar(abs, angle)", "abs * jnp.exp(1j * angle)"),
    rule("torch.view_as_complex(input)", "jax.lax.complex(input[..., 0], input[..., 1])"),
    rule("torch.view_as_complex(input)", "tl.view_as_complex(input)"),
    rule("torch.view_as_real(input)", "jnp.stack([input.real, input.imag], axis=-1)"),
    rule("torch.view_as_real(input)", "tl.view_as_real(input)"),
    rule("both.is_complex(input)", "jnp.iscomplexobj(input)", result="bool"),
)

ROWS = (
    *(rule(f"both.{name}(input)", f"jnp.{ours}(input)") for name, ours in _UNARY.items()),
    *(rule(f"both.{name}(input, other)", f"jnp.{ours}(input, other)") for name, ours in _BINARY.items()),
    *_ARITHMETIC,
    *_BOUNDS,
    *_SPECIAL,
    *_BITS,
    *_COMPLEX,
)
