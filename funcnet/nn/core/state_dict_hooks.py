"""Hooks, extra state and versions, by which a module controls its part of a state_dict. The rules are torch's.

These hooks belong to the description, because constructors written for torch register them. They run outside `jit`,
when a state_dict is made or read. They change their dict and lists in place. Each module sees its own part of a shallow
copy, as in torch.
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
    """The names that are still missing or unexpected. Load post-hooks receive this object and may edit its lists."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@dataclass(frozen=True, eq=False)
class _Hook:
    """One registered hook. It is equal only to itself."""

    kind: str
    fn: Callable[..., Any]


class _Hooks:
    """The hooks of a module, in the order of registration."""

    registered: tuple[_Hook, ...] = ()


def registered(module: Any) -> tuple[Any, ...]:
    """Return the own hooks of a module, in the order of registration."""
    return vars(module).get("_state_dict_hooks", _Hooks).registered


def register(module: Any, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    """Add `hook` after the module's other hooks of this kind."""
    own, one = vars(module).setdefault("_state_dict_hooks", _Hooks()), _Hook(kind, hook)
    own.registered = (*own.registered, one)
    return RemovableHandle(own, one)


def run(module: Any, kind: str, *args: Any) -> None:
    """Run the module's hooks of this kind, in the order of registration.

    Raises:
        ValueError: if a post-hook returns a value, as in torch. A pre-hook may return a value.
    """
    for hook in registered(module):
        if hook.kind == kind and hook.fn(module, *args) is not None and kind in (POST, LOAD_POST):
            raise ValueError(
                f"{type(module).__name__}: the {kind} hook {getattr(hook.fn, '__name__', hook.fn)} returned a value; "
                "expected None. Change the arguments of the hook in place instead."
            )


def has_extra_state(module: Any) -> bool:
    """Return whether the class defines `get_extra_state`."""
    return hasattr(module, "get_extra_state")


class PreparedStateDict(NamedTuple):
    """A state_dict after the load pre-hooks of the modules."""

    sd: "OrderedDict[str, Any]"
    optional: set[str]  # names that state_dicts of this version lack
    missing: list[str]  # as reported by the hooks
    unexpected: list[str]
    errors: list[str]


def before_load(module: Any, sd: Mapping[str, Any], strict: bool) -> PreparedStateDict:
    """Run the load pre-hooks on a copy of `sd`.

    Raises:
        ValueError: if the `_metadata` of `sd` is malformed.
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
                f"{type(module).__name__}.load_state_dict: sd._metadata is malformed; expected {{module name: "
                f"{{'version': number}}}}, got an entry {about!r:.80}. To discard _metadata, pass dict(sd)."
            )
    return metadata


def after_load(module: Any, found: IncompatibleKeys) -> None:
    """Run the load post-hooks, children first, as in torch."""
    for _, child in children(module, layers=True):
        after_load(child, found)
    run(module, LOAD_POST, found)
