"""Rewrites reads of one part of a result: `x.max(1).values`, `x.sort(1)[1]`, `x.shape.numel()`.

Some torch functions return values and their indices. If a source reads only one of the two, jax.numpy often has a
function that returns it alone. Rules such as `both.max.indices(input, dim, keepdim=False)` say what to write for one
part.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.expression_facts.fact import is_tensor
from funcnet.porting.reading.expressions import parse
from funcnet.porting.rule_engine.rule import bind
from funcnet.porting.rule_engine.template_filling import fill, roots_of
from funcnet.porting.transforms.calls import call, given_of, part_of, target_of
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["count", "part"]


def part(
    original: cst.Attribute | cst.Subscript, updated: cst.Attribute | cst.Subscript, context: RewriteContext
) -> cst.BaseExpression | None:
    """Write a function that returns only the part of a result that is read. If no such function exists, take the part
    of the entire result.
    """
    before, now = original.value, updated.value
    if not isinstance(before, cst.Call) or not isinstance(now, cst.Call):
        return None
    name, is_method = target_of(before, context)
    rules = context.rules.get(f"{name}.{part_of(before, context)}", ())
    if not name or not rules:
        return None
    known = not is_method or is_tensor(context.fact(before.func.value), name.removeprefix("Tensor."))  # type: ignore[attr-defined]
    for rule in rules if known and not context.is_numpys(before) else ():
        bound = bind(rule.parameters or (), given_of(before, now, context, is_method))
        filled = fill(rule, bound) if bound is not None else None
        if isinstance(filled, cst.BaseExpression):
            context.roots |= roots_of(filled)
            return filled
    whole = call(before, now, context, whole=True)
    return None if whole is None else updated.with_changes(value=whole)


def count(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `math.prod(x.shape)` for `x.shape.numel()`, because a shape is a plain tuple."""
    func = updated.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "numel" or updated.args:
        return None
    receiver = original.func.value  # type: ignore[attr-defined]
    asked = receiver.func if isinstance(receiver, cst.Call) and not receiver.args else receiver
    sized = isinstance(asked, cst.Attribute) and asked.attr.value == ("shape" if asked is receiver else "size")
    if not sized and not context.fact(receiver).is_only("tuple"):
        return None
    context.roots.add("math")
    return cst.Call(parse("math.prod").deep_clone(), [cst.Arg(func.value)])  # type: ignore[arg-type]
