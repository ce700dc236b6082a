"""Runs a torch model with every expression of its source recorded. The result is a `Fact` for the place of each
expression.

The model is built, called with each example in eval mode and in train mode, and differentiated. Facts from the
constructor are kept apart from those from `forward`, because the port treats a parameter as a description in the
constructor and as a tensor in `forward`.
"""

from __future__ import annotations

import contextlib
import importlib
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.comparison.torch_objects import TorchModule
from funcnet.porting.errors import PortError
from funcnet.porting.expression_facts.fact import UNKNOWN, Fact, Span, fact_of, join
from funcnet.porting.running.instrumenting import REACH, RECORD, instrument
from funcnet.porting.running.loading import Loaded, construct, example, forward, load

__all__ = ["PHASES", "Recording", "record"]

PHASES = ("load", "construct", "forward")


@dataclass(frozen=True)
class Recording:
    """The facts and functions that a run of a torch model recorded.

    Attributes:
        loaded: the instrumented source.
        model: the model, after the run.
        facts: {phase: {path: {span: fact}}}. The phases are "load" (the files are executed), "construct" and "forward".
        reached: {phase: {path: spans of the functions whose bodies ran}}.
        skipped: why a run in train mode or its backward pass failed, or "" if nothing failed.
    """

    loaded: Loaded
    model: Any
    facts: Mapping[str, Mapping[str, Mapping[Span, Fact]]]
    reached: Mapping[str, Mapping[str, frozenset[Span]]]
    skipped: str = ""

    def fact(self, path: str | Path, span: Span, phase: str | None = None) -> Fact:
        """Return what the run showed about the expression at a place in a file.

        Args:
            path: the file.
            span: the place, as in libcst's `PositionProvider`.
            phase: "load", "construct" or "forward". The default joins all phases that reached the place.
        """
        file = str(Path(path).resolve())
        phases = PHASES if phase is None else (phase,)
        found = [self.facts[one].get(file, {}).get(span) for one in phases]
        return join(fact for fact in found if fact is not None) if any(found) else UNKNOWN

    def ran(self, path: str | Path, span: Span, phase: str | None = None) -> bool:
        """Return whether the function at a place ran in a phase. By default, return whether the function ran in any
        phase.
        """
        file = str(Path(path).resolve())
        phases = PHASES if phase is None else (phase,)
        return any(span in self.reached[one].get(file, ()) for one in phases)


def record(
    path: str | Path,
    class_name: str | None,
    construct_with: str | None,
    example_with: str | Iterable[str],
    also: Iterable[str | Path] = (),
) -> Recording:
    """Run a model and record every expression.

    Args:
        path: the source file.
        class_name: the model's class.
        construct_with: an expression that builds the model, as for `loading.construct`.
        example_with: one or more expressions for the arguments of `forward`, as for `loading.example`.
        also: folders of other packages. The expressions in their files are recorded too.
    Returns:
        A `Recording` with the facts of all executed files of the source.
    Raises:
        PortError: if the file, the constructor, an example, or `forward` in eval mode fails.
    """
    recorder = _Recorder()
    names = {RECORD: recorder.record, REACH: recorder.reach}
    loaded = load(
        path, class_name, transform=lambda file, tree: instrument(file, tree, recorder.key_of), names=names, also=also
    )
    expressions = [example_with] if isinstance(example_with, str) else list(example_with)
    skipped: list[str] = []
    with _seeded():
        with recorder.phase("construct"):
            model = construct(loaded, construct_with)
        examples = [example(loaded, one) for one in expressions]
        torch = importlib.import_module("torch")
        with recorder.phase("forward"):
            model.eval()
            for args, kwargs in examples:
                with torch.no_grad():
                    forward(loaded, model, args, kwargs)
            model.train()
            for args, kwargs in examples:
                skipped += _trained(loaded, model, args, kwargs)
    model.eval()
    facts = {phase: recorder.facts(phase) for phase in PHASES}
    reached = {phase: recorder.reached(phase) for phase in PHASES}
    return Recording(loaded, model, facts, reached, "; ".join(skipped))


def _trained(loaded: Loaded, model: TorchModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """Run the forward and the backward pass of a model in train mode. If a pass fails, return a text that says why,
    instead of raising the error.

    Not every model can be trained, so a failure must not stop the port.
    """
    torch = importlib.import_module("torch")
    try:
        with torch.enable_grad():
            leaves = _leaves(forward(loaded, model, args, kwargs))
            tensors = [one for one in leaves if isinstance(one, torch.Tensor) and one.requires_grad]
            with loaded.running():
                sum((one.abs().sum() for one in tensors), torch.zeros(())).backward()
    except PortError as error:
        return [f"train mode: {error}"]
    except Exception as error:
        return [f"backward: {type(error).__name__}: {error}"]
    finally:
        for parameter in model.parameters():
            parameter.grad = None
    return []


def _leaves(value: object) -> list[Any]:
    """Return the values in nested tuples, lists and dicts."""
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else None
    return [value] if items is None else [leaf for one in items for leaf in _leaves(one)]


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Make a context with fixed random seeds, and restore the user's random states afterwards."""
    torch, numpy = importlib.import_module("torch"), importlib.import_module("numpy")
    states = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        try:
            yield
        finally:
            random.setstate(states[0])
            numpy.random.set_state(states[1])


_PLAIN = frozenset({bool, int, float, complex, str, type(None), dict, set, frozenset, slice, type(...)})


class _Recorder:
    """Collects the facts of the values that an instrumented source reports.

    Only one value of each class, dtype and shape is examined, because such values have the same fact.
    """

    def __init__(self) -> None:
        torch, numpy = importlib.import_module("torch"), importlib.import_module("numpy")
        self._tensor, self._arrays, self._module = torch.Tensor, (numpy.ndarray, numpy.generic), torch.nn.Module
        self._dtype = torch.dtype
        self._sites: list[tuple[str, Span]] = []
        self._keys: dict[tuple[str, Span], int] = {}
        self._facts: dict[Any, Fact] = {}
        self._seen: dict[str, set[tuple[int, Any]]] = {phase: set() for phase in PHASES}
        self._reached: dict[str, set[int]] = {phase: set() for phase in PHASES}
        self._phase = "load"
        self._busy = False  # whether a value is being examined: its own methods may be instrumented too

    def key_of(self, path: str, span: Span) -> int:
        key = self._keys.setdefault((path, span), len(self._sites))
        if key == len(self._sites):
            self._sites.append((path, span))
        return key

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._phase = name
        try:
            yield
        finally:
            self._phase = "load"

    def reach(self, key: int) -> None:
        self._reached[self._phase].add(key)

    def record(self, key: int, value: object) -> Any:
        if self._busy:
            return value
        self._busy = True
        try:
            signature = self._signature(value, 2)
            seen = self._seen[self._phase]
            if (key, signature) not in seen:
                seen.add((key, signature))
                if signature not in self._facts:
                    self._facts[signature] = self._fact(value)
        finally:
            self._busy = False
        return value

    def _fact(self, value: object) -> Fact:
        try:
            return fact_of(value)
        except Exception:  # a tensor without sizes, such as a nested one
            return Fact(frozenset({"tensor" if isinstance(value, self._tensor) else "other"}))

    def _signature(self, value: Any, depth: int) -> Any:
        """Return the properties that determine the fact of a value, in a form that can be hashed.

        These properties are computed for every value, and the slower `fact_of` is called only once for equal
        properties.
        """
        kind = type(value)
        if kind in _PLAIN:
            return kind
        try:
            if issubclass(kind, self._tensor):
                return kind, value.dtype, value.shape, getattr(value, "_is_param", False)
            if issubclass(kind, self._module):
                return kind
            if issubclass(kind, tuple | list):
                items = value if depth and len(value) <= 16 else ()
                return kind, bool(depth and len(value) <= 16), *(self._signature(one, depth - 1) for one in items)
            if issubclass(kind, self._arrays):
                return kind, value.dtype.str, value.shape
            if kind is self._dtype or issubclass(kind, type):
                return kind, value
            if callable(value):
                return kind, getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
        except Exception:
            pass
        return kind

    def facts(self, phase: str) -> dict[str, dict[Span, Fact]]:
        by_key: dict[int, list[Fact]] = {}
        for key, signature in self._seen[phase]:
            by_key.setdefault(key, []).append(self._facts[signature])
        found: dict[str, dict[Span, Fact]] = {}
        for key, facts in by_key.items():
            path, span = self._sites[key]
            found.setdefault(path, {})[span] = join(facts)
        return found

    def reached(self, phase: str) -> dict[str, frozenset[Span]]:
        found: dict[str, set[Span]] = {}
        for key in self._reached[phase]:
            path, span = self._sites[key]
            found.setdefault(path, set()).add(span)
        return {path: frozenset(spans) for path, spans in found.items()}
