"""Comparisons, tests of single entries, logic, and `where`."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_OPERATORS = {
    "eq": "==", "ne": "!=", "not_equal": "!=", "lt": "<", "less": "<", "le": "<=", "less_equal": "<=", "gt": ">",
    "greater": ">", "ge": ">=", "greater_equal": ">=",
}  # fmt: skip

_LOGIC = ("logical_and", "logical_or", "logical_xor")
_TESTS = ("isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "logical_not")

_ONE_BOOLEAN = "The result is an array of one boolean. Under jit, an if statement cannot read it."

ROWS = (
    *(rule(f"both.{name}(input, other)", f"input {sign} other") for name, sign in _OPERATORS.items()),
    *(rule(f"both.{name}(input, other)", f"jnp.{name}(input, other)") for name in _LOGIC),
    *(rule(f"both.{name}(input)", f"jnp.{name}(input)") for name in _TESTS),
    *(
        rule(
            f"both.{name}(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)",
            f"jnp.{name}(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)",
            note=note,
        )
        for name, note in (("isclose", ""), ("allclose", _ONE_BOOLEAN))
    ),
    rule("both.equal(input, other)", "jnp.array_equal(input, other)", kind="semantic", note=_ONE_BOOLEAN),
    rule(
        "torch.isin(elements, test_elements, *, assume_unique=False, invert=False)",
        "jnp.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)",
    ),
    rule(
        "both.is_nonzero(input)",
        "bool(input)",
        kind="semantic",
        level="eager only",
        note="Under jit, a bool cannot depend on an array's values. Use jnp.where or jax.lax.cond.",
        result="bool",
    ),
    rule("torch.where(condition, input, other)", "jnp.where(condition, input, other)"),
    rule("Tensor.where(input, condition, other)", "jnp.where(condition, input, other)"),
)
