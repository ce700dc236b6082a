"""Rewrites assignments to items of tensors: `x[i] = v` and `x[i] += v`."""

from __future__ import annotations

from typing import Any

import libcst as cst

from funcnet.porting.analysis.hoisting import free_name
from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.expressions import code, is_simple, parenthesized, parse
from funcnet.porting.reading.syntax import root_of, walk
from funcnet.porting.transforms.descriptions import describes
from funcnet.porting.transforms.in_place import OPERATORS, assigned
from funcnet.porting.transforms.rewrite_context import RewriteContext
from funcnet.porting.transforms.subscripts import eager, is_part, kinds_of, reading, setting

__all__ = ["augmented", "item"]

_SEVERAL = "Write one assignment for each item."


def _writes(target: cst.CSTNode, context: RewriteContext) -> bool:
    """Return whether a target is an item of a tensor, and not an item of a parameter description in a constructor."""
    return isinstance(target, cst.Subscript) and not describes(target.value, context) and is_part(target, context)


def item(
    original: cst.Assign, updated: cst.Assign, context: RewriteContext
) -> cst.CSTNode | cst.FlattenSentinel | None:
    """Write `x = x.at[i].set(v)` for `x[i] = v`."""
    targets = [one.target for one in original.targets]
    if any(not _assignable(one, context) for target in targets for one in _leaves(target)):
        context.give_up(original, "An attribute of a tensor is assigned.", "Assign the new array to the name itself.")
        return None
    if not any(_writes(one, context) for target in targets for one in _leaves(target)):
        return None
    if len(targets) == 1 and isinstance(targets[0], cst.Tuple):
        unpacked = _unpacked(original, targets[0], updated, context) if _is_fresh(original, context) else None
        if unpacked is not None:
            return unpacked
    if any(isinstance(target, cst.Tuple | cst.List) for target in targets):
        context.give_up(original, "An item of a tensor is one of several targets.", _SEVERAL)
        return None
    fact = context.fact(original.value)
    if len(targets) == 1:
        return _set(targets[0], updated.value, fact, context)
    if not is_simple(updated.value):
        context.give_up(original, "An item of a tensor is one of several targets.", _SEVERAL)
        return None
    lines = []
    for now, target in zip(updated.targets, targets, strict=True):
        line = _set(target, updated.value.deep_clone(), fact, context) if _writes(target, context) else None
        lines.append(cst.Assign([now], updated.value.deep_clone()) if line is None else line)
    return cst.FlattenSentinel(lines)


def _is_fresh(original: cst.Assign, context: RewriteContext) -> bool:
    """Return whether an assigned value is a new tensor, and not a view of a tensor that the assignment changes.

    A call of a function or a module of the source counts as new, if none of the changed tensors is an argument of the
    call. Other values may be views: after `x[0], x[1] = x[1], x[0]`, both rows are equal in torch.
    """
    call = original.value
    name = context.qualified(call.func) if isinstance(call, cst.Call) else None
    if not isinstance(call, cst.Call) or (name or "").startswith("torch."):
        return False
    if isinstance(call.func, cst.Attribute) and context.fact(call.func.value).is_only("module") is not True:
        own = isinstance(call.func.value, cst.Name) and call.func.value.value == "self"
        if not own:
            return False
    leaves = _leaves(original.targets[0].target)
    changed = {code(root_of(one)) for one in leaves if isinstance(one, cst.Subscript)}
    return not changed & {one.value for one in walk(call) if isinstance(one, cst.Name)} - {"self"}


def _unpacked(
    original: cst.Assign, target: cst.Tuple, updated: cst.Assign, context: RewriteContext
) -> cst.FlattenSentinel | None:
    """Write `new_x, y = f()` and `x = x.at[i].set(new_x)` for `x[i], y = f()`."""
    names: list[cst.BaseExpression] = []
    lines: list[cst.BaseSmallStatement | None] = []
    old, function = updated.targets[0].target, enclosing(original, (cst.FunctionDef, cst.Module), context.parent)
    if (
        function is None
        or not isinstance(old, cst.Tuple)
        or any(isinstance(one.value, cst.Tuple | cst.List) for one in target.elements)
    ):
        return None
    for now, element in zip(old.elements, target.elements, strict=True):
        one = element.value
        if not _writes(one, context):
            names.append(now.value)
            continue
        assert isinstance(one, cst.Subscript)
        base = one.value.attr if isinstance(one.value, cst.Attribute) else one.value
        name = free_name(function, f"new_{base.value}" if isinstance(base, cst.Name) else "new_part")
        taken = any(isinstance(known, cst.Name) and known.value == name for known in names)
        names.append(cst.Name(f"{name}_{len(names)}" if taken else name))
        lines.append(_set(one, names[-1].deep_clone(), Fact(), context))
    if None in lines:
        return None
    elements = [now.with_changes(value=name) for now, name in zip(old.elements, names, strict=True)]
    first = updated.with_changes(targets=[updated.targets[0].with_changes(target=old.with_changes(elements=elements))])
    return cst.FlattenSentinel([first, *lines])  # type: ignore[list-item]


def _assignable(target: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether the port can assign a value to what it writes for an assignment's target.

    `x.data` is not such a target, because its replacement is `jax.lax.stop_gradient(x)`.
    """
    if not isinstance(target, cst.Attribute):
        return True
    return isinstance(context.rewritten(target), cst.Name | cst.Attribute | cst.Subscript)


def _leaves(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(target, cst.Tuple | cst.List):
        return [leaf for one in target.elements for leaf in _leaves(one.value)]
    return [target]


def _set(
    target: cst.BaseExpression, value: cst.BaseExpression, fact: Fact, context: RewriteContext
) -> cst.BaseSmallStatement | None:
    assert isinstance(target, cst.Subscript)
    array, index = context.rewritten(target.value), context.rewritten_index(target)
    changed = setting(target, array, index, value, context, fact)
    return assigned(target.value, changed, context, through=target)


def augmented(
    original: cst.AugAssign, updated: cst.AugAssign, context: RewriteContext
) -> cst.BaseSmallStatement | None:
    """Write `x = x.at[i].add(v)` for `x[i] += v`."""
    target = original.target
    if not _writes(target, context):
        return None
    assert isinstance(target, cst.Subscript)
    method, symbol = OPERATORS.get(type(original.operator), ("", ""))
    array, index = context.rewritten(target.value), context.rewritten_index(target)
    kinds = kinds_of(target, context)
    if method and set(kinds) <= {"int", "slice", "none"}:
        place = cst.Subscript(cst.Attribute(array, cst.Name("at")), index)
        changed: cst.BaseExpression = cst.Call(cst.Attribute(place, cst.Name(method)), [cst.Arg(updated.value)])
        return assigned(target.value, changed, context, through=target)
    if not symbol or not _repeats(target):
        context.give_up(original, "This assignment has no counterpart for arrays.", "Use x = x.at[index].set(value).")
        return None
    number = context.fact(original.value)
    if number.is_tensor and symbol not in ("+", "-", "*"):
        number = Fact()  # at entries outside the mask, a division by zero would have a gradient
    old: cst.BaseExpression = reading(kinds, array, index, context) or cst.Subscript(array, index)
    operation: Any = parse(f"__part__ {symbol} __value__").deep_clone()
    operation = operation.with_changes(left=old, right=parenthesized(updated.value))
    changed = setting(
        target, array.deep_clone(), context.rewritten_index(target), operation, context, number, keeps=True
    )
    if isinstance(changed, cst.Call) and code(changed.func) == "jnp.where":  # compute all entries, then select
        operation = operation.with_changes(left=array.deep_clone())
        changed = changed.with_changes(args=[changed.args[0], cst.Arg(operation), changed.args[2]])
    elif {"mask", "bytes"} & set(kinds) and not context.starts(original):
        eager(target, context)
    return assigned(target.value, changed, context, through=target)


def _repeats(node: cst.CSTNode) -> bool:
    """Return whether an expression can be evaluated twice, because it calls nothing except `slice`."""
    calls = isinstance(node, cst.Call) and not (isinstance(node.func, cst.Name) and node.func.value == "slice")
    return (
        not calls and not isinstance(node, cst.NamedExpr | cst.Await | cst.Yield) and all(map(_repeats, node.children))
    )
