"""The functions of `torch.special`."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_NO_SUCH = "JAX has no such function. Write it with scipy.special and jax.pure_callback, or by its series."

# {torch's name: the function that replaces it}, for functions of one array
_UNARY = {
    "digamma": "tl.digamma", "psi": "tl.digamma", "entr": "jax.scipy.special.entr",
    "erf": "jax.lax.erf", "erfc": "jax.lax.erfc", "erfcx": "jax.scipy.special.erfcx", "erfinv": "jax.lax.erf_inv",
    "exp2": "jnp.exp2", "expit": "jax.nn.sigmoid", "expm1": "jnp.expm1", "gammaln": "jax.lax.lgamma",
    "i0": "tl.i0", "i0e": "jax.scipy.special.i0e", "i1": "jax.scipy.special.i1",
    "i1e": "jax.scipy.special.i1e", "modified_bessel_i0": "tl.i0",
    "modified_bessel_i1": "jax.scipy.special.i1", "log1p": "jnp.log1p", "log_ndtr": "jax.scipy.special.log_ndtr",
    "ndtr": "jax.scipy.special.ndtr", "ndtri": "jax.scipy.special.ndtri", "sinc": "jnp.sinc",
}  # fmt: skip

_BINARY = {
    "gammainc": "jax.scipy.special.gammainc", "gammaincc": "jax.scipy.special.gammaincc",
    "xlog1py": "jax.scipy.special.xlog1py", "xlogy": "tl.xlogy", "zeta": "jax.scipy.special.zeta",
}  # fmt: skip

_WITHOUT = (
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "chebyshev_polynomial_v", "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he",
    "laguerre_polynomial_l", "legendre_polynomial_p",
)  # fmt: skip

ROWS = (
    *(rule(f"torch.special.{name}(input)", f"{ours}(input)") for name, ours in _UNARY.items()),
    *(rule(f"torch.special.{name}(input, other)", f"{ours}(input, other)") for name, ours in _BINARY.items()),
    rule("torch.special.logit(input, eps=None)", "jax.scipy.special.logit(input)"),
    rule("torch.special.logit(input, eps=None)", "jax.scipy.special.logit(tl.clamp(input, min=eps, max=1 - eps))",
         when="not eps.is_only('none')", kind="semantic"),
    rule("torch.special.logsumexp(input, dim, keepdim=False)",
         "jax.scipy.special.logsumexp(input, axis=dim, keepdims=keepdim)", when="known(dim.is_axis)"),
    rule("torch.special.logsumexp(input, dim, keepdim=False)",
         "jax.scipy.special.logsumexp(input, axis=dim or None, keepdims=keepdim)", when="dim.is_only('tuple', 'list')"),
    rule("torch.special.softmax(input, dim, *, dtype=None)", "F.softmax(input, dim, dtype=dtype)"),
    rule("torch.special.log_softmax(input, dim, *, dtype=None)", "F.log_softmax(input, dim, dtype=dtype)"),
    rule("torch.special.multigammaln(input, p)", "jax.scipy.special.multigammaln(input, p)"),
    rule("torch.special.polygamma(n, input)", "tl.polygamma(n, input)"),
    rule("torch.special.round(input, *, decimals=0)", "jnp.round(input, decimals)"),
    rule("torch.special.spherical_bessel_j0(input)", "jnp.sinc(input / jnp.pi)"),
    *(rule(f"torch.special.{name}", kind="register", note=_NO_SUCH) for name in _WITHOUT),
    rule("torch.special.Tensor", "jax.Array", result="class"),
)  # fmt: skip
