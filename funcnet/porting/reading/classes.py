"""The classes of a torch source: their bases, whether they are layers, and which of their members are kept."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Iterable

import libcst as cst

from funcnet.porting.reading.sources import ModelSource, Target
from funcnet.porting.reading.syntax import dotted

__all__ = ["KeptClass", "ancestors", "class_at", "is_layer", "serves_layers", "target_of"]

# Beginnings of the names of bases that do not make a class a layer, even if it has a `forward`.
_NO_LAYERS = ("torch.autograd.", "torch.utils.", "torch.optim.", "builtins.", "typing.", "enum.", "abc.")


@dataclasses.dataclass(eq=False)
class KeptClass:
    """A class that the port keeps, and which of its methods and attributes it keeps.

    Attributes:
        source: its file.
        node: its definition.
        bases: those of its base classes that the source's package defines.
        layer: whether the class is a subclass of torch.nn.Module.
        kept: members that are kept.
        open: {member of which it is not yet decided whether the port keeps it: names that it binds}.
        dropped: {name of a member that is not kept: the reason}.
        called: names of the attributes that kept code reads from `self`, `cls`, `super()` or the class itself.
    """

    source: ModelSource
    node: cst.ClassDef
    bases: list[KeptClass] = dataclasses.field(default_factory=list)
    layer: bool = False
    kept: set[cst.CSTNode] = dataclasses.field(default_factory=set)
    open: dict[cst.CSTNode, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    dropped: dict[str, str] = dataclasses.field(default_factory=dict)
    called: set[str] = dataclasses.field(default_factory=set)

    @property
    def name(self) -> str:
        return self.node.name.value

    def is_of(self, other: KeptClass) -> bool:
        return other is self or any(base.is_of(other) for base in self.bases)


def serves_layers(of: KeptClass, classes: Iterable[KeptClass]) -> bool:
    """Return whether a class is a layer, or a direct or indirect base of a layer among these classes."""
    return of.layer or any(one.layer and one.is_of(of) for one in classes)


def is_layer(source: ModelSource, name: str) -> bool:
    """Return whether a class of a file is a subclass of torch.nn.Module.

    A class with a base class from a package that is not read counts as a Module if it has a method `forward`.

    Args:
        source: the file.
        name: the name of the class.
    """
    node = class_at(Target(source, name))
    if node is None:
        return False
    has_forward = any(isinstance(one, cst.FunctionDef) and one.name.value == "forward" for one in node.body.body)
    outside = [base.name for base in ancestors(source, node) if base.source is None]
    return any(base.startswith("torch.nn.") or (has_forward and not base.startswith(_NO_LAYERS)) for base in outside)


def ancestors(source: ModelSource, node: cst.ClassDef) -> list[Target]:
    """Return all direct and indirect bases of a class, each once.

    A base outside the package is included, but its own bases are not.

    Args:
        source: the file of the class.
        node: its definition.
    """
    found: list[Target] = []
    stack = [(source, node)]
    while stack:
        where, one = stack.pop()
        for base in one.bases:
            target = target_of(where, base.value, aliases=True)
            if target is None or target in found:
                continue
            found.append(target)
            below = class_at(target)
            if below is not None and target.source is not None:
                stack.append((target.source, below))
    return found


def target_of(source: ModelSource, node: cst.CSTNode | None, aliases: bool = False) -> Target | None:
    """Return what a dotted name refers to at the top level of a file.

    The result is None if the node is not a dotted name, or if the file does not bind its first name and Python has no
    builtin of that name.

    Args:
        source: the file.
        node: the expression, or None.
        aliases: whether `name = other` is followed to `other`; see `Package.follow`.
    """
    chain = dotted(node) if node is not None else None
    if chain is None:
        return None
    target = source.package.follow(source, chain[0], chain[1:], aliases)
    if target is None and hasattr(builtins, chain[0]):
        return Target(None, ".".join(("builtins", *chain)))
    return target


def class_at(target: Target) -> cst.ClassDef | None:
    """Return the class of the package to which a target refers, or None if it refers to anything else."""
    known = target.source.bindings.get(target.name, ()) if target.source is not None else ()
    return next((one.node for one in reversed(known) if isinstance(one.node, cst.ClassDef)), None)
