"""Gives the facts of expressions whose kind follows from their syntax, such as numbers and strings."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from funcnet.porting.expression_facts.fact import BOOL, DICT, FLOAT, INT, LIST, NONE, STR, Fact

__all__ = ["literal"]

_LITERALS: Mapping[type[cst.CSTNode], Fact] = {
    cst.Integer: INT,
    cst.Float: FLOAT,
    cst.Imaginary: Fact(frozenset({"complex"})),
    cst.SimpleString: STR,
    cst.ConcatenatedString: STR,
    cst.FormattedString: STR,
    cst.Dict: DICT,
    cst.DictComp: DICT,
    cst.ListComp: LIST,
    cst.Set: Fact(frozenset({"set"})),
    cst.Ellipsis: Fact(frozenset({"ellipsis"})),
    cst.Comparison: BOOL,
    cst.Lambda: Fact(frozenset({"function"})),
}


def literal(node: cst.CSTNode) -> Fact | None:
    """Return the fact of an expression whose kind follows from its syntax.

    Args:
        node: an expression.

    Returns:
        The fact. The result is None for any other expression. It is also None for lists and tuples, because their facts
        depend on the facts of their items.

    >>> sorted(literal(cst.parse_expression("'a'")).kinds), literal(cst.parse_expression("a"))
    (['str'], None)
    """
    if isinstance(node, cst.Name) and node.value in ("True", "False", "None"):
        return NONE if node.value == "None" else BOOL
    return _LITERALS.get(type(node))
