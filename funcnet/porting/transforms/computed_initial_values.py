"""Rewrites constructors that compute with the initial value of a parameter and write the result to a parameter.

Parameters have no values in constructors. So `weight = torch.cumsum(self.w.data, 0)` becomes a copy of the parameter
with a function that changes its initial value: `weight = self.w.data.clone().change(lambda w: w.cumsum(axis=0))`.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.expression_facts.fact import METADATA
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.expressions import code
from funcnet.porting.reading.syntax import walk
from funcnet.porting.transforms.descriptions import base_of
from funcnet.porting.transforms.names import free_names
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["changed"]


def changed(original: cst.Assign, updated: cst.Assign, context: RewriteContext) -> cst.Assign | None:
    """Write a changed copy of a parameter for a value that is computed from it and then written to a parameter."""
    target = original.targets[0].target
    if len(original.targets) != 1 or not isinstance(target, cst.Name) or not context.starts(original):
        return None
    source = _source(original.value, context) if _is_written_back(target, context) else None
    if source is None:
        return None
    text = code(source)
    name = text.removesuffix(".data").rpartition(".")[2]
    replaced = updated.value.visit(_Replaced(text, name))
    assert isinstance(replaced, cst.BaseExpression)
    if (name in free_names(updated.value) and not isinstance(source, cst.Name)) or "self" in free_names(replaced):
        return None  # the lambda's argument would hide a local name, or an attribute may change before `init`
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    others = [cst.Param(cst.Name(one), default=cst.Name(one), equal=equal)
              for one in sorted(free_names(replaced) - {name})]  # fmt: skip
    function = cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)), *others]), replaced.with_changes(lpar=[], rpar=[]))
    copy = cst.Call(cst.Attribute(cst.parse_expression(text), cst.Name("clone")))
    return updated.with_changes(value=cst.Call(cst.Attribute(copy, cst.Name("change")), [cst.Arg(function)]))


class _Replaced(cst.CSTTransformer):
    def __init__(self, text: str, name: str):
        super().__init__()
        self.text, self.name = text, name

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return cst.Name(self.name) if code(original_node) == self.text else updated_node


def _is_parameter(node: cst.CSTNode, context: RewriteContext) -> bool:
    return isinstance(node, cst.Attribute) and "parameter" in context.fact(node).kinds


def _source(
    value: cst.BaseExpression, context: RewriteContext, seen: tuple[cst.CSTNode, ...] = ()
) -> cst.BaseExpression | None:
    """Return the parameter from which an expression is computed, or the local variable if that is computed from one.

    The result is None if there is no such parameter or variable, or more than one.
    """
    if not isinstance(value, cst.Call | cst.BinaryOperation | cst.UnaryOperation) or _is_parameter(
        base_of(value), context
    ):
        return None
    found: dict[str, cst.BaseExpression] = {}
    for one in walk(value):
        if isinstance(one, cst.Attribute) and _is_parameter(one, context):
            above = context.parent(one)
            whole = above if isinstance(above, cst.Attribute) and above.attr.value == "data" else one
            if not _is_metadata(context.parent(whole)):
                found[code(whole)] = whole
        elif (
            isinstance(one, cst.Name)
            and not _is_metadata(context.parent(one))
            and any(
                _source(before, context, (*seen, value)) is not None
                for before in context.values(one)
                if before not in (*seen, value)
            )
        ):
            found[one.value] = one
    return next(iter(found.values())) if len(found) == 1 else None


def _is_metadata(above: cst.CSTNode | None) -> bool:
    """Return whether an attribute is metadata of a parameter, such as `self.w.dtype`, which descriptions also have."""
    return isinstance(above, cst.Attribute) and above.attr.value in METADATA


def _is_written_back(name: cst.Name, context: RewriteContext) -> bool:
    """Return whether a name's value is written to a parameter, and is otherwise used only in computations."""
    function = enclosing(name, (cst.FunctionDef,), context.parent)
    written = False
    for one in walk(function) if function is not None else ():
        if not isinstance(one, cst.Name) or one.value != name.value:
            continue
        above = context.parent(one)
        if isinstance(above, cst.Assign) and above.value is one:
            place = base_of(above.targets[0].target)
            if len(above.targets) != 1 or above.targets[0].target is place or not _is_parameter(place, context):
                return False
            written = True
        elif isinstance(above, cst.Arg) and _takes(context.parent(above), context):
            written = True
        elif not isinstance(
            above, cst.AssignTarget | cst.BinaryOperation | cst.UnaryOperation | cst.Arg | cst.Attribute
        ):
            return False
    return written


def _takes(call: cst.CSTNode | None, context: RewriteContext) -> bool:
    """Return whether a call is `parameter.copy_(…)`."""
    named = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "copy_"
    return named and _is_parameter(base_of(call.func.value), context)  # type: ignore[union-attr]
