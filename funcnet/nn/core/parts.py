"""Functions that read a description: its parts, the walk over all its leaves, and the frame of a bound copy.

All code that looks into a module uses these functions. They take both descriptions and bound copies.

- *part*: a leaf (`Parameter`, `Buffer`) or a module among the attributes of a module, whose `__dict__` is the registry.
- *path*: a dotted name. The segment `*` denotes all layers of a stack (`nn.Repeat(…, scan=True)`). The leaves of a
  stack have one leading axis for the layers.
- *place*: one leaf under one path. A shared leaf has several places, and the first is its home.
- *frame*: the data of a bound copy and of its call (`call.Frame`). A description has no frame.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from funcnet import tree
from funcnet.nn.core.parameter import Buffer, Computed, Parameter

Tree = dict[str, Any]

__all__ = [
    "LeafPlace",
    "Node",
    "build",
    "children",
    "computed_of",
    "description_of",
    "frame_of",
    "is_stack",
    "join",
    "leaves",
    "reserve",
    "reserved",
    "set_frame",
    "slots",
    "values",
    "walk",
    "with_children",
]


class Node:
    """The base class of all modules. It identifies the modules among the attributes."""


class LeafPlace(NamedTuple):
    """A leaf under one of its names."""

    path: str  # relative to the module where the walk began
    module: Any  # the module that has the attribute; a bound copy if the walk began at one
    name: str  # name of the attribute
    leaf: Any  # the Parameter or Buffer
    stacks: tuple[int, ...]  # the numbers of layers of the stacks that it is in, the outermost first

    @property
    def value(self) -> Any:
        """Return the value of the attribute: the array in a bound copy, or the leaf in a description."""
        return vars(self.module)[self.name]


def join(*segments: str) -> str:
    """Join segments to a dotted name. Empty segments are left out.

    >>> join("", "fc", "weight")
    'fc.weight'
    """
    return ".".join(s for s in segments if s)


def frame_of(module: Any) -> Any:
    """Return the frame of a bound copy, or None for a description."""
    return vars(module).get("_frame")


def set_frame(bound: Any, frame: Any) -> None:
    """Turn the copy of a description into a bound copy."""
    vars(bound)["_frame"] = frame


def description_of(module: Any) -> Any:
    """Return the description of a bound copy. A description is returned as it is."""
    frame = frame_of(module)
    return module if frame is None else frame.description


# ------------------------------------------------------------------------------------------------------ own parts


def leaves(module: Any, *kinds: type) -> list[tuple[str, Any]]:
    """Return (name, leaf) for the module's own leaves: parameters first and then buffers, or the given kinds only."""
    own = vars(description_of(module))
    return [
        (name, item) for kind in kinds or (Parameter, Buffer) for name, item in own.items() if isinstance(item, kind)
    ]


def computed_of(module: Any) -> dict[str, Computed]:
    """Return {name: computed attribute} for the module's own attributes."""
    own = vars(description_of(module))
    return {name: value for name, value in own.items() if isinstance(value, Computed)}


def children(module: Any, layers: bool = False) -> list[tuple[str, Any]]:
    """Return (name, child) for the module's own children. The children of a bound copy are bound.

    A child under two names appears twice. With `layers=True`, each layer of a stack appears under its number, and all
    layers are the same module.
    """
    own = vars(module)
    found = [(name, own[name]) for name, item in vars(description_of(module)).items() if isinstance(item, Node)]
    if layers and is_stack(module):
        return [(str(number), child) for _, child in found for number in range(module.n)]
    return found


def is_stack(module: Any) -> bool:
    """Return whether the module's only child represents all layers of a stack."""
    return tree.STACKED in vars(description_of(module))


def reserved(module: Any) -> dict[str, tuple[type, bool]]:
    """Return {name: (kind of part, whether it is persistent)} for the names that are None but reserved for a part."""
    return vars(description_of(module)).get("_reserved", {})


def reserve(module: Any, name: str, slot: tuple[type, bool] | None) -> None:
    """Reserve a name of a description for a kind of part. None removes the reservation."""
    kept = {**reserved(module), name: slot}
    kept = {name: slot for name, slot in kept.items() if slot is not None}
    if kept:
        vars(module)["_reserved"] = kept
    else:
        vars(module).pop("_reserved", None)


def slots(module: Any) -> list[tuple[str, Any]]:
    """Return (name, child or None), in order, for the children and the names that are reserved for a child."""
    own, kept = vars(module), {name for name, (kind, _) in reserved(module).items() if issubclass(kind, Node)}
    names = vars(description_of(module)).items()
    return [(name, own[name]) for name, item in names if isinstance(item, Node) or name in kept]


# --------------------------------------------------------------------------------------------------- the whole tree


def walk(module: Any, *kinds: type, once: bool = True) -> Iterator[LeafPlace]:
    """Return an iterator over the places of all leaves, parents first, in torch's order.

    Args:
        module: module where the walk begins.
        *kinds: `Parameter`, `Buffer`, or both. The default is both.
        once: if True, a shared leaf appears only under its home. Otherwise it appears under each of its names.
    """
    seen: set[int] = set()

    def visit(module: Any, path: str, stacks: tuple[int, ...]) -> Iterator[LeafPlace]:
        seen.add(id(module))
        for name, leaf in leaves(module, *kinds):
            if not once or id(leaf) not in seen:
                seen.add(id(leaf))
                yield LeafPlace(join(path, name), module, name, leaf, stacks)
        below = (*stacks, module.n) if is_stack(module) else stacks
        for name, child in children(module):
            if not once or id(child) not in seen:
                yield from visit(child, join(path, name), below)

    return visit(module, "", ())


def build(module: Any, kind: type, value: Callable[[LeafPlace], Any]) -> Tree:
    """Return the nested dict of `value(place)` over the leaves of one kind, in the structure of params and state.

    A leaf is only under its home. A module without leaves, or under its second name, is an empty dict.
    """
    seen: set[int] = set()

    def one(module: Any, path: str, stacks: tuple[int, ...]) -> Tree:
        seen.add(id(module))
        out: Tree = {}
        for name, leaf in leaves(module, kind):
            if id(leaf) not in seen:
                seen.add(id(leaf))
                out[name] = value(LeafPlace(join(path, name), module, name, leaf, stacks))
        below = (*stacks, module.n) if is_stack(module) else stacks
        for name, child in children(module):
            out[name] = {} if id(child) in seen else one(child, join(path, name), below)
        return out

    return one(module, "", ())


def values(bound: Any) -> tuple[Tree, Tree]:
    """Return all arrays of a bound module, including shared ones, as (params, state) for its description's `apply`."""
    params, state = (build(bound, kind, lambda place: place.value) for kind in (Parameter, Buffer))
    return params, state


# --------------------------------------------------------------------------------------------------------- copies


def with_children(module: Any, parts: dict[str, Any]) -> Any:
    """Return a shallow copy of the module with other children (or None) in place of its own."""
    old = {name for name, _ in slots(module)}
    new = object.__new__(type(module))
    vars(new).update({name: value for name, value in vars(module).items() if name not in old})
    vars(new).update(parts)
    return new
