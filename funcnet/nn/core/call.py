"""The state of one `apply` (`Call`), and the data of a bound module (`Frame`)."""

import copy
import difflib
import functools
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp

from funcnet import tree
from funcnet.nn.core.advice import advice
from funcnet.nn.core.parameter import Computed
from funcnet.nn.core.parts import join

Training = bool | Mapping[str, bool]
Taps = dict[tuple[str, int], Any]

__all__ = ["Call", "Frame", "Taps", "Training", "call_name", "outermost", "refuse_unknown", "require_key", "scope_name"]


def call_name(name: str, count: int) -> str:
    """Return the name of one call of a module: "name" for the first call, then "name:1" and so on.

    >>> call_name("fc", 0), call_name("fc", 1)
    ('fc', 'fc:1')
    """
    return f"{name}:{count}" if count else name


def scope_name(name: str, outer: str) -> str:
    """Return the named scope of a module within the scope of its caller: the rest of its dotted name.

    Scopes nest, so the operations of `encoder.layer.0.attention` are in "encoder/layer.0/attention". If the caller is
    not an ancestor of the module, the scope is the module's full name.

    >>> scope_name("encoder.layer.0", "encoder"), scope_name("embeddings", "decoder")
    ('layer.0', 'embeddings')
    """
    return name.removeprefix(f"{outer}.") if outer else name


def _trace() -> Any:
    return jax.extend.core.get_opaque_trace_state(convention="nnx")


_EAGER = _trace()


class Call:
    """The state of one `apply`. Every module that the call binds refers to it.

    Args:
        training: a bool, or {module name: bool}.
        rng: a key, or None.
        hooks: the result of `Hooks.bound`, or None.
        prefix: name that the module of this call has in the outermost net.
        names: {id(description): name} for the modules of the outermost net. A shared module has its first name.
        capture: names of the modules whose outputs are recorded.
        taps: {(name, number of the call): array that is added to the output}. Gradients are taken with respect to taps.
        counts: {name: number of earlier calls} for the captured modules.
        scope: function that takes the names of a module and its caller, and returns the module's named scope.
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
        self.is_eager = self.trace == _EAGER
        self.changes_mode = False  # whether a class overrides train() or eval()
        self.copies: list[tuple[Frame, str, Any, Any]] = []  # (frame, name, original, copy) of every plain container
        self.sets_modes = False  # whether overrides of train() and eval() run
        self.changed = False  # whether a buffer was assigned
        self.places: dict[int, list[tuple[Any, str]]] = {}  # {id(leaf): [(bound module, the leaf's name)]}

    def inner(self, prefix: str, rng: Any, taps: Taps) -> "Call":
        """Return the `Call` of a pure run inside this one."""
        new = Call(self.training, rng, self.hooks, prefix, self.names, self.capture, taps, self.counts, self.scope)
        new.running = self.running
        return new

    def run(self, frame: "Frame", forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `forward(*args, **kwargs)` of a bound module in a named scope. Errors get a note with its name."""
        outer, self.running = self.running, frame.name
        try:
            scope = self.scope(frame.name, outer)
            if not scope:
                return forward(*args, **kwargs)
            with jax.named_scope(scope):
                return forward(*args, **kwargs)
        except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
            notes = getattr(error, "__notes__", [])
            for note in advice(error):
                if note not in notes:
                    error.add_note(note)
            if frame.name and not any(n.startswith("in module ") for n in notes):
                error.add_note(f"in module {frame.where()}")
            raise
        finally:
            self.running = outer

    def record(self, frame: "Frame", out: Any) -> Any:
        """Record the output of a captured module, and return the output with its tap added."""
        if frame.name not in self.capture:
            return out
        frame.same_trace("the output is captured")
        key = frame.name, self.counts.get(frame.name, 0)
        self.counts[frame.name] = key[1] + 1
        if key in self.taps:
            out = jax.tree.map(lambda o, t: o if t is None else o + t, out, self.taps[key])
        self.captured[key] = out
        return out


class Frame:
    """The data of a bound module: its description, its name and its call."""

    def __init__(self, description: Any, path: str, call: Call):
        self.description, self.path, self.call = description, path, call
        self.name = call.names.get(id(description), join(call.prefix, path))
        self.draws = itertools.count()  # numbers the keys that the module draws
        self.computed: dict[str, Computed] = {}

    def slice(self, description: Any, name: str) -> "Frame":
        """Return the frame of a slice of this container. The slice has the same mode and draws different keys."""
        if isinstance(self.call.training, dict):
            self.call.training[name] = self.call.training[self.name]
        part = copy.copy(self)
        part.description, part.name = description, name
        return part

    def where(self) -> str:
        """Return the name of the module for error messages, such as "fc (Linear)"."""
        return f"{self.name or 'the root'} ({type(self.description).__name__})"

    def same_trace(self, what: str) -> None:
        """Raise ValueError if the current code runs inside a transformation that the user's forward started. Values
        would leak out of it or repeat.
        """
        if _trace() != self.call.trace:
            raise ValueError(
                f"{self.where()}: {what} inside a transformation that its own forward started (lax.scan, vmap, jit, "
                "jax.checkpoint, …). The value would leak out of the transformation, or be the same at every step. "
                "Use nn.Repeat for a stack of layers, and nn.remat(layer) in place of jax.checkpoint. Do not call jit "
                "inside forward. In a loop of your own, draw all keys before it: `keys = "
                "jax.random.split(self.make_rng(), n)`, and use `keys[i]` in step i. To call a child that draws keys "
                "or assigns buffers, use its pure apply: `p, s = self.subtree('child')`, then `self.child.apply(p, s, "
                "x, rng=keys[i])`."
            )


def outermost(
    net: Any, where: str, inputs: Any, method: str | None, training: Training, rng: Any, hooks: Any, **further: Any
) -> Call:
    """Return the `Call` of an entire net. Name patterns are resolved, and invalid arguments raise an error.

    Args:
        net: a description.
        where: name of the function that was called, for error messages.
        inputs, method, training, rng, hooks: as in `Module.apply`.
        **further: arguments of `Call`.
    """
    where = f"{type(net).__name__}.{where}"
    for argument, position in _hidden_arguments(type(net).forward).items():
        if method is None and position >= len(inputs):
            raise TypeError(
                f"{where}: forward has an argument {argument!r}, which is also an argument of "
                f"{where.rpartition('.')[2]}; expected it as a positional input, got {len(inputs)} positional inputs. "
                f"Pass it as input {position + 1}, or rename the argument of forward."
            )
    paths = {id(module): path for path, module in net.named_modules()}
    names = list(paths.values())
    given = training.values() if isinstance(training, Mapping) else [training]
    if not all(isinstance(value, bool) for value in given):
        raise TypeError(
            f"{where}: training must be static; expected a bool or {{name pattern: bool}}, got {training!r}. Under "
            "jit, bind the argument before tracing: jax.jit(functools.partial(net.apply, training=True))."
        )
    if not isinstance(training, bool):
        training = tree.assign(training, names, False, where=f"{where}(training=…)")
    require_key(rng, where)
    if hooks is not None:
        if not hasattr(hooks, "bound"):
            raise TypeError(
                f"{where}: hooks has the wrong type; expected nn.Hooks or None, got {type(hooks).__name__}."
            )
        hooks = hooks.bound(names, where=f"{where}(hooks=…)")
    return Call(training, rng, hooks, names=paths, **further)


def require_key(rng: Any, where: str) -> None:
    """Raise TypeError if `rng` is neither None nor a key."""
    if rng is None:
        return
    if not isinstance(rng, jax.Array):
        raise TypeError(
            f"{where}: rng has the wrong type; expected a key, got {type(rng).__name__}. Use jax.random.key(0)."
        )
    is_typed = jax.dtypes.issubdtype(rng.dtype, jax.dtypes.prng_key)
    if rng.ndim != (0 if is_typed else 1) or not (is_typed or rng.dtype == jnp.uint32):
        several = " Pass one of the keys: rng=keys[0]." if is_typed else " Use jax.random.key(0)."
        raise TypeError(
            f"{where}: rng is not a single key; expected one key, got {rng.dtype} of shape {rng.shape}.{several}"
        )


def refuse_unknown(net: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError if `apply` got an argument that neither `apply` nor `forward` has."""
    accepted = _accepted(type(net).forward)
    unknown = [] if accepted is None else [name for name in kwargs if name not in accepted]
    if unknown:
        own = ["training", "rng", "hooks", "method"]
        near = "training" if "train" in unknown[0] else next(iter(difflib.get_close_matches(unknown[0], own, n=1)), "")
        raise TypeError(
            f"{type(net).__name__}.apply: neither apply nor forward has an argument {unknown[0]!r}; expected "
            f"{', '.join(own)} or an argument of forward ({', '.join(accepted or ())}), got {unknown[0]!r}."
            f"{f' Did you mean {near}=…?' if near else ''}"
        )


@functools.cache
def _accepted(forward: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names of the arguments of forward, or None if it takes any name."""
    given = list(inspect.signature(forward).parameters.values())[1:]
    return None if any(one.kind is one.VAR_KEYWORD for one in given) else tuple(one.name for one in given)


@functools.cache
def _hidden_arguments(forward: Callable[..., Any]) -> dict[str, int]:
    """Return {name: position} for the arguments of forward that `apply` also has. If they are given by keyword, `apply`
    takes them.
    """
    names = list(inspect.signature(forward).parameters)[1:]
    return {name: names.index(name) for name in ("training", "rng", "hooks", "method") if name in names}
