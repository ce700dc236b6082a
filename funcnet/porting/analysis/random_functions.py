"""Finds three kinds of functions in a source: those that draw random numbers, those that run in constructors, and
those methods of modules that run layers.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import libcst as cst

from funcnet import functional
from funcnet.porting.analysis.layer_calls import layer_runners
from funcnet.porting.reading.classes import ancestors, class_at
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.sources import ModelSource, qualified
from funcnet.porting.reading.syntax import walk
from funcnet.porting.rule_engine.rule import Rule

__all__ = ["Functions", "changes", "draws", "fills"]

# Methods that are assumed to run only in constructors, unless a run of the model shows otherwise.
_STARTS = (
    "__init__",
    "reset_parameters",
    "init_weights",
    "_init_weights",
    "_reset_parameters",
    "__post_init__",
    "__new__",
)
_PLAIN_BASES = ("torch", "typing", "enum", "abc", "collections", "dataclasses", "numpy", "logging", "threading")
_HEADS = (cst.FunctionDef, cst.ClassDef)


@dataclasses.dataclass(frozen=True)
class _Function:
    source: ModelSource
    node: cst.FunctionDef
    owner: cst.ClassDef | None

    @property
    def name(self) -> str:
        owner = "" if self.owner is None else f"{self.owner.name.value}."
        return f"{self.source.module}.{owner}{self.node.name.value}"

    @property
    def is_free(self) -> bool:
        """Whether the function has no `self` from which it can draw keys.

        Functions at the top level of a file have no `self`, and neither have static and class methods of top-level
        classes.
        """
        decorators = {one.decorator.value for one in self.node.decorators if isinstance(one.decorator, cst.Name)}
        home: cst.CSTNode = self.node if self.owner is None else self.owner
        top = enclosing(home, _HEADS, self.source.parents.get) is None
        return top and (self.owner is None or bool(decorators & {"staticmethod", "classmethod"}))


class Functions:
    """Finds functions that draw random numbers or run in constructors, in all files that are ported together.

    Args:
        sources: the files.
        rules: {qualified name in torch: its rules}.
        ran: None if the model was not run in torch. Otherwise, `ran(file, definition, phase)` returns whether a
            function of the source ran in the phase "construct" or "forward".
    """

    def __init__(
        self,
        sources: Iterable[ModelSource],
        rules: Mapping[str, tuple[Rule, ...]],
        ran: Callable[[ModelSource, cst.CSTNode, str], bool] | None = None,
    ):
        self.rules, self.ran = rules, ran
        self.sources = tuple(sources)
        self._all: dict[cst.CSTNode, _Function] = {}
        for source in self.sources:
            for node in walk(source.tree):
                if isinstance(node, cst.FunctionDef):
                    owner = enclosing(node, _HEADS, source.parents.get)
                    self._all[node] = _Function(source, node, owner if isinstance(owner, cst.ClassDef) else None)
        self._members = {(one.owner, one.node.name.value): one for one in self._all.values()}
        self._modules = self._module_classes()
        self._methods: set[str] = set()
        self._early = self._find_early()
        self._drawers = self._find_drawers()
        self._runners = layer_runners(one.node for one in self._all.values() if self.is_module_method(one.node))

    # -------------------------------------------------------------------------------------------------- classes

    def _module_classes(self) -> set[str]:
        """Return the qualified names of the classes whose instances may be modules, including mixin classes."""
        found: set[str] = set()
        classes = {
            f"{s.module}.{node.name.value}": [self._base(s, arg.value) for arg in node.bases]
            for s in self.sources for node in walk(s.tree) if isinstance(node, cst.ClassDef)
        }  # fmt: skip
        size = -1
        while size != len(found):
            size = len(found)
            for name, bases in classes.items():
                if any(base.startswith("torch.nn.") or base in found or _is_foreign(base, classes) for base in bases):
                    found |= {name, *bases}
        return found

    def _base(self, source: ModelSource, node: cst.BaseExpression) -> str:
        name = qualified(source, node)
        if name is None and isinstance(node, cst.Name):
            name = f"{source.module}.{node.value}"
        return "torch.nn.Module" if name in ("einops.layers.torch.Rearrange",) else name or ""

    def is_module_method(self, node: cst.CSTNode) -> bool:
        """Return whether a function is a method of a module, and its first parameter is `self`."""
        found = self._all.get(node)
        if found is None or found.owner is None:
            return False
        params = found.node.params.params
        return (
            f"{found.source.module}.{found.owner.name.value}" in self._modules
            and bool(params)
            and (params[0].name.value == "self")
        )

    # -------------------------------------------------------------------------------------------------- drawing

    def _find_drawers(self) -> set[str]:
        """Return the names of functions without `self` that draw random numbers, directly or through calls."""
        free = [one for one in self._all.values() if one.is_free and not self.starts(one.source, one.node)]
        self._methods = {one.name for one in free if one.owner is not None}
        found: set[str] = set()
        size = -1
        while size != len(found):
            size = len(found)
            for one in free:
                if one.name not in found and any(self._draws(one.source, call, found) for call in _calls(one.node)):
                    found.add(one.name)
        return found

    def _draws(self, source: ModelSource, call: cst.Call, drawers: set[str]) -> bool:
        name = self.called(source, call)
        if name in drawers or (name.startswith("torch.") and draws(name, self.rules)):
            return not (name.startswith("torch.nn.functional.") and _never(call))
        if isinstance(call.func, cst.Attribute) and not name:
            method = call.func.attr.value
            rules = self.rules.get(f"Tensor.{method}") or self.rules.get(f"Tensor.{method.removesuffix('_')}", ())
            return any("rng" in rule.template for rule in rules)
        return False

    def called(self, source: ModelSource, call: cst.Call) -> str:
        """Return the qualified name of the called function, or "" if it is not known.

        A plain name that is not imported is assumed to be a function of the file.
        """
        found = qualified(source, call.func)
        if found is None and isinstance(call.func, cst.Name):
            return f"{source.module}.{call.func.value}"
        return found or self._method(source, call.func)

    def _method(self, source: ModelSource, func: cst.BaseExpression) -> str:
        """Return the qualified name of the static or class method to which `self.f`, `cls.f` or `Net.f` refers, or ""
        for any other expression.

        `self.f` is looked up in the class that contains it, and in its bases. If none of these classes has a method
        `f`, as in a mixin, the name of any method `f` of the file is returned.
        """
        if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name):
            return ""
        holder, name = func.value.value, func.attr.value
        if holder in ("self", "cls"):
            owner = enclosing(func, (cst.ClassDef,), source.parents.get)
            bases = ancestors(source, owner) if isinstance(owner, cst.ClassDef) else []
            homes = [home for home in (owner, *map(class_at, bases)) if isinstance(home, cst.ClassDef)]
            own = next((self._members[home, name] for home in homes if (home, name) in self._members), None)
            if own is not None:
                return own.name if own.name in self._methods else ""
            found = sorted(
                one for one in self._methods if one.startswith(f"{source.module}.") and one.endswith(f".{name}")
            )
            return found[0] if found else ""
        whole = f"{source.module}.{holder}.{name}"
        return whole if whole in self._methods else ""

    def is_drawer(self, node: cst.CSTNode) -> bool:
        """Return whether a function without `self` draws random numbers, so that it gets the keyword `make_rng`."""
        found = self._all.get(node)
        return found is not None and found.is_free and found.name in self._drawers

    def is_drawer_call(self, source: ModelSource, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and self.called(source, node) in self._drawers

    # --------------------------------------------------------------------------------------------- constructors

    def _find_early(self) -> set[cst.CSTNode]:
        """Return the functions that only constructors call, directly or indirectly, as far as the source shows."""
        callers: dict[str, set[str]] = {}
        for one in self._all.values():
            for call in _calls(one.node):
                name = call.func.attr.value if isinstance(call.func, cst.Attribute) else getattr(call.func, "value", "")
                if isinstance(name, str):
                    callers.setdefault(name, set()).add(one.node.name.value)
        filling = [one.node.name.value for one in self._all.values() if one.owner is None and fills(one.node)]
        early = {*_STARTS, *filling}
        size = -1
        while size != len(early):
            size = len(early)
            early |= {name for name, found in callers.items() if found <= early and name != "forward"}
        return {node for node, one in self._all.items() if one.node.name.value in early}

    def starts(self, source: ModelSource, node: cst.CSTNode) -> bool:
        """Return whether a node runs only while a model is constructed, as all code outside of functions does."""
        function = (
            node if isinstance(node, cst.FunctionDef) else enclosing(node, (cst.FunctionDef,), source.parents.get)
        )
        if function is None:
            return True
        while function is not None:
            if self.ran is not None:
                if self.ran(source, function, "forward"):
                    return False
                if self.ran(source, function, "construct"):
                    return True
            if function in self._early:
                return True
            function = enclosing(function, (cst.FunctionDef,), source.parents.get)
        return False

    def in_forward(self, source: ModelSource, node: cst.CSTNode) -> bool:
        """Return whether a node of the syntax tree runs in `forward`. If the model was not run in torch, return whether
        the node may run there.
        """
        if self.ran is None:
            return not self.starts(source, node)
        function = enclosing(node, (cst.FunctionDef,), source.parents.get)
        while function is not None:
            if self.ran(source, function, "forward"):
                return True
            function = enclosing(function, (cst.FunctionDef,), source.parents.get)
        return False

    def runs_layers(self, name: str) -> bool:
        """Return whether a method of a module has this name, runs layers, and is called in constructors and elsewhere.

        If the model was not run, the method need not be called in a constructor.
        """
        found = [(self._all[one].source, one) for one in self._runners if one.name.value == name]
        early = [one for one in found if self.ran is None or self.ran(*one, "construct")]
        return any(not self.starts(*one) for one in early)


def _is_foreign(base: str, classes: Mapping[str, Any]) -> bool:
    """Return whether a base class is from a third package, such as timm, and may be a subclass of nn.Module."""
    return "." in base and base not in classes and base.partition(".")[0] not in _PLAIN_BASES


def _calls(node: cst.CSTNode) -> list[cst.Call]:
    return [one for one in walk(node) if isinstance(one, cst.Call)]


def _never(call: cst.Call) -> bool:
    """Return whether a call such as `F.dropout(x, training=False)` turns randomness off."""
    return any(
        arg.keyword is not None and arg.keyword.value == "training" and getattr(arg.value, "value", "") == "False"
        for arg in call.args
    )


def draws(qualified: str, rules: Mapping[str, tuple[Rule, ...]]) -> bool:
    """Return whether a function of torch draws random numbers."""
    name = qualified.removeprefix("torch.nn.functional.")
    if name != qualified and hasattr(functional, name):
        return "rng" in inspect.signature(getattr(functional, name)).parameters
    return any("rng" in one.template for one in rules.get(qualified, ()))


def fills(function: cst.FunctionDef) -> bool:
    """Return whether a function fills its first parameter with initial values, as those of `torch.nn.init` do.

    The name of such a function ends with an underscore, and the function turns gradients off or uses `torch.nn.init`.
    """
    if not changes(function.name.value) or not function.params.params:
        return False
    names = {one.attr.value if isinstance(one, cst.Attribute) else one.value
             for one in walk(function) if isinstance(one, cst.Attribute | cst.Name)}  # fmt: skip
    return bool(names & {"no_grad", "inference_mode", "init"})


def changes(name: str) -> bool:
    """Return whether a function of this name changes its first argument.

    By torch's convention, the name of such a function ends with an underscore: `fill_`.
    """
    return name.endswith("_") and not name.endswith("__")
