"""Records of the modules that own a part. With these records, a child that is used alone finds the net that contains
its shared leaves.

A part records every module that it is assigned to. The records are weak references that are checked when they are read,
so they keep no net alive, and a replaced part leaves no trace. A copy starts without records and gets its own
(`Description.__setstate__`).
"""

import weakref
from collections.abc import Iterator
from typing import Any

from funcnet.nn.core.parts import walk

__all__ = ["homes", "is_held", "note"]


def note(part: Any, module: Any, name: str) -> None:
    """Record that the part is the attribute `name` of `module`."""
    vars(part).setdefault("_holders", _Holders()).add(module, name)


def is_held(part: Any) -> bool:
    """Return whether the part is an attribute of a module."""
    return next(vars(part).get("_holders", _Holders()).of(part), None) is not None


def homes(leaf: Any) -> list[str]:
    """Return the first name of a shared leaf in every net that shares it: ["'embeddings.weight' (in Net)", …]."""
    found: dict[str, None] = {}
    for net in _nets(leaf):
        paths = [place.path for place in walk(net, once=False) if place.leaf is leaf]
        if len(paths) > 1:
            found[f"{paths[0]!r} (in {type(net).__name__})"] = None
    return list(found)


def _nets(leaf: Any) -> list[Any]:
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

    def add(self, module: Any, name: str) -> None:
        alive = [(link, known) for link, known in self.links if link() is not None]
        self.links = (*alive, (weakref.ref(module), name))

    def of(self, part: Any) -> Iterator[Any]:
        for link, name in self.links:
            module = link()
            if module is not None and vars(module).get(name) is part:
                yield module

    def __deepcopy__(self, memo: Any) -> "_Holders":
        return _Holders()

    def __reduce__(self) -> Any:
        return _Holders, ()
