"""Determines whether a call can become a separate statement: `i = f(x)[0]` becomes `result = f(x); i = result[0]`.

Both forms give the same result if two conditions hold. The line always evaluates the call. The line reads no value that
the call may change before it evaluates the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import libcst as cst

from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.reading.syntax import walk

__all__ = ["free_name", "line_before"]

Parent = Callable[[cst.CSTNode], cst.CSTNode | None]

_STATEMENTS = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Expr)
# Expressions whose parts are always evaluated, in the order of the source.
_IN_ORDER = (
    cst.Call, cst.Arg, cst.Subscript, cst.SubscriptElement, cst.Index, cst.Slice, cst.Attribute, cst.UnaryOperation,
    cst.BinaryOperation, cst.Tuple, cst.List, cst.Element, cst.ComparisonTarget, cst.Set, cst.Dict, cst.DictElement,
)  # fmt: skip
_LITERALS = (cst.Integer, cst.Float, cst.SimpleString, cst.Imaginary, cst.Ellipsis)
_CHANGEABLE = {"tensor", "parameter", "array", "list", "tuple", "dict", "set", "other", "module"}


def line_before(
    call: cst.Call,
    changed: Collection[str],
    parent: Parent,
    fact: Callable[[cst.CSTNode], Fact],
    qualified: Callable[[cst.CSTNode], str | None],
) -> cst.SimpleStatementLine | None:
    """Return the line that contains a call, if the call can be moved before this line. Otherwise, return None.

    Args:
        call: the call.
        changed: the names to which the port assigns the arguments that the call changes.
        parent, fact, qualified: functions that return the parent, the fact and the qualified name of a node.
    """

    def is_settled(node: cst.BaseExpression) -> bool:
        """Return whether an expression has the same value before and after the call."""
        if isinstance(node, cst.Name) and node.value in changed:
            return True  # in torch, the call changes the tensor to which this name refers
        known = fact(node).kinds
        return isinstance(node, _LITERALS) or (isinstance(node, cst.Name) and known and not known & _CHANGEABLE)  # type: ignore[return-value]

    def comes_first(node: cst.CSTNode, above: cst.CSTNode) -> bool:
        """Return whether a call in `node` can be moved before its parent `above`. For this, `node` must be evaluated
        whenever `above` is, and the call must not change the parts of `above` that are evaluated earlier.
        """
        if isinstance(above, cst.IfExp):
            return node is above.test
        if isinstance(above, cst.BooleanOperation):
            return node is above.left
        if isinstance(above, cst.Comparison):
            return node is above.left or (node is above.comparisons[0] and is_settled(above.left))
        if not isinstance(above, _IN_ORDER):
            return False
        earlier = above.children[: list(above.children).index(node)]
        if isinstance(above, cst.Call) and earlier and node is not above.func:
            if not _is_function(above.func, qualified) and not is_settled(_receiver(above.func)):
                return False
            earlier = [one for one in earlier if one is not above.func]
        parts = [inner for one in earlier for inner in _parts(one)]
        return all(map(is_settled, parts))

    node: cst.CSTNode = call
    while True:
        above = parent(node)
        if above is None:
            return None
        if isinstance(above, _STATEMENTS):
            break
        if not comes_first(node, above):
            return None
        node = above
    plain = not isinstance(above, cst.AugAssign) or isinstance(above.target, cst.Name)
    line = parent(above) if node is above.value and plain else None  # type: ignore[attr-defined]
    return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None


def _is_function(func: cst.BaseExpression, qualified: Callable[[cst.CSTNode], str | None]) -> bool:
    """Return whether a call calls a function or an attribute of `self`, and not a method of a local value."""
    own = isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"
    return isinstance(func, cst.Name) or own or qualified(func) is not None


def _receiver(func: cst.BaseExpression) -> cst.BaseExpression:
    return func.value if isinstance(func, cst.Attribute) else func


def _parts(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the expressions in a syntax node. A tuple, a list or an argument counts as the expressions inside it."""
    if isinstance(node, cst.BaseExpression) and not isinstance(node, cst.Tuple | cst.List):
        return [node]
    if isinstance(node, cst.Arg):
        return _parts(node.value)
    return [part for child in node.children for part in _parts(child)]


def free_name(function: cst.CSTNode, name: str = "result") -> str:
    """Return `name` if a function or a file does not use this name. Otherwise, return an unused name such as
    "result_2".

    >>> free_name(cst.parse_statement("def f(result):\\n    return result"))
    'result_2'
    """
    used = {one.value for one in walk(function) if isinstance(one, cst.Name)}
    others = (f"{name}_{number}" for number in range(2, len(used) + 3))
    return name if name not in used else next(one for one in others if one not in used)
