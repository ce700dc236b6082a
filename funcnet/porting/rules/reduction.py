"""Sums, means, extremes and other functions that reduce dimensions or work along one dimension."""

from funcnet.porting.rule_engine.rule import Rule, rule

__all__ = ["ROWS"]

_SCALAR = "known(input.ndim == 0)"  # torch takes dimension 0 of a scalar. NumPy does not.


def _over(signature: str, template: str, when: str = "", fallback: bool = True, **options: str) -> tuple[Rule, ...]:
    """Return the rules of a reduction whose template has `axis=dim`.

    There is one rule for each of these cases, in this order:

    - The tensor is a scalar, which has no axis.
    - `dim` is an empty tuple, which means all dimensions.
    - `dim` means the same in NumPy and torch.
    - `dim` is known only at run time. If `fallback` is False, there is no rule for this last case.
    """
    keepdim = " or keepdim.is_given" if "keepdim" in signature else ""
    also = f" and ({when})" if when else ""
    whole = template.replace("axis=dim, ", "").replace("axis=dim", "")
    scalar = whole.replace("keepdims=keepdim, ", "").replace(", keepdims=keepdim", "").replace("keepdims=keepdim", "")
    rows = (
        (scalar, f"{_SCALAR} and (dim.is_given{keepdim}){also}"),
        (whole, f"known(dim.equals((), [])){also}"),
        (template, f"dim.is_axis{also}"),
        (template.replace("axis=dim", "axis=tl.axes(dim)"), when),
    )[: 4 if fallback else 3]
    return tuple(one for text, condition in rows for one in rule(signature, text, when=condition, **options))


def _along(signature: str, template: str, when: str = "") -> tuple[Rule, ...]:
    """Return the rules of a torch function that works along one dimension and returns a scalar tensor unchanged."""
    scalar = rule(signature, "input", when="known(input.ndim == 0 and input.is_floating) and dim.is_given")
    return (*scalar, *rule(signature, template, when=when))


_UNSIGNED = "input.dtype.startswith('uint')"  # torch's sums are int64, and JAX's unsigned

_SUMS = (
    _over("both.sum(input, dim=None, keepdim=False)", "input.sum(axis=dim, keepdims=keepdim, dtype=int)", _UNSIGNED),
    _over(
        "both.sum(input, dim=None, keepdim=False, *, dtype=None)", "input.sum(axis=dim, keepdims=keepdim, dtype=dtype)"
    ),
    _over(
        "both.mean(input, dim=None, keepdim=False, *, dtype=None)",
        "input.mean(axis=dim, keepdims=keepdim, dtype=dtype)",
    ),
    _over(
        "both.nansum(input, dim=None, keepdim=False, *, dtype=None)",
        "jnp.nansum(input, axis=dim, keepdims=keepdim, dtype=dtype)",
    ),
    _over(
        "both.nanmean(input, dim=None, keepdim=False, *, dtype=None)",
        "jnp.nanmean(input, axis=dim, keepdims=keepdim, dtype=dtype)",
    ),
    _over("both.prod(input, dim=None, keepdim=False)", "input.prod(axis=dim, keepdims=keepdim, dtype=int)", _UNSIGNED),
    _over(
        "both.prod(input, dim=None, keepdim=False, *, dtype=None)",
        "input.prod(axis=dim, keepdims=keepdim, dtype=dtype)",
    ),
    _over("both.logsumexp(input, dim, keepdim=False)", "jax.nn.logsumexp(input, axis=dim, keepdims=keepdim)"),
    _over("both.count_nonzero(input, dim=None)", "jnp.count_nonzero(input, axis=dim)"),
    _over(
        "both.all(input, dim=None, keepdim=False)",
        "input.all(axis=dim, keepdims=keepdim).astype(jnp.uint8)",
        "input.dtype == 'uint8'",
    ),
    _over("both.all(input, dim=None, keepdim=False)", "input.all(axis=dim, keepdims=keepdim)"),
    _over(
        "both.any(input, dim=None, keepdim=False)",
        "input.any(axis=dim, keepdims=keepdim).astype(jnp.uint8)",
        "input.dtype == 'uint8'",
    ),
    _over("both.any(input, dim=None, keepdim=False)", "input.any(axis=dim, keepdims=keepdim)"),
)

_SPREADS = (
    _over(
        "both.var(input, dim=None, unbiased=True, keepdim=False)",
        "input.var(axis=dim, ddof=1, keepdims=keepdim)",
        "known(unbiased.equals(True))",
        fallback=False,
        kind="semantic",
        note="torch divides by N - 1.",
    ),
    _over(
        "both.var(input, dim=None, unbiased=True, keepdim=False)",
        "input.var(axis=dim, keepdims=keepdim)",
        "known(unbiased.equals(False))",
        fallback=False,
    ),
    _over(
        "both.var(input, dim=None, *, correction=1, keepdim=False)",
        "input.var(axis=dim, ddof=1, keepdims=keepdim)",
        "known(correction.is_only('none'))",
        fallback=False,
    ),
    _over(
        "both.var(input, dim=None, *, correction=1, keepdim=False)",
        "input.var(axis=dim, ddof=correction, keepdims=keepdim)",
        fallback=False,
    ),
)

_EXTREMES = (
    rule("both.max(input)", "input.max()"),
    rule(
        "both.max(input, other)",
        "jnp.maximum(input, other)",
        when="known(other.is_tensor) and input.dtype == other.dtype",
    ),
    rule("both.max(input, other)", "tl.max(input, other=other)", when="known(other.is_tensor)"),
    rule("both.max(input, dim, keepdim=False)", "tl.max(input, dim, keepdim=keepdim)", result="tuple", kind="semantic"),
    rule("both.max(input, other)", "tl.max(input, other=other)"),
    rule("both.min(input)", "input.min()"),
    rule(
        "both.min(input, other)",
        "jnp.minimum(input, other)",
        when="known(other.is_tensor) and input.dtype == other.dtype",
    ),
    rule("both.min(input, other)", "tl.min(input, other=other)", when="known(other.is_tensor)"),
    rule("both.min(input, dim, keepdim=False)", "tl.min(input, dim, keepdim=keepdim)", result="tuple", kind="semantic"),
    rule("both.min(input, other)", "tl.min(input, other=other)"),
    _over("both.amax(input, dim=(), keepdim=False)", "input.max(axis=dim, keepdims=keepdim)"),
    _over("both.amin(input, dim=(), keepdim=False)", "input.min(axis=dim, keepdims=keepdim)"),
    rule(
        "both.aminmax(input, *, dim=None, keepdim=False)", "tl.aminmax(input, dim=dim, keepdim=keepdim)", result="tuple"
    ),
    *(
        row
        for name in ("argmax", "argmin")
        for row in (
            _over(
                f"both.{name}(input, dim=None, keepdim=False)",
                f"input.{name}(axis=dim)",
                "known(keepdim.equals(False))",
            ),
            _over(f"both.{name}(input, dim=None, keepdim=False)", f"input.{name}(axis=dim, keepdims=keepdim)"),
        )
    ),
)

# Rules for sources that read only one part of a result, such as `x.max(1)[0]`; see transforms/result_parts.py.
_ONE = "known(dim.is_only('int') and input.ndim > 0)"
_PARTS = tuple(
    row
    for name in ("max", "min")
    for row in (
        rule(
            f"both.{name}.indices(input, dim, keepdim=False)",
            f"input.arg{name}(axis=dim)",
            when=f"{_ONE} and known(keepdim.equals(False))",
        ),
        rule(
            f"both.{name}.indices(input, dim, keepdim=False)", f"input.arg{name}(axis=dim, keepdims=keepdim)", when=_ONE
        ),
        rule(
            f"both.{name}.values(input, dim, keepdim=False)",
            f"input.{name}(axis=dim, keepdims=keepdim)",
            when=f"{_ONE} and known(input.is_integral or input.is_boolean)",
            note="Of equal entries, torch's gradient goes to one. JAX divides it.",
        ),
    )
)

_RUNNING = (
    _along("both.cumsum(input, dim)", "input.cumsum(axis=dim, dtype=int)", f"{_UNSIGNED} or input.dtype == 'bool'"),
    _along("both.cumsum(input, dim, *, dtype=None)", "input.cumsum(axis=dim, dtype=dtype)"),
    _along("both.cumprod(input, dim)", "input.cumprod(axis=dim, dtype=int)", f"{_UNSIGNED} or input.dtype == 'bool'"),
    _along("both.cumprod(input, dim, *, dtype=None)", "input.cumprod(axis=dim, dtype=dtype)"),
    rule("both.cummax(input, dim)", "tl.cummax(input, dim)", result="tuple"),
    rule("both.cummin(input, dim)", "tl.cummin(input, dim)", result="tuple"),
    rule("both.logcumsumexp(input, dim)", "tl.logcumsumexp(input, dim)"),
    rule("torch.trapezoid(y, x=None, *, dx=1, dim=-1)", "jnp.trapezoid(y, x, dx, axis=dim)"),
    rule("torch.trapz(y, x=None, *, dx=1, dim=-1)", "jnp.trapezoid(y, x, dx, axis=dim)"),
    rule("torch.cumulative_trapezoid(y, x=None, *, dx=1, dim=-1)", "tl.cumulative_trapezoid(y, x, dx=dx, dim=dim)"),
    rule(
        "both.diff(input, n=1, dim=-1, prepend=None, append=None)",
        "jnp.diff(input, n, axis=dim, prepend=prepend, append=append)",
    ),
    rule(
        "torch.gradient(input, *, spacing=1, dim=None, edge_order=1)",
        "tl.gradient(input, spacing=spacing, dim=dim, edge_order=edge_order)",
        result="tuple",
    ),
)

ROWS = (*_SUMS, *_SPREADS, *_EXTREMES, *_PARTS, *_RUNNING)
