"""Rewrites parameters that the source makes from the values of a tensor.

`nn.Parameter(torch.randn(4, 3) * 0.02)` becomes `nn.Parameter((4, 3), init)`, so that `net.init(key)` draws the values.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.reading.expressions import code, parse
from funcnet.porting.transforms import calls
from funcnet.porting.transforms.descriptions import is_draft
from funcnet.porting.transforms.names import free_names
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["draft", "parameter"]

_FIXED = "jax.random.key(0)"
_ARGUMENTS = ("key", "shape", "dtype")


def parameter(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `nn.Parameter(shape, init)` for a parameter whose initial value is random or constant."""
    if (
        context.qualified(original.func) not in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
        or not updated.args
    ):
        return None
    first = updated.args[0]
    if is_draft(original.args[0].value, context):
        return first.value
    filled = _filled(first.value)
    if filled is not None and not first.star:
        context.roots.add("nn")
        return updated.with_changes(args=[*filled, *(arg for arg in updated.args[1:] if arg.keyword is not None)])
    draws = _Draws()
    first.value.visit(draws)
    if first.star or len(draws.found) != 1 or len(draws.found[0].args) < 2:
        return None
    context.settle(original)
    shape = draws.found[0].args[1].value
    init = _plain(first.value, draws.found[0]) or _lambda(first.value, draws.found[0])
    context.roots |= {"nn", "jax"} if not code(init).startswith("nn.init") else {"nn"}
    rest = [arg for arg in updated.args[1:] if arg.keyword is not None]
    return updated.with_changes(args=[cst.Arg(shape), cst.Arg(init), *rest])


def draft(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `nn.Parameter(shape)` for a draft `torch.empty(shape)`; see `descriptions.py`."""
    if context.qualified(original.func) != "torch.empty" or not is_draft(original, context):
        return None
    made = calls.call(original, updated, context)
    if not isinstance(made, cst.Call) or code(made.func) != "jnp.zeros" or not 0 < len(made.args) <= 2:
        return made
    context.roots.add("nn")
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    dtype = [cst.Arg(one.value, cst.Name("dtype"), equal) for one in made.args[1:]]
    return cst.Call(parse("nn.Parameter").deep_clone(), [cst.Arg(made.args[0].value), *dtype])


def _filled(value: cst.BaseExpression) -> list[cst.Arg] | None:
    """Return the shape and the init function of a parameter that is made from `jnp.zeros(shape)` or `jnp.ones(shape)`.
    For other values, return None.
    """
    name = code(value.func) if isinstance(value, cst.Call) else ""
    if not isinstance(value, cst.Call) or name not in ("jnp.zeros", "jnp.ones"):
        return None
    if len(value.args) != 1 or value.args[0].keyword is not None or value.args[0].star:
        return None
    return [cst.Arg(value.args[0].value), cst.Arg(parse(f"nn.init.{name[4:]}()").deep_clone())]


class _Draws(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: list[cst.Call] = []

    def visit_Call(self, node: cst.Call) -> None:
        if code(node.func).startswith("jax.random.") and node.args and code(node.args[0].value) == _FIXED:
            self.found.append(node)


def _plain(value: cst.BaseExpression, draw: cst.Call) -> cst.BaseExpression | None:
    """Return a call of `nn.init.normal` for `randn(…)`, `randn(…) * std` and `std * randn(…)`, or None."""
    if code(draw.func) != "jax.random.normal":
        return None
    if value is draw:
        return parse("nn.init.normal()").deep_clone()
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
        sides = [value.left, value.right]
        factor = next((one for one in sides if one is not draw), None)
        if draw in sides and isinstance(factor, cst.Float | cst.Integer):
            return cst.parse_expression(f"nn.init.normal(std={code(factor)})")
    return None


class _Replaced(cst.CSTTransformer):
    def __init__(self, draw: cst.Call):
        super().__init__()
        self.draw = draw

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if original_node is not self.draw:
            return updated_node
        keywords = [arg for arg in updated_node.args[3:] if arg.keyword is not None or len(updated_node.args) > 3]
        return updated_node.with_changes(args=[*(cst.Arg(cst.Name(name)) for name in _ARGUMENTS), *keywords])


def _lambda(value: cst.BaseExpression, draw: cst.Call) -> cst.BaseExpression:
    """Return a lambda that computes the initial value from a key, a shape and a dtype.

    Local names become default arguments of the lambda, because their values may change before `net.init` calls the
    lambda.
    """
    body = value.visit(_Replaced(draw))
    assert isinstance(body, cst.BaseExpression)
    body = body.with_changes(lpar=[], rpar=[])
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    kept = [cst.Param(cst.Name(name), default=cst.Name(name), equal=equal) for name in sorted(free_names(body))]
    return cst.Lambda(cst.Parameters([*(cst.Param(cst.Name(name)) for name in _ARGUMENTS), *kept]), body)
