"""Finds which names the expressions of a function read, and which names they change in place.

`FunctionWalk` walks through one function and keeps {name: current `Value`}. `aliasing.py` adds the statements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import libcst as cst

from funcnet.porting.analysis.aliasing_findings import Flow, Known, Miss
from funcnet.porting.analysis.shared_storage import Origin, State, Value, aged, joined, stale_keys
from funcnet.porting.analysis.view_expressions import key_of, looks_only, places_of, step, targets_of, written_part
from funcnet.porting.expression_facts.fact import Fact

__all__ = ["FunctionWalk"]

_ADDS = ("append", "extend", "insert", "add", "update", "appendleft", "setdefault")
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)


class FunctionWalk:
    """A walk through the expressions of one function.

    Args:
        function: the definition of the function.
        known: functions that look up facts and names in the source of the function.
        given_back: parameters whose final values the caller needs.
    """

    def __init__(self, function: cst.FunctionDef, known: Known, given_back: tuple[str, ...]):
        self.known, self.given_back = known, given_back
        params = function.params
        every = [*params.posonly_params, *params.params, *params.kwonly_params]
        every += [one for one in (params.star_arg, params.star_kwarg) if isinstance(one, cst.Param)]
        self.params = [one.name.value for one in every]
        self.flow = Flow(homes=self._homes(function))
        self.state: State | None = {}
        for name in self.params:
            token = ("param", name)
            self.state[name] = Value(token, token, token, frozenset([token]))
        self.breaks: list[list[State]] = []
        self.nexts: list[list[State]] = []

    def _homes(self, function: cst.FunctionDef) -> frozenset[str]:
        """Return the names to which more than views are assigned, with all parameters and attributes of self."""
        found = set(self.params)
        for key, value, _ in targets_of(function.body):
            root = None if value is None else self._root(value)
            if key.startswith("self.") or root is None:
                found.add(key)
        return frozenset(found)

    def _root(self, node: cst.BaseExpression) -> str | None:
        """Return the name of which an expression is certainly a view (x for `x[0].view(-1)`), or None."""
        while key_of(node, self.known.qualified) is None:
            found = step(node, self.known.fact, self.known.qualified)
            if found is None or not found[1]:
                return None
            node = found[0]
        return key_of(node, self.known.qualified)

    # ------------------------------------------------------------------------------------------------------ values

    def new(self, node: cst.CSTNode, atoms: frozenset = frozenset()) -> Value:
        token = ("site", node)
        self.state = aged(self.state or {}, token)
        plain = _holds_no_tensor(self.known.fact(node))
        return Value(token, token, token, frozenset() if plain else atoms | {token})

    def _held(self, node: cst.BaseExpression, key: str) -> Value:
        """Return the value of a name, and record that the node uses this value."""
        assert self.state is not None
        if key not in self.state:
            token = ("free", key)
            self.state[key] = Value(token, token, token, frozenset([token]) if key.startswith("self.") else frozenset())
        self._use(node, key, self.state[key])
        return self.state[key]

    def _use(self, node: cst.CSTNode, key: str, value: Value) -> None:
        state = self.state or {}
        found = frozenset(one for one in self.flow.homes if one in state and state[one].frame == value.frame)
        before = self.flow.uses.get(node)
        self.flow.uses[node] = (key, found if before is None else found & before[1])

    def missed(self, value: Value) -> None:
        for change, name, sure in value.stale:
            self.flow.misses.add(Miss(change, name, sure))

    def read(self, node: cst.CSTNode) -> Value:
        """Evaluate an expression that is read, and record the changes in place that its array lacks in the port."""
        for part in (
            places_of(node, self.known.fact, self.known.qualified) if isinstance(node, cst.BaseExpression) else ()
        ):
            key = key_of(part, self.known.qualified)
            if key is not None:
                self.missed(self._held(part, key))
        return self.view(node)

    def view(self, node: cst.CSTNode) -> Value:
        """Evaluate an expression, without reading its elements if the expression is a name or a view."""
        known = self.known
        key = key_of(node, known.qualified)
        if key is not None and isinstance(node, cst.BaseExpression):
            return self._held(node, key)
        found = step(node, known.fact, known.qualified)
        if found is not None:
            inner, sure = found
            value = self.view(inner)
            for part in self.others(node, inner):
                self.read(part)
            origin = self._origin(node, inner)
            if sure:
                return dataclasses.replace(value, origin=origin)
            return dataclasses.replace(value, storage=("site", node), frame=("site", node), origin=None)
        if looks_only(node, known.qualified):  # `x.shape`, `x.size(0)`
            inner = node.func.value if isinstance(node, cst.Call) else node.value  # type: ignore[attr-defined]
            self.view(inner)
            for part in self.others(node, inner):
                self.read(part)
            return self.new(node)
        return self._other(node)

    def others(self, node: cst.CSTNode, inner: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        for child in node.children:
            if child is inner or (isinstance(child, cst.Attribute) and child.value is inner):
                continue
            if isinstance(child, cst.Arg):
                if child.value is not inner:
                    yield child.value
            elif isinstance(child, cst.BaseExpression) and not isinstance(node, cst.Attribute):
                if not (isinstance(node, cst.Call) and child is node.func):
                    yield child
            elif not isinstance(child, cst.BaseExpression):
                yield from self.others(child, inner)

    def _origin(self, node: cst.CSTNode, inner: cst.CSTNode) -> Origin | None:
        """Return the `Origin` of a subscript, or None for other expressions and for an index with a call."""
        key = key_of(inner, self.known.qualified)
        if key is None or not isinstance(node, cst.Subscript):
            return None
        reads = []
        for part in self.others(node, inner):
            for name in _names(part):
                if isinstance(name, cst.Call):
                    return None
                if self.state is not None and name.value in self.state:
                    reads.append((name.value, self.state[name.value].storage))
        assert self.state is not None
        return Origin(key, self.state[key].version, node, tuple(reads))

    def _other(self, node: cst.CSTNode) -> Value:
        if isinstance(node, cst.NamedExpr):
            value = self.view(node.value)
            self.bind(node.target, value, node.value)
            return value
        if isinstance(node, cst.IfExp):
            self.read(node.test)
            return self._choice([self.view(node.body), self.view(node.orelse)], node)
        if isinstance(node, cst.Tuple | cst.List):
            return self.new(node, frozenset().union(*(self.read(one.value).atoms for one in node.elements)))
        if isinstance(node, cst.Subscript):
            value = self.read(node.value)
            for part in self.others(node, node.value):
                self.read(part)
            holds = self.known.fact(node.value).is_only("list", "tuple", "dict")
            index = node.slice[0].slice
            literal = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)
            place = index.value.evaluated_value if literal else None  # type: ignore[union-attr, attr-defined]
            return self.new(node, self._item_atoms(value, node.value, place) if holds else frozenset())
        if isinstance(node, cst.Call):
            return self._call(node)
        if isinstance(node, cst.Lambda):
            self.inner_function(node)
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        elif isinstance(node, cst.Attribute):
            self.read(node.value)
        else:
            for child in node.children:
                self.read(child)
        return self.new(node) if isinstance(node, cst.BaseExpression) else Value(None, None, None)

    def _choice(self, values: list[Value], node: cst.CSTNode) -> Value:
        found = joined({"": values[0]}, {"": values[1]}, node)
        assert found is not None
        return found[""]

    def _call(self, node: cst.Call) -> Value:
        known = self.known
        receiver = written_part(node, known.fact, known.qualified, known.is_method)
        if receiver is not None:
            inner: cst.CSTNode = node
            while (part := written_part(inner, known.fact, known.qualified, known.is_method)) is not None:
                for other in self.others(inner, part):  # `x.mul_(2).add_(1)` is one change
                    self.read(other)
                inner = receiver = part
            value = self.view(receiver)
            self.change(node, [receiver], [receiver])
            return value
        if isinstance(node.func, cst.Attribute):
            self.read(node.func.value)
        elif not isinstance(node.func, cst.Name):
            self.read(node.func)
        given = [self.read(arg.value) for arg in node.args]
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _ADDS:
            self.store(node.func.value, given)
        changed = list(known.changed(node))
        if changed:
            self.change(node, changed, [])
        return self.new(node)

    def store(self, container: cst.BaseExpression, given: list[Value]) -> None:
        """Record that a list or a dictionary may share storage with the values that are added to it."""
        key = key_of(container, self.known.qualified)
        if key is not None and self.state is not None and not self.known.fact(container).is_tensor:
            held = self._held(container, key)
            self.state[key] = dataclasses.replace(held, atoms=held.atoms.union(*(one.atoms for one in given)))

    def inner_function(self, node: cst.CSTNode) -> None:
        """Record the names of this function that a function inside it reads."""
        for name in _names(node):
            if isinstance(name, cst.Name) and self.state is not None and name.value in self.state:
                self.flow.inner.add(name.value)
                self.missed(self.state[name.value])

    def _comprehension(self, node: cst.CSTNode) -> None:
        before = dict(self.state or {})
        clause = node.for_in  # type: ignore[attr-defined]
        bound: set[str] = set()
        while clause is not None:
            self.each(clause.target, clause.iter)
            bound |= {key for key, _, _ in targets_of(clause)}
            for test in clause.ifs:
                self.read(test.test)
            clause = clause.inner_for_in
        for part in ("key", "value", "elt"):
            if getattr(node, part, None) is not None:
                self.read(getattr(node, part))
        assert self.state is not None
        kept = {key: value for key, value in self.state.items() if key not in bound}
        self.state = {**kept, **{key: before[key] for key in bound if key in before}}

    # -------------------------------------------------------------------------------------------- changes and names

    def change(
        self, node: cst.CSTNode, parts: Sequence[cst.BaseExpression], assigned: Sequence[cst.BaseExpression]
    ) -> None:
        """Record a change in place.

        Args:
            node: the call or the statement that makes the change.
            parts: the changed expressions, such as `x[0]`.
            assigned: expressions with the names to which the ported code assigns the changed arrays.
        """
        known = self.known
        keys = [key for one in assigned for key in [self._base(one)] if key is not None]
        for part in parts:
            key = self._base(part)
            self.flow.changes.setdefault(node, set()).update([key] if key is not None else [])
            if self.state is None:
                return
            whole = key_of(part, known.qualified)
            value = self.state[whole] if whole is not None and whole in self.state else self.view(part)
            if key is not None:
                self.missed(self.state[key])
                self._note_steps(node, key)
            for other, sure in stale_keys(self.state, value, keys).items():
                held = self.state[other]
                self.state[other] = dataclasses.replace(held, stale=held.stale | {(node, other, sure)})
            for atom in value.atoms:
                if isinstance(atom, tuple) and atom[0] == "param":
                    sure = value.storage == atom
                    self.flow.mutated[atom[1]] = self.flow.mutated.get(atom[1], False) or sure

    def _base(self, node: cst.BaseExpression) -> str | None:
        """Return the name at the start of an expression (`x` for `x[0].view(-1)`), or None if there is none."""
        known = self.known
        while key_of(node, known.qualified) is None:
            found = step(node, known.fact, known.qualified)
            inner = written_part(node, known.fact, known.qualified, known.is_method)
            if found is not None:
                node = found[0]
            elif inner is not None:
                node = inner
            elif isinstance(node, cst.Subscript):
                node = node.value
            else:
                return None
        return key_of(node, known.qualified)

    def _note_steps(self, node: cst.CSTNode, key: str) -> None:
        state, steps, seen = self.state or {}, [], {key}
        while (origin := state[key].origin) is not None:
            same = origin.base in state and state[origin.base].version == origin.version
            if (
                not same
                or origin.base in seen
                or any(state[name].storage != one for name, one in origin.reads if name in state)
            ):
                break
            steps.append((origin.base, origin.node, key))
            key = origin.base
            seen.add(key)
        before = self.flow.steps.get(node)
        kept = 0
        while before is not None and kept < min(len(before), len(steps)) and before[kept] == steps[kept]:
            kept += 1
        self.flow.steps[node] = tuple(steps if before is None else steps[:kept])

    def bind(self, target: cst.CSTNode, value: Value, node: cst.CSTNode | None) -> None:
        """Assign a value to a target. `node` is the expression that has this value, or None if there is none."""
        if isinstance(target, cst.Tuple | cst.List):
            for place, element in enumerate(target.elements):
                part = element.value
                if self._splits(node):
                    piece = dataclasses.replace(value, origin=None)
                else:
                    piece = self.new(part, frozenset() if _is_mapped(node) else self._item_atoms(value, node, place))
                self.bind(part, piece, None)
            return
        key = key_of(target, self.known.qualified)
        if key is None:
            if isinstance(target, cst.Subscript):
                self.read(target.value) if self.known.fact(target.value).is_tensor is not True else None
                self.store(target.value, [value])
            elif isinstance(target, cst.StarredElement):
                self.bind(target.value, value, node)
            return
        token = ("bind", target)
        source = key_of(node, self.known.qualified) if node is not None else None
        if source is not None and self.state is not None and source in self.state:
            value = dataclasses.replace(value, origin=Origin(source, self.state[source].version, None))
        holder = {**(self.state or {}), "": value}
        self.state = aged(holder, token)
        value = self.state.pop("")
        frame = token if key in self.flow.homes else value.frame
        value = dataclasses.replace(value, version=token, frame=frame)
        self.state[key] = value
        self._use(target, key, value)

    def _item_atoms(self, value: Value, node: cst.CSTNode | None, place: int | None) -> frozenset:
        """Return the storages that the item at a position of a list or tuple may share. Items at different positions
        are assumed not to share storage.
        """
        if place is None:
            return value.atoms
        key, mine = key_of(node, self.known.qualified), ("item", value.storage, place)
        if key is not None and self.state is not None and key in self.state:
            held = self.state[key]
            self.state[key] = dataclasses.replace(held, atoms=held.atoms | {mine})
        others = {one for one in value.atoms if isinstance(one, tuple) and one[:2] == ("item", value.storage)}
        return (value.atoms - others - {value.storage}) | {mine}

    def _splits(self, node: cst.CSTNode | None) -> bool:
        found = step(node, self.known.fact, self.known.qualified) if node is not None else None
        return found is not None and found[1]

    def each(self, target: cst.BaseExpression, iterable: cst.BaseExpression) -> None:
        """Assign one item of an iterable to the target of a `for` loop."""
        call = iterable if isinstance(iterable, cst.Call) and isinstance(iterable.func, cst.Name) else None
        if call is not None and call.func.value == "enumerate" and call.args and isinstance(target, cst.Tuple):  # type: ignore[attr-defined]
            self.bind(target.elements[0].value, self.new(target.elements[0].value), None)
            self.each(target.elements[1].value, call.args[0].value)
        elif self.known.fact(iterable).is_tensor or self._splits(iterable):
            value = self.view(iterable)
            self.bind(target, dataclasses.replace(value, origin=None), None)
        else:
            value = self.read(iterable)
            self.bind(target, self.new(target, value.atoms), None)


def _is_mapped(node: cst.CSTNode | None) -> bool:
    """Return whether an iterable is a call of `map`, whose items are the new results of calls."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "map"


def _holds_no_tensor(fact: Fact) -> bool:
    if not fact.kinds or fact.kinds & {"tensor", "parameter", "dict", "other", "array"}:
        return False
    several = bool(fact.kinds & {"list", "tuple"}) and fact.name != "sizes"
    return not several or (bool(fact.items) and all(map(_holds_no_tensor, fact.items or ())))


def _names(node: cst.CSTNode) -> Iterator[cst.Name | cst.Call]:
    """Yield the names and calls in a syntax node, but not the names of attributes and of keyword arguments."""
    if isinstance(node, cst.Name):
        yield node
        return
    if isinstance(node, cst.Call):
        yield node
    for child in node.children:
        if isinstance(node, cst.Attribute) and child is node.attr:
            continue
        if isinstance(node, cst.Arg) and child is node.keyword:
            continue
        yield from _names(child)
