"""Hooks, extra state and versions, with which a module controls its part of a state_dict. The rules are torch's.

State_dict hooks belong to the module, because constructors written for torch register them. The hooks run outside
`jit`, when a state_dict is made or read. A hook changes the dict and the lists that it receives in place. As in torch,
load hooks get a shallow copy of the state_dict, of which each module sees only its own part.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from funcnet.nn.core.module_tree import Node, children
from funcnet.nn.inspection.hooks import RemovableHandle

__all__ = [
    "EXTRA",
    "IncompatibleKeys",
    "LoadsStateDict",
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
    """The names that a state_dict lacks (missing) and the names that the net lacks (unexpected). Load post-hooks
    receive this object and may edit its lists.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


@dataclass(frozen=True, eq=False)
class _Hook:
    """One registered state_dict hook. Two hooks are never equal, even if they have the same function."""

    kind: str
    fn: Callable[..., Any]


class _Hooks:
    """The state_dict hooks of one module, in the order of registration."""

    registered: tuple[_Hook, ...] = ()


def registered(module: Node) -> tuple[Any, ...]:
    """Return the state_dict hooks of one module, in the order of registration."""
    return vars(module).get("_state_dict_hooks", _Hooks).registered


def register(module: Node, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    """Register a state_dict hook, to run after the module's other hooks of the same kind."""
    own, one = vars(module).setdefault("_state_dict_hooks", _Hooks()), _Hook(kind, hook)
    own.registered = (*own.registered, one)
    return RemovableHandle(own, one)


def run(module: Any, kind: str, *args: object) -> None:
    """Run the state_dict hooks of one module that have the kind `kind`, in the order of registration.

    Raises:
        ValueError: if a post-hook returns a value, as in torch. A pre-hook may return a value, which is ignored.
    """
    for hook in registered(module):
        if hook.kind == kind and hook.fn(module, *args) is not None and kind in (POST, LOAD_POST):
            raise ValueError(
                f"{type(module).__name__}: the {kind} hook {getattr(hook.fn, '__name__', hook.fn)} returned a value; "
                "expected None. Change the arguments of the hook in place instead."
            )


def has_extra_state(module: Node) -> bool:
    """Return whether the class of the module defines `get_extra_state`."""
    return hasattr(module, "get_extra_state")


class LoadsStateDict:
    """A base class of `Module` with the method that a class may override, as in torch, to change its part of a
    state_dict before this part is loaded.
    """

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Run the module's load pre-hooks. The arrays are read after all modules have changed the state_dict.

        Args:
            state_dict: the entries of the module and its submodules, which may be changed in place.
            prefix, local_metadata, strict: as in torch.
            missing_keys, unexpected_keys, error_msgs: lists to which names and messages may be added. Names that
                `state_dict` lacks are added to these lists only after the hooks have run.
        """
        run(self, LOAD_PRE, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


class PreparedStateDict(NamedTuple):
    """A state_dict after the modules' load pre-hooks have run."""

    sd: "OrderedDict[str, Any]"
    optional: set[str]  # names that state_dicts of this version lack
    missing: list[str]  # as reported by the hooks
    unexpected: list[str]
    errors: list[str]


def before_load(module: Node, sd: Mapping[str, Any], strict: bool) -> PreparedStateDict:
    """Run the load pre-hooks of a module and its submodules on a copy of the state_dict `sd`.

    Raises:
        ValueError: if the `_metadata` of `sd` is malformed.
    """
    metadata = _checked(module, getattr(sd, "_metadata", None) or {})
    optional: set[str] = set()
    missing: list[str] = []
    unexpected: list[str] = []
    errors: list[str] = []

    def visit(inner: Node, prefix: str, local: "OrderedDict[str, Any]") -> "OrderedDict[str, Any]":
        about = dict(metadata.get(prefix[:-1], {}))
        inner._load_from_state_dict(local, prefix, about, strict, missing, unexpected, errors)
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


def _checked(module: Node, metadata: Any) -> Mapping[str, Mapping[str, Any]]:
    abouts = list(metadata.values()) if isinstance(metadata, Mapping) else [metadata]
    for about in abouts:
        if not isinstance(about, Mapping) or not isinstance(about.get("version"), int | None):
            raise ValueError(
                f"{type(module).__name__}.load_state_dict: sd._metadata is malformed; expected {{module name: "
                f"{{'version': number}}}}, got an entry {about!r:.80}. To discard _metadata, pass dict(sd)."
            )
    return metadata


def after_load(module: Node, found: IncompatibleKeys) -> None:
    """Run the load post-hooks of a module and its submodules, children first, as in torch."""
    for _, child in children(module, layers=True):
        after_load(child, found)
    run(module, LOAD_POST, found)
