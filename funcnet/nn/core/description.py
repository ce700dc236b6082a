"""The tree of modules and leaves: registration of parts, and torch's methods that traverse the tree.

The parts of an object are the `Parameter`s, `Buffer`s and modules among its attributes, so its `__dict__` is the
registry. If a part is registered as None or set to None, its name stays reserved for that kind of part, as in torch.
"""

import difflib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from funcnet import tree
from funcnet.nn.core import binding, forward_attributes, shared_parts, stale_traces
from funcnet.nn.core.absent import METHODS
from funcnet.nn.core.module_tree import Node, Registry, children, frame_of, join, leaves, reserve, reserved, walk
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.init.in_place import Clone
from funcnet.tree import Tree

__all__ = ["Description", "is_torchs"]


class Description(Node):
    """The base class of `Module`, which registers parts and traverses the tree. `Module` adds methods such as `init`
    and `apply`.
    """

    # ------------------------------------------------------------------------------------------- registering parts

    def __setattr__(self, name: str, value: Any) -> None:
        frame = frame_of(self)
        if frame is not None:
            binding.assign_buffer(self, frame, name, value)
            return
        if name == "training":
            raise AttributeError(f"{type(self).__name__}.training: {METHODS['train']}", name=name, obj=self)
        if vars(self).get(name, self) is not value:  # `self` stands for no value, because None is a value
            stale_traces.warn_of_change(self, name)
        computed = vars(self).get(name)
        if isinstance(computed, Computed):
            computed.assign(self, value)
            return
        kind, persistent = self._slot(name)
        if kind is None and isinstance(value, Clone):  # in torch a plain tensor, which is not in the state_dict
            value = Buffer(value, persistent=False)
        if kind is Buffer and hasattr(value, "shape") and not isinstance(value, (Description, Parameter, Buffer)):
            value = Buffer(value, persistent=persistent)
        if isinstance(value, _TAKES[kind]):
            if name in _TAKEN and not (name == tree.STACKED and getattr(self, "repeats", False)):
                raise KeyError(
                    f"{type(self).__name__}: a part cannot have the name {name!r}, which {_TAKEN[name]}. Choose "
                    "another name."
                )
            if kind is None or not isinstance(value, kind):
                vars(self).pop(name, None)  # as in torch, a new part comes after the parts before it
            if vars(self).get(name) is not value and frame_of(value) is None:  # a bound part has no owners
                shared_parts.note(value, self, name)
            vars(self)[name] = value
            reserve(self, name, None)
        elif kind is None:
            # a list of parameters that are also attributes of modules does no harm: init finds them there
            if any(isinstance(one, Parameter) and not shared_parts.is_held(one) for one in _items(value)):
                raise TypeError(
                    f"{type(self).__name__}.{name}: init cannot find parameters in a plain container; expected a "
                    f"module, got a {type(value).__name__} of parameters. Use nn.ParameterList or nn.ParameterDict."
                )
            if is_torchs(value):
                raise TypeError(
                    f"{type(self).__name__}.{name}: the value is an object of torch; expected a module or a parameter "
                    f"of funcnet.nn, got a torch {type(value).__name__}. Import the class from funcnet.nn instead."
                )
            object.__setattr__(self, name, value)
        elif value is None:  # the name stays reserved for parts of this kind
            vars(self)[name] = None
            reserve(self, name, (kind, persistent))
        else:
            leaf_advice: dict[type, str] = {Parameter: "Wrap an array in nn.Parameter", Buffer: "Assign an array"}
            advice = leaf_advice.get(kind, "Assign a module")
            raise TypeError(
                f"{type(self).__name__}.{name}: expected a {_label(kind)} or None, got {type(value).__name__}. "
                f"{advice}, or delete the attribute first."
            )

    def __delattr__(self, name: str) -> None:
        frame = frame_of(self)
        if frame is not None and forward_attributes.delete(self, name):
            return
        if frame is not None:
            raise ValueError(f"{frame.where()}: forward deleted {name!r}. Delete attributes only outside forward.")
        if isinstance(vars(self).get(name), Computed):
            raise ValueError(
                f"{type(self).__name__}.{name}: this attribute is computed from other leaves, so it cannot be deleted. "
                "Remove the computation first, for example with parametrize.remove_parametrizations or prune.remove."
            )
        stale_traces.warn_of_change(self, name)
        object.__delattr__(self, name)
        reserve(self, name, None)

    def _slot(self, name: str) -> tuple[type | None, bool]:
        """Return the class (parameter, buffer or module) of the part `name`, and whether a `state_dict` contains the
        part. If there is no such part, the class is the one for which the name is reserved, or None without a
        reservation.
        """
        old = vars(self).get(name)
        for kind in (Parameter, Buffer, Description):
            if isinstance(old, kind):
                return kind, getattr(old, "persistent", True)
        return reserved(self).get(name, (None, True))

    def __setstate__(self, values: dict[str, Any] | tuple[Any, Any]) -> None:
        """Restore a copied or unpickled module, and record it as an owner of its parts."""
        values, slots = values if isinstance(values, tuple) else (values, None)
        for name, value in (slots or {}).items():
            object.__setattr__(self, name, value)
        vars(self).update(values or {})
        for name, value in vars(self).items():
            if isinstance(value, (Node, Parameter, Buffer)):
                shared_parts.note(value, self, name)

    def _register(self, name: str, value: object, kind: type, persistent: bool = True) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"{type(self).__name__}: the name has the wrong type; expected a string, got {type(name).__name__}."
            )
        if "." in name or name == "":
            raise KeyError(
                f"{type(self).__name__}: the name is invalid; expected a non-empty string without dots, got {name!r}."
            )
        if hasattr(self, name) and self._slot(name)[0] is not kind:
            raise KeyError(f"{type(self).__name__}: the attribute {name!r} already exists. Choose another name.")
        if value is not None and not isinstance(value, kind):
            got = f"torch's own {type(value).__name__}. Change the import" if is_torchs(value) else type(value).__name__
            raise TypeError(f"{type(self).__name__}.{name}: expected a {_label(kind)} or None, got {got}.")
        if value is None:
            reserve(self, name, (kind, persistent))
        setattr(self, name, value)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter. If `param` is None, the name is reserved for a parameter."""
        self._register(name, param, Parameter)

    def register_buffer(
        self, name: str, tensor: jax.Array | np.ndarray | Buffer | None, persistent: bool = True
    ) -> None:
        """Add a buffer, given as an `nn.Buffer` or as its initial array. If `tensor` is None, the name is reserved.

        Inside forward, this method assigns the value to the buffer. If the module has no buffer of this name, or the
        buffer is None, the value lasts only until the end of the call.
        """
        if frame_of(self) is not None:
            setattr(self, name, tensor)
            return
        if hasattr(tensor, "shape") and not isinstance(tensor, (Description, Parameter, Buffer)):
            tensor = Buffer(tensor)
        if isinstance(tensor, Buffer):
            tensor.persistent = persistent and tensor.persistent
        self._register(name, tensor, Buffer, persistent)

    def add_module(self, name: str, module: Node | None) -> None:
        """Add a child module. If `module` is None, the name is reserved for a module."""
        self._register(name, module, Description)

    def register_module(self, name: str, module: Node | None) -> None:
        """Add a child module. `register_module` and `add_module` do the same."""
        self.add_module(name, module)

    @property
    def _modules(self) -> Registry:
        """The dict {name: child module}, as in torch. A reserved name maps to None. A change of the dict changes the
        module.
        """
        return Registry(self, Node)

    @property
    def _parameters(self) -> Registry:
        """The dict {name: parameter} of this module without its submodules, as in torch. Inside `forward`, the values
        are arrays.
        """
        return Registry(self, Parameter)

    @property
    def _buffers(self) -> Registry:
        """The dict {name: buffer} of this module without its submodules, as in torch. Inside `forward`, the values are
        arrays and can be assigned.
        """
        return Registry(self, Buffer)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Mark every parameter of the module and its submodules as trainable (True) or frozen (False).

        Frozen parameters get zero gradients at no cost. `train.make_step` does not change frozen parameters. In your
        own step, give the optimizer only the trainable parameters, `net.partition(params)[0]`. Otherwise, weight decay
        in the optimizer would change the frozen parameters.
        """
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    # --------------------------------------------------------------------------------------------- walking the tree

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, child) for each child module. A child with several names appears only under its first name."""
        seen: set[int] = set()
        for name, child in children(self):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Any]:
        """Return an iterator over the child modules of this module. Each child appears once."""
        return (child for _, child in self.named_children())

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Yield (dotted name, module) for this module (named "") and its submodules, parents first.

        The arguments have the same meaning as in torch's `named_modules`.
        """
        memo = set() if memo is None else memo
        if remove_duplicate and id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, child in children(self):
            yield from child.named_modules(memo, join(prefix, name), remove_duplicate)

    def modules(self) -> Iterator[Any]:
        """Return an iterator over this module and its submodules, parents first, each once."""
        return (module for _, module in self.named_modules())

    def _named_leaves(self, kind: type, values: Tree | None, prefix: str, recurse: bool, once: bool) -> Iterator[Any]:
        if not isinstance(values, dict | None):
            raise TypeError(
                f"{type(self).__name__}: the first argument must be params or state; expected a dict as `init` "
                f"returns it, got {type(values).__name__}. Pass the other arguments by keyword: prefix=…, recurse=…."
            )
        flat = None if values is None else tree.flatten(values)
        home: dict[int, str] = {}
        for place in walk(self, kind, once=once):
            if not recurse and place.module is not self:
                break
            owner = home.setdefault(id(place.leaf), place.path)
            if flat is not None and owner not in flat:
                raise ValueError(
                    f"{type(self).__name__}: the tree has no array {owner!r}; expected the params or state of this net."
                )
            yield join(prefix, place.path), place.value if flat is None else flat[owner]

    def named_parameters(
        self, params: Tree | None = None, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Return an iterator over (dotted name, array from `params`) of all parameters, in torch's order. Tied
        parameters appear once.

        If `params` is not given, each name comes with the `Parameter` object in place of an array.
        """
        return self._named_leaves(Parameter, params, prefix, recurse, remove_duplicate)

    def parameters(self, params: Tree | None = None, recurse: bool = True) -> Iterator[Any]:
        """Return an iterator over the values of `named_parameters`, without the names."""
        return (leaf for _, leaf in self.named_parameters(params, recurse=recurse))

    def named_buffers(
        self, state: Tree | None = None, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """Return an iterator over (dotted name, array from `state`) of all buffers, in torch's order.

        If `state` is not given, each name comes with the `Buffer` object in place of an array.
        """
        return self._named_leaves(Buffer, state, prefix, recurse, remove_duplicate)

    def buffers(self, state: Tree | None = None, recurse: bool = True) -> Iterator[Any]:
        """Return an iterator over the values of `named_buffers`, without the names."""
        return (leaf for _, leaf in self.named_buffers(state, recurse=recurse))

    def get_submodule(self, target: str) -> Any:
        """Return the submodule with the dotted name `target`. The name "" denotes this module itself.

        Raises:
            AttributeError: if there is no such module. The message shows the existing names that are most similar to
                `target`.
        """
        module = self
        for segment in target.split(".") if target else []:
            child = vars(module).get(segment)
            if not isinstance(child, Description):
                names = [name for name, _ in self.named_modules(remove_duplicate=False) if name]
                near = ", ".join(map(repr, difflib.get_close_matches(target, names, n=3, cutoff=0.3))) or "none"
                raise AttributeError(f"{type(self).__name__}: there is no module {target!r}. Nearest names: {near}.")
            module = child
        return module

    def set_submodule(self, target: str, module: Node, strict: bool = False) -> None:
        """Set the submodule with the dotted name `target`. With `strict=True`, a module of this name must already
        exist.

        Raises:
            ValueError: if `target` is empty.
            TypeError: if `module` is not a module.
            AttributeError: if the attribute `target` exists and is not a module, if its parent does not exist, or if
                `strict` is True and there is no module `target`.
        """
        where = f"{type(self).__name__}.set_submodule"
        if not target:
            raise ValueError(f"{where}: the target is empty; expected the name of a part, got ''.")
        if not isinstance(module, Description):
            raise TypeError(
                f"{where}: module has the wrong type; expected a Module, got {type(module).__name__}. Wrap it in a "
                "module."
            )
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        old = getattr(parent, name, None)
        if (strict or hasattr(parent, name)) and not isinstance(old, Description):
            raise AttributeError(
                f"{where}: {target!r} is not a module; expected a module to replace, got {type(old).__name__}. "
                "Choose another name, or delete the attribute first."
            )
        setattr(parent, name, module)

    def _get_leaf(self, target: str, kind: type) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        names = [name for name, _ in leaves(module, kind)]
        if name not in names:
            near = ", ".join(map(repr, difflib.get_close_matches(name, names, n=3, cutoff=0.0))) or "none"
            raise AttributeError(
                f"{type(module).__name__}: there is no {kind.__name__.lower()} {target!r}. Nearest names: {near}."
            )
        return vars(module)[name]

    def get_parameter(self, target: str) -> Any:
        """Return the parameter with the dotted name `target`: an array inside `forward`, else the `Parameter`."""
        return self._get_leaf(target, Parameter)

    def get_buffer(self, target: str) -> Any:
        """Return the buffer with the dotted name `target`: an array inside `forward`, else the `Buffer`."""
        return self._get_leaf(target, Buffer)


def is_torchs(value: object) -> bool:
    """Return whether the value is a module or a parameter of torch, without importing torch."""
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(value).__mro__}
    return not names.isdisjoint(("torch.nn.modules.module.Module", "torch.nn.parameter.Parameter"))


def _items(value: object) -> Any:
    """Return the items of a list or tuple, or the values of a dict. For an object of any other type, return ()."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


# {kind of part that a name has or is reserved for: types of values that can be assigned to the name as a part}
_TAKES: dict[type | None, Any] = {
    None: (Description, Parameter, Buffer),
    Parameter: Parameter,
    Buffer: (Description, Parameter, Buffer),
    Description: (Description, Parameter),
}
_TAKEN = {
    tree.STACKED: "denotes the layers of a stack",
    "init": "is the method that makes the arrays",
    "apply": "is the method that runs the net",
    "named_modules": "is the method that finds the parts",
}


def _label(kind: type) -> str:
    return kind.__name__ if kind in (Parameter, Buffer) else "Module"
