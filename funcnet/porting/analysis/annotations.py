"""Derives facts about values from annotations: `Optional[Tensor]`, `tuple[int, int]`, `"torch.Tensor"`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import libcst as cst

from funcnet.porting.expression_facts.fact import (
    BOOL,
    DICT,
    FLOAT,
    INT,
    INTS,
    LIST,
    NONE,
    STR,
    TENSOR,
    TUPLE,
    UNKNOWN,
    Fact,
    join,
)
from funcnet.porting.reading.expressions import code

__all__ = ["annotated"]

_ANNOTATED: Mapping[str, Fact] = {
    "int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "None": NONE, "dict": DICT, "list": LIST, "tuple": TUPLE,
    "List": LIST, "Tuple": TUPLE, "Dict": DICT, "torch.Size": INTS, "torch.device": Fact(frozenset({"device"})),
    "torch.dtype": Fact(frozenset({"dtype"})), "Sequence": LIST, "Callable": Fact(frozenset({"function"})),
}  # fmt: skip


def annotated(node: cst.BaseExpression, qualified: Callable[[cst.CSTNode], str | None]) -> Fact:
    """Return the `Fact` that describes all values of an annotated type, or UNKNOWN if the annotation is not understood.

    Args:
        node: the annotation.
        qualified: function that returns the qualified name of a Name or an Attribute, or None.
    """
    if isinstance(node, cst.SimpleString):
        text = str(node.evaluated_value)
        return TENSOR if text.rpartition(".")[2] == "Tensor" else _ANNOTATED.get(text, UNKNOWN)
    if isinstance(node, cst.Subscript):
        outer = code(node.value).rpartition(".")[2]
        inner = [one.slice.value for one in node.slice if isinstance(one.slice, cst.Index)]
        if outer == "Optional" and inner:
            found = annotated(inner[0], qualified)
            return Fact(found.kinds | NONE.kinds, name=found.name) if found.kinds else UNKNOWN
        if outer == "Union":
            return join(annotated(one, qualified) for one in inner)
        if outer in ("Tuple", "tuple") and inner and not isinstance(inner[-1], cst.Ellipsis):
            return Fact(TUPLE.kinds, items=tuple(annotated(one, qualified) for one in inner))
        found = _ANNOTATED.get(outer, UNKNOWN)
        whole = found.is_only("list", "tuple") and bool(inner) and annotated(inner[0], qualified) == TENSOR
        return Fact(found.kinds, name="tensors") if whole else found
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        return join([annotated(node.left, qualified), annotated(node.right, qualified)])
    name = qualified(node) or code(node)
    if name.startswith("torch.") and name.endswith("Tensor"):
        return TENSOR
    if name.startswith("torch.nn."):
        return Fact(frozenset({"module"}), name=name)
    return _ANNOTATED.get(name, UNKNOWN)
