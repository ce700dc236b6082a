"""Plans how the port expresses changes in place through views. `transforms/views.py` carries out the plan.

The base of a view is the name of which it is a view. A plan has one of two forms, and the first one is preferred:

- *Write back.* After `row = x[0]; row += 1`, the port writes `x = x.at[0].set(row)`. Each view must be made in one step
  from a name that is not assigned again before the change, and no other view may be read later.
- *Positions.* The name of the view contains the positions of its elements in the base (`tl.positions`). The view is
  read with `tl.read(x, row)` and changed with `x = tl.write(x, row, value)`. The name must always be a view of the same
  base.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

import libcst as cst

from funcnet.porting.analysis.aliasing_findings import Flow, Known
from funcnet.porting.analysis.hoisting import free_name, line_before
from funcnet.porting.analysis.mutations import Changer, Mutations
from funcnet.porting.analysis.view_expressions import is_plain, key_of, looks_only, step, targets_of, written_part
from funcnet.porting.reading.sources import ModelSource
from funcnet.porting.reading.syntax import walk

__all__ = ["ViewPlan", "plan_of"]

_ADVICE = "Assign the changed array to each name that is read later."


@dataclasses.dataclass
class ViewPlan:
    """A plan of what the port writes for changes in place through views. Names and attributes of self are given as
    texts.

    Attributes:
        starts: name nodes that the port replaces with `tl.positions(name)`.
        reads: {view: its base}, written as `tl.read(base, view)`.
        bases: {view: its base} for views that are replaced by their base, because only the dtype or device is read.
        writes: {change of a view: the base of the view}.
        after: {line: [(base, subscript or None, name)]}. After the line, the port writes the name back to the base.
        calls: {call of a function whose port returns its changed parameters: the names that get them}. The name is "_"
            if the argument of the call is not a name.
        hoisted: {line: (call that moves from this line to a statement before it, name for the value of the call)}.
        valued: calls, return statements and definitions of functions that return a value besides changed parameters.
        returns: {`return` statement, or function without one at its end: names of the changed parameters to return}.
        blocked: {change: (why it cannot be written, what to write instead)}.
    """

    starts: set[cst.CSTNode] = dataclasses.field(default_factory=set)
    reads: dict[cst.CSTNode, str] = dataclasses.field(default_factory=dict)
    bases: dict[cst.CSTNode, str] = dataclasses.field(default_factory=dict)
    writes: dict[cst.CSTNode, str] = dataclasses.field(default_factory=dict)
    after: dict[cst.CSTNode, list[tuple[str, cst.Subscript | None, str]]] = dataclasses.field(default_factory=dict)
    calls: dict[cst.CSTNode, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    hoisted: dict[cst.CSTNode, tuple[cst.Call, str]] = dataclasses.field(default_factory=dict)
    valued: set[cst.CSTNode] = dataclasses.field(default_factory=set)
    returns: dict[cst.CSTNode, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    blocked: dict[cst.CSTNode, tuple[str, str]] = dataclasses.field(default_factory=dict)


def plan_of(source: ModelSource, mutations: Mutations) -> ViewPlan:
    """Return what to write for the changes in place through views in one file.

    Args:
        source: the file.
        mutations: the functions of all files that are ported together.
    """
    plan = ViewPlan()
    for one in mutations.functions.values():
        if one.source is source:
            _Planner(one, mutations, plan).run()
    return plan


class _Planner:
    def __init__(self, function: Changer, mutations: Mutations, plan: ViewPlan):
        self.function, self.mutations, self.plan = function, mutations, plan
        self.flow: Flow = function.flow
        self.known: Known = mutations.known(function.source)
        self.parent: Callable[[cst.CSTNode], cst.CSTNode | None] = function.source.parents.get

    def run(self) -> None:
        self._give_back()
        self._calls()
        wanted = self._wanted()
        for family in self._families(wanted):
            mine = {change: readers for change, readers in wanted.items() if self._keys(change, readers) & family}
            back = {change: self._back(change, readers) for change, readers in mine.items()}
            if all(one is not None for one in back.values()):
                for change, steps in back.items():
                    self.plan.after.setdefault(self._line(change), []).extend(steps or ())  # type: ignore[arg-type]
            elif not self._positions(family):
                for change, readers in mine.items():
                    self._block(change, readers)
        self._nameless()

    def _keys(self, change: cst.CSTNode, readers: Collection[str]) -> set[str]:
        return {*readers, *self.flow.changes.get(change, ())}

    def _block(self, change: cst.CSTNode, readers: Collection[str]) -> None:
        shared = " and ".join(sorted(readers))
        self.plan.blocked[change] = (
            f"This change in place also changes {shared}, and {shared} is read later (aliasing).",
            _ADVICE,
        )

    # ------------------------------------------------------------------------------------- functions that give back

    def _give_back(self) -> None:
        names = self.function.given_back
        if not names:
            return
        returns = [node for node in _own(self.function.node) if isinstance(node, cst.Return)]
        for node in (self.function.node, *returns):
            self.plan.returns[node] = names
            if self.function.has_value:
                self.plan.valued.add(node)

    def _calls(self) -> None:
        for call in [node for node in _own(self.function.node) if isinstance(node, cst.Call)]:
            callee = self.mutations.calls.get(call)
            if callee is None or not callee.changed:
                continue
            if not callee.given_back:
                missed = {miss.reader for miss in self.flow.misses if miss.change is call}
                if missed and callee.refusal:
                    shared = " and ".join(sorted(missed))
                    why = (
                        f"This call changes {shared} in place, and {shared} is read later (aliasing). {callee.refusal}"
                    )
                    self.plan.blocked[call] = (why, _ADVICE)
                continue
            names = self._assigned(call, callee)
            if names is None:
                why = f"{callee.name} changes its arguments. This call is part of an expression, or passes a view."
                write = "Write the call as a separate statement, with names as arguments."
                self.plan.blocked[call] = (why, write)
            else:
                self.plan.calls[call] = names
                if callee.has_value:
                    self.plan.valued.add(call)

    def _assigned(self, call: cst.Call, callee: Changer) -> tuple[str, ...] | None:
        """Return the names to which the port assigns the changed parameters that a call returns. Return None if the
        port cannot write the call as such an assignment.
        """
        given = self.mutations.arguments(call, callee.given_back)
        names = []
        for param in callee.given_back:
            node = given.get(param)
            key = key_of(node, self.known.qualified)
            view = node is not None and step(node, self.known.fact, self.known.qualified) is not None
            if view or any(arg.star for arg in call.args):
                return None
            names.append(key if key is not None else "_")
        return tuple(names) if self._is_statement(call, callee) or self._hoist(call, callee, names) else None

    def _is_statement(self, call: cst.Call, callee: Changer) -> bool:
        parent = self.parent(call)
        plain = isinstance(parent, cst.Expr) or (
            isinstance(parent, cst.Assign) and len(parent.targets) == 1 and callee.has_value
        )
        return plain and isinstance(self.parent(parent), cst.SimpleStatementLine)  # type: ignore[arg-type]

    def _hoist(self, call: cst.Call, callee: Changer, names: Collection[str]) -> bool:
        """Plan to move a call into a separate statement before its line. Return False if this is not possible."""
        known = self.known
        line = line_before(call, names, self.parent, known.fact, known.qualified) if callee.has_value else None
        if line is None or line in self.plan.hoisted:
            return False
        self.plan.hoisted[line] = (call, free_name(self.function.node))
        return True

    # --------------------------------------------------------------------------------------------------- first form

    def _wanted(self) -> dict[cst.CSTNode, set[str]]:
        """Return a dict from each change in place to the names that would miss the change in the port. Block each
        change for which this is not certain.

        Blocked changes are not in the result. Neither are names to which the port assigns the changed value anyway.
        """
        found: dict[cst.CSTNode, set[str]] = {}
        unsure: set[cst.CSTNode] = set()
        for miss in self.flow.misses:
            if miss.reader in self.plan.calls.get(miss.change, ()) or miss.change in self.plan.blocked:
                continue
            found.setdefault(miss.change, set()).add(miss.reader)
            if not miss.sure:
                unsure.add(miss.change)
        for change in unsure:
            self._block(change, found[change])
        return {change: readers for change, readers in found.items() if change not in unsure}

    def _families(self, wanted: dict[cst.CSTNode, set[str]]) -> list[set[str]]:
        found: list[set[str]] = []
        for change, readers in wanted.items():
            keys = self._keys(change, readers)
            touching = [one for one in found if one & keys]
            found = [one for one in found if not one & keys] + [keys.union(*touching)]
        return found

    def _line(self, change: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """Return the line that has a change in place as its only statement, or None if there is no such line."""
        parent = self.parent(change)
        if isinstance(parent, cst.Expr | cst.Assign) and isinstance(change, cst.Call):
            parent = self.parent(parent)
        return parent if isinstance(parent, cst.SimpleStatementLine) and len(parent.body) == 1 else None

    def _back(
        self, change: cst.CSTNode, readers: Collection[str]
    ) -> list[tuple[str, cst.Subscript | None, str]] | None:
        """Return the steps (base, subscript or None, name) in which the port writes a changed view back to its base.
        Return None if these steps do not update every other name that torch changes too.
        """
        if self._line(change) is None or len(self.flow.changes.get(change, ())) != 1:
            return None
        steps = list(self.flow.steps.get(change, ()))
        while steps and steps[-1][0] not in readers:
            steps.pop()
        assignment = self.parent(change)
        valued = isinstance(change, cst.Call) and change not in self.plan.calls
        if steps and valued and isinstance(assignment, cst.Assign):
            value = key_of(assignment.targets[0].target, self.known.qualified)  # `y = row.add_(1)`
            if value is None or len(assignment.targets) != 1:
                return None
            steps[0] = (*steps[0][:2], value)
        return steps if {base for base, _, _ in steps} >= set(readers) else None

    # -------------------------------------------------------------------------------------------------- second form

    def _positions(self, family: set[str]) -> bool:
        """Plan `tl.positions` for the views among the given names, or return False if that is not possible."""
        base_of = self._bases(family)
        if base_of is None:
            return False
        changes = {change: keys & base_of.keys() for change, keys in self.flow.changes.items() if keys & base_of.keys()}
        if any(not self._is_own_statement(change) for change in changes):
            return False
        for change, keys in changes.items():
            self.plan.writes[change] = base_of[next(iter(keys))]
        bound = {target for key, _, target in targets_of(self.function.node) if key in base_of}
        for node in _own(self.function.node):
            key = key_of(node, self.known.qualified)
            if key is not None and node in self.flow.uses and node not in bound:
                self._place(node, key, base_of)
        return True

    def _nameless(self) -> None:
        """Plan `tl.positions` for changes through views that have no name: `x.view(-1)[0] = 1`."""
        known = self.known
        for change, keys in self.flow.changes.items():
            done = change in self.plan.writes or change in self.plan.blocked or change in self.mutations.calls
            if done or len(keys) != 1 or not self._is_own_statement(change):
                continue
            (base,) = keys
            part = self._part(change)
            node, is_item = part, True
            while key_of(node, known.qualified) is None:
                found = step(node, known.fact, known.qualified)
                if found is None or not found[1]:
                    break
                is_item = is_item and isinstance(node, cst.Subscript)
                node = found[0]
            if key_of(node, known.qualified) == base and not is_item:
                self.plan.writes[change] = base
                self.plan.starts.add(node)
                if isinstance(change, cst.Call):
                    self.plan.reads[part] = base

    def _part(self, change: cst.CSTNode) -> cst.BaseExpression:
        """Return the expression that a statement or call changes in place. If it is a subscript whose index makes a
        copy, such as `x[mask]`, return the expression before the index.
        """
        known = self.known
        if isinstance(change, cst.Call):
            part: cst.BaseExpression = change
            while (found := written_part(part, known.fact, known.qualified, known.is_method)) is not None:
                part = found
            return part
        target = change.target if isinstance(change, cst.AugAssign) else change.targets[0].target  # type: ignore[attr-defined]
        advanced = isinstance(target, cst.Subscript) and not is_plain(target, known.fact)
        return target.value if advanced else target  # type: ignore[union-attr]

    def _bases(self, family: set[str]) -> dict[str, str] | None:
        """Return {view: base} for the views that become `tl.positions`, or None if not all views of the group can."""
        homes = self.flow.homes
        views = {key for key in family if key not in homes}
        bases = {key for key in family if key in homes}
        while True:
            roots = {root for key in views for root in self._roots(key)}
            if None in roots:
                return None
            more = ({root for root in roots if root not in homes} | self._beside(views)) - views
            if not more:
                break
            views |= more  # type: ignore[arg-type]
        bases |= {root for root in roots if root in homes}  # type: ignore[misc]
        if views & homes:
            return None
        if len(bases) != 1 or not views or (views | bases) & self.flow.inner:
            return None
        (base,) = bases
        for key, found in self.flow.uses.values():
            if key in views and base not in found:
                return None
        return dict.fromkeys(views, base)

    def _roots(self, key: str) -> set[str | None]:
        """Return the names of whose arrays `key` is a view. Add None if another kind of value is assigned to `key`."""
        found: set[str | None] = set()
        for name, value, _ in targets_of(self.function.node.body):
            if name == key:
                node = value
                while node is not None and key_of(node, self.known.qualified) is None:
                    one = step(node, self.known.fact, self.known.qualified)
                    node = one[0] if one is not None and one[1] else None
                found.add(key_of(node, self.known.qualified))
        return found - {key}

    def _beside(self, views: Collection[str]) -> set[str]:
        """Return the names that get their views from the same expression as `views`: `b` for `a, b = x.chunk(2)`."""
        pairs = [(key, value) for key, value, _ in targets_of(self.function.node.body)]
        values = {value for key, value in pairs if key in views and value is not None}
        return {key for key, value in pairs if value in values}

    def _is_own_statement(self, change: cst.CSTNode) -> bool:
        parent = self.parent(change)
        if isinstance(change, cst.Call):
            return isinstance(parent, cst.Expr) and change not in self.mutations.calls
        return isinstance(parent, cst.SimpleStatementLine) and (
            not isinstance(change, cst.Assign) or len(change.targets) == 1
        )

    def _place(self, node: cst.CSTNode, key: str, base_of: dict[str, str]) -> None:
        """Plan what to write in place of a name, if the name is a base or contains `tl.positions`."""
        top = self._top(node)
        parent = self.parent(top)
        bound = self._is_bound(top, parent, base_of)
        if key in base_of.values():
            if bound:
                self.plan.starts.add(node)
        elif key in base_of and not bound and not self._looks(parent):
            if isinstance(parent, cst.Attribute) and parent.attr.value in ("dtype", "device"):
                self.plan.bases[top] = base_of[key]
            elif not isinstance(parent, cst.AssignTarget | cst.AugAssign) or parent.target is not top:
                self.plan.reads[top] = base_of[key]

    def _top(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the largest view that the code makes from a node (`x[0].view(-1)` for `x`), or the node."""
        while True:
            parent = self.parent(node)
            if isinstance(parent, cst.Attribute | cst.Arg):
                above = self.parent(parent)
                found = step(above, self.known.fact, self.known.qualified) if isinstance(above, cst.Call) else None
                if found is not None and found[0] is node and found[1]:
                    node = above  # type: ignore[assignment]
                    continue
            found = step(parent, self.known.fact, self.known.qualified) if parent is not None else None
            if found is None or found[0] is not node or not found[1]:
                return node
            node = parent  # type: ignore[assignment]

    def _looks(self, parent: cst.CSTNode | None) -> bool:
        """Return whether the code around a view reads only its sizes or the like, which `tl.positions` has as well."""
        if isinstance(parent, cst.Attribute):
            above = self.parent(parent)
            called = isinstance(above, cst.Call) and looks_only(above, self.known.qualified)
            return called or (looks_only(parent, self.known.qualified) and parent.attr.value not in ("dtype", "device"))
        call = self.parent(parent) if isinstance(parent, cst.Arg) else None
        return isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "len"

    def _is_bound(self, top: cst.CSTNode, parent: cst.CSTNode | None, base_of: dict[str, str]) -> bool:
        """Return whether the source assigns a view to a name that contains `tl.positions` in the port."""
        if isinstance(parent, cst.Arg):  # `for i, row in enumerate(x)`
            call = self.parent(parent)
            if not isinstance(call, cst.Call) or getattr(call.func, "value", "") != "enumerate":
                return False
            parent = self.parent(call)
        elif isinstance(parent, cst.Element):  # `a, b = x[0], x[1]`
            row = self.parent(parent)
            parent = self.parent(row) if row is not None else None
            if not isinstance(parent, cst.Assign) or parent.value is not row:
                return False
        if not isinstance(parent, cst.Assign | cst.AnnAssign | cst.NamedExpr | cst.For):
            return False
        return any(key in base_of and value is top for key, value, _ in targets_of(_head(parent)))


def _head(node: cst.CSTNode) -> cst.CSTNode:
    """Return a `for` statement without its block, because only its targets are needed, or any other node unchanged."""
    return node.with_changes(body=cst.IndentedBlock([])) if isinstance(node, cst.For) else node


def _own(node: cst.CSTNode) -> list[cst.CSTNode]:
    inner = [
        one for one in walk(node) if isinstance(one, cst.FunctionDef | cst.ClassDef | cst.Lambda) and one is not node
    ]
    skipped = {below for one in inner for below in walk(one)}
    return [one for one in walk(node) if one not in skipped]
