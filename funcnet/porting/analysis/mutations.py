"""Finds the functions of the source that change their arguments in place, and the callers that read these arguments
after the call.

`Mutations` follows each function that may change something in place. It then follows the callers of the functions that
change a parameter, and so on. In the ported code, a function also returns its changed parameters if a caller reads
them after the call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import libcst as cst

from funcnet.porting.analysis.aliasing import follow
from funcnet.porting.analysis.aliasing_findings import Flow, Known
from funcnet.porting.analysis.view_expressions import inplace_flag
from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.reading.classes import class_at, target_of
from funcnet.porting.reading.definitions import Definitions, enclosing
from funcnet.porting.reading.expressions import code
from funcnet.porting.reading.sources import ModelSource, Target, qualified
from funcnet.porting.reading.syntax import dotted

__all__ = ["Changer", "Mutations"]

_ROUNDS = 6
_HEADS = (cst.FunctionDef, cst.ClassDef)
_CALLED_BY_TORCH = ("forward", "backward", "setup_context", "jvp", "vjp", "extra_repr", "reset_parameters")
_COMMON = frozenset(name for kind in (list, dict, set, str, tuple) for name in dir(kind))


@dataclasses.dataclass(eq=False)
class Changer:
    """A function of the source, and which of its parameters it changes in place.

    Attributes:
        source, node, owner: the file, the definition and the class of the function. The class is None for a function
            that is not a method.
        changed: {parameter that the function changes in place: True if the change is certain, False if it is possible}.
        needed: whether the ported function has to return its changed parameters. This is so if a caller reads a changed
            argument after the call, or returns it to its own callers.
        refusal: why the function cannot return its changed parameters, or "" if it can.
        flow: the changes in place and reads that `aliasing.follow` found in the function.
    """

    source: ModelSource
    node: cst.FunctionDef
    owner: cst.ClassDef | None
    changed: dict[str, bool] = dataclasses.field(default_factory=dict)
    needed: bool = False
    refusal: str = ""
    flow: Flow = dataclasses.field(default_factory=Flow)

    @property
    def name(self) -> str:
        return self.node.name.value

    @property
    def params(self) -> list[str]:
        """The names of the positional parameters, without `self` or `cls`."""
        params = self.node.params
        names = [one.name.value for one in (*params.posonly_params, *params.params)]
        static = any(code(one.decorator).endswith("staticmethod") for one in self.node.decorators)
        return names[1:] if self.owner is not None and not static else names

    @property
    def given_back(self) -> tuple[str, ...]:
        """The names of the changed parameters that the ported function returns after its ordinary return value."""
        every = [*self.params, *(one.name.value for one in self.node.params.kwonly_params)]
        return tuple(name for name in every if name in self.changed) if self.needed and not self.refusal else ()

    @property
    def has_value(self) -> bool:
        """Whether the torch function has a `return` of a value other than None."""
        returns = [one for one in _own(self.node) if isinstance(one, cst.Return) and one.value is not None]
        return any(code(one.value) != "None" for one in returns if one.value is not None)


class Mutations:
    """Finds functions that change their arguments in place, in all files that are ported together.

    Args:
        sources: {file: the nodes of its syntax tree that the port keeps}.
        fact: function that returns what is known about an expression of a file.
        methods: names of the tensor methods that have rules.
    """

    def __init__(
        self,
        sources: Mapping[ModelSource, Collection[cst.CSTNode]],
        fact: Callable[[ModelSource, cst.CSTNode], Fact],
        methods: Collection[str],
    ):
        self.sources, self.fact, self.methods = sources, fact, methods
        self.functions: dict[cst.CSTNode, Changer] = {}
        self.calls: dict[cst.CSTNode, Changer] = {}  # {call: the function of the source that it calls}
        self._definitions = {source: Definitions.of(source.tree, source.parents.get) for source in sources}
        for source, kept in sources.items():
            for node in kept:
                if isinstance(node, cst.FunctionDef):
                    owner = enclosing(node, _HEADS, source.parents.get)
                    owner = owner if isinstance(owner, cst.ClassDef) else None
                    self.functions[node] = Changer(source, node, owner, refusal=_refusal(node))
        self._callers = {one.node: self._called_by(one) for one in self.functions.values()}
        self._find()
        if any(one.changed for one in self.functions.values()):
            self._refuse_passed()
        self._need()

    # ------------------------------------------------------------------------------------------------------- calls

    def _called_by(self, one: Changer) -> list[tuple[cst.Call, Changer]]:
        """Return (call, called function) for each call in a function that calls a function of the source."""
        found = []
        for node in _own(one.node):
            callee = self.callee(one.source, node) if isinstance(node, cst.Call) else None
            if callee is not None and isinstance(node, cst.Call):
                found.append((node, callee))
                self.calls[node] = callee
        return found

    def callee(self, source: ModelSource, call: cst.Call) -> Changer | None:
        """Return the function of the source that a call calls, or None if the called function is not known.

        A method of an object other than `self` is found by its name, if only one class has a method of this name.
        """
        func = call.func
        found = self.function(source, func)
        if found is not None or not isinstance(func, cst.Attribute) or qualified(source, func) is not None:
            return found
        name = func.attr.value
        if name in self.methods or name in _COMMON or (dotted(func) or ("",))[0] in ("self", "cls"):
            return None
        named = [one for one in self.functions.values() if one.owner is not None and one.name == name]
        return named[0] if len(named) == 1 and not self.fact(source, func.value).is_tensor else None

    def function(self, source: ModelSource, node: cst.BaseExpression) -> Changer | None:
        """Return the function of the source to which `f`, `self.f`, `Net.f` or `layers.f` refers, or None."""
        if isinstance(node, cst.Name):
            for binding in self._definitions[source].of_name(node):
                if binding.how == "definition" and isinstance(binding.node, cst.FunctionDef):
                    return self.functions.get(binding.node)
            return self._defined(target_of(source, node))
        chain = dotted(node)
        if chain is None:
            return None
        if chain[0] not in ("self", "cls"):
            return self._defined(target_of(source, node))
        owner = enclosing(node, (cst.ClassDef,), source.parents.get)
        if owner is None or len(chain) != 2 or not self._is_only(chain[1]):
            return None
        method = self._definitions[source].method(owner, chain[1])
        return self.functions.get(method) if method is not None else None

    def _is_only(self, name: str) -> bool:
        return sum(one.owner is not None and one.name == name for one in self.functions.values()) == 1

    def _defined(self, target: Target | None) -> Changer | None:
        if target is None or target.source not in self.sources:
            return None
        assert target.source is not None
        outer, _, inner = target.name.partition(".")
        if inner:
            owner = class_at(Target(target.source, outer))
            method = self._definitions[target.source].method(owner, inner) if owner is not None else None
            return self.functions.get(method) if method is not None else None
        known = [one.node for one in target.source.bindings.get(outer, ())]
        return next((self.functions[one] for one in reversed(known) if one in self.functions), None)

    def arguments(self, call: cst.Call, names: Iterable[str]) -> dict[str, cst.BaseExpression]:
        """Return {parameter: argument} for the parameters in `names` for which a call passes an argument. The argument
        `*args` or `**kwargs` of a call and all later arguments are ignored.
        """
        callee = self.calls[call]
        found: dict[str, cst.BaseExpression] = {}
        params = callee.params
        for place, arg in enumerate(call.args):
            if arg.star:
                break
            if arg.keyword is not None:
                found[arg.keyword.value] = arg.value
            elif place < len(params):
                found[params[place]] = arg.value
        return {name: found[name] for name in names if name in found}

    def _changed(self, call: cst.Call) -> Sequence[cst.BaseExpression]:
        callee = self.calls.get(call)
        return list(self.arguments(call, callee.changed).values()) if callee is not None and callee.changed else []

    # --------------------------------------------------------------------------------------------------- summaries

    def known(self, source: ModelSource) -> Known:
        """Return the functions with which `aliasing.follow` looks up facts and names of one file."""
        names: dict[cst.CSTNode, str | None] = {}

        def name_of(node: cst.CSTNode) -> str | None:
            if node not in names:
                names[node] = qualified(source, node) if isinstance(node, cst.Name | cst.Attribute) else None
            return names[node]

        return Known(lambda node: self.fact(source, node), name_of, self._changed, lambda name: name in self.methods)

    def _follow(self, one: Changer) -> None:
        given_back = tuple(one.changed) if one.needed else ()
        one.flow = follow(one.node, self._known[one.source], given_back)

    def _find(self) -> None:
        self._known = {source: self.known(source) for source in self.sources}
        waiting = {one.node for one in self.functions.values() if _writes(one.node, self._known[one.source].qualified)}
        for _ in range(_ROUNDS):
            moved = set()
            for node in waiting:
                one = self.functions[node]
                self._follow(one)
                if one.flow.mutated.keys() - one.changed.keys():
                    moved.add(node)
                one.changed = dict(one.flow.mutated)
            waiting = {
                node for node, calls in self._callers.items() if any(callee.node in moved for _, callee in calls)
            }
            if not waiting:
                return

    def _refuse_passed(self) -> None:
        """Mark each function that is passed on as a value, so that the port does not add changed parameters to its
        result. Not all callers of such a function are known.
        """
        names = {one.name for one in self.functions.values() if one.changed}
        for source, kept in self.sources.items():
            for node in kept:
                last = node.attr if isinstance(node, cst.Attribute) else node
                if not isinstance(node, cst.Name | cst.Attribute) or last.value not in names:  # type: ignore[attr-defined]
                    continue
                above = source.parents.get(node)
                part = isinstance(above, cst.Attribute | cst.FunctionDef | cst.ImportAlias | cst.Arg) and (
                    node
                    in (getattr(above, "attr", None), getattr(above, "name", None), getattr(above, "keyword", None))
                )
                one = None if part else self.function(source, node)
                if one is not None and not (isinstance(above, cst.Call) and above.func is node):
                    one.refusal = (
                        one.refusal or f"{one.name} is also passed on as a value, so not all its calls are known."
                    )

    def _need(self) -> None:
        for _ in range(_ROUNDS):
            before = [one.needed for one in self.functions.values()]
            for one in self.functions.values():
                for call, callee in self._callers[one.node]:
                    if not callee.changed:
                        continue
                    missed = any(miss.change is call for miss in one.flow.misses)
                    through = one.needed and call in one.flow.changes and bool(one.changed)
                    callee.needed = callee.needed or missed or through
            for one in self.functions.values():
                if one.needed:
                    self._follow(one)
                    lost = one.flow.lost & one.changed.keys()
                    if lost and not one.refusal:
                        names = " and ".join(sorted(lost))
                        one.refusal = f"{one.name} changes {names} in place, and assigns another value to the name."
            if before == [one.needed for one in self.functions.values()]:
                return


def _refusal(node: cst.FunctionDef) -> str:
    name = node.name.value
    if name in _CALLED_BY_TORCH or name.startswith("__"):
        return f"{name} is called by a module or by torch, so it cannot return its changed arguments."
    if any(isinstance(one, cst.Yield) for one in _own(node)):
        return f"{name} is a generator, so it cannot return its changed arguments."
    known = ("staticmethod", "classmethod", "torch.no_grad()", "torch.jit.script", "torch.jit.export", "torch.compile")
    others = [code(one.decorator) for one in node.decorators if code(one.decorator) not in known]
    return f"{name} has the decorator {others[0]}, which may use its result." if others else ""


def _writes(node: cst.FunctionDef, qualified: Callable[[cst.CSTNode], str | None]) -> bool:
    """Return whether a function has a statement or a call that may change a value in place."""
    for one in _own(node):
        if isinstance(one, cst.AugAssign):
            return True
        if isinstance(one, cst.Assign) and any(isinstance(target.target, cst.Subscript) for target in one.targets):
            return True
        if isinstance(one, cst.Call):
            name = qualified(one.func) or code(one.func)
            if name.endswith("_") or inplace_flag(one, name) is not None:
                return True
    return False


def _own(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """Return the nodes inside a function, but not those inside its inner functions, classes and lambdas."""
    stack, found = list(reversed(node.children)), []
    while stack:
        one = stack.pop()
        found.append(one)
        if not isinstance(one, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            stack.extend(reversed(one.children))
    return found
