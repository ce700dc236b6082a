"""What one `apply` carries along (`Call`), and what a bound module knows of itself (`Frame`)."""

import copy
import functools
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.extend.core

from funcnet import tree
from funcnet.nn.core.parameter import Computed
from funcnet.nn.core.parts import join

Training = bool | Mapping[str, bool]
Taps = dict[tuple[str, int], Any]

__all__ = ["Call", "Frame", "Taps", "Training", "call_name", "outermost", "scope_name"]


def call_name(name: str, count: int) -> str:
    """The name of a module's call: "name" for the first one, then "name:1", …

    >>> call_name("fc", 0), call_name("fc", 1)
    ('fc', 'fc:1')
    """
    return f"{name}:{count}" if count else name


def scope_name(name: str, outer: str) -> str:
    """The named scope of a module inside that of the module that calls it: the rest of its dotted name.

    Scopes nest, so the operations of `encoder.layer.0.attention` are in "encoder/layer.0/attention". A module that is
    called from elsewhere than above it has its whole name.

    >>> scope_name("encoder.layer.0", "encoder"), scope_name("embeddings", "decoder")
    ('layer.0', 'embeddings')
    """
    return name.removeprefix(f"{outer}.") if outer else name


def _trace() -> Any:
    return jax.extend.core.get_opaque_trace_state(convention="nnx")


class Call:
    """The state of one `apply`; every module that it binds refers to it.

    Args:
        training: a bool, or {module name: bool}.
        rng: a key or None.
        hooks: the result of `Hooks.bound`, or None.
        prefix: the name, in the outermost net, of the module that this call runs.
        names: {id(description): name} of the outermost net: a module under two names answers to its first.
        capture: names of the modules whose outputs are recorded.
        taps: {(name, count of the call): what is added to its output}, to differentiate by.
        counts: {name: how often that captured module was called before}.
        scope: (name of a module, name of the module that calls it) -> the named scope of its operations.
    """

    def __init__(
        self,
        training: Any = False,
        rng: Any = None,
        hooks: Any = None,
        prefix: str = "",
        names: dict[int, str] | None = None,
        capture: frozenset[str] = frozenset(),
        taps: Taps | None = None,
        counts: dict[str, int] | None = None,
        scope: Callable[[str, str], str] = scope_name,
    ):
        self.training, self.rng, self.hooks, self.prefix = training, rng, hooks, prefix
        self.names, self.capture, self.taps = names or {}, capture, taps or {}
        self.captured: Taps = {}
        self.counts = dict(counts or {})
        self.scope = scope
        self.running = prefix  # the name of the module whose forward runs
        self.trace = _trace()
        self.changed = False  # whether a buffer was assigned
        self.places: dict[int, list[tuple[Any, str]]] = {}  # {id(leaf): the bound modules that hold it, by which name}

    def inner(self, prefix: str, rng: Any, taps: Taps) -> "Call":
        """The call of a pure run inside this one."""
        new = Call(self.training, rng, self.hooks, prefix, self.names, self.capture, taps, self.counts, self.scope)
        new.running = self.running
        return new

    def run(self, frame: "Frame", forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`forward(*args, **kwargs)` of a bound module, in a named scope; an error notes the module's name."""
        outer, self.running = self.running, frame.name
        try:
            scope = self.scope(frame.name, outer)
            if not scope:
                return forward(*args, **kwargs)
            with jax.named_scope(scope):
                return forward(*args, **kwargs)
        except (ValueError, TypeError) as error:
            if frame.name and not any(n.startswith("in module ") for n in getattr(error, "__notes__", ())):
                error.add_note(f"in module {frame.where()}")
            raise
        finally:
            self.running = outer

    def record(self, frame: "Frame", out: Any) -> Any:
        """Notes a captured module's output, and returns it with its tap added."""
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
    """What a bound module knows of itself: its description, its name, its call."""

    def __init__(self, description: Any, path: str, call: Call):
        self.description, self.path, self.call = description, path, call
        self.name = call.names.get(id(description), join(call.prefix, path))
        self.draws = itertools.count()  # numbers the keys that the module draws
        self.computed: dict[str, Computed] = {}

    def slice(self, description: Any, name: str) -> "Frame":
        """The frame of a slice of this container. It trains as the whole does, and the two draw different keys."""
        if not isinstance(self.call.training, bool):
            self.call.training[name] = self.call.training[self.name]
        part = copy.copy(self)
        part.description, part.name = description, name
        return part

    def where(self) -> str:
        """How errors name the module: "fc (Linear)"."""
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


def outermost(
    net: Any, where: str, inputs: Any, method: str | None, training: Training, rng: Any, hooks: Any, **further: Any
) -> Call:
    """The call of a whole net: patterns become names, and arguments that do not fit are refused.

    Args:
        net: a description.
        where: the function that was called, for errors.
        inputs, method, training, rng, hooks: as in `Module.apply`.
        **further: arguments of `Call`.
    """
    where = f"{type(net).__name__}.{where}"
    for argument, position in _hidden_arguments(type(net).forward).items():
        if method is None and position >= len(inputs):
            raise TypeError(
                f"{where}: forward has an argument {argument!r}, which {where.rpartition('.')[2]} needs for itself; "
                f"expected it by position, got {len(inputs)} inputs. Give it as input {position + 1}, or rename it."
            )
    paths = {id(module): path for path, module in net.named_modules()}
    names = list(paths.values())
    given = training.values() if isinstance(training, Mapping) else [training]
    if not all(isinstance(value, bool) for value in given):
        raise TypeError(
            f"{where}: training is static; expected a bool or {{name pattern: bool}}, got {training!r}. Under jit "
            "close over it: jax.jit(functools.partial(net.apply, training=True))."
        )
    if not isinstance(training, bool):
        training = tree.assign(training, names, False, where=f"{where}(training=…)")
    if hooks is not None:
        if not hasattr(hooks, "bound"):
            raise TypeError(f"{where}: hooks: expected nn.Hooks or None, got {type(hooks).__name__}.")
        hooks = hooks.bound(names, where=f"{where}(hooks=…)")
    return Call(training, rng, hooks, names=paths, **further)


@functools.cache
def _hidden_arguments(forward: Callable[..., Any]) -> dict[str, int]:
    """The arguments of forward that `apply` has too, with their positions: by keyword they would never arrive."""
    names = list(inspect.signature(forward).parameters)[1:]
    return {name: names.index(name) for name in ("training", "rng", "hooks", "method") if name in names}
