"""The core: a `Module` is a description; `init` makes its params and state, `apply` runs it as a pure function.

- *description*: a plain object. The `Parameter`s, `Buffer`s and `Module`s among its attributes are its parts: its
  `__dict__` is the only registry there is. It holds no arrays.
- *params, state*: two nested dicts of arrays that mirror the tree of modules. A leaf that several modules share lives
  under its first name alone.
- *bound copy*: what `self` is inside `forward`. `apply` makes it, with arrays in place of descriptions, runs `forward`,
  reads the buffers back and throws it away.
- *call*: what one `apply` carries along: training, randomness, hooks, what to capture.

A path is a dotted name. The segment `*` in it stands for all the layers of a stack (see `repeat.py`), whose leaves
carry one leading axis for it.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from funcnet import random, tree
from funcnet.nn import display, state_dict
from funcnet.nn.parameter import Buffer, Parameter

Tree = dict[str, Any]
Training = bool | Mapping[str, bool]

__all__ = ["Module"]


def _trace() -> Any:
    return jax.extend.core.get_opaque_trace_state(convention="nnx")


def _join(*segments: str) -> str:
    return ".".join(s for s in segments if s)


class _Call:
    """What one `apply` carries along; every bound module of it points here."""

    def __init__(self, training: Any = False, rng: Any = None, hooks: Any = None, prefix: str = "", capture: Any = ()):
        self.training, self.rng, self.hooks, self.prefix, self.capture = training, rng, hooks, prefix, capture
        self.captured: dict[str, Any] = {}
        self.trace = _trace()
        self.changed = False  # whether a buffer was assigned


class _Frame:
    """What a bound module knows of itself."""

    def __init__(self, description: "Module", path: str, call: _Call):
        self.description, self.path, self.call, self.keys = description, path, call, 0
        self.name = _join(call.prefix, path)

    def where(self) -> str:
        return f"{self.name or 'the root'} ({type(self.description).__name__})"

    def same_trace(self, what: str) -> None:
        if _trace() != self.call.trace:
            raise ValueError(
                f"{self.where()}: {what} inside a transformation that its own forward started (lax.scan, vmap, …), where "
                "every step would see the same. Use nn.Repeat for a stack of layers, or the child's pure apply: "
                "`p, s = self.subtree('child')`, then `net.child.apply(p, s, x, rng=key)` with a key for each step."
            )


class Module:
    """Describes a computation with parameters and buffers, as `torch.nn.Module` does, and runs it purely.

    Subclass it as in torch: assign layers, `nn.Parameter`s and buffers in `__init__`, compute in `forward`.

    Differs from torch: holds no arrays, so `init` gives them and `apply` takes them; `training`, randomness and hooks
    are arguments of `apply`; a plain list of modules is refused when it is called (use `nn.ModuleList`).

    Example:
        >>> import jax
        >>> from funcnet import nn
        >>> class Block(nn.Module):
        ...     def __init__(self, width):
        ...         super().__init__()
        ...         self.fc = nn.Linear(width, width)
        ...         self.drop = nn.Dropout(0.1)
        ...     def forward(self, x):
        ...         return x + self.drop(self.fc(x))
        >>> net = Block(4)
        >>> params, state = net.init(jax.random.key(0))
        >>> x = jax.numpy.ones((2, 4))
        >>> y, state = net.apply(params, state, x, training=True, rng=jax.random.key(1))
        >>> y.shape
        (2, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
    """

    def __init__(self) -> None:
        pass

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: has no forward. Define forward(self, …).")

    # ------------------------------------------------------------------------------------- building a description

    def __setattr__(self, name: str, value: Any) -> None:
        frame = vars(self).get("_frame")
        if frame is not None:
            self._assign_buffer(frame, name, value)
            return
        old = vars(self).get(name)
        parts = (Module, Parameter, Buffer)
        if isinstance(old, Buffer) and hasattr(value, "shape") and not isinstance(value, parts):
            value = Buffer(value, persistent=old.persistent)
        if isinstance(old, Module | Parameter) and value is not None and not isinstance(value, parts):
            raise TypeError(
                f"{type(self).__name__}.{name}: expected a {type(old).__name__} or None, got {type(value).__name__}. "
                "Wrap an array in nn.Parameter, or delete the attribute first."
            )
        if isinstance(value, parts) and not isinstance(old, type(value)):
            vars(self).pop(name, None)  # as in torch, what becomes a part stands behind the parts before it
        vars(self)[name] = value

    def _register(self, name: str, value: Any, kind: type) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: expected a string as name, got {type(name).__name__}.")
        if "." in name or name == "":
            raise KeyError(f"{type(self).__name__}: a part's name holds no dot and is not empty, got {name!r}.")
        if hasattr(self, name) and not isinstance(vars(self).get(name), kind) and vars(self).get(name) is not None:
            raise KeyError(f"{type(self).__name__}: the attribute {name!r} is taken. Choose another name.")
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{type(self).__name__}.{name}: expected {kind.__name__} or None, got {type(value).__name__}."
            )
        setattr(self, name, value)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None reserves the name."""
        self._register(name, param, Parameter)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Adds a buffer: an `nn.Buffer`, an array to start from, or None, which reserves the name."""
        if tensor is not None and not isinstance(tensor, Buffer):
            tensor = Buffer(tensor)
        if tensor is not None:
            tensor.persistent = persistent and tensor.persistent
        self._register(name, tensor, Buffer)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Adds a child; None reserves the name."""
        self._register(name, module, Module)

    register_module = add_module

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        """Marks every parameter beneath as frozen (False) or trained; frozen ones get zero gradients at no cost."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    # --------------------------------------------------------------------------------------------- walking the tree

    def _description(self) -> "Module":
        frame = vars(self).get("_frame")
        return self if frame is None else frame.description

    def _leaves(self, kind: type) -> list[tuple[str, Any]]:
        """(name, description) of this module's own leaves of one kind."""
        return [(name, item) for name, item in vars(self._description()).items() if isinstance(item, kind)]

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """(name, child), each child once."""
        seen: set[int] = set()
        for name, child in self._children():
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def _children(self) -> list[tuple[str, "Module"]]:
        own = vars(self)
        return [(name, own[name]) for name, _ in self._leaves(Module)]

    def children(self) -> Iterator["Module"]:
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, "Module"]]:
        """(dotted name, module) for this module ("") and all beneath it, parents first."""
        return self._walk(prefix, set() if remove_duplicate else None)

    def _walk(self, path: str, seen: set[int] | None) -> Iterator[tuple[str, "Module"]]:
        if seen is not None and id(self) in seen:
            return
        if seen is not None:
            seen.add(id(self))
        yield path, self
        for name, child in self._children():
            yield from child._walk(_join(path, name), seen)

    def modules(self) -> Iterator["Module"]:
        return (module for _, module in self.named_modules())

    def _named_leaves(self, kind: type, values: Tree | None, prefix: str, recurse: bool, once: bool) -> Iterator[Any]:
        seen: set[int] = set()
        flat = None if values is None else tree.flatten(values)
        first: dict[int, str] = {}
        for path, module in self.named_modules(remove_duplicate=once) if recurse else [("", self)]:
            for name, leaf in module._leaves(kind):
                dotted = _join(path, name)
                owner = first.setdefault(id(leaf), dotted)
                if once and id(leaf) in seen:
                    continue
                seen.add(id(leaf))
                bound = vars(module)[name]
                if flat is not None and owner not in flat:
                    raise ValueError(
                        f"{type(self).__name__}: the tree given has no {owner!r}. Give the one of this net."
                    )
                yield _join(prefix, dotted), bound if flat is None else flat[owner]

    def named_parameters(
        self, params: Tree | None = None, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, array of `params`) in torch's order; without `params` the descriptions. Ties come once."""
        return self._named_leaves(Parameter, params, prefix, recurse, remove_duplicate)

    def parameters(self, params: Tree | None = None, recurse: bool = True) -> Iterator[Any]:
        return (leaf for _, leaf in self.named_parameters(params, recurse=recurse))

    def named_buffers(
        self, state: Tree | None = None, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(dotted name, array of `state`) in torch's order; without `state` the descriptions."""
        return self._named_leaves(Buffer, state, prefix, recurse, remove_duplicate)

    def buffers(self, state: Tree | None = None, recurse: bool = True) -> Iterator[Any]:
        return (leaf for _, leaf in self.named_buffers(state, recurse=recurse))

    def get_submodule(self, target: str) -> "Module":
        """The module of that dotted name; "" is this one."""
        module = self
        for segment in target.split(".") if target else []:
            child = vars(module).get(segment)
            if not isinstance(child, Module):
                names = [name for name, _ in self.named_modules(remove_duplicate=False) if name]
                near = ", ".join(map(repr, difflib.get_close_matches(target, names, n=3, cutoff=0.3))) or "none"
                raise AttributeError(f"{type(self).__name__}: no module {target!r}. Nearest names: {near}.")
            module = child
        return module

    def _get_leaf(self, target: str, kind: type) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in dict(module._leaves(kind)):
            raise AttributeError(f"{type(module).__name__}: {name!r} is not a {kind.__name__.lower()} of {path!r}.")
        return vars(module)[name]

    def get_parameter(self, target: str) -> Any:
        return self._get_leaf(target, Parameter)

    def get_buffer(self, target: str) -> Any:
        return self._get_leaf(target, Buffer)

    # ----------------------------------------------------------------------------------------------- trees of values

    def _build(self, kind: type, value: Callable[..., Any]) -> Tree:
        """The nested dict of `value(module, name, path, leaf, stacks)` over the leaves, each under its first name."""
        seen: set[int] = set()

        def one(module: Module, path: str, stacks: tuple[int, ...]) -> Tree:
            seen.add(id(module))
            out: Tree = {}
            for name, leaf in module._leaves(kind):
                if id(leaf) not in seen:
                    seen.add(id(leaf))
                    out[name] = value(module, name, _join(path, name), leaf, stacks)
            for name, child in module._children():
                inner = (*stacks, module.n) if name == tree.STACKED else stacks
                out[name] = {} if id(child) in seen else one(child, _join(path, name), inner)
            return out

        return one(self, "", ())

    def init(self, rng: jax.Array, *example_inputs: Any, **kwargs: Any) -> tuple[Tree, Tree]:
        """Makes the arrays.

        Args:
            rng: a key. Every leaf draws from its own, folded from its dotted name: adding a layer moves no other's.
            *example_inputs, **kwargs: what `forward` takes; needed by lazy modules alone, and only their shapes count.

        Returns:
            (params, state): nested dicts of arrays that mirror the tree of modules.

        Raises:
            ValueError: a leaf without an init, or a lazy one without an example.
        """
        shapes = _lazy_shapes(self, example_inputs, kwargs) if example_inputs or kwargs else {}

        def start(module: Module, name: str, path: str, leaf: Any, stacks: tuple[int, ...]) -> jax.Array:
            def one(path: str) -> jax.Array:
                return leaf.start(random.key_for_name(rng, path), path, shapes.get(path))

            if not stacks:
                return one(path)
            layers = [one(state_dict.indexed(path, index)) for index in np.ndindex(*stacks)]
            return jnp.stack(layers).reshape(*stacks, *layers[0].shape)

        self._note_ties()
        return self._build(Parameter, start), self._build(Buffer, start)

    def _note_ties(self) -> None:
        """Tells every shared leaf its names in this tree, so that a child used alone can say whom it borrows from."""
        names: dict[int, list[str]] = {}
        leaves: dict[int, Any] = {}
        for path, module in self.named_modules(remove_duplicate=False):
            for name, leaf in (*module._leaves(Parameter), *module._leaves(Buffer)):
                names.setdefault(id(leaf), []).append(_join(path, name))
                leaves[id(leaf)] = leaf
        for key, leaf in leaves.items():
            if len(names[key]) > max(1, len(leaf.tied_names)):
                leaf.tied_names = tuple(names[key])

    def _bind(self, params: Tree, state: Tree, call: _Call) -> "Module":
        return _Binder(call).bind(self, params, state, "", False)

    def _values(self, kind: type) -> Tree:
        """A bound module's arrays, what it borrows included: what its description's `apply` takes."""
        return self._build(kind, lambda module, name, *_: vars(module)[name])

    def subtree(self, name: str, params: Tree | None = None, state: Tree | None = None) -> tuple[Tree, Tree]:
        """(params, state) of the child `name`, with the leaves it borrows from elsewhere filled in.

        Inside `forward`, leave `params` and `state` out: the arrays in use are taken.

        >>> import jax
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> net[1].weight = net[0].weight
        >>> params, state = net.init(jax.random.key(0))
        >>> sorted(params["1"]), sorted(net.subtree("1", params, state)[0])
        (['bias'], ['bias', 'weight'])
        """
        if "_frame" not in vars(self) and (params is None or state is None):
            raise TypeError(f"{type(self).__name__}.subtree: a description holds no arrays. Give params and state.")
        bound = self if params is None or state is None else self._bind(params, state, _Call())
        child = bound.get_submodule(name)
        return child._values(Parameter), child._values(Buffer)

    # -------------------------------------------------------------------------------------------------------- running

    def apply(
        self,
        params: Any,
        state: Tree | None = None,
        *inputs: Any,
        training: Training = False,
        rng: jax.Array | None = None,
        hooks: Any = None,
        method: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs `forward` purely: the same arguments give the same result. With one callable, visits the tree as torch.

        Args:
            params, state: as `init` gives them.
            *inputs, **kwargs: what `forward` takes.
            training: True for training behaviour of dropout and normalisation; or {name pattern: bool}, the last
                match wins, what nothing matches is in eval. Static: close over it under `jit`.
            rng: a key; needed when something random runs.
            hooks: an `nn.Hooks`, or None.
            method: the name of another method to run in place of `forward`.

        Returns:
            (output, state): the buffers' new values in a dict of the same structure as `state`.

        Raises:
            ValueError: params or state do not fit the description, randomness without `rng`, a buffer changes shape.
            TypeError: no params or state.
        """
        if state is None and not inputs and callable(params):
            for child in self.children():
                child.apply(params)
            params(self)
            return self
        if not isinstance(params, dict) or not isinstance(state, dict):
            raise TypeError(
                f"{type(self).__name__}.apply: expected params and state, two dicts as `init` gives them, got "
                f"{type(params).__name__} and {type(state).__name__}. Call net.apply(params, state, *inputs)."
            )
        description = self._description()
        if not isinstance(training, bool):
            names = [name for name, _ in description.named_modules()]
            training = tree.assign(training, names, False, where=f"{type(self).__name__}.apply(training=…)")
        out, state, _ = description._run(params, state, inputs, kwargs, _Call(training, rng, hooks), method)
        return out, state

    def _run(
        self, params: Tree, state: Tree, args: Any, kwargs: Any, call: _Call, method: str | None = None
    ) -> tuple[Any, Tree, dict[str, Any]]:
        """The one place where a description becomes a computation: (output, state, what was captured)."""
        bound = self._bind(params, state, call)
        if method is None:
            out = bound(*args, **kwargs)
        elif callable(getattr(bound, method, None)):
            out = getattr(bound, method)(*args, **kwargs)
        else:
            raise ValueError(f"{type(self).__name__}.apply: there is no method {method!r}. Name one that it defines.")
        return out, _read_back(bound, state) if call.changed else state, call.captured

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame = vars(self).get("_frame")
        if frame is None:
            raise TypeError(
                f"{type(self).__name__}: a description holds no arrays and cannot be called by itself. Call "
                "net.apply(params, state, x); inside forward, call a child that is an attribute or sits in an "
                "nn.ModuleList (a plain list or dict hides it)."
            )
        call = frame.call
        try:
            if call.hooks is None:
                out = self.forward(*args, **kwargs)
            else:
                out = call.hooks.run(self, frame.name, self.forward, args, kwargs)
        except (ValueError, TypeError) as error:
            if frame.name and not any(n.startswith("in module ") for n in getattr(error, "__notes__", ())):
                error.add_note(f"in module {frame.where()}")
            raise
        if frame.name in call.capture:
            again = sum(name.split(":")[0] == frame.name for name in call.captured)
            call.captured[f"{frame.name}:{again}" if again else frame.name] = out
        return out

    def make_rng(self) -> jax.Array:
        """A fresh key, from the module's name and the count of calls. Only inside `forward`.

        Raises:
            ValueError: `apply` was given no `rng`; or inside the forward's own scan or vmap.
        """
        frame = self._bound_frame("make_rng")
        if frame.call.rng is None:
            raise ValueError(f"{frame.where()}: needs randomness. Give apply a key: apply(…, rng=jax.random.key(0)).")
        frame.same_trace("randomness")
        key = random.key_for_name(frame.call.rng, f"{frame.path}#{frame.keys}")
        frame.keys += 1
        return key

    def _bound_frame(self, what: str) -> _Frame:
        frame = vars(self).get("_frame")
        if frame is None:
            raise TypeError(f"{type(self).__name__}.{what}: only inside forward, on the copy that apply binds.")
        return frame

    def _assign_buffer(self, frame: _Frame, name: str, value: Any) -> None:
        old = vars(self).get(name)
        if name not in dict(self._leaves(Buffer)):
            raise ValueError(
                f"{frame.where()}: forward assigned to {name!r}, which is not a buffer, so the value would be lost. "
                f"Register it in __init__: self.register_buffer({name!r}, nn.Buffer(shape)), or use a local variable."
            )
        frame.same_trace(f"an assignment to the buffer {name!r}")
        value = jnp.asarray(value, old.dtype)
        if value.shape != old.shape:
            raise ValueError(
                f"{frame.where()}: the buffer {name!r} keeps its shape; expected {old.shape}, got {value.shape}."
            )
        vars(self)[name] = value
        frame.call.changed = True

    # ------------------------------------------------------------------------------------------------ stacks of layers

    def stack(self, params: Tree) -> Tree:
        """The tree of this net with every `Repeat`'s layers stacked: params, state or gradients (see `nn.Repeat`)."""
        return state_dict.restack(self, params, stacked=True)

    def unstack(self, params: Tree) -> Tree:
        """The inverse of `stack`: every layer of every `Repeat` a subtree of its own."""
        return state_dict.restack(self, params, stacked=False)

    # --------------------------------------------------------------------------------------------------- checkpoints

    def state_dict(self, params: Tree, state: Tree) -> dict[str, Any]:
        """{dotted name: array} with torch's names, shapes and order; every name of a tie; int64 counters widened."""
        bound = self._bind(params, state, _Call())
        return state_dict.dump(bound)

    def load_state_dict(
        self, sd: Mapping[str, Any], strict: bool = True, into: tuple[Tree, Tree] | None = None
    ) -> tuple[Tree, Tree]:
        """(params, state) from {dotted name: numpy, JAX or torch array}, cast as torch's `copy_` does.

        Args:
            sd: torch's names and shapes; of a tie any one name is enough.
            strict: whether missing and unexpected names are errors.
            into: (params, state) that supply what `sd` lacks when not strict, and the dtypes.

        Raises:
            ValueError: lists every missing, unexpected and mis-shaped name.
        """
        return state_dict.load(self, sd, strict, into)

    def match_state_dict(self, sd: Mapping[str, Any]) -> "state_dict.Match":
        """(missing, unexpected, mis_shaped) names of `sd`, nothing loaded."""
        return state_dict.match(self, sd)

    # ------------------------------------------------------------------------------------------------------- to look at

    def extra_repr(self) -> str:
        """What stands between the brackets in `repr`."""
        return ""

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)


class _Binder:
    """Makes the bound copy: own leaves first, then children, so that a shared leaf is read under its first name."""

    def __init__(self, call: _Call):
        self.call, self.made = call, {}

    def bind(self, module: Module, params: Tree, state: Tree, path: str, stacked: bool) -> Module:
        if id(module) in self.made:
            return self.made[id(module)]
        bound = object.__new__(type(module))
        self.made[id(module)] = bound
        frame = _Frame(module, path, self.call)
        values = dict(vars(module), _frame=frame, training=self._training(path))
        for kind, given in ((Parameter, params), (Buffer, state)):
            borrowed = set()
            for name, leaf in module._leaves(kind):
                if id(leaf) in self.made:
                    borrowed.add(name)
                else:
                    self.made[id(leaf)] = self._read(frame, given, kind, name, leaf, stacked)
                values[name] = self.made[id(leaf)]
            self._no_others(frame, given, kind, borrowed)
        vars(bound).update(values)
        for name, child in module._children():
            inner = stacked or name == tree.STACKED
            vars(bound)[name] = self.bind(child, params.get(name, {}), state.get(name, {}), _join(path, name), inner)
        return bound

    def _training(self, path: str) -> bool:
        spec = self.call.training
        return spec if isinstance(spec, bool) else spec[_join(self.call.prefix, path)]

    def _read(self, frame: _Frame, given: Tree, kind: type, name: str, leaf: Any, stacked: bool) -> Any:
        what = "params" if kind is Parameter else "state"
        if name not in given:
            message = f"{frame.where()}: {what} has no {name!r}."
            if leaf.tied_names:
                message += f" It is shared and lives under {leaf.tied_names[0]!r}: take net.subtree(…) of the child."
            else:
                message += " Give apply what this very module's init made."
            raise ValueError(message)
        value = given[name]
        shape = jnp.shape(value)
        if leaf.shape is not None and not stacked and shape != leaf.shape:
            raise ValueError(f"{frame.where()}: {what} {name!r}: expected shape {leaf.shape}, got {shape}.")
        if kind is Parameter and not leaf.requires_grad:
            value = jax.lax.stop_gradient(value)
        return value

    def _no_others(self, frame: _Frame, given: Tree, kind: type, borrowed: set[str]) -> None:
        own = {name for name, _ in frame.description._leaves(kind)} - borrowed
        children = {name for name, _ in frame.description._leaves(Module)}
        for name, value in given.items():
            if name not in own and name not in children:
                what = "params" if kind is Parameter else "state"
                tied = " It is shared and lives under its first name alone." if name in borrowed else ""
                raise ValueError(f"{frame.where()}: {what} holds {name!r}, which is not a part of it.{tied}")
            if name in children and not isinstance(value, dict):
                raise ValueError(f"{frame.where()}: {name!r} is a module; expected a dict, got {type(value).__name__}.")


def _read_back(bound: Module, state: Tree) -> Tree:
    """`state` with the bound buffers' values, in the very structure that `apply` was given."""
    own = dict(bound._leaves(Buffer))
    return {
        name: vars(bound)[name] if name in own else _read_back(vars(bound)[name], value)
        for name, value in state.items()
    }


def _write_state(bound: Module, state: Tree) -> None:
    """The reverse: a child's pure `apply` gave `state`; the bound child takes it."""
    own = dict(bound._leaves(Buffer))
    for name, value in state.items():
        if name in own:
            setattr(bound, name, value)
        else:
            _write_state(vars(bound)[name], value)


def _lazy_shapes(module: Module, args: Any, kwargs: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the leaves that only an example tells: an abstract run in which each lazy module says them."""
    lazy = [path for path, m in module.named_modules() if any(leaf.shape is None for _, leaf in m._leaves(Parameter))]
    if not lazy:
        return {}
    from funcnet.nn import lazy as lazy_module

    return lazy_module.infer(module, args, kwargs)
