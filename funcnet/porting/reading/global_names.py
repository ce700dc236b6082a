"""Finds the global names of a file, and the top-level statements that bind them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import libcst as cst

from funcnet.porting.reading.syntax import bound_name, dotted, is_command_line

__all__ = ["GlobalBinding", "aliases_of", "bindings_of", "global_names"]


@dataclasses.dataclass(frozen=True, eq=False)
class GlobalBinding:
    """A place at the top level of a file that binds a global name.

    Attributes:
        name: the global name.
        node: the import statement, the class, the function, or the assigned name.
        statement: the statement of the file's body that contains the node.
        alias: the part of an import statement that binds the name, or None if the statement is not an import.
        value: the right side of a plain assignment `name = value`, or None for any other binding.
        fallback: whether the binding is in an `except` clause, so that it counts only if the `try` block fails.
        typing_only: whether the binding is under `if TYPE_CHECKING:`.
    """

    name: str
    node: cst.CSTNode
    statement: cst.CSTNode
    alias: cst.ImportAlias | None = None
    value: cst.BaseExpression | None = None
    fallback: bool = False
    typing_only: bool = False


def global_names(tree: cst.Module) -> dict[str, tuple[GlobalBinding, ...]]:
    """Return {global name: its bindings, in the order of the file}.

    The block `if __name__ == "__main__":` is left out.

    >>> known = global_names(cst.parse_module("try:\\n  import a as b\\nexcept ImportError:\\n  b = None\\n"))
    >>> [(one.alias is not None, one.fallback) for one in known["b"]]
    [(True, False), (False, True)]
    """
    found: dict[str, list[GlobalBinding]] = {}
    for statement in (one for one in tree.body if not is_command_line(one)):
        for binding in bindings_of(statement):
            found.setdefault(binding.name, []).append(binding)
    return {name: tuple(known) for name, known in found.items()}


def bindings_of(statement: cst.CSTNode) -> Iterator[GlobalBinding]:
    """Yield the bindings of global names in a statement and in its blocks, but not inside functions and classes."""
    return _bindings(statement, statement, False, False)


def aliases_of(node: cst.CSTNode, name: str) -> list[cst.ImportAlias | None]:
    """Return the parts of an import that bind a name, or [None] for a star import and for any other statement."""
    if not isinstance(node, cst.Import | cst.ImportFrom) or isinstance(node.names, cst.ImportStar):
        return [None]
    return [alias for alias in node.names if bound_name(alias) == name]


def _bindings(node: cst.CSTNode, statement: cst.CSTNode, fallback: bool, typing_only: bool) -> Iterator[GlobalBinding]:
    def binding(name: str, bound: cst.CSTNode, alias: Any = None, value: Any = None) -> GlobalBinding:
        return GlobalBinding(name, bound, statement, alias, value, fallback, typing_only)

    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        yield binding(node.name.value, node)
    elif isinstance(node, cst.Import | cst.ImportFrom):
        for alias in node.names if not isinstance(node.names, cst.ImportStar) else ():
            yield binding(bound_name(alias), node, alias)
    elif isinstance(node, cst.Assign | cst.AnnAssign):
        targets = [one.target for one in node.targets] if isinstance(node, cst.Assign) else [node.target]
        for name in (one for target in targets for one in _stored(target)):
            yield binding(name.value, name, value=node.value if targets == [name] else None)
    elif isinstance(node, cst.AugAssign | cst.For | cst.NamedExpr):
        yield from (binding(name.value, name) for name in _stored(node.target))
    elif isinstance(node, cst.AsName):
        yield from (binding(name.value, name) for name in _stored(node.name))
    if not isinstance(node, cst.FunctionDef | cst.ClassDef | cst.BaseExpression | cst.Import | cst.ImportFrom):
        is_typing = isinstance(node, cst.If) and (dotted(node.test) or ("",))[-1] == "TYPE_CHECKING"
        for child in node.children:
            inside = fallback or isinstance(node, cst.ExceptHandler)
            yield from _bindings(
                child, statement, inside, typing_only or (is_typing and isinstance(child, cst.BaseSuite))
            )


def _stored(target: cst.CSTNode) -> list[cst.Name]:
    """Return the names that an assignment to a target binds.

    >>> [name.value for name in _stored(cst.parse_expression("(a, [b, *c], d.e, f[0])"))]
    ['a', 'b', 'c']
    """
    if isinstance(target, cst.Name):
        return [target]
    elements = target.elements if isinstance(target, cst.Tuple | cst.List) else ()
    return [name for element in elements for name in _stored(element.value)]
