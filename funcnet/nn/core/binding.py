"""The bound copy of a module, which is `self` inside `forward`. `apply` makes the copy, calls its `forward` and
discards the copy.

A bound copy has the attributes of its description, but with arrays in place of leaves and bound copies in place of
children. A bound copy also has a frame (`call.Frame`) with its name and the data of the call. `pure_calls.py` runs
bound children inside `lax.scan` and `jax.checkpoint`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.nn.core import forward_attributes, inputs_and_outputs, method_overrides, shared_parts
from funcnet.nn.core.call import Call, Frame, Taps
from funcnet.nn.core.module_tree import Node, children, description_of, frame_of, join, leaves
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.core.rebinding import REFERRING, Rebinder
from funcnet.random import is_key
from funcnet.tree import PyTree, Tree

__all__ = ["assign_buffer", "bind", "computing", "put", "read_back", "run", "write_back"]


def bind(module: Node, params: Tree, state: Tree, call: Call | None = None) -> Any:
    """Return a copy of a module and its submodules that has the arrays of `params` and `state` in place of the leaves.

    If `call` is None, the copy gets a new `Call` in eval mode, without a random key and hooks. Such a copy is enough to
    read and write the arrays of the module.
    """
    binder = _Binder(call or Call())
    bound = binder.bind(module, params, state, "", ())
    binder.rebind()
    return bound


def run(
    module: Node,
    params: Tree,
    state: Tree,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Call,
    method: str | None = None,
) -> tuple[Any, Tree, Taps]:
    """Run a module with the given params and state, and return (output, new state, captured outputs of submodules).
    Every computation of a net starts in this function.
    """
    bound = bind(module, params, state, call)
    if call.changes_mode:
        method_overrides.honour_modes(bound, call)
    if method is None:
        out = bound(*args, **kwargs)
    elif callable(getattr(bound, method, None)):
        out = computing(bound, getattr(bound, method), *args, **kwargs)
    else:
        raise ValueError(
            f"{type(module).__name__}.apply: there is no method {method!r}. Pass the name of a method that the class "
            "defines."
        )
    inputs_and_outputs.warn_of_lost_changes(call.copies)
    forward_attributes.warn_of_lost_values(call)
    for (module_, name), *_ in call.places.values() if call.is_eager else ():
        _refuse_data(frame_of(module_), "self", name, vars(module_).get(name))
    return out, read_back(bound, state) if call.changed else state, call.captured


class _Binder:
    """Makes the bound copy of a module. The leaves of a module are bound before its children, so that the array of a
    shared leaf is read under the first name of the leaf.
    """

    def __init__(self, call: Call):
        self.call = call
        self.made: dict[int, Any] = {}
        self.stacks: dict[int, tuple[int, ...]] = {}
        self.referring: list[tuple[Any, str, Any]] = []  # (bound module, name, value) of what may refer to modules

    def bind(self, module: Node, params: Tree, state: Tree, path: str, stacks: tuple[int, ...]) -> Any:
        module = description_of(module)  # a module that forward created has bound children
        frame = Frame(module, path, self.call)
        if id(module) in self.made:
            self._same_stack(frame, module, stacks)
            for what, given in (("params", params), ("state", state)):
                if tree.flatten(given):
                    raise ValueError(
                        f"{frame.where()}: {what} contains {', '.join(map(repr, given))} under the module's second "
                        f"name {path!r}. The arrays of a shared module must be stored under its first name only."
                    )
            return self.made[id(module)]
        bound = object.__new__(type(module))
        self.made[id(module)], self.stacks[id(module)] = bound, stacks
        values = dict(vars(module), _frame=frame, training=self._training(frame))
        self.call.changes_mode |= method_overrides.changes_mode(type(module))
        for name, value in values.items():
            if isinstance(value, REFERRING):
                self.referring.append((bound, name, value))
            elif isinstance(value, Computed):
                frame.computed[name] = value
        for name in frame.computed:
            del values[name]  # `computing` sets it to an array, once its leaves are bound
        for kind, given in ((Parameter, params), (Buffer, state)):
            borrowed = set()  # leaves whose arrays are stored under an earlier name
            for name, leaf in leaves(module, kind):
                if id(leaf) in self.made:
                    self._same_stack(frame, leaf, stacks)
                    borrowed.add(name)
                else:
                    self.made[id(leaf)] = _read(frame, given, kind, name, leaf, stacks)
                    self.stacks[id(leaf)] = stacks
                values[name] = self.made[id(leaf)]
                self.call.places.setdefault(id(leaf), []).append((bound, name))
            _no_others(frame, given, kind, borrowed)
        vars(bound).update(values)
        for name, child in children(module):
            inner = (*stacks, module.n) if name == tree.STACKED else stacks
            vars(bound)[name] = self.bind(child, params.get(name, {}), state.get(name, {}), join(path, name), inner)
        return bound

    def rebind(self) -> None:
        """Replace the modules inside attribute values, such as lists and methods, by their bound copies."""
        rebinder = Rebinder(self.made)
        for bound, name, value in self.referring:
            new = vars(bound)[name] = rebinder.copied(value)
            if isinstance(value, inputs_and_outputs.CONTAINERS):
                before = Rebinder({}).copied(new) if rebinder.refers(value) else value
                self.call.copies.append((frame_of(bound), name, before, new))

    def _training(self, frame: Frame) -> bool:
        spec = self.call.training
        return spec[frame.name] if isinstance(spec, dict) else spec

    def _same_stack(self, frame: Frame, part: Node, stacks: tuple[int, ...]) -> None:
        if self.stacks[id(part)] != stacks:
            raise ValueError(
                f"{frame.where()}: a {type(part).__name__} is shared between the layers of a stack and a module "
                "outside the stack. Share it within one layer only, or use nn.Repeat(…, scan=False)."
            )


def _read(frame: Frame, given: Tree, kind: type, name: str, leaf: Parameter | Buffer, stacks: tuple[int, ...]) -> Any:
    what = "params" if kind is Parameter else "state"
    if name not in given:
        message = f"{frame.where()}: {what} has no {name!r}."
        if homes := shared_parts.homes(leaf):
            message += f" It is shared and is stored under {' or '.join(homes)}. "
            message += "Use net.subtree(…) to get all arrays of a child."
        else:
            message += " Pass the params and state that this module's own init returned."
        raise ValueError(message)
    value = given[name]
    if value is None:
        raise TypeError(f"{frame.where()}: {what} {name!r} has no value; expected an array, got None.")
    _refuse_data(frame, what, name, value)
    if isinstance(value, np.ndarray):
        value = jnp.asarray(value)
    # Exporters such as jax2onnx replace `jnp.shape` by an operation, so the attribute `shape` is read if it exists.
    shape = tuple(value.shape) if hasattr(value, "shape") else jnp.shape(value)
    if leaf.shape is not None and not _fits(shape, (*stacks, *leaf.shape)):
        raise ValueError(
            f"{frame.where()}: {what} {name!r} has the wrong shape; expected {(*stacks, *leaf.shape)}, got {shape}."
        )
    if kind is Parameter and not leaf.requires_grad:
        value = jax.lax.stop_gradient(value)
    return value


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    """Return whether `shape` is the shape `expected`. A symbolic size (`jax.export`) in `shape` fits any size."""
    if shape == expected:
        return True
    return len(shape) == len(expected) and all(
        n == m or not isinstance(n, int) for n, m in zip(shape, expected, strict=True)
    )


def _refuse_data(frame: Frame, what: str, name: str, value: object) -> None:
    """Raise TypeError if `forward` has assigned to `array.data`. JAX accepts an assignment to `data` and ignores it."""
    if "data" in getattr(value, "__dict__", ()):
        raise TypeError(
            f"{frame.where()}: {what} {name!r}: an assignment to array.data has no effect; expected a new array in its "
            f"place, got {name}.data = …. Replace the entry in params: params[…][{name!r}] = value."
        )


def _no_others(frame: Frame, given: Tree, kind: type, borrowed: set[str]) -> None:
    what = "params" if kind is Parameter else "state"
    own = {name for name, _ in leaves(frame.description, kind)} - borrowed
    beneath = {name for name, _ in children(frame.description)}
    for name, value in given.items():
        if name not in own and name not in beneath:
            tied = " It is shared and must be under its first name only." if name in borrowed else ""
            raise ValueError(f"{frame.where()}: {what} has an unexpected entry {name!r}.{tied}")
        if name in beneath and not isinstance(value, dict):
            raise ValueError(f"{frame.where()}: {name!r} is a module; expected a dict, got {type(value).__name__}.")


def assign_buffer(bound: Node, frame: Frame, name: str, value: object) -> None:
    """Carry out an assignment `self.<name> = value` inside `forward`.

    If `name` is a buffer, the new value becomes part of the state that `apply` returns. If `name` is not a parameter,
    buffer or child, the attribute keeps the value until the end of the call (`forward_attributes.py`).

    Raises:
        ValueError: if `name` is a parameter, a child or `training`; if the value has a different shape from the buffer,
            or is floating or another kind of key although the buffer is not; or if the assignment runs inside a
            transformation (such as `lax.scan`) that `forward` started.
        TypeError: if `name` is a buffer and the value is None or a string.
    """
    if name == "training" and frame.call.sets_modes:
        vars(bound)["training"] = bool(value)
        return
    if name == "training":
        raise ValueError(
            f"{frame.where()}: forward changed the mode, and this change would be lost after the call; expected no "
            f"assignment to 'training', got {value!r:.20}. Pass the mode to apply: training={{name pattern: bool}}."
        )
    if name in dict(leaves(bound, Parameter)):
        raise ValueError(
            f"{frame.where()}: forward assigned to the parameter {name!r}, so the value would be lost; expected only "
            "buffers to be assigned. Use the new value in a function, such as F.linear(x, weight), or change params "
            "outside of forward."
        )
    if name not in dict(leaves(bound, Buffer)):
        forward_attributes.assign(bound, name, value)
        return
    frame.same_trace(f"the buffer {name!r} is assigned")
    if value is None or isinstance(value, str):
        raise TypeError(
            f"{frame.where()}: the buffer {name!r} cannot have this value; expected an array, got "
            f"{type(value).__name__}."
        )
    old, value = vars(bound)[name], jnp.asarray(value)
    if value.shape != old.shape:
        raise ValueError(
            f"{frame.where()}: the shape of the buffer {name!r} cannot change; expected {old.shape}, got {value.shape}."
        )
    is_other_key = value.dtype != old.dtype and (is_key(value) or is_key(old))
    if is_other_key or (jnp.issubdtype(value.dtype, jnp.inexact) and not jnp.issubdtype(old.dtype, jnp.inexact)):
        raise ValueError(
            f"{frame.where()}: the dtype of the buffer {name!r} cannot change; expected {old.dtype}, got {value.dtype}."
        )
    put(bound, name, value if is_key(value) else value.astype(old.dtype))
    frame.call.changed = True


def put(bound: Node, name: str, value: object) -> None:
    """Set the parameter or buffer `name` of a bound module to `value`, in all modules that share this leaf."""
    frame = frame_of(bound)
    for module, its_name in frame.call.places[id(vars(frame.description)[name])]:
        vars(module)[its_name] = value


def computing(bound: Node, run: Callable[..., Any], /, *args: PyTree, **kwargs: object) -> Any:
    """Set the computed attributes of a bound module, such as a normalised weight, to their arrays, and then call
    `run(*args, **kwargs)`, a method of this module.
    """
    own, names = vars(bound), frame_of(bound).computed
    before = {name: own[name] for name in names if name in own}
    try:
        own.update({name: computed.value(bound) for name, computed in names.items()})
        return run(*args, **kwargs)
    finally:
        for name in names:
            own.pop(name, None)
        own.update(before)


def read_back(bound: Node, state: Tree) -> Tree:
    """Return a dict like `state`, but with the present arrays of the buffers of a bound module and its submodules."""
    own = dict(leaves(bound, Buffer))
    return {
        name: vars(bound)[name] if name in own else read_back(vars(bound)[name], value) for name, value in state.items()
    }


def write_back(bound: Node, state: Tree) -> None:
    """Assign the arrays of `state` to the buffers of a bound module and its submodules."""
    own = dict(leaves(bound, Buffer))
    for name, value in state.items():
        if name in own:
            setattr(bound, name, value)
        else:
            write_back(vars(bound)[name], value)
