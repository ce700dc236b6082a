"""A module's own part in its state_dict: hooks, extra state, versions. The rules are torch's.

These hooks belong to the description (torch's constructors register them) and run outside `jit`, when a state_dict is
made or read. They change the dict and the lists that they are given, in place; each module sees its own part of a
shallow copy, as in torch.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from funcnet.nn.core.hooks import RemovableHandle
from funcnet.nn.core.parts import children

__all__ = [
    "EXTRA",
    "IncompatibleKeys",
    "PreparedStateDict",
    "after_load",
    "before_load",
    "has_extra_state",
    "register",
    "registered",
    "run",
]

EXTRA = "_extra_state"
PRE, POST, LOAD_PRE, LOAD_POST = "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"


class IncompatibleKeys(NamedTuple):
    """The argument of load post-hooks, which they may edit: the names that are still missing or unexpected."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@dataclass(frozen=True, eq=False)
class _Hook:
    """One registration; it equals itself alone."""

    kind: str
    fn: Callable[..., Any]


class _Hooks:
    """A module's hooks, in their order."""

    registered: tuple[_Hook, ...] = ()


def registered(module: Any) -> tuple[Any, ...]:
    """The hooks of a module's own, in their order."""
    return vars(module).get("_state_dict_hooks", _Hooks).registered


def register(module: Any, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    """Adds `hook` after the module's others of this kind."""
    own, one = vars(module).setdefault("_state_dict_hooks", _Hooks()), _Hook(kind, hook)
    own.registered = (*own.registered, one)
    return RemovableHandle(own, one)


def run(module: Any, kind: str, *args: Any) -> None:
    """The module's hooks of this kind, in their order.

    Raises:
        ValueError: a post-hook returns a value, which torch refuses too; a pre-hook may.
    """
    for hook in registered(module):
        if hook.kind == kind and hook.fn(module, *args) is not None and kind in (POST, LOAD_POST):
            raise ValueError(
                f"{type(module).__name__}: a {kind} hook returned a value; expected None, got one from "
                f"{getattr(hook.fn, '__name__', hook.fn)}. Change what it was given, in place."
            )


def has_extra_state(module: Any) -> bool:
    """Whether the class defines `get_extra_state`."""
    return hasattr(module, "get_extra_state")


class PreparedStateDict(NamedTuple):
    """A state_dict after the modules' load pre-hooks."""

    sd: "OrderedDict[str, Any]"
    optional: set[str]  # names that files of its version do not have
    missing: list[str]  # as noted by the hooks
    unexpected: list[str]
    errors: list[str]


def before_load(module: Any, sd: Mapping[str, Any], strict: bool) -> PreparedStateDict:
    """Runs the load pre-hooks on a copy of `sd`.

    Raises:
        ValueError: its `_metadata` is not what a state_dict has.
    """
    metadata = _checked(module, getattr(sd, "_metadata", None) or {})
    optional: set[str] = set()
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []

    def visit(inner: Any, prefix: str, local: "OrderedDict[str, Any]") -> "OrderedDict[str, Any]":
        about = dict(metadata.get(prefix[:-1], {}))
        run(inner, LOAD_PRE, local, prefix, about, strict, missing, unexpected, errors)
        optional.update(f"{prefix}{name}" for name in inner.absent_before(about.get("version") or 0))
        for name, child in children(inner, layers=True):
            below = f"{prefix}{name}."
            part = OrderedDict((key, local.pop(key)) for key in list(local) if key.startswith(below))
            local.update(visit(child, below, part))
        return local

    changed = visit(module, "", OrderedDict(sd))
    order = {name: place for place, name in enumerate(sd)}
    in_order = sorted(changed.items(), key=lambda item: order.get(item[0], len(order)))
    return PreparedStateDict(OrderedDict(in_order), optional, missing, unexpected, errors)


def _checked(module: Any, metadata: Any) -> Mapping[str, Mapping[str, Any]]:
    abouts = list(metadata.values()) if isinstance(metadata, Mapping) else [metadata]
    for about in abouts:
        if not isinstance(about, Mapping) or not isinstance(about.get("version"), int | None):
            raise ValueError(
                f"{type(module).__name__}.load_state_dict: sd._metadata is not what a state_dict has; expected "
                f"{{module name: {{'version': number}}}}, got {about!r:.80} in it. Leave it out: dict(sd)."
            )
    return metadata


def after_load(module: Any, found: IncompatibleKeys) -> None:
    """The load post-hooks, children first, as in torch."""
    for _, child in children(module, layers=True):
        after_load(child, found)
    run(module, LOAD_POST, found)
