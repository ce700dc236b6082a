"""`Call`, the data that all modules share during one `apply`, and `Frame`, the data of one bound module."""

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
from funcnet.nn.core.absent import advice
from funcnet.nn.core.module_tree import Node, join
from funcnet.nn.core.parameter import Computed
from funcnet.tree import PyTree

Training = bool | Mapping[str, bool]
Taps = dict[tuple[str, int], Any]
Look = Callable[[Any, Any, int], tuple[Any, Any]] | None

__all__ = ["Call", "Frame", "Taps", "Training", "call_name", "outermost", "refuse_unknown", "require_key", "scope_name"]


def call_name(name: str, count: int) -> str:
    """Return the name of one call of a module: "name" for the first call, then "name:1" and so on.

    >>> call_name("fc", 0), call_name("fc", 1)
    ('fc', 'fc:1')
    """
    return f"{name}:{count}" if count else name


def scope_name(name: str, outer: str) -> str:
    """Return the name of the `jax.named_scope` in which a module runs: its dotted name without the name of its caller.

    Scopes nest, so the operations of `encoder.layer.0.attention` are in "encoder/layer.0/attention". If the caller is
    not an ancestor of the module, the scope is the module's full name.

    >>> scope_name("encoder.layer.0", "encoder"), scope_name("embeddings", "decoder")
    ('layer.0', 'embeddings')
    """
    return name.removeprefix(f"{outer}.") if outer else name


def _trace() -> Any:
    return jax.extend.core.get_opaque_trace_state(convention="nnx")


_EAGER = _trace()


def _tapped(output: PyTree, tap: PyTree, number: int) -> tuple[Any, Any]:
    if tap is not None:
        output = jax.tree.map(lambda o, t: o if t is None else o + t, output, tap)
    return output, output


class Call:
    """The data of one `apply`, such as the mode, the random key and the hooks. Every bound module refers to the `Call`
    of its `apply`.

    Args:
        training: whether the modules are in training mode, as one bool or as {module name: bool}.
        rng: the random key of the `apply`, or None.
        hooks: the hooks of the `apply`, as returned by `Hooks.bound`, or None.
        prefix: dotted name of the called module in the outermost net. The net itself has the name "".
        names: dict from `id(module)` to the dotted name, for the modules of the outermost net. If a module has several
            names, the first name is used.
        capture: names of the modules whose outputs are recorded.
        taps: {(module name, number of the module's call): array that is added to the output of this call}. The gradient
            with respect to a tap is the gradient with respect to the output.
        counts: {module name: number of earlier calls of the module} for the captured modules.
        look: function `look(output, tap, number) -> (output, value to record)` for captured modules. `number` is the
            number of calls of captured modules that ended earlier. By default, the tap is added to the output, and the
            sum is both returned and recorded.
        scope: function that takes the names of a module and of its caller, and returns the name of the module's
            `jax.named_scope`.
    """

    def __init__(
        self,
        training: Any = False,
        rng: jax.Array | None = None,
        hooks: Any = None,
        prefix: str = "",
        names: dict[int, str] | None = None,
        capture: frozenset[str] = frozenset(),
        taps: Taps | None = None,
        counts: dict[str, int] | None = None,
        look: Look = None,
        scope: Callable[[str, str], str] = scope_name,
    ):
        self.training, self.rng, self.hooks, self.prefix = training, rng, hooks, prefix
        self.names, self.capture, self.taps = names or {}, capture, taps or {}
        self.captured: Taps = {}
        self.counts = dict(counts or {})
        self.look: Any = look or _tapped
        self.ended = itertools.count()
        self.scope = scope
        self.running = prefix  # the name of the module whose forward runs
        self.created = itertools.count()  # numbers the modules that forward creates and calls
        self.trace = _trace()
        self.is_eager = self.trace == _EAGER
        self.changes_mode = False  # whether a class overrides train() or eval()
        self.copies: list[tuple[Frame, str, Any, Any]] = []  # (frame, name, original, copy) of every plain container
        self.scratch: dict[
            tuple[int, str], tuple[Any, str, Any]
        ] = {}  # attributes that forward set; see `forward_attributes.py`
        self.sets_modes = False  # whether overrides of train() and eval() run
        self.changed = False  # whether a buffer was assigned
        self.places: dict[int, list[tuple[Any, str]]] = {}  # {id(leaf): [(bound module, the leaf's name)]}

    def inner(self, prefix: str, rng: jax.Array | None, taps: Taps) -> "Call":
        """Return the `Call` for a child that runs as a pure function inside this call."""
        how = {"capture": self.capture, "taps": taps, "counts": self.counts, "look": self.look, "scope": self.scope}
        new = Call(self.training, rng, self.hooks, prefix, self.names, **how)
        new.running, new.ended = self.running, self.ended
        return new

    def run(self, frame: "Frame", forward: Callable[..., Any], *args: PyTree, **kwargs: object) -> Any:
        """Call `forward(*args, **kwargs)` of a bound module in a named scope.

        If `forward` raises an error, notes are added to the error: advice for code ported from torch, and the module's
        name.
        """
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

    def record(self, frame: "Frame", out: PyTree) -> Any:
        """Record the output if the outputs of the module are captured. Return the output of the module, which the
        function `look` may have changed.
        """
        if frame.name not in self.capture:
            return out
        frame.same_trace("the output is captured")
        key = frame.name, self.counts.get(frame.name, 0)
        self.counts[frame.name] = key[1] + 1
        out, self.captured[key] = self.look(out, self.taps.get(key), next(self.ended))
        return out


class Frame:
    """The data of a bound module: the module that was copied (the description), its dotted name, and the `Call` of the
    `apply`.
    """

    def __init__(self, description: Node, path: str, call: Call):
        self.description, self.path, self.call = description, path, call
        self.name = call.names.get(id(description), join(call.prefix, path))
        self.draws = itertools.count()  # numbers the keys that the module draws
        self.computed: dict[str, Computed] = {}
        self.missed: set[str] = set()  # the attributes that forward has looked for and that the module lacked

    def slice(self, description: Node, name: str) -> "Frame":
        """Return the frame for a slice, such as `self.layers[:3]`, of the container to which this frame belongs. The
        slice has the container's mode, but draws different random keys.
        """
        if isinstance(self.call.training, dict):
            self.call.training[name] = self.call.training[self.name]
        part = copy.copy(self)
        part.description, part.name = description, name
        return part

    def where(self) -> str:
        """Return the name of the module for error messages, such as "fc (Linear)"."""
        return f"{self.name or 'the root'} ({type(self.description).__name__})"

    def same_trace(self, what: str) -> None:
        """Raise ValueError if the current code runs inside a transformation that the user's forward started.

        Inside such a transformation, a random key would be the same at every step, and an assigned value would leak
        out.
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
    net: Any,
    where: str,
    inputs: tuple[Any, ...],
    method: str | None,
    training: Training,
    rng: jax.Array | None,
    hooks: Any,
    **further: Any,
) -> Call:
    """Return the `Call` for an `apply` of an entire net. Name patterns in `training` and `hooks` are replaced by the
    names of the matching modules, and invalid arguments raise an error.

    Args:
        net: a description.
        where: name of the function that was called, for error messages.
        inputs, method, training, rng, hooks: as in `Module.apply`.
        **further: further arguments of `Call`, such as `capture`.
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


def require_key(rng: object, where: str) -> None:
    """Raise TypeError if `rng` is neither None nor a single random key."""
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
    """Return the names of the arguments of a `forward` method, or None if the method accepts any name (`**kwargs`)."""
    given = list(inspect.signature(forward).parameters.values())[1:]
    return None if any(one.kind is one.VAR_KEYWORD for one in given) else tuple(one.name for one in given)


@functools.cache
def _hidden_arguments(forward: Callable[..., Any]) -> dict[str, int]:
    """Return {name: position} for those arguments of a `forward` method whose names are also arguments of `apply`, such
    as `training`. If such an argument is passed by keyword, only `apply` gets the value.
    """
    names = list(inspect.signature(forward).parameters)[1:]
    return {name: names.index(name) for name in ("training", "rng", "hooks", "method") if name in names}
