"""Records of the modules that have a part (a leaf or a child module) among their attributes. With these records, a
child module that is used alone finds the net that contains its shared leaves.

A part (a leaf or a module) records every module to which the part is assigned. The records are weak references, so they
keep no net alive. Each record is checked when it is read, so a module that no longer has the part does not count. A
copy of a part starts without records of its owners. `Description.__setstate__` then records the copied module as its
owner.
"""

import weakref
from collections.abc import Iterator
from typing import Any

from funcnet.nn.core.module_tree import Node, walk

__all__ = ["homes", "is_held", "note"]


def note(part: object, module: Node, name: str) -> None:
    """Record that `part`, a leaf or a module, is the attribute `name` of `module`."""
    vars(part).setdefault("_holders", _Holders()).add(module, name)


def is_held(part: object) -> bool:
    """Return whether any module has `part`, a leaf or a module, as an attribute."""
    return next(vars(part).get("_holders", _Holders()).of(part), None) is not None


def homes(leaf: object) -> list[str]:
    """Return the first name of a shared leaf in every net that shares it: ["'embeddings.weight' (in Net)", …]."""
    found: dict[str, None] = {}
    for net in _nets(leaf):
        paths = [place.path for place in walk(net, once=False) if place.leaf is leaf]
        if len(paths) > 1:
            found[f"{paths[0]!r} (in {type(net).__name__})"] = None
    return list(found)


def _nets(leaf: object) -> list[Any]:
    """Return the outermost modules that contain the leaf."""
    tops, todo, seen = [], [leaf], {id(leaf)}
    while todo:
        part = todo.pop(0)
        above = list(vars(part).get("_holders", _Holders()).of(part))
        if not above and part is not leaf:
            tops.append(part)
        for module in above:
            if id(module) not in seen:
                seen.add(id(module))
                todo.append(module)
    return tops


class _Holders:
    """Weak references to the modules that have a part, with the name of the part in each module."""

    def __init__(self) -> None:
        self.links: tuple[tuple[weakref.ref[Any], str], ...] = ()

    def add(self, module: Node, name: str) -> None:
        alive = [(link, known) for link, known in self.links if link() is not None]
        self.links = (*alive, (weakref.ref(module), name))

    def of(self, part: object) -> Iterator[Any]:
        for link, name in self.links:
            module = link()
            if module is not None and vars(module).get(name) is part:
                yield module

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Holders":
        return _Holders()

    def __reduce__(self) -> Any:
        return _Holders, ()
