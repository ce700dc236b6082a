"""Registers the places at which Python needs the value of a tensor: `if`, `while`, `assert`, `int(x)`.

Without `jit`, JAX knows this value, but not under `jit`, so the register lists these places as "eager only".
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from funcnet.porting.errors.unported_lines import EAGER_ONLY
from funcnet.porting.reading.expressions import code
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["asserted", "branch", "checked", "choice", "number", "picked", "truth"]

_NUMBERS = ("int", "float", "bool", "range")
_CHECKS = ("torch._assert", "torch._check", "torch._assert_async")


def _parts(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the expressions whose truth values decide a condition: `a` and `b` for `not a or b`."""
    if isinstance(test, cst.BooleanOperation):
        yield from _parts(test.left)
        yield from _parts(test.right)
    elif isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from _parts(test.expression)
    else:
        yield test


def _note(test: cst.BaseExpression, write: str, context: RewriteContext) -> None:
    for part in _parts(test):
        fact = context.fact(part)
        if fact.is_tensor and fact.shape in ((), (1,), None) and not (context.starts(part) or context.is_static(part)):
            context.give_up(part, f"{code(part)} is a tensor, so its value is not known under jit.", write, EAGER_ONLY)


def branch(original: cst.If | cst.While, updated: cst.CSTNode, context: RewriteContext) -> None:
    """Add a register entry for an `if` or a `while` whose condition is a tensor."""
    _note(original.test, "Use jnp.where, jax.lax.cond or jax.lax.while_loop.", context)


def choice(original: cst.IfExp, updated: cst.IfExp, context: RewriteContext) -> None:
    """Add a register entry for an expression `a if x else b` whose condition `x` is a tensor."""
    _note(original.test, "Use jnp.where.", context)


def picked(original: cst.CompIf, updated: cst.CompIf, context: RewriteContext) -> None:
    """Add a register entry for a comprehension whose `if` tests a tensor."""
    _note(original.test, "Use jnp.where.", context)


def asserted(original: cst.Assert, updated: cst.Assert, context: RewriteContext) -> None:
    """Add a register entry for an `assert` that tests a tensor."""
    _note(original.test, "Use jax.experimental.checkify, or leave it out.", context)


def checked(original: cst.Expr, updated: cst.Expr, context: RewriteContext) -> cst.Assert | None:
    """Write `assert` for the statement `torch._assert(condition, message)`."""
    before, call = original.value, updated.value
    if not isinstance(before, cst.Call) or context.qualified(before.func) not in _CHECKS or not before.args:
        return None
    assert isinstance(call, cst.Call)
    if any(arg.star or arg.keyword is not None for arg in call.args):
        return None
    context.undecided = [one for one in context.undecided if one.node is not before]
    _note(before.args[0].value, "Use jax.experimental.checkify, or leave it out.", context)
    test, *said = (arg.value.body if isinstance(arg.value, cst.Lambda) else arg.value for arg in call.args)
    return cst.Assert(_whole(test), _whole(said[0]) if said else None)


def _whole(node: cst.BaseExpression) -> cst.BaseExpression:
    """Put an expression of several lines in parentheses, which it needs outside the call."""
    if "\n" not in code(node) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def truth(original: cst.BooleanOperation | cst.UnaryOperation, updated: cst.CSTNode, context: RewriteContext) -> None:
    """Add a register entry for `not x.any()` or `a.any() and b`, unless it is the condition of an `if` or the like.

    The other functions of this file register such conditions.
    """
    if isinstance(original, cst.UnaryOperation) and not isinstance(original.operator, cst.Not):
        return
    parent = context.parent(original)
    if isinstance(parent, cst.BooleanOperation | cst.UnaryOperation) or getattr(parent, "test", None) is original:
        return
    needed = original if isinstance(original, cst.UnaryOperation) else original.left
    _note(needed, "Use jnp.logical_not, jnp.logical_and or jnp.where.", context)


def number(original: cst.Call, updated: cst.Call, context: RewriteContext) -> None:
    """Add a register entry for a call such as `int(x)` or `math.sqrt(x)` if x is a tensor."""
    named = isinstance(original.func, cst.Name) and original.func.value in _NUMBERS
    if not named and not (context.qualified(original.func) or "").startswith("math."):
        return
    for arg in original.args:
        if not arg.star:
            _note(arg.value, "Keep the array, or compute the number from shapes.", context)
