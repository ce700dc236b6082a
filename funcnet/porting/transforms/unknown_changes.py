"""Registers statements such as `t += 1` if it is not known whether `t` is a tensor that also has another name.

In torch, such a statement changes the tensor itself, so that every name of the tensor has the new value.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["augmented"]

_VIEWS = frozenset([
    "t", "view", "view_as", "reshape", "transpose", "permute", "detach", "squeeze", "unsqueeze", "expand", "narrow",
    "select", "flatten", "contiguous", "to", "swapaxes", "movedim", "unbind", "chunk", "split", "diagonal",
])  # fmt: skip
_WRITE = "Write x = x + y if no other name holds the value, or pass --example, so that a run of the model reaches it."


def augmented(original: cst.AugAssign, updated: cst.AugAssign, context: RewriteContext) -> None:
    """Add a register entry for `t += 1` if the value of t may have another name, as the argument of a function may."""
    name = original.target
    if not isinstance(name, cst.Name) or context.starts(original):
        return
    if enclosing(original, (cst.FunctionDef,), context.parent) is None:
        return
    values = context.values(name)
    if context.fact(name).kinds:
        if any(_is_view_of_unknown(one, context) for one in values):
            context.give_up(original, "It is not known what this is a view of, and it changes in place.", _WRITE)
    elif not values or any(_may_be_held(one) for one in values):
        context.give_up(original, f"It is not known whether {name.value} is a tensor, and it changes in place.", _WRITE)


def _may_be_held(value: cst.BaseExpression) -> bool:
    """Return whether a name other than the assigned one may also refer to the value of an expression."""
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        return value.func.attr.value in _VIEWS
    return isinstance(value, cst.Name | cst.Attribute | cst.Subscript)


def _is_view_of_unknown(value: cst.BaseExpression, context: RewriteContext) -> bool:
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return False
    base = value.func.value
    return value.func.attr.value in _VIEWS and isinstance(base, cst.Name) and not context.fact(base).kinds
