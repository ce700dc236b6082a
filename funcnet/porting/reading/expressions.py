"""Expressions as text and as syntax trees, and what they need where they are written: parentheses, and names."""

from __future__ import annotations

import functools
from collections import Counter

import libcst as cst

__all__ = ["NameCounter", "code", "count_names", "is_atom", "is_simple", "parenthesized", "parse"]

_EMPTY = cst.Module([])


def code(node: cst.CSTNode) -> str:
    """Return the source text of a syntax node."""
    return _EMPTY.code_for_node(node)


@functools.cache
def parse(text: str) -> cst.BaseExpression:
    """Return the syntax tree of an expression."""
    return cst.parse_expression(text)


def is_atom(node: cst.BaseExpression) -> bool:
    """Return whether the expression needs no parentheses next to an operator or before an attribute."""
    kinds = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float, cst.SimpleString, cst.List,
             cst.Dict, cst.Set, cst.FormattedString, cst.ListComp, cst.DictComp, cst.SetComp, cst.Ellipsis)  # fmt: skip
    return isinstance(node, kinds) or bool(getattr(node, "lpar", ()))


def is_simple(node: cst.BaseExpression) -> bool:
    """Return whether an expression, such as a name or a number, can be evaluated twice without cost or side effects."""
    if isinstance(node, cst.Name | cst.Integer | cst.Float | cst.SimpleString | cst.Imaginary | cst.Ellipsis):
        return True
    if isinstance(node, cst.Attribute):
        return is_simple(node.value)
    if isinstance(node, cst.UnaryOperation):
        return is_simple(node.expression)
    if isinstance(node, cst.Tuple | cst.List):
        return all(is_simple(one.value) for one in node.elements)
    if isinstance(node, cst.Subscript):
        indices = [one.slice.value for one in node.slice if isinstance(one.slice, cst.Index)]
        return is_simple(node.value) and len(indices) == len(node.slice) and all(map(is_simple, indices))
    return isinstance(node, cst.Call) and code(node.func) == "tl.read"  # it reads the value of a view


def parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression, in parentheses if it needs them next to an operator or before an attribute."""
    if is_atom(node):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


class NameCounter(cst.CSTVisitor):
    """Counts the names in a syntax tree, but not the names of attributes and of keyword arguments."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.found[node.value] += 1


def count_names(node: cst.CSTNode) -> Counter[str]:
    """Return how often each name occurs in an expression, as `NameCounter` counts.

    >>> sorted(count_names(cst.parse_expression("f(x, dim=x.y)")).items())
    [('f', 1), ('x', 2)]
    """
    counter = NameCounter()
    node.visit(counter)
    return counter.found
