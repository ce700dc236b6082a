"""Searches a package for the parts that a class needs, for `slicing.py`.

First, the search keeps what is required: definitions to which kept code refers, and members of kept classes that kept
code calls. Then it looks at the other members of kept classes. A member is kept if it needs nothing from additional
files and does not load, save or train anything. Both steps are repeated until nothing changes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import libcst as cst

from funcnet.porting.reading.classes import KeptClass, ancestors, class_at, is_layer, serves_layers, target_of
from funcnet.porting.reading.global_names import GlobalBinding, bindings_of
from funcnet.porting.reading.name_uses import Reference, Uses, uses_of
from funcnet.porting.reading.parts_left_out import (
    ABSENT_METHODS,
    is_dropped_decorator,
    is_registration,
    is_telemetry,
    reason_for_class,
    reason_for_function,
    reason_for_method,
    reason_for_module,
    reason_for_value,
)
from funcnet.porting.reading.sources import ModelSource, Target, qualified
from funcnet.porting.reading.syntax import dotted, is_command_line, root_of, walk
from funcnet.porting.reading.weight_tables import stays

__all__ = ["Keeper", "is_import", "is_typing"]

_CALLED_BY_TORCH = frozenset({"forward", "backward", "setup_context", "reset_parameters"})


class Keeper:
    """A search for the parts that a class needs. `keep` adds required parts, and `finish` decides the rest.

    Attributes:
        statements: {file: kept statements of its top level}.
        classes: {definition: kept class}.
        removed: nodes that are left out although the statements around them are kept.
        missing: (reference, reason) for each reference of kept code to a definition that a port never keeps.
        aliases: parts of import statements whose names kept code uses.
        names: {file: names of its kept definitions}.
        modules: files to which kept code refers as a whole, as in `getattr(layers, name)`.
    """

    def __init__(self) -> None:
        self.statements: dict[ModelSource, set[cst.CSTNode]] = {}
        self.classes: dict[cst.CSTNode, KeptClass] = {}
        self.removed: set[cst.CSTNode] = set()
        self.missing: list[tuple[Reference, str]] = []
        self.aliases: set[cst.CSTNode] = set()
        self.names: dict[ModelSource, set[str]] = {}
        self.modules: set[ModelSource] = set()
        self._attributes: set[str] = set()  # attributes that kept code reads from objects of unknown class
        self._uses: dict[cst.CSTNode, Uses] = {}
        self._reasons: dict[tuple[ModelSource, str, bool], str | None] = {}
        self._queue: list[tuple[ModelSource, cst.CSTNode, KeptClass | None]] = []

    # ----------------------------------------------------------------------------------------------- what is required

    def keep(self, source: ModelSource, name: str) -> None:
        """Keep a definition of a file, and everything to which its code refers."""
        self._keep_name(source, name)
        self._drain()

    def _keep_name(self, source: ModelSource, name: str) -> None:
        names = self.names.setdefault(source, set())
        if name in names:
            return
        names.add(name)
        for binding in source.bindings.get(name, ()):
            self._keep_statement(source, binding.statement)
            if binding.alias is not None and isinstance(binding.node, cst.Import | cst.ImportFrom):
                self._follow(Reference(source, binding.alias, name, _imported(source, binding)))

    def _keep_statement(self, source: ModelSource, statement: cst.CSTNode) -> None:
        kept = self.statements.setdefault(source, set())
        if statement in kept:
            return
        kept.add(statement)
        if isinstance(statement, cst.ClassDef):
            self._open_class(source, statement)
        elif not is_import(statement) and not is_typing(statement):
            self._queue.append((source, statement, None))

    def _open_class(self, source: ModelSource, node: cst.ClassDef) -> None:
        of = self.classes[node] = KeptClass(source, node, layer=is_layer(source, node.name.value))
        for base in node.bases:
            target = target_of(source, base.value, aliases=True)
            found = class_at(target) if target is not None else None
            if found is not None and target is not None and target.source is not None:
                self._keep_name(target.source, target.name)
                base_class = self.classes.get(found)
                if base_class is not None and not base_class.is_of(of):  # a fallback class may name itself as its base
                    of.bases.append(base_class)
        for part in (*node.bases, *node.keywords, *node.decorators):
            self._queue.append((source, part, of))
        for member in node.body.body:
            names = tuple(dict.fromkeys(one.name for one in bindings_of(member)))
            if isinstance(member, cst.FunctionDef) or self._is_foreign_function(source, member):
                of.open[member] = names
            else:
                self._keep_member(of, member)

    def _is_foreign_function(self, source: ModelSource, member: cst.CSTNode) -> bool:
        """Return whether a class attribute is a function or the like of another file: `decode = decode_function`."""
        small = member.body[0] if isinstance(member, cst.SimpleStatementLine) else None
        target = target_of(source, small.value) if isinstance(small, cst.Assign) else None
        return target is not None and target.source not in (None, source) and class_at(target) is None

    def _keep_member(self, of: KeptClass, member: cst.CSTNode) -> None:
        of.open.pop(member, None)
        of.kept.add(member)
        self._queue.append((of.source, member, of))

    def _drain(self) -> None:
        while self._queue:
            source, node, of = self._queue.pop(0)
            uses = uses_of(source, node, functools.partial(self._skip, source))
            for reference in uses.references:
                self._follow(reference, node)
            self._attributes |= uses.attributes
            if of is not None:
                of.called |= uses.own
            else:
                self._attributes |= uses.own

    def _skip(self, source: ModelSource, node: cst.CSTNode) -> bool:
        """Return whether a node is a decorator or call that a port does not need, and if so, mark it as removed."""
        if isinstance(node, cst.Decorator):
            called = node.decorator.func if isinstance(node.decorator, cst.Call) else node.decorator
            chain = dotted(called)
            unwanted = chain is not None and is_dropped_decorator(qualified(source, called) or ".".join(chain))
        elif isinstance(node, cst.SimpleStatementLine | cst.If):
            unwanted = self._is_telemetry(source, node)
        else:
            return False
        if unwanted:
            self.removed.add(node)
        return unwanted

    def _is_telemetry(self, source: ModelSource, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.If):
            inside = node.body.body
            return node.orelse is None and bool(inside) and all(self._is_telemetry(source, one) for one in inside)
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
        if not (isinstance(small, cst.Expr) and isinstance(small.value, cst.Call)):
            return False
        target = target_of(source, small.value.func)
        if target is None or target.source is None:
            return target is not None and is_telemetry(Uses([Reference(source, node, "", target)]))
        functions = [one.node for one in target.source.bindings.get(target.name, ())]
        return any(isinstance(one, cst.FunctionDef) and is_telemetry(uses_of(target.source, one)) for one in functions)

    def _follow(self, reference: Reference, node: cst.CSTNode | None = None) -> None:
        source, target = reference.source, reference.target
        known = source.bindings.get(reference.name, ())
        inside, _, attribute = target.name.partition(".")
        if target.source is not None:
            if reference.lazy or (known and all(one.typing_only for one in known)):
                return  # never evaluated, so no other file is needed for it
            kept = not inside or inside in self.names.get(target.source, ())
            reason = None if kept else self.reason(target.source, inside, strict=False)
            if reason is not None and not (node is not None and stays(reference, node, self.reason)):
                self.missing.append((reference, reason))
                return
        for binding, alias in _read(known, reference):
            self.aliases.add(alias)
            self._keep_statement(source, binding.statement)
        if not known and reference.name:
            self._keep_stars(source, reference)
        if target.source is None:
            if target.name == "builtins.globals":  # `globals()[name]` may be any definition of the file
                defined = [name for name, found in source.bindings.items() if all(one.alias is None for one in found)]
                for name in defined:
                    if not name.startswith("__") and self.reason(source, name, strict=False) is None:
                        self._keep_name(source, name)
            return
        if not inside:
            self.modules.add(target.source)
            self.statements.setdefault(target.source, set())
        for name in [inside] if inside else list(target.source.bindings):
            if inside or self.reason(target.source, name, strict=False) is None:
                self._keep_name(target.source, name)
        found = class_at(Target(target.source, inside))
        if attribute and found in self.classes:
            self.classes[found].called.add(attribute.partition(".")[0])
        self._attributes |= set(attribute.split("."))

    def _keep_stars(self, source: ModelSource, reference: Reference) -> None:
        for node in source.stars:
            module = source.package.source(source.package.imported_module(source, node))
            if (
                (module is None)
                if reference.target.source is None
                else (module is not None and source.package.follow(module, reference.name) is not None)
            ):
                self._keep_statement(source, next(one for one in source.tree.body if node in walk(one)))

    def _uses_of(self, source: ModelSource, node: cst.CSTNode) -> Uses:
        if node not in self._uses:
            self._uses[node] = uses_of(source, node)
        return self._uses[node]

    def reason(self, source: ModelSource, name: str, strict: bool = True) -> str | None:
        """Return why a port never keeps a definition, or None if it may be kept.

        Args:
            source: the file of the definition.
            name: the name of the definition.
            strict: whether to refuse a function that makes a layer and then loads weights into it. This is False for
                the references of kept code, because kept code may need the layer.
        """
        key = (source, name, strict)
        if key not in self._reasons:
            self._reasons[key] = None  # for definitions that refer to themselves
            self._reasons[key] = self._find_reason(source, name, strict)
        return self._reasons[key]

    def _find_reason(self, source: ModelSource, name: str, strict: bool) -> str | None:
        for binding in source.bindings.get(name, ()):
            if isinstance(binding.node, cst.FunctionDef):
                uses = self._uses_of(source, binding.node)
                made = (one.target for one in uses.references if one.target.source is not None and not one.lazy)
                makes_layer = not strict and any(is_layer(one.source, one.name) for one in made if one.source)
                reason = None if makes_layer else reason_for_function(name, uses)
            elif isinstance(binding.node, cst.ClassDef):
                reason = reason_for_class(base.full_name for base in ancestors(source, binding.node))
            else:
                reason = reason_for_value(binding.value)
            if reason is not None:
                return reason
        return None

    # ------------------------------------------------------------------------------------------------ what is optional

    def finish(self, root: str) -> None:
        """Decide which of the methods that no kept code calls are kept.

        Args:
            root: the name of the requested class, for the texts of the reasons.
        """
        while self._called_members() or self._free_members() or self._effects():
            self._drain()
        for of in self.classes.values():
            for member, names in of.open.items():
                self.removed.add(member)
                for name in names:
                    of.dropped[name] = self._objection(of, member, set()) or f"{root} does not need it"

    def _called_members(self) -> bool:
        """Keep members that kept code calls. A member that loads weights or trains must be called on `self`."""
        found = False
        for of in list(self.classes.values()):
            related = [one for one in self.classes.values() if one.is_of(of) or of.is_of(one)]
            called = set().union(*(one.called for one in related))
            for member, names in list(of.open.items()):
                special = any(name.startswith("__") and name not in ABSENT_METHODS for name in names)
                must = special or not _CALLED_BY_TORCH.isdisjoint(names) or not called.isdisjoint(names)
                if not must and isinstance(member, cst.FunctionDef) and not self._attributes.isdisjoint(names):
                    must = reason_for_method(names[0], self._uses_of(of.source, member)) is None
                if must and not (names[0] in ABSENT_METHODS and serves_layers(of, self.classes.values())):
                    self._keep_member(of, member)
                    found = True
        return found

    def _free_members(self) -> bool:
        """Keep the undecided methods of classes for which `_objection` finds no reason to leave them out."""
        found = False
        for of in list(self.classes.values()):
            for member in list(of.open):
                if self._objection(of, member, set()) is None:
                    self._keep_member(of, member)
                    self._drain()
                    found = True
        return found

    def _objection(self, of: KeptClass, member: cst.CSTNode, seen: set) -> str | None:
        """Return why a member that no kept code calls is left out, or None if it may be kept."""
        if member in seen or member in of.kept:
            return None
        seen.add(member)
        name = of.open[member][0] if member in of.open else ""
        if name in ABSENT_METHODS and serves_layers(of, self.classes.values()):
            return "funcnet never calls it"
        uses = self._uses_of(of.source, member)
        reason = reason_for_method(name, uses) or self._reason_of_uses(of.source, uses, seen)
        others = [(one, names) for one, names in of.open.items() if not uses.own.isdisjoint(names)]
        for one, names in others if reason is None else ():
            objection = self._objection(of, one, seen)
            if objection is not None:
                return f"needs {names[0]}, which {_verb(objection)}"
        return reason

    def _reason_of_uses(self, source: ModelSource, uses: Uses, seen: set) -> str | None:
        for reference in uses.references:
            target = reference.target
            name = target.name.partition(".")[0]
            if target.source is None:
                known = {one.alias for one in reference.source.bindings.get(reference.name, ())}
                reason = None if known & self.aliases else reason_for_module(target.name)
            elif reference.lazy or name in self.names.get(target.source, ()) or (target.source, name) in seen:
                continue
            elif target.source is not source and not self.statements.get(target.source):
                reason = f"needs {name or target.source.path.stem} from another file, {target.source.path.name}"
            elif self.reason(target.source, name) is not None:
                reason = f"needs {name}, which {_verb(self.reason(target.source, name) or '')}"
            else:
                seen.add((target.source, name))
                nodes = [one.statement for one in target.source.bindings.get(name, ())]
                reasons = (
                    self._reason_of_uses(target.source, self._uses_of(target.source, node), seen) for node in nodes
                )
                reason = next((one for one in reasons if one is not None), None)
            if reason is not None:
                return reason
        return None

    def _effects(self) -> bool:
        """Keep statements that change a kept definition: `Args.__new__.__defaults__ = …`, `TABLE["a"] = …`."""
        found = False
        for source in list(self.statements):
            for statement in source.tree.body:
                if statement in self.statements[source] or is_command_line(statement):
                    continue
                touched = [one for one in _touched(statement) if not is_registration(one)]
                targets = [target_of(source, root_of(one)) for one in touched]
                if touched and self._needs_unwanted(source, statement):
                    continue  # `URLS["large"] = url_of("large")`
                if any(one and one.source and one.name in self.names.get(one.source, ()) for one in targets):
                    self._keep_statement(source, statement)
                    found = True
        return found

    def _needs_unwanted(self, source: ModelSource, statement: cst.CSTNode) -> bool:
        targets = [one.target for one in self._uses_of(source, statement).references if not one.lazy]
        names = [(one.source, one.name.partition(".")[0]) for one in targets if one.source is not None and one.name]
        names = [(home, name) for home, name in names if name not in self.names.get(home, ())]
        return any(self.reason(home, name, strict=False) is not None for home, name in names)


def _read(known: Sequence[GlobalBinding], reference: Reference) -> list[tuple[GlobalBinding, cst.ImportAlias]]:
    """Return the imports that an expression needs: `torch.cat` needs `import torch`, but not `import torch.fx`."""
    imports = [(one, one.alias) for one in known if one.alias is not None]
    chain = dotted(reference.node) or ()
    exact = []
    for one, alias in imports:
        path = dotted(alias.name) or () if isinstance(one.node, cst.Import) and alias.asname is None else ()
        exact += [(one, alias)] if chain[: len(path)] == path else []
    return exact or imports


def _imported(source: ModelSource, binding: GlobalBinding) -> Target:
    assert binding.alias is not None and isinstance(binding.node, cst.Import | cst.ImportFrom)
    return source.package.imported(source, binding.node, binding.alias)


def is_import(statement: cst.CSTNode) -> bool:
    """Return whether a line of a file contains only imports."""
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return bool(small) and all(isinstance(one, cst.Import | cst.ImportFrom) for one in small)


def is_typing(statement: cst.CSTNode) -> bool:
    """Return whether a statement is `if TYPE_CHECKING:` without an `else`."""
    if not isinstance(statement, cst.If) or statement.orelse is not None:
        return False
    return (dotted(statement.test) or ("",))[-1] == "TYPE_CHECKING"


def _touched(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the targets `a.b` and `a[0]` and the called functions of a statement, which may change objects."""
    found: list[cst.CSTNode] = []
    if isinstance(node, cst.ClassDef):
        return found
    if isinstance(node, cst.FunctionDef):  # `@Norm.factory("instance")`
        called = (one.decorator.func for one in node.decorators if isinstance(one.decorator, cst.Call))
        return [one for one in called if isinstance(one, cst.Attribute)]
    if isinstance(node, cst.Assign):
        found += [one.target for one in node.targets]
    elif isinstance(node, cst.AugAssign | cst.AnnAssign | cst.Del):
        found.append(node.target)
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        is_setattr = dotted(node.value.func) in (("setattr",), ("delattr",)) and node.value.args
        found.append(node.value.args[0].value if is_setattr else node.value.func)
    else:
        return [one for child in node.children for one in _touched(child)]
    return [one for one in found if isinstance(one, cst.Attribute | cst.Subscript) or isinstance(node, cst.Expr)]


def _verb(reason: str) -> str:
    """Return a reason as the end of a sentence: "loads weights", "is a table of weights"."""
    return f"is {reason}" if reason.startswith(("a ", "an ")) else reason
