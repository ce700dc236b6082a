"""Functions that read a description: its parts, the walk over all its leaves, and the frame of a bound copy.

All code that looks into a module uses these functions. The argument may be a module without arrays (a description) or a
bound copy.

- *part*: a leaf (`Parameter`, `Buffer`) or a module among the attributes of a module, whose `__dict__` is the registry.
- *path*: a dotted name. The segment `*` denotes all layers of a stack (`nn.Repeat(…, scan=True)`). The leaves of a
  stack have one leading axis for the layers.
- *place*: one leaf under one path. A shared leaf has several places, and the first is its home.
- *registry*: one of torch's dicts `_modules`, `_parameters` and `_buffers`, for code written for torch that reads or
  changes them: `self._modules[name](x)`, `net._modules["fc"] = nn.Identity()`. A registry is a view of the attributes.
- *frame*: the data of a bound copy and of its call (`call.Frame`). A module that is not bound has no frame.
"""

from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from funcnet import tree
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.tree import PyTree, Tree

__all__ = [
    "LeafPlace",
    "Node",
    "Registry",
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
    """The base class of all modules. A `Node` that is an attribute of another module is a child of that module.

    A bound copy is equal to its description, so a dict whose keys are modules can be read inside `forward`.
    """

    if TYPE_CHECKING:  # outside forward, a part is a description; inside, it is an array or a callable

        def __getattr__(self, name: str) -> Any: ...

        def __call__(self, *args: PyTree, **kwargs: object) -> Any: ...

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Node) and description_of(self) is description_of(other))

    def __hash__(self) -> int:
        return hash(id(description_of(self)))


class LeafPlace(NamedTuple):
    """A parameter or buffer under one of its names in a net."""

    path: str  # relative to the module where the walk began
    module: Any  # the module that has the attribute; a bound copy if the walk began at one
    name: str  # name of the attribute
    leaf: Any  # the Parameter or Buffer
    stacks: tuple[int, ...]  # the numbers of layers of the stacks that contain the leaf, the outermost first

    @property
    def value(self) -> Any:
        """Return the value of the attribute: an array if the module is bound, else the `Parameter` or `Buffer`."""
        return vars(self.module)[self.name]


def join(*segments: str) -> str:
    """Join segments into a dotted name. Empty segments are left out.

    >>> join("", "fc", "weight")
    'fc.weight'
    """
    return ".".join(s for s in segments if s)


def frame_of(module: Node) -> Any:
    """Return the frame of a bound copy, or None for a description."""
    return vars(module).get("_frame")


def set_frame(bound: Node, frame: object) -> None:
    """Store `frame` in the copy of a module, which makes the copy a bound module."""
    vars(bound)["_frame"] = frame


def description_of(module: Node) -> Any:
    """Return the description of a bound copy. If `module` is not bound, return `module` itself."""
    frame = frame_of(module)
    return module if frame is None else frame.description


# ------------------------------------------------------------------------------------------------------ own parts


def leaves(module: Node, *kinds: type) -> list[tuple[str, Any]]:
    """Return (name, leaf) for the parameters and then the buffers of one module, without its submodules. If `kinds` are
    given, return only the leaves of these classes.
    """
    own = vars(description_of(module))
    return [
        (name, item) for kind in kinds or (Parameter, Buffer) for name, item in own.items() if isinstance(item, kind)
    ]


def computed_of(module: Node) -> dict[str, Computed]:
    """Return {name: computed attribute} for one module, without its submodules."""
    own = vars(description_of(module))
    return {name: value for name, value in own.items() if isinstance(value, Computed)}


def children(module: Node, layers: bool = False) -> list[tuple[str, Any]]:
    """Return (name, child) for each child of a module. If the module is a bound copy, its children are bound too.

    A child under two names appears twice. If `layers` is True, the only child of a stack of n layers appears n times,
    under the numbers 0 to n - 1.
    """
    own = vars(module)
    found = [(name, own[name]) for name, item in vars(description_of(module)).items() if isinstance(item, Node)]
    if layers and is_stack(module):
        return [(str(number), child) for _, child in found for number in range(module.n)]
    return found


def is_stack(module: Node) -> bool:
    """Return whether a module is a stack: its only child represents all layers, as in `nn.Repeat(…, scan=True)`."""
    return tree.STACKED in vars(description_of(module))


def reserved(module: Node) -> dict[str, tuple[type, bool]]:
    """Return the attributes of a module that are None but reserved for a part, as {name: (class of the part, whether
    the part is persistent)}.
    """
    return vars(description_of(module)).get("_reserved", {})


def reserve(module: Node, name: str, slot: tuple[type, bool] | None) -> None:
    """Reserve the attribute `name` of a module for a part, `slot` = (class, is persistent). If `slot` is None, remove
    the reservation.
    """
    kept = {**reserved(module), name: slot}
    kept = {name: slot for name, slot in kept.items() if slot is not None}
    if kept:
        vars(module)["_reserved"] = kept
    else:
        vars(module).pop("_reserved", None)


def slots(module: Node) -> list[tuple[str, Any]]:
    """Return (name, child) for the children of a module, and (name, None) for names that are reserved for a child, in
    order.
    """
    own, kept = vars(module), {name for name, (kind, _) in reserved(module).items() if issubclass(kind, Node)}
    names = vars(description_of(module)).items()
    return [(name, own[name]) for name, item in names if isinstance(item, Node) or name in kept]


# --------------------------------------------------------------------------------------------------- the whole tree


def walk(module: Node, *kinds: type, once: bool = True) -> Iterator[LeafPlace]:
    """Return an iterator over the leaves of a module and its submodules, as `LeafPlace`s in torch's order (parents
    first).

    Args:
        module: module where the walk begins.
        *kinds: `Parameter`, `Buffer`, or both. The default is both.
        once: if True, a shared leaf appears only under its first name. Otherwise, the leaf appears under each of its
            names.
    """
    seen: set[int] = set()

    def visit(module: Node, path: str, stacks: tuple[int, ...]) -> Iterator[LeafPlace]:
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


def build(module: Node, kind: type, value: Callable[[LeafPlace], Any]) -> Tree:
    """Return a nested dict like params or state, with the entry `value(place)` for each leaf of the class `kind`.

    A shared leaf appears only under its first name. A module without leaves and children has an empty dict. If a module
    has two names, the dict under the second name is empty.
    """
    seen: set[int] = set()

    def one(module: Node, path: str, stacks: tuple[int, ...]) -> Tree:
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


def values(bound: Node) -> tuple[Tree, Tree]:
    """Return all arrays of a bound module, including shared ones, as the (params, state) for an `apply` of this module
    alone.
    """
    params, state = (build(bound, kind, lambda place: place.value) for kind in (Parameter, Buffer))
    return params, state


# --------------------------------------------------------------------------------------------------------- copies


def with_children(module: Node, parts: dict[str, Any]) -> Any:
    """Return a shallow copy of a module in which the dict `parts`, {name: child or None}, replaces the children."""
    old = {name for name, _ in slots(module)}
    new = object.__new__(type(module))
    vars(new).update({name: value for name, value in vars(module).items() if name not in old})
    vars(new).update(parts)
    return new


class Registry(MutableMapping[str, Any]):
    """One of torch's dicts `_modules`, `_parameters` and `_buffers`: a view of the children, the parameters or the
    buffers of one module as a dict, in the order of registration. A name that is registered as None has the value None.

    Args:
        module: a description, or a bound copy, whose leaves are arrays and whose children are bound.
        kind: `Node`, `Parameter` or `Buffer`.

    >>> from funcnet import nn
    >>> layer = nn.Linear(2, 2, bias=False)
    >>> list(layer._parameters), layer._parameters["bias"]
    (['weight', 'bias'], None)
    """

    def __init__(self, module: Node, kind: type):
        self.module, self.kind = module, kind

    def _names(self) -> list[str]:
        kept = {name for name, (kind, _) in reserved(self.module).items() if issubclass(kind, self.kind)}
        own = vars(description_of(self.module)).items()
        return [name for name, value in own if isinstance(value, self.kind) or name in kept]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return vars(self.module)[name]

    def __setitem__(self, name: str, value: object) -> None:
        if value is not None and name in self._names():
            setattr(self.module, name, value)
        elif self.kind is Node:
            self.module.add_module(name, value)
        elif self.kind is Parameter:
            self.module.register_parameter(name, value)
        elif self.kind is Buffer:
            self.module.register_buffer(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self.module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))
