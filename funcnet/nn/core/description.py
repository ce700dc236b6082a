"""The tree of a description: how parts are registered, and torch's traversals.

The `Parameter`s, `Buffer`s and modules among an object's attributes are its parts: its `__dict__` is the registry.
A name that is None but was registered, or had a part before, stays reserved for that kind of part, as in torch.
"""

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from funcnet import tree
from funcnet.nn.core import binding, owners
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.core.parts import Node, children, frame_of, join, leaves, reserve, reserved, walk

Tree = dict[str, Any]

__all__ = ["Description", "is_torchs"]


class Description(Node):
    """Registration and traversal; `Module` adds what makes it run."""

    if TYPE_CHECKING:  # a part is a description outside forward and an array (or a callable) in it: any type

        def __getattr__(self, name: str) -> Any: ...

    # ------------------------------------------------------------------------------------------- registering parts

    def __setattr__(self, name: str, value: Any) -> None:
        frame = frame_of(self)
        if frame is not None:
            binding.assign_buffer(self, frame, name, value)
            return
        computed = vars(self).get(name)
        if isinstance(computed, Computed):
            computed.assign(self, value)
            return
        kind, persistent = self._slot(name)
        if kind is Buffer and hasattr(value, "shape") and not isinstance(value, (Description, Parameter, Buffer)):
            value = Buffer(value, persistent=persistent)
        if isinstance(value, _TAKES[kind]):
            if name in _TAKEN and not (name == tree.STACKED and getattr(self, "repeats", False)):
                raise KeyError(
                    f"{type(self).__name__}: no part may have the name {name!r}, which {_TAKEN[name]}. Choose another "
                    "name."
                )
            if kind is None or not isinstance(value, kind):
                vars(self).pop(name, None)  # as in torch, a new part comes after the parts before it
            if vars(self).get(name) is not value:
                owners.note(value, self, name)
            vars(self)[name] = value
            reserve(self, name, None)
        elif kind is None:
            if is_torchs(value):
                raise TypeError(
                    f"{type(self).__name__}.{name}: is torch's own {type(value).__name__}; expected a module of "
                    "funcnet.nn. Change the import."
                )
            object.__setattr__(self, name, value)
        elif value is None:
            vars(self)[name] = None
            reserve(self, name, (kind, persistent))
        else:
            leaf_advice: dict[type, str] = {Parameter: "Wrap an array in nn.Parameter", Buffer: "Give an array"}
            advice = leaf_advice.get(kind, "Give a module")
            raise TypeError(
                f"{type(self).__name__}.{name}: expected a {_label(kind)} or None, got {type(value).__name__}. "
                f"{advice}, or delete the attribute first."
            )

    def __delattr__(self, name: str) -> None:
        frame = frame_of(self)
        if frame is not None:
            raise ValueError(f"{frame.where()}: forward deleted {name!r}. A description changes outside forward alone.")
        if isinstance(vars(self).get(name), Computed):
            raise ValueError(
                f"{type(self).__name__}.{name}: is computed from other leaves; expected a part or a plain attribute to "
                "delete. Remove the computation first: parametrize.remove_parametrizations, prune.remove and the like."
            )
        object.__delattr__(self, name)
        reserve(self, name, None)

    def _slot(self, name: str) -> tuple[type | None, bool]:
        """(the kind of part that `name` has or is reserved for, whether it is persistent)."""
        old = vars(self).get(name)
        for kind in (Parameter, Buffer, Description):
            if isinstance(old, kind):
                return kind, getattr(old, "persistent", True)
        return reserved(self).get(name, (None, True))

    def __setstate__(self, values: Any) -> None:
        """What copying and unpickling call: the parts of the copy note that it holds them."""
        values, slots = values if isinstance(values, tuple) else (values, None)
        for name, value in (slots or {}).items():
            object.__setattr__(self, name, value)
        vars(self).update(values or {})
        for name, value in vars(self).items():
            if isinstance(value, (Node, Parameter, Buffer)):
                owners.note(value, self, name)

    def _register(self, name: str, value: Any, kind: type, persistent: bool = True) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: expected a string as name, got {type(name).__name__}.")
        if "." in name or name == "":
            raise KeyError(f"{type(self).__name__}: a part's name has no dot and is not empty; got {name!r}.")
        if hasattr(self, name) and self._slot(name)[0] is not kind:
            raise KeyError(f"{type(self).__name__}: the attribute {name!r} is taken. Choose another name.")
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{type(self).__name__}.{name}: expected a {_label(kind)} or None, got {type(value).__name__}."
            )
        if value is None:
            reserve(self, name, (kind, persistent))
        setattr(self, name, value)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None reserves the name."""
        self._register(name, param, Parameter)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Adds a buffer: an `nn.Buffer`, an array to start from, or None, which reserves the name."""
        if hasattr(tensor, "shape") and not isinstance(tensor, (Description, Parameter, Buffer)):
            tensor = Buffer(tensor)
        if isinstance(tensor, Buffer):
            tensor.persistent = persistent and tensor.persistent
        self._register(name, tensor, Buffer, persistent)

    def add_module(self, name: str, module: Any) -> None:
        """Adds a child; None reserves the name."""
        self._register(name, module, Description)

    def register_module(self, name: str, module: Any) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Marks every parameter beneath as frozen (False) or trained; frozen ones get zero gradients at no cost.

        An optimizer with weight decay still moves them: give it only the trained part, `net.partition(params)[0]`.
        """
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    # --------------------------------------------------------------------------------------------- walking the tree

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """(name, child), each child once."""
        seen: set[int] = set()
        for name, child in children(self):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Any]:
        """The children, each once."""
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, module) for this module ("") and all beneath it, parents first; torch's arguments."""
        memo = set() if memo is None else memo
        if remove_duplicate and id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in children(self):
            yield from child.named_modules(memo, join(prefix, name), remove_duplicate)

    def modules(self) -> Iterator[Any]:
        """This module and all beneath it, parents first, each once."""
        return (module for _, module in self.named_modules())

    def _named_leaves(self, kind: type, values: Tree | None, prefix: str, recurse: bool, once: bool) -> Iterator[Any]:
        if not isinstance(values, dict | None):
            raise TypeError(
                f"{type(self).__name__}: params or state come first; expected a dict as `init` gives it, got "
                f"{type(values).__name__}. Name the others: prefix=…, recurse=…"
            )
        flat = None if values is None else tree.flatten(values)
        home: dict[int, str] = {}
        for place in walk(self, kind, once=once):
            if not recurse and place.module is not self:
                break
            owner = home.setdefault(id(place.leaf), place.path)
            if flat is not None and owner not in flat:
                raise ValueError(f"{type(self).__name__}: the tree has no {owner!r}; expected the tree of this net.")
            yield join(prefix, place.path), place.value if flat is None else flat[owner]

    def named_parameters(
        self, params: Tree | None = None, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, array of `params`) in torch's order; without `params` the descriptions. Ties come once."""
        return self._named_leaves(Parameter, params, prefix, recurse, remove_duplicate)

    def parameters(self, params: Tree | None = None, recurse: bool = True) -> Iterator[Any]:
        """The values of `named_parameters`, without the names."""
        return (leaf for _, leaf in self.named_parameters(params, recurse=recurse))

    def named_buffers(
        self, state: Tree | None = None, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, array of `state`) in torch's order; without `state` the descriptions."""
        return self._named_leaves(Buffer, state, prefix, recurse, remove_duplicate)

    def buffers(self, state: Tree | None = None, recurse: bool = True) -> Iterator[Any]:
        """The values of `named_buffers`, without the names."""
        return (leaf for _, leaf in self.named_buffers(state, recurse=recurse))

    def get_submodule(self, target: str) -> Any:
        """The module of that dotted name; "" is this one."""
        module = self
        for segment in target.split(".") if target else []:
            child = vars(module).get(segment)
            if not isinstance(child, Description):
                names = [name for name, _ in self.named_modules(remove_duplicate=False) if name]
                near = ", ".join(map(repr, difflib.get_close_matches(target, names, n=3, cutoff=0.3))) or "none"
                raise AttributeError(f"{type(self).__name__}: no module {target!r}. Nearest names: {near}.")
            module = child
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Puts a module at that dotted name; with `strict`, only in place of another module."""
        where = f"{type(self).__name__}.set_submodule"
        if not target:
            raise ValueError(f"{where}: the target is empty; expected the name of a part, got ''.")
        if not isinstance(module, Description):
            raise TypeError(f"{where}: expected a Module, got {type(module).__name__}. Wrap it in a module.")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        old = getattr(parent, name, None)
        if (strict or hasattr(parent, name)) and not isinstance(old, Description):
            raise AttributeError(
                f"{where}: {target!r} is not a module; expected one to replace, got {type(old).__name__}. Choose "
                "another name, or delete the attribute first."
            )
        setattr(parent, name, module)

    def _get_leaf(self, target: str, kind: type) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        names = [name for name, _ in leaves(module, kind)]
        if name not in names:
            near = ", ".join(map(repr, difflib.get_close_matches(name, names, n=3, cutoff=0.0))) or "none"
            raise AttributeError(f"{type(module).__name__}: no {kind.__name__.lower()} {target!r}. It has {near}.")
        return vars(module)[name]

    def get_parameter(self, target: str) -> Any:
        """The parameter of that dotted name: its description, or its array inside forward."""
        return self._get_leaf(target, Parameter)

    def get_buffer(self, target: str) -> Any:
        """The buffer of that dotted name: its description, or its array inside forward."""
        return self._get_leaf(target, Buffer)


def is_torchs(value: Any) -> bool:
    """Whether it is a module of torch. torch is not imported for this."""
    return any(f"{kind.__module__}.{kind.__name__}" == "torch.nn.modules.module.Module" for kind in type(value).__mro__)


# Which values a name takes as its part, by the kind of part that it has or is reserved for, as in torch.
_TAKES: dict[type | None, Any] = {
    None: (Description, Parameter, Buffer),
    Parameter: Parameter,
    Buffer: (Description, Parameter, Buffer),
    Description: (Description, Parameter),
}
_TAKEN = {
    tree.STACKED: "stands for the layers of a stack",
    "init": "is the method that makes the arrays",
    "apply": "is the method that runs the net",
}


def _label(kind: type) -> str:
    return kind.__name__ if kind in (Parameter, Buffer) else "Module"
