"""Who holds a part: how a child that is used alone finds the net that its shared leaves live in.

A part notes every module that it is assigned to, when it is assigned. The notes are weak references and are checked
when they are read, so they keep no net alive and a part that was replaced leaves no trace. A copy starts without notes
and gets its own (`Description.__setstate__`).
"""

import weakref
from collections.abc import Iterator
from typing import Any

from funcnet.nn.core.parts import walk

__all__ = ["homes", "note"]


def note(part: Any, module: Any, name: str) -> None:
    """Notes that the part is `module`'s attribute `name`."""
    vars(part).setdefault("_holders", _Holders()).add(module, name)


def homes(leaf: Any) -> list[str]:
    """["'embeddings.weight' (in Net)", …]: the first name of a shared leaf in every whole net that shares it."""
    found: dict[str, None] = {}
    for net in _nets(leaf):
        paths = [place.path for place in walk(net, once=False) if place.leaf is leaf]
        if len(paths) > 1:
            found[f"{paths[0]!r} (in {type(net).__name__})"] = None
    return list(found)


def _nets(leaf: Any) -> list[Any]:
    """The modules above the leaf that nothing holds."""
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
    """Weak references to the modules that hold a part, with the names that they hold it under."""

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
