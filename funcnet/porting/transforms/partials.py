"""Rewrites calls such as `functools.partial(torch.cat, dim=1)`, because jax.numpy may name the argument differently."""

from __future__ import annotations

import libcst as cst

from funcnet.porting.rule_engine.rule import MISSING, Given
from funcnet.porting.transforms.calls import by_rules, rules_of
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["partial"]


def partial(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `lambda tensors: jnp.concatenate(tensors, axis=1)` for `partial(torch.cat, dim=1)`."""
    if context.qualified(original.func) != "functools.partial" or not original.args:
        return None
    first = original.args[0].value
    name = context.qualified(first) or ""
    rules = rules_of(context, name) if name.startswith("torch.") else ()
    if not rules or rules[0].parameters is None:
        return None
    context.settle(first)
    given = [
        Given("" if now.keyword is None else now.keyword.value, now.star, now.value, context.fact(before.value))
        for before, now in zip(original.args[1:], updated.args[1:], strict=True)
    ]
    named = {one.keyword for one in given}
    place = sum(not one.keyword for one in given)
    left = [one.name for one in rules[0].parameters[place:] if one.default is MISSING and one.name not in named]
    starred = any(one.star for one in given) or any(one.star for one in rules[0].parameters)
    if starred or name.startswith("torch.Tensor."):
        context.give_up(original, f"It is not known how this {name} is called.", "Write a lambda.")
        return None
    body = by_rules(original, rules, [*given, *(Given(one, "", cst.Name(one)) for one in left)], context)
    return None if body is None else cst.Lambda(cst.Parameters([cst.Param(cst.Name(one)) for one in left]), body)
