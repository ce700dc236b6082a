"""Devices. Descriptions have no device, so the argument `device` of layers is left out.

This also applies to dicts of arguments, such as `{"device": device, "dtype": dtype}`.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.expressions import code
from funcnet.porting.reading.syntax import dotted
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["argument", "entry", "made", "moved"]


def moved(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `x` for `x.to(x.device)`, whatever `x` is."""
    func, chain = original.func, None if len(original.args) != 1 else dotted(original.args[0].value)
    if chain is None or not isinstance(func, cst.Attribute) or func.attr.value != "to" or original.args[0].star:
        return None
    holder = dotted(func.value)
    same = holder is not None and chain == (*holder, "device") and _keyword(original.args[0]) in ("", "device")
    if not same or not isinstance(updated.func, cst.Attribute):
        return None
    context.settle(original)
    return updated.func.value


def argument(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.Call | None:
    """Leave out `device=…` in a call of a layer of torch.nn, or in `super().__init__(…)` if a base is such a layer."""
    if not any(_is_device(arg) for arg in updated.args) or not _makes_layer(original, context):
        return None
    kept = [arg for arg in updated.args if not _is_device(arg)]
    if kept and _is_device(updated.args[-1]):
        last = updated.args[-1]
        kept[-1] = kept[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return updated.with_changes(args=kept)


def made(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.Call | None:
    """Leave out the argument `device` in `dict(device=device, dtype=dtype)`."""
    names = [arg.keyword.value if arg.keyword is not None else "" for arg in updated.args]
    named = isinstance(original.func, cst.Name) and original.func.value == "dict"
    if not named or "device" not in names or not set(names) <= {"device", "dtype"}:
        return None
    kept = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in updated.args if not _is_device(arg)]
    return updated.with_changes(args=kept)


def _keyword(arg: cst.Arg) -> str:
    return "" if arg.keyword is None else arg.keyword.value


def _is_device(arg: cst.Arg) -> bool:
    return _keyword(arg) == "device"


def _makes_layer(node: cst.Call, context: RewriteContext) -> bool:
    qualified = context.qualified(node.func) or ""
    if qualified.startswith("torch.nn."):
        return True
    func = node.func
    if (
        not isinstance(func, cst.Attribute)
        or func.attr.value != "__init__"
        or not code(func.value).startswith("super(")
    ):
        return False
    owner = enclosing(node, (cst.ClassDef,), context.parent)
    bases = owner.bases if isinstance(owner, cst.ClassDef) else ()
    return any((context.qualified(base.value) or "").startswith("torch.nn.") for base in bases)


def entry(original: cst.Dict, updated: cst.Dict, context: RewriteContext) -> cst.Dict | None:
    """Leave out the entry "device" in `{"device": device, "dtype": dtype}`."""
    names = [_key(one) for one in updated.elements]
    if "device" not in names or not set(names) <= {"device", "dtype"}:
        return None
    kept = [one for one, name in zip(updated.elements, names, strict=True) if name != "device"]
    if kept:
        kept[-1] = kept[-1].with_changes(comma=updated.elements[-1].comma)
    return updated.with_changes(elements=kept)


def _key(element: cst.BaseDictElement) -> str:
    key = element.key if isinstance(element, cst.DictElement) else None
    return str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""
