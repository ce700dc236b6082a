"""Finds the methods of modules that run layers: `self.conv(x)`, `for layer in self.layers: x = layer(x)`.

Only the names of methods are compared. If one class has a method that runs layers, methods of this name in other
classes count too.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from funcnet.nn import Module
from funcnet.porting.reading.syntax import walk

__all__ = ["layer_runners"]


def layer_runners(methods: Iterable[cst.FunctionDef]) -> frozenset[cst.FunctionDef]:
    """Return the methods that run layers, either themselves or through other methods.

    Args:
        methods: the methods of all module classes that are ported together.
    """
    given = list(methods)
    named = {one.name.value for one in given}
    found: set[cst.FunctionDef] = set()
    size = -1
    while size != len(found):
        size = len(found)
        runners = {"forward", *(one.name.value for one in found)}
        found |= {one for one in given if one not in found and _runs(one, named, runners)}
    return frozenset(found)


def _runs(method: cst.FunctionDef, named: set[str], runners: set[str]) -> bool:
    """Return whether a method calls a layer, or a method that runs layers.

    Args:
        method: the method.
        named: names of all methods of modules that are ported together.
        runners: names of the methods that are known to run layers.
    """
    nodes = list(walk(method))
    each = {
        one.target for one in nodes if isinstance(one, cst.For | cst.CompFor) and any(map(_is_part, walk(one.iter)))
    }
    layers = {name.value for target in each for name in walk(target) if isinstance(name, cst.Name)}
    for call in nodes:
        func = call.func if isinstance(call, cst.Call) else None
        if isinstance(func, cst.Attribute) and func.attr.value in runners:
            return True
        if _is_part(func) and func.attr.value not in named and not hasattr(Module, func.attr.value):  # type: ignore[union-attr]
            return True
        if isinstance(func, cst.Subscript) and _is_part(func.value):
            return True
        if isinstance(func, cst.Name) and func.value in layers:
            return True
    return False


def _is_part(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
