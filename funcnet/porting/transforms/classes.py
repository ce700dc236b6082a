"""Rewrites classes: a subclass of `torch.autograd.Function` becomes a plain class with `tl.autograd_function`."""

from __future__ import annotations

import libcst as cst

from funcnet.porting.reading.expressions import code, parse
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["autograd_function"]

_FUNCTIONS = ("torch.autograd.Function", "torch.autograd.function.Function")


def autograd_function(original: cst.ClassDef, updated: cst.ClassDef, context: RewriteContext) -> cst.ClassDef | None:
    """Write `@tl.autograd_function` over a class in place of the base `torch.autograd.Function`."""
    gone = {code(one.value) for one in original.bases if context.qualified(one.value) in _FUNCTIONS}
    kept = [one for one in updated.bases if code(one.value) not in gone]
    if len(kept) == len(updated.bases):
        return None
    for base in original.bases:
        context.settle(base)
    context.roots.add("tl")
    decorator = cst.Decorator(parse("tl.autograd_function").deep_clone())
    no_parentheses = {} if kept else {"lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
    return updated.with_changes(bases=kept, decorators=[*updated.decorators, decorator], **no_parentheses)
