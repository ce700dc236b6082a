"""Finds where the names of a file get their values: assignments, parameters, loops, functions, classes and their
attributes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import libcst as cst

from funcnet.porting.reading.syntax import walk

__all__ = ["Binding", "Definitions", "enclosing"]

Scope = cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.Module | cst.GeneratorExp | cst.ListComp | cst.SetComp
Parent = Callable[[cst.CSTNode], cst.CSTNode | None]
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
_LOOPS = (cst.For, cst.While)
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Module, *_COMPREHENSIONS)


@dataclasses.dataclass(frozen=True)
class Binding:
    """A statement, parameter or definition that gives a name its value.

    Attributes:
        how: what the name gets. "value" is the value of `node`. "item" is the item at `path` of this value. "each" is
            an element of `node`, as in a loop, or the item at `path` of an element. "parameter" is an argument, and
            `node` is the Param. "definition" is a class or function, which is `node`. "other" is anything else.
        node: the expression, the Param, or the definition.
        path: if the target is a tuple, the indices of the item that the name gets. A starred target has the index None.
        operator: the operator of an augmented assignment, or None.
    """

    how: str
    node: cst.CSTNode
    path: tuple[int | None, ...] = ()
    operator: cst.BaseAugOp | None = None


def enclosing(node: cst.CSTNode, kinds: tuple[type, ...], parent: Parent) -> cst.CSTNode | None:
    """Return the nearest node above `node` whose class is in `kinds`, or None if there is none."""
    found = parent(node)
    while found is not None and not isinstance(found, kinds):
        found = parent(found)
    return found


def _targets(
    target: cst.CSTNode, path: tuple[int | None, ...] = ()
) -> Iterator[tuple[cst.CSTNode, tuple[int | None, ...]]]:
    if isinstance(target, cst.Tuple | cst.List):
        for place, element in enumerate(target.elements):
            starred = isinstance(element, cst.StarredElement)
            yield from _targets(element.value, (*path, None if starred else place))
    else:
        yield target, path


class Definitions(cst.CSTVisitor):
    """All statements, parameters and definitions of a file that give names their values. `Definitions.of` collects
    them.

    Attributes:
        names: {scope: {name: its bindings}}.
        attributes: {class: {attribute of self: its bindings}}.
        buffers: {class: names of the buffers that the class registers}.
        returns: {function: the expressions in its `return` statements}.
        classes: {name: class} of the file.
        calls: {name of a function or method: the calls of a function or method of this name}.
    """

    def __init__(self, parent: Parent):
        super().__init__()
        self.parent = parent
        self.names: dict[cst.CSTNode, dict[str, list[Binding]]] = {}
        self.attributes: dict[cst.CSTNode, dict[str, list[Binding]]] = {}
        self.returns: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
        self.classes: dict[str, cst.ClassDef] = {}
        self.calls: dict[str, list[cst.Call]] = {}
        self.buffers: dict[cst.CSTNode, set[str]] = {}
        self._order: dict[cst.CSTNode, int] = {}

    @classmethod
    def of(cls, tree: cst.Module, parent: Parent) -> Definitions:
        found = cls(parent)
        tree.visit(found)
        found._order = {node: place for place, node in enumerate(walk(tree))}
        return found

    def _bind(self, target: cst.CSTNode, binding: Binding, scope: cst.CSTNode | None = None) -> None:
        for one, path in _targets(target):
            how = {"value": "item"}.get(binding.how, binding.how) if path else binding.how
            whole = dataclasses.replace(binding, how=how, path=(*binding.path, *path))
            if isinstance(one, cst.Name):
                home = scope or enclosing(one, (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.Module), self.parent)
                if home is not None:
                    self.names.setdefault(home, {}).setdefault(one.value, []).append(whole)
            elif isinstance(one, cst.Attribute) and isinstance(one.value, cst.Name) and one.value.value == "self":
                home = enclosing(one, (cst.ClassDef,), self.parent)
                if home is not None:
                    self.attributes.setdefault(home, {}).setdefault(one.attr.value, []).append(whole)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._bind(target.target, Binding("value", node.value))

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        if node.value is not None:
            self._bind(node.target, Binding("value", node.value))

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._bind(node.target, Binding("value", node.value, operator=node.operator))

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._bind(node.target, Binding("value", node.value))

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target, Binding("each", node.iter))

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._bind(node.target, Binding("each", node.iter), enclosing(node, _COMPREHENSIONS, self.parent))

    def visit_WithItem(self, node: cst.WithItem) -> None:
        if node.asname is not None:
            self._bind(node.asname.name, Binding("other", node.item))

    def visit_Param(self, node: cst.Param) -> None:
        scope = enclosing(node, (cst.FunctionDef, cst.Lambda), self.parent)
        if scope is not None:
            self.names.setdefault(scope, {}).setdefault(node.name.value, []).append(Binding("parameter", node))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        home = enclosing(node, (cst.FunctionDef, cst.ClassDef, cst.Module), self.parent)
        if home is not None:
            self.names.setdefault(home, {}).setdefault(node.name.value, []).append(Binding("definition", node))

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.classes.setdefault(node.name.value, node)
        home = enclosing(node, (cst.FunctionDef, cst.ClassDef, cst.Module), self.parent)
        if home is not None:
            self.names.setdefault(home, {}).setdefault(node.name.value, []).append(Binding("definition", node))

    def visit_Return(self, node: cst.Return) -> None:
        scope = enclosing(node, (cst.FunctionDef,), self.parent)
        if scope is not None and node.value is not None:
            self.returns.setdefault(scope, []).append(node.value)

    def visit_Call(self, node: cst.Call) -> None:
        func = node.func
        name = func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
        self.calls.setdefault(name, []).append(node)
        if name == "register_buffer" and len(node.args) > 1 and isinstance(node.args[0].value, cst.SimpleString):
            home = enclosing(node, (cst.ClassDef,), self.parent)
            attribute = node.args[0].value.evaluated_value
            if home is not None and isinstance(attribute, str):
                binding = Binding("value", node.args[1].value)
                self.attributes.setdefault(home, {}).setdefault(attribute, []).append(binding)
                self.buffers.setdefault(home, set()).add(attribute)

    def is_buffer(self, owner: cst.CSTNode, name: str) -> bool:
        """Return whether a class of the file, or one of its bases in the file, registers a buffer of that name."""
        return name in self.buffers.get(owner, ()) or any(self.is_buffer(base, name) for base in self.bases(owner))

    def of_name(self, node: cst.Name) -> list[Binding]:
        """Return the bindings of a name at the place where it is read."""
        scope = enclosing(node, _SCOPES, self.parent)
        first = True
        while scope is not None:
            if not isinstance(scope, cst.ClassDef) or first:
                found = self.names.get(scope, {}).get(node.value)
                if found:
                    return found
            scope, first = enclosing(scope, _SCOPES, self.parent), False
        return []

    def before(self, node: cst.Name) -> list[Binding]:
        """Return the bindings that may give a name the value that it has where `node` reads it."""
        found = self.of_name(node)
        later = [one for one in found if self._is_later(one, node)] if len(found) > 1 else []
        return [one for one in found if one not in later] or found

    def _is_later(self, binding: Binding, node: cst.CSTNode) -> bool:
        """Return whether a binding comes after a node in the same function, and no loop leads back to the node."""
        order, given = self._order, binding.node
        if binding.how not in ("value", "item") or not order.get(node, 0) < order.get(given, 0):
            return False
        homes = [enclosing(one, (cst.FunctionDef, cst.Lambda), self.parent) for one in (node, given)]
        if homes[0] is not homes[1] or homes[0] is None:
            return False
        loop = enclosing(given, (*_LOOPS, cst.FunctionDef, cst.Lambda), self.parent)
        while isinstance(loop, _LOOPS):
            if any(one is node for one in walk(loop)):
                return False
            loop = enclosing(loop, (*_LOOPS, cst.FunctionDef, cst.Lambda), self.parent)
        return True

    def method(self, owner: cst.CSTNode, name: str) -> cst.FunctionDef | None:
        """Return the method with this name of a class of the file or its bases in the file, or None."""
        for binding in self.names.get(owner, {}).get(name, []):
            if isinstance(binding.node, cst.FunctionDef):
                return binding.node
        for base in self.bases(owner):
            found = self.method(base, name)
            if found is not None:
                return found
        return None

    def property_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the property that an expression `self.name` reads.

        The result is None if the expression reads anything else, or if several classes of the file define the name.
        """
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name) or node.value.value != "self":
            return None
        owner, name = enclosing(node, (cst.ClassDef,), self.parent), node.attr.value
        found = None if owner is None else self.method(owner, name)
        several = sum(name in self.names.get(one, {}) for one in self.classes.values()) > 1
        if found is None or several or len(found.decorators) != 1:
            return None
        decorator = found.decorators[0].decorator
        return found if isinstance(decorator, cst.Name) and decorator.value == "property" else None

    def bases(self, owner: cst.CSTNode) -> list[cst.ClassDef]:
        """Return the bases of a class that are classes of the file."""
        names = [arg.value.value for arg in getattr(owner, "bases", ()) if isinstance(arg.value, cst.Name)]
        return [self.classes[name] for name in names if name in self.classes and self.classes[name] is not owner]

    def of_attribute(self, owner: cst.CSTNode, name: str) -> list[Binding]:
        """Return the bindings of `self.name` in a class and its bases in the file, including class attributes."""
        found = [*self.attributes.get(owner, {}).get(name, []), *self.names.get(owner, {}).get(name, [])]
        for base in self.bases(owner):
            found += self.of_attribute(base, name)
        return found
