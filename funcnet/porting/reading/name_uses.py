"""Finds the global names to which code refers, the definitions to which these names lead, and the attributes that the
code reads.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Iterator

import libcst as cst

from funcnet.porting.reading.sources import ModelSource, Target, assignments
from funcnet.porting.reading.syntax import dotted, root_of

__all__ = ["Reference", "Uses", "uses_of"]

Names = tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """An expression that refers to a global name, or an import inside a function.

    Attributes:
        source: the file.
        node: the expression `a.b.c`, the part of an import statement, or the string of an annotation in quotes.
        name: the global name with which the expression begins, or "" for an import inside a function.
        target: the definition or outside object to which the expression or the import refers.
        lazy: whether the node is an annotation in quotes, which is never evaluated.
    """

    source: ModelSource
    node: cst.CSTNode
    name: str
    target: Target
    lazy: bool = False


@dataclasses.dataclass
class Uses:
    """The names that a piece of code uses.

    Attributes:
        references: the expressions that refer to global names, and the imports inside functions.
        own: names of the attributes of `self`, `cls` and `super()` that the code uses.
        attributes: names of the attributes of other objects that the code uses.
    """

    references: list[Reference] = dataclasses.field(default_factory=list)
    own: set[str] = dataclasses.field(default_factory=set)
    attributes: set[str] = dataclasses.field(default_factory=set)

    @property
    def outside(self) -> set[str]:
        """Qualified names of objects outside the package. The names of builtins begin with "builtins."."""
        return {one.target.name for one in self.references if one.target.source is None}


def uses_of(source: ModelSource, node: cst.CSTNode, skip: Callable[[cst.CSTNode], bool] = lambda node: False) -> Uses:
    """Return the names and attributes that a syntax node of a file uses, including everything inside it.

    Args:
        source: the file.
        node: a statement or an expression.
        skip: returns whether to leave out a node and all nodes inside it.
    """
    found = Uses()
    _collect(source, node, skip, found, False)
    return found


def _collect(
    source: ModelSource, node: cst.CSTNode, skip: Callable[[cst.CSTNode], bool], found: Uses, in_annotation: bool
) -> None:
    if skip(node):
        return
    if isinstance(node, cst.Import | cst.ImportFrom):
        for alias in node.names if not isinstance(node.names, cst.ImportStar) else ():
            if not skip(alias):
                found.references.append(
                    Reference(source, alias, "", source.package.imported(source, node, alias, (), aliases=False))
                )
    elif isinstance(node, cst.Name | cst.Attribute):
        chain = dotted(node)
        if chain is None:
            assert isinstance(node, cst.Attribute)
            is_super = isinstance(node.value, cst.Call) and dotted(node.value.func) == ("super",)
            (found.own if is_super else found.attributes).add(node.attr.value)
            _collect(source, node.value, skip, found, in_annotation)
        else:
            _name(source, node, chain, found)
    elif in_annotation and isinstance(node, cst.SimpleString):
        _string(source, node, found)
    else:
        for child in _inside(node):
            _collect(source, child, skip, found, in_annotation or isinstance(child, cst.Annotation))


def _name(source: ModelSource, node: cst.CSTNode, chain: Names, found: Uses) -> None:
    if assignments(source, root_of(node)) is None:
        target = source.package.follow(source, chain[0], chain[1:])
        if target is None and hasattr(builtins, chain[0]):
            target = Target(None, ".".join(("builtins", *chain)))
        if target is not None:
            found.references.append(Reference(source, node, chain[0], target))
    elif chain[0] in ("self", "cls") and len(chain) > 1:
        found.own.add(chain[1])
        found.attributes.update(chain[2:])
    else:
        found.attributes.update(chain[1:])


def _string(source: ModelSource, node: cst.SimpleString, found: Uses) -> None:
    """Add the references to global names in an annotation in quotes."""
    value = node.evaluated_value
    try:
        expression = cst.parse_expression(value if isinstance(value, str) else "")
    except cst.ParserSyntaxError:
        return
    stack: list[cst.CSTNode] = [expression]
    while stack:
        one = stack.pop()
        chain = dotted(one)
        if chain is None:
            stack.extend(_inside(one))
        elif (target := source.package.follow(source, chain[0], chain[1:])) is not None:
            found.references.append(Reference(source, node, chain[0], target, lazy=True))


def _inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the child nodes of a syntax node, but not the names of parameters, keyword arguments and definitions."""
    unread: tuple[cst.CSTNode | None, ...] = ()
    if isinstance(node, cst.Arg):
        unread = (node.keyword,)
    elif isinstance(node, cst.Param | cst.FunctionDef | cst.ClassDef):
        unread = (node.name,)
    elif isinstance(node, cst.MatchKeywordElement):
        unread = (node.key,)
    elif isinstance(node, cst.NameItem):
        unread = (node.name,)
    return (child for child in node.children if child not in unread)
