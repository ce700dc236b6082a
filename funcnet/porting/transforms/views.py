"""Rewrites changes in place through views, as `view_plans.py` has planned.

After `row = x[0]; row += 1`, the line `x = x.at[0].set(row)` is added. A view of a view instead becomes an array of the
positions of its elements in the base x, and a change of the view becomes `x = tl.write(x, row, tl.read(x, row) + 1)`.
If a function changes its arguments, the ported function returns their new values, and its callers assign these values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from funcnet.porting.analysis.view_expressions import is_plain, written_part
from funcnet.porting.reading.expressions import code, parenthesized, parse
from funcnet.porting.transforms.context_managers import is_stopped, stop
from funcnet.porting.transforms.in_place import OPERATORS
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["augmented", "finished", "item", "statement"]


def _called(name: str, *arguments: cst.BaseExpression) -> cst.Call:
    return cst.Call(parse(name).deep_clone(), [cst.Arg(one) for one in arguments])


def _named(text: str) -> cst.BaseExpression:
    return cst.parse_expression(text)


def _assign(target: str, value: cst.BaseExpression) -> cst.Assign:
    place = _named(target)
    assert isinstance(place, cst.Name | cst.Attribute)
    return cst.Assign([cst.AssignTarget(place)], value)


def _is_method(context: RewriteContext) -> Callable[[str], bool]:
    return lambda name: f"Tensor.{name}" in context.rules


def _written(
    base: str, at: cst.BaseExpression, value: cst.BaseExpression, original: cst.CSTNode, context: RewriteContext
) -> cst.Assign:
    """Return `base = tl.write(base, at, value)`."""
    context.roots.add("tl")
    if is_stopped(original, context):
        value = stop(value, context)
    return _assign(base, _called("tl.write", _named(base), at, value))


def _read(base: str, at: cst.BaseExpression, context: RewriteContext) -> cst.Call:
    context.roots.add("tl")
    return _called("tl.read", _named(base), at)


def statement(original: cst.Expr, updated: cst.Expr, context: RewriteContext) -> cst.BaseSmallStatement | None:
    """Write `x = tl.write(x, view[0], tl.read(x, view[0]) + y)` for `view[0].add_(y)`."""
    base = context.plan.writes.get(original.value)
    if base is None:
        return None
    part: cst.BaseExpression = original.value
    while (inner := written_part(part, context.fact, context.qualified, _is_method(context))) is not None:
        part = inner  # for `view.mul_(2).add_(1)`, the part is `view`
    read = context.rewritten(part)
    if not isinstance(read, cst.Call) or code(read.func) != "tl.read" or updated.value is original.value:
        context.give_up(original, f"{code(original.value)} changes a view in a way that is not known.")
        return None
    return _written(base, read.args[1].value, updated.value, original, context)


def item(original: cst.Assign, updated: cst.Assign, context: RewriteContext) -> cst.BaseSmallStatement | None:
    """Write `x = tl.write(x, view[i], v)` for `view[i] = v`."""
    base = context.plan.writes.get(original)
    if base is None:
        return None
    return _set(original.targets[0].target, updated.value, base, context)


def _at(node: cst.BaseExpression, context: RewriteContext) -> cst.BaseExpression:
    """Return the expression that gives the positions of a view's elements in its base."""
    found = context.rewritten(node)
    return found.args[1].value if isinstance(found, cst.Call) and code(found.func) == "tl.read" else found


def _set(
    target: cst.BaseExpression, value: cst.BaseExpression, base: str, context: RewriteContext
) -> cst.BaseSmallStatement | None:
    if not isinstance(target, cst.Subscript) or is_plain(target, context.fact):
        return _written(base, context.rewritten(target), value, target, context)
    index = context.rewritten_index(target)
    if len(index) != 1 or not isinstance(index[0].slice, cst.Index):
        context.give_up(
            target, "Several indices with arrays among them change a view.", "Use x = x.at[index].set(value)."
        )
        return None
    whole = _at(target.value, context)
    changed = _called("tl.set_item", _read(base, whole, context), index[0].slice.value, value)
    return _written(base, whole.deep_clone(), changed, target, context)


def augmented(
    original: cst.AugAssign, updated: cst.AugAssign, context: RewriteContext
) -> cst.BaseSmallStatement | None:
    """Write `x = tl.write(x, view[i], tl.read(x, view[i]) + v)` for `view[i] += v`."""
    base = context.plan.writes.get(original)
    if base is None:
        return None
    _, symbol = OPERATORS.get(type(original.operator), ("", ""))
    target = original.target
    old: cst.BaseExpression = _read(base, _at(target, context), context)
    if isinstance(target, cst.Subscript) and not is_plain(target, context.fact):
        whole = _read(base, _at(target.value, context), context)
        old = cst.Subscript(whole, context.rewritten_index(target))
    if not symbol:
        context.give_up(original, "This assignment has no counterpart for arrays.", "Use x = x.at[index].set(value).")
        return None
    operation = parse(f"__part__ {symbol} __value__").deep_clone()
    assert isinstance(operation, cst.BinaryOperation)
    changed = operation.with_changes(left=old, right=parenthesized(updated.value))
    return _set(target, changed, base, context)


def finished(original: cst.CSTNode, written: Any, context: RewriteContext) -> Any:
    """Apply the plan of `view_plans.py` to a node after all other transformers, and return the new node.

    Args:
        original: the node of the original tree.
        written: the node as the other transformers have written it.
        context: the context.
    """
    plan = context.plan
    if original in plan.blocked:
        why, write = plan.blocked[original]
        context.give_up(original, why, write)
        return written
    if original in plan.starts:
        context.roots.add("tl")
        return _called("tl.positions", written)
    if original in plan.bases:
        return _named(plan.bases[original])
    if original in plan.reads:
        return _read(plan.reads[original], written, context)
    if isinstance(original, cst.Call) and original in plan.calls and (name := _hoisted_as(original, context)):
        context.hoisted[original] = written
        return _named(name)
    if original in plan.hoisted:
        return _hoisted(original, _with_back(original, written, context), context)
    if original in plan.after:
        return _with_back(original, written, context)
    if original in plan.returns:
        return _returned(written, plan.returns[original], original in plan.valued)
    if isinstance(original, cst.Expr | cst.Assign) and original.value in plan.calls:
        return written if original.value in context.hoisted else _assigned(original, written, context)
    return written


def _hoisted_as(call: cst.Call, context: RewriteContext) -> str:
    """Return the name for the value of a call that moves to a statement before its line, or "" for other calls."""
    return next((name for one, name in context.plan.hoisted.values() if one is call), "")


def _hoisted(original: cst.CSTNode, written: Any, context: RewriteContext) -> Any:
    """Insert a statement such as `result, y = f(y)` before the line from which the call `f(y)` is moved."""
    call, name = context.plan.hoisted[original]
    targets = [_named(one) for one in (name, *context.plan.calls[call])]
    target = cst.Tuple([cst.Element(one) for one in targets], lpar=[], rpar=[])
    line = cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], context.hoisted.pop(call))])
    lines = list(written) if isinstance(written, cst.FlattenSentinel) else [written]
    if not isinstance(lines[0], cst.SimpleStatementLine):
        return written
    before = line.with_changes(leading_lines=lines[0].leading_lines)
    return cst.FlattenSentinel([before, lines[0].with_changes(leading_lines=[]), *lines[1:]])


def _with_back(original: cst.CSTNode, written: Any, context: RewriteContext) -> Any:
    if original not in context.plan.after or not isinstance(written, cst.SimpleStatementLine):
        return written
    return cst.FlattenSentinel([written, *_back(original, written, context)])


def _back(
    original: cst.CSTNode, written: cst.SimpleStatementLine, context: RewriteContext
) -> list[cst.SimpleStatementLine]:
    """Return the lines that write a changed view back to its base."""
    lines = []
    for base, subscript, name in context.plan.after[original]:
        value = _named(name)
        if subscript is not None:
            place = cst.Subscript(_named(f"{base}.at"), context.rewritten_index(subscript))
            value = cst.Call(cst.Attribute(place, cst.Name("set")), [cst.Arg(value)])
        lines.append(cst.SimpleStatementLine([_assign(base, value)]))
    return lines


def _tuple(first: cst.BaseExpression | None, names: tuple[str, ...]) -> cst.BaseExpression:
    values = [] if first is None else [parenthesized(first) if isinstance(first, cst.Tuple | cst.Lambda) else first]
    values += [_named(name) for name in names]
    return values[0] if len(values) == 1 else cst.Tuple([cst.Element(one) for one in values], lpar=[], rpar=[])


def _returned(written: Any, names: tuple[str, ...], valued: bool) -> Any:
    """Write a `return` of the changed parameters of a function, after its ordinary return value if it has one."""
    if isinstance(written, cst.Return):
        value = (written.value or _named("None")) if valued else None
        space = cst.SimpleWhitespace(" ")
        return written.with_changes(value=_tuple(value, names), whitespace_after_return=space)
    assert isinstance(written, cst.FunctionDef)
    body = written.body
    if isinstance(body, cst.IndentedBlock) and not _ends(body):
        value = _named("None") if valued else None
        line = cst.SimpleStatementLine([cst.Return(_tuple(value, names))])
        written = written.with_changes(body=body.with_changes(body=[*body.body, line]))
    return written.with_changes(returns=None)


def _ends(body: cst.IndentedBlock) -> bool:
    last = body.body[-1]
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return | cst.Raise)


def _assigned(original: cst.Expr | cst.Assign, written: Any, context: RewriteContext) -> cst.BaseSmallStatement:
    """Assign the changed parameters that a call returns to the names of its arguments."""
    names = context.plan.calls[original.value]
    own: list[cst.BaseExpression] = []
    if isinstance(written, cst.Assign):
        own = [written.targets[0].target]
        own = [parenthesized(own[0]) if isinstance(own[0], cst.Tuple) else own[0]]
    elif original.value in context.plan.valued:
        own = [cst.Name("_")]
    targets = [*own, *map(_named, names)]
    target = targets[0] if len(targets) == 1 else cst.Tuple([cst.Element(one) for one in targets], lpar=[], rpar=[])
    return cst.Assign([cst.AssignTarget(target)], written.value)  # type: ignore[arg-type]
