"""How a description is read: its parts, the walk over all its leaves, and the frame of a bound copy.

Everything that looks into a module goes through these functions; they take a description or a bound copy alike.

- *part*: a leaf (`Parameter`, `Buffer`) or a module among the attributes of a module. Its `__dict__` is the registry.
- *path*: a dotted name. The segment `*` stands for all the layers of a stack (`nn.Repeat(…, scan=True)`), whose leaves
  carry one leading axis for it.
- *place*: one leaf under one path. A leaf that is shared has several places; the first is its home.
- *frame*: what a bound copy knows of itself and of its call (`call.Frame`). A description has none.
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
    """The base of all modules, by which a module among the attributes is known."""


class LeafPlace(NamedTuple):
    """A leaf under one of its names."""

    path: str  # from the module where the walk began
    module: Any  # whose attribute it is; bound, if the walk began at a bound copy
    name: str  # of the attribute
    leaf: Any  # the Parameter or Buffer
    stacks: tuple[int, ...]  # the numbers of layers of the stacks that it is in, the outermost first

    @property
    def value(self) -> Any:
        """What the attribute is: the array in a bound copy, the leaf in a description."""
        return vars(self.module)[self.name]


def join(*segments: str) -> str:
    """A dotted name; empty segments vanish.

    >>> join("", "fc", "weight")
    'fc.weight'
    """
    return ".".join(s for s in segments if s)


def frame_of(module: Any) -> Any:
    """The frame of a bound copy; None of a description."""
    return vars(module).get("_frame")


def set_frame(bound: Any, frame: Any) -> None:
    """Makes the copy of a description a bound one."""
    vars(bound)["_frame"] = frame


def description_of(module: Any) -> Any:
    """The description of a bound copy; a description itself."""
    frame = frame_of(module)
    return module if frame is None else frame.description


# ------------------------------------------------------------------------------------------------------ own parts


def leaves(module: Any, *kinds: type) -> list[tuple[str, Any]]:
    """(name, leaf) of the module's own leaves: parameters, then buffers, or those of the kinds given."""
    own = vars(description_of(module))
    return [
        (name, item) for kind in kinds or (Parameter, Buffer) for name, item in own.items() if isinstance(item, kind)
    ]


def computed_of(module: Any) -> dict[str, Computed]:
    """{name: what is computed} among the module's own attributes."""
    own = vars(description_of(module))
    return {name: value for name, value in own.items() if isinstance(value, Computed)}


def children(module: Any, layers: bool = False) -> list[tuple[str, Any]]:
    """(name, child) of the module's own children, bound ones of a bound copy; a child under two names comes twice.

    With `layers` the layers of a stack come one by one, under their numbers; all are the same module.
    """
    own = vars(module)
    found = [(name, own[name]) for name, item in vars(description_of(module)).items() if isinstance(item, Node)]
    if layers and is_stack(module):
        return [(str(number), child) for _, child in found for number in range(module.n)]
    return found


def is_stack(module: Any) -> bool:
    """Whether the module's only child stands for all the layers of a stack."""
    return tree.STACKED in vars(description_of(module))


def reserved(module: Any) -> dict[str, tuple[type, bool]]:
    """{name: (kind of part, whether it is persistent)} of the names that hold None but were registered for a part."""
    return vars(description_of(module)).get("_reserved", {})


def reserve(module: Any, name: str, slot: tuple[type, bool] | None) -> None:
    """Reserves a name of a description for a kind of part; None frees it."""
    kept = {**reserved(module), name: slot}
    kept = {name: slot for name, slot in kept.items() if slot is not None}
    if kept:
        vars(module)["_reserved"] = kept
    else:
        vars(module).pop("_reserved", None)


def slots(module: Any) -> list[tuple[str, Any]]:
    """(name, child or None), in order: the children, and the names that are reserved for one."""
    own, kept = vars(module), {name for name, (kind, _) in reserved(module).items() if issubclass(kind, Node)}
    names = vars(description_of(module)).items()
    return [(name, own[name]) for name, item in names if isinstance(item, Node) or name in kept]


# --------------------------------------------------------------------------------------------------- the whole tree


def walk(module: Any, *kinds: type, once: bool = True) -> Iterator[LeafPlace]:
    """Every leaf of these kinds (parameters and buffers, if none are given), parents first, in torch's order.

    Args:
        module: where the walk begins.
        *kinds: `Parameter`, `Buffer`, or both.
        once: whether a shared leaf comes under its home alone; else under each of its names.
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
    """The nested dict of `value(place)` over the leaves of one kind, in the structure of params and state.

    A leaf lives under its home alone; a module without leaves, or under its second name, is an empty dict.
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
    """A bound module's arrays, borrowed ones included: the (params, state) that its description's `apply` takes."""
    params, state = (build(bound, kind, lambda place: place.value) for kind in (Parameter, Buffer))
    return params, state


# --------------------------------------------------------------------------------------------------------- copies


def with_children(module: Any, parts: dict[str, Any]) -> Any:
    """A shallow copy with these children (or None) in place of the module's own."""
    old = {name for name, _ in slots(module)}
    new = object.__new__(type(module))
    vars(new).update({name: value for name, value in vars(module).items() if name not in old})
    vars(new).update(parts)
    return new
