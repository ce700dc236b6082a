"""What `apply` makes and throws away: the call, the frames and the bound copies; and running a child in pure form.

- *call*: what one `apply` carries along: training, randomness, hooks, what to capture.
- *frame*: what a bound module knows of itself: its description, its name, its call.
- *bound copy*: what `self` is inside `forward`: the description's attributes with arrays in place of parts.
- *pure run*: a child's own `(params, state, rng, …) -> (out, state, captured)`, for a transformation (`lax.scan`,
  `jax.checkpoint`) that the core itself starts inside a forward.
"""

import copy
import itertools
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.nn.core.parameter import Buffer, Computed, Parameter

Tree = dict[str, Any]

__all__ = [
    "Call",
    "Frame",
    "assign_buffer",
    "bind",
    "call_name",
    "computing",
    "join",
    "pure_run",
    "put",
    "read_back",
    "recompute",
    "take",
]


def join(*segments: str) -> str:
    """A dotted name; empty segments vanish."""
    return ".".join(s for s in segments if s)


def call_name(name: str, count: int) -> str:
    """What a call of a module is called: "name", then "name:1", …"""
    return f"{name}:{count}" if count else name


def _trace() -> Any:
    return jax.extend.core.get_opaque_trace_state(convention="nnx")


class Call:
    """What one `apply` carries along; every bound module of it points here.

    Args:
        training: a bool, or {module name: bool}.
        rng: a key or None.
        hooks: what `Hooks.bound` gives, or None.
        prefix: the name, in the outermost net, of the module that this call runs.
        names: {id(description): name} of the outermost net: a module under two names answers to its first.
        capture: names of the modules whose outputs are recorded.
        taps: {(name, count of the call): what is added to its output}, to differentiate by.
        counts: {name: how often that captured module was called before}.
    """

    def __init__(
        self,
        training: Any = False,
        rng: Any = None,
        hooks: Any = None,
        prefix: str = "",
        names: dict[int, str] | None = None,
        capture: frozenset[str] = frozenset(),
        taps: dict[tuple[str, int], Any] | None = None,
        counts: dict[str, int] | None = None,
    ):
        self.training, self.rng, self.hooks, self.prefix = training, rng, hooks, prefix
        self.names, self.capture, self.taps = names or {}, capture, taps or {}
        self.captured: dict[tuple[str, int], Any] = {}  # as taps
        self.counts = dict(counts or {})
        self.trace = _trace()
        self.changed = False  # whether a buffer was assigned
        self.places: dict[int, list[tuple[Any, str]]] = {}  # {id(leaf): who holds it, under which name}

    def inner(self, prefix: str, rng: Any, taps: dict[tuple[str, int], Any]) -> "Call":
        """The call of a pure run inside this one."""
        return Call(self.training, rng, self.hooks, prefix, self.names, self.capture, taps, self.counts)

    def record(self, frame: "Frame", out: Any) -> Any:
        """Notes a captured module's output, and gives it with its tap added."""
        if frame.name not in self.capture:
            return out
        frame.same_trace("its output is captured")
        key = frame.name, self.counts.get(frame.name, 0)
        self.counts[frame.name] = key[1] + 1
        if key in self.taps:
            out = jax.tree.map(lambda o, t: o if t is None else o + t, out, self.taps[key])
        self.captured[key] = out
        return out


class Frame:
    """What a bound module knows of itself."""

    def __init__(self, description: Any, path: str, call: Call):
        self.description, self.path, self.call = description, path, call
        self.name = call.names.get(id(description), join(call.prefix, path))
        self.draws = itertools.count()  # numbers the keys that the module draws
        self.computed: dict[str, Computed] = {}

    def slice(self, description: Any, name: str) -> "Frame":
        """The frame of a slice of this container, which trains as the whole does; what either draws the other does not
        draw again."""
        if not isinstance(self.call.training, bool):
            self.call.training[name] = self.call.training[self.name]
        part = copy.copy(self)
        part.description, part.name = description, name
        return part

    def where(self) -> str:
        return f"{self.name or 'the root'} ({type(self.description).__name__})"

    def same_trace(self, what: str) -> None:
        """Refuses what would leak out of, or repeat in, a transformation that the user's forward started."""
        if _trace() != self.call.trace:
            raise ValueError(
                f"{self.where()}: {what} inside a transformation that its own forward started (lax.scan, vmap, jit, "
                "jax.checkpoint, …), which would let it out or show each step the same. Use nn.Repeat for a stack "
                "of layers, nn.remat(layer) in place of jax.checkpoint, leave jit out, or use the child's pure apply: "
                "`p, s = self.subtree('child')`, then `self.child.apply(p, s, x, rng=key)` with a key for each step."
            )


# ------------------------------------------------------------------------------------------------- the bound copy


def bind(module: Any, params: Tree, state: Tree, call: Call) -> Any:
    """The bound copy of `module` and of all beneath it."""
    return _Binder(call).bind(module, params, state, "", ())


class _Binder:
    """Own leaves first, then children, so that a shared leaf is read under its first name."""

    def __init__(self, call: Call):
        self.call = call
        self.made: dict[int, Any] = {}
        self.stacks: dict[int, tuple[int, ...]] = {}

    def bind(self, module: Any, params: Tree, state: Tree, path: str, stacks: tuple[int, ...]) -> Any:
        frame = Frame(module, path, self.call)
        if id(module) in self.made:
            self._same_stack(frame, module, stacks)
            for what, given in (("params", params), ("state", state)):
                if tree.flatten(given):
                    raise ValueError(
                        f"{frame.where()}: {what} holds {', '.join(map(repr, given))} under its second name {path!r}. "
                        "A shared module's arrays live under its first name alone."
                    )
            return self.made[id(module)]
        bound = object.__new__(type(module))
        self.made[id(module)], self.stacks[id(module)] = bound, stacks
        values = dict(vars(module), _frame=frame, training=self._training(frame))
        for name, value in values.items():
            if isinstance(value, types.MethodType) and value.__self__ is module:
                values[name] = types.MethodType(value.__func__, bound)
            elif isinstance(value, _CONTAINERS):
                values[name] = _copied(value, {})  # what forward puts in may be a tracer, and goes with the bound copy
            elif isinstance(value, Computed):
                frame.computed[name] = value
        for name in frame.computed:
            del values[name]
        for kind, given in ((Parameter, params), (Buffer, state)):
            borrowed = set()
            for name, leaf in module._leaves(kind):
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
        for name, child in module._children():
            inner = (*stacks, module.n) if name == tree.STACKED else stacks
            vars(bound)[name] = self.bind(child, params.get(name, {}), state.get(name, {}), join(path, name), inner)
        return bound

    def _training(self, frame: Frame) -> bool:
        spec = self.call.training
        return spec if isinstance(spec, bool) else spec[frame.name]

    def _same_stack(self, frame: Frame, part: Any, stacks: tuple[int, ...]) -> None:
        if self.stacks[id(part)] != stacks:
            raise ValueError(
                f"{frame.where()}: shares a {type(part).__name__} between the layers of a stack and what is outside "
                "of it. Tie inside one layer, or use nn.Repeat(…, scan=False)."
            )


_CONTAINERS = (list, dict, set, deque)


def _copied(value: Any, made: dict[int, Any]) -> Any:
    """A plain container copied, with those within it; `made` holds them by the ids of the originals."""
    if id(value) not in made:
        new = made[id(value)] = copy.copy(value)
        if not isinstance(value, set):
            for place, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
                if isinstance(item, _CONTAINERS):
                    new[place] = _copied(item, made)
    return made[id(value)]


def _read(frame: Frame, given: Tree, kind: type, name: str, leaf: Any, stacks: tuple[int, ...]) -> Any:
    what = "params" if kind is Parameter else "state"
    if name not in given:
        message = f"{frame.where()}: {what} has no {name!r}."
        if leaf.homes:
            homes = " or ".join(f"{home!r} (in {net})" for home, net in leaf.homes)
            message += f" It is shared and lives under {homes}: take net.subtree(…) of the child."
        else:
            message += " Give apply what this very module's init made."
        raise ValueError(message)
    value = given[name]
    if isinstance(value, np.ndarray):
        value = jnp.asarray(value)
    if leaf.shape is not None and jnp.shape(value) != (*stacks, *leaf.shape):
        raise ValueError(
            f"{frame.where()}: {what} {name!r}: expected shape {(*stacks, *leaf.shape)}, got {jnp.shape(value)}."
        )
    if kind is Parameter and not leaf.requires_grad:
        value = jax.lax.stop_gradient(value)
    return value


def _no_others(frame: Frame, given: Tree, kind: type, borrowed: set[str]) -> None:
    what = "params" if kind is Parameter else "state"
    own = {name for name, _ in frame.description._leaves(kind)} - borrowed
    children = {name for name, _ in frame.description._children()}
    for name, value in given.items():
        if name not in own and name not in children:
            tied = " It is shared and lives under its first name alone." if name in borrowed else ""
            raise ValueError(f"{frame.where()}: {what} holds {name!r}, which is not a part of it.{tied}")
        if name in children and not isinstance(value, dict):
            raise ValueError(f"{frame.where()}: {name!r} is a module; expected a dict, got {type(value).__name__}.")


def assign_buffer(bound: Any, frame: Frame, name: str, value: Any) -> None:
    """`self.name = value` inside forward: a buffer's new value, in the shape and dtype it has."""
    if name not in dict(bound._leaves(Buffer)):
        raise ValueError(
            f"{frame.where()}: forward assigned to {name!r}, which is not a buffer, so the value would be lost. "
            f"Register it in __init__: self.register_buffer({name!r}, nn.Buffer(shape)), or use a local variable."
        )
    frame.same_trace(f"an assignment to the buffer {name!r}")
    old, value = vars(bound)[name], jnp.asarray(value)
    if value.shape != old.shape:
        raise ValueError(
            f"{frame.where()}: the buffer {name!r} keeps its shape; expected {old.shape}, got {value.shape}."
        )
    if jnp.issubdtype(value.dtype, jnp.inexact) and not jnp.issubdtype(old.dtype, jnp.inexact):
        raise ValueError(
            f"{frame.where()}: the buffer {name!r} keeps its dtype; expected {old.dtype}, got {value.dtype}."
        )
    put(bound, name, value.astype(old.dtype))
    frame.call.changed = True


def put(bound: Any, name: str, value: Any) -> None:
    """The bound module's own leaf `name` becomes `value`, wherever it is shared."""
    for module, its_name in bound._frame.call.places[id(vars(bound._frame.description)[name])]:
        vars(module)[its_name] = value


def computing(bound: Any, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`run(*args, **kwargs)`, a method of the bound module; while it runs, what is computed is there, computed once."""
    own, names = vars(bound), bound._frame.computed
    before = {name: own[name] for name in names if name in own}
    try:
        own.update({name: computed.value(bound) for name, computed in names.items()})
        return run(*args, **kwargs)
    finally:
        for name in names:
            own.pop(name, None)
        own.update(before)


def read_back(bound: Any, state: Tree) -> Tree:
    """`state` with the bound buffers' values, in the very structure that `apply` was given."""
    own = dict(bound._leaves(Buffer))
    return {
        name: vars(bound)[name] if name in own else read_back(vars(bound)[name], value) for name, value in state.items()
    }


def _write_state(bound: Any, state: Tree) -> None:
    own = dict(bound._leaves(Buffer))
    for name, value in state.items():
        if name in own:
            setattr(bound, name, value)
        else:
            _write_state(vars(bound)[name], value)


# -------------------------------------------------------------------------------------------------- pure runs inside


def pure_run(bound: Any, method: str | None = None) -> Callable[..., Any]:
    """`(params, state, rng, taps, args, kwargs) -> (out, state, captured)`: a bound module's own call, in pure form."""
    frame = bound._frame

    def run(params: Tree, state: Tree, rng: Any, taps: dict[tuple[str, int], Any], args: Any, kwargs: Any) -> Any:
        return frame.description._run(params, state, args, kwargs, frame.call.inner(frame.name, rng, taps), method)

    return run


def take(bound: Any, old_state: Tree, result: tuple[Any, Tree, dict[tuple[str, int], Any]]) -> Any:
    """Takes what a pure run gave back into the bound module, and gives its output."""
    out, state, captured = result
    if state is not old_state and jax.tree.leaves(state):
        _write_state(bound, state)
    call = bound._frame.call
    call.captured.update(captured)
    for name, count in captured:
        call.counts[name] = count + 1
    return out


def recompute(bound: Any, policy: Any, *args: Any, **kwargs: Any) -> Any:
    """The bound module's forward under `jax.checkpoint` (see `nn.remat`)."""
    rng = None if bound._frame.call.rng is None else bound.make_rng()
    leaves, structure = jax.tree.flatten((args, kwargs))
    arrays = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)}

    def run(params: Tree, state: Tree, rng: Any, taps: Any, arrays: dict[int, Any]) -> Any:
        given = jax.tree.unflatten(structure, [arrays.get(i, leaf) for i, leaf in enumerate(leaves)])
        return pure_run(bound, "forward")(params, state, rng, taps, *given)

    state = bound._values(Buffer)
    run = jax.checkpoint(run, policy=policy)
    return take(bound, state, run(bound._values(Parameter), state, rng, bound._frame.call.taps, arrays))
