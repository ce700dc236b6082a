"""Rewrites `self.name is None` in a constructor, if `name` is a property that computes with a parameter.

For example, a property `weight_proxy` returns None if `self.weight is None`, and `1 + self.weight` otherwise. A
constructor cannot compute `1 + self.weight`, because parameters have no values in constructors. So the test
`self.weight_proxy is None` becomes the condition that the property itself tests: `self.weight is None`.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.reading.expressions import code, is_simple
from funcnet.porting.reading.syntax import walk
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["absent"]


def absent(original: cst.Comparison, updated: cst.Comparison, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `self.weight is not None` for `self.weight_proxy is not None` in a constructor."""
    target = original.comparisons[0]
    asked = isinstance(target.operator, cst.Is | cst.IsNot) and code(target.comparator) == "None"
    if len(original.comparisons) != 1 or not asked or not context.starts(original):
        return None
    found = context.property_of(original.left)
    condition = _when_none(found, context) if found is not None else None
    if condition is None:
        return None
    return condition if isinstance(target.operator, cst.Is) else _negated(condition)


def _when_none(node: cst.FunctionDef, context: RewriteContext) -> cst.BaseExpression | None:
    """Return the condition under which a property returns None.

    The property must begin with `if …: return None` and compute a value otherwise. For a property of any other form,
    the result is None.
    """
    lines = [one for one in node.body.body if not _is_docstring(one)]
    first = lines[0] if lines else None
    if not isinstance(first, cst.If) or first.orelse is not None or not _returns_none(first) or not _ends(lines[-1]):
        return None
    others = [one.value for line in lines[1:] for one in walk(line) if isinstance(one, cst.Return)]
    given = code(first.test).removesuffix(" is None") if code(first.test).endswith(" is None") else ""
    values = [one for one in others if one is not None and code(one) != given]
    computed = [one for one in values if not is_simple(one)]
    known = all(context.fact(one).kinds and "none" not in context.fact(one).kinds for one in values)
    return first.test.deep_clone() if computed and known and None not in others and _is_own(first.test) else None


def _is_docstring(line: cst.CSTNode) -> bool:
    body = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return isinstance(body, cst.Expr) and isinstance(body.value, cst.SimpleString | cst.ConcatenatedString)


def _returns_none(line: cst.If) -> bool:
    inner = line.body.body[0] if len(line.body.body) == 1 else None
    last = inner.body[0] if isinstance(inner, cst.SimpleStatementLine) else inner
    return isinstance(last, cst.Return) and (last.value is None or code(last.value) == "None")


def _ends(line: cst.CSTNode) -> bool:
    """Return whether a statement always ends its function with a `return`."""
    if isinstance(line, cst.If):
        other = line.orelse
        blocks = [line.body.body[-1], other.body.body[-1] if isinstance(other, cst.Else) else other]
        return all(one is not None and _ends(one) for one in blocks)
    return isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[-1], cst.Return | cst.Raise)


def _is_own(test: cst.BaseExpression) -> bool:
    """Return whether the condition of an `if` reads only attributes of self and calls no function."""
    names = {one.value for one in walk(test) if isinstance(one, cst.Name) and one.value != "None"}
    attributes = {one.attr.value for one in walk(test) if isinstance(one, cst.Attribute)}
    return names - attributes == {"self"} and not any(isinstance(one, cst.Call) for one in walk(test))


def _negated(test: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (target,) = test.comparisons
        turned = {cst.Is: cst.IsNot, cst.IsNot: cst.Is}.get(type(target.operator))
        if turned is not None:
            return test.with_changes(comparisons=[target.with_changes(operator=turned())])
    whole = test if getattr(test, "lpar", ()) else test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), whole)
