"""Finds the names in a function that are read after their array was changed in place through another name.

In torch, names may share storage: after `row = x[0]`, the statement `row += 1` also changes x. In the ported code,
every name has a separate array, so an assignment to `row` does not change `x`. This file follows the statements of a
function in order, through both branches of an `if` and repeatedly through loops. A read that would give an old value in
the ported code is recorded as a `Miss`. The result of a call is assumed to share no storage with other values, unless
the call makes a view or changes a tensor in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import libcst as cst

from funcnet.porting.analysis.aliasing_findings import Flow, Known
from funcnet.porting.analysis.name_effects import FunctionWalk
from funcnet.porting.analysis.shared_storage import State, joined
from funcnet.porting.analysis.view_expressions import is_plain, key_of

__all__ = ["follow"]

_ROUNDS = 6  # largest number of passes through a loop; a pass that changes nothing is the last one


def follow(function: cst.FunctionDef, known: Known, given_back: Iterable[str] = ()) -> Flow:
    """Follow the statements of a function, and return a `Flow`. It has the changes in place of the function, and the
    reads that would still give old values in the ported code.

    Args:
        function: the definition of the function.
        known: functions that look up facts and names in the source of the function.
        given_back: parameters whose final values the caller needs.
    """
    run = _Run(function, known, tuple(given_back))
    run.block(function.body)
    if run.state is not None:
        run.leave()
    return run.flow


class _Run(FunctionWalk):
    def leave(self) -> None:
        """Record the parameters in `given_back` that may refer to a different value from the argument when the function
        ends. Also record the changes in place that the arrays of these parameters lack in the ported code.
        """
        assert self.state is not None
        for name in self.given_back:
            token, value = ("param", name), self.state[name]
            if (value.storage, value.version) != (token, token):
                self.flow.lost.add(name)
            self.missed(value)

    def block(self, node: cst.CSTNode) -> None:
        for statement in node.body:  # type: ignore[attr-defined]
            if self.state is None:
                return
            parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else [statement]
            for part in parts:
                if self.state is not None:
                    self.statement(part)

    def statement(self, node: cst.CSTNode) -> None:
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            handler(node)
        elif isinstance(node, cst.FunctionDef | cst.ClassDef):
            self.inner_function(node)
            self.bind(node.name, self.new(node.name), None)
        else:
            self.read(node)

    def _assign(self, node: cst.Assign) -> None:
        target = node.targets[0].target
        pairs = [(target, node.value)]
        both = isinstance(target, cst.Tuple | cst.List) and isinstance(node.value, cst.Tuple | cst.List)
        if both and len(target.elements) == len(node.value.elements):  # type: ignore[attr-defined]
            pairs = [(a.value, b.value) for a, b in zip(target.elements, node.value.elements, strict=True)]  # type: ignore[attr-defined]
        values = [self.view(value) for _, value in pairs]
        for (one, expression), value in zip(pairs, values, strict=True):
            if self._is_item(one):
                self.read(expression)
                self._item(node, one)
            else:
                self.bind(
                    one, value, expression if len(pairs) == 1 or key_of(expression, self.known.qualified) else None
                )
        for more in node.targets[1:]:
            self.bind(more.target, self.view(node.targets[0].target), node.targets[0].target)

    def _is_item(self, target: cst.CSTNode) -> bool:
        return isinstance(target, cst.Subscript) and bool(self.known.fact(target.value).is_tensor)

    def _item(self, node: cst.CSTNode, target: cst.BaseExpression) -> None:
        assert isinstance(target, cst.Subscript)
        part: cst.BaseExpression = target if is_plain(target, self.known.fact) else target.value
        for one in self.others(target, target.value):
            self.read(one)
        self.view(part)
        self.change(node, [part], [part])

    def _annassign(self, node: cst.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.view(node.value), node.value)

    def _augassign(self, node: cst.AugAssign) -> None:
        self.read(node.value)
        if self._is_item(node.target):
            self._item(node, node.target)
        elif key_of(node.target, self.known.qualified) is not None and self.known.fact(node.target).is_tensor:
            self.view(node.target)
            self.change(node, [node.target], [node.target])
        elif isinstance(node.target, cst.Subscript) and self.known.fact(node.target).is_tensor:
            self.change(node, [node.target], [node.target])  # an item of a list of tensors
        else:
            self.read(node.target)
            self.bind(node.target, self.new(node), None)

    def _return(self, node: cst.Return) -> None:
        if node.value is not None:
            self.read(node.value)
        self.leave()
        self.state = None

    def _raise(self, node: cst.Raise) -> None:
        self.read(node)
        self.state = None

    def _break(self, node: cst.Break) -> None:
        self.breaks[-1].append(self.state or {})
        self.state = None

    def _continue(self, node: cst.Continue) -> None:
        self.nexts[-1].append(self.state or {})
        self.state = None

    def _if(self, node: cst.If) -> None:
        self.read(node.test)
        before = dict(self.state or {})
        self.block(node.body)
        after, self.state = self.state, before
        if isinstance(node.orelse, cst.If):
            self._if(node.orelse)
        elif node.orelse is not None:
            self.block(node.orelse.body)
        self.state = joined(after, self.state, node)

    def _loop(self, node: cst.For | cst.While, begin: Callable[[], None]) -> None:
        entry, ends = dict(self.state or {}), []
        head: State | None = entry
        for _ in range(_ROUNDS):
            self.state = dict(head or {})
            self.breaks.append([])
            self.nexts.append([])
            begin()
            ends = [dict(self.state)]
            self.block(node.body)
            for one in self.nexts.pop():
                self.state = joined(self.state, one, node.body)
            ends += self.breaks.pop()
            found = joined(entry, self.state, node)
            if found == head:
                break
            head = found
        self.state = head
        for one in ends:
            self.state = joined(self.state, one, node.body)
        if node.orelse is not None:
            self.block(node.orelse.body)

    def _for(self, node: cst.For) -> None:
        self._loop(node, lambda: self.each(node.target, node.iter))

    def _while(self, node: cst.While) -> None:
        def begin() -> None:
            self.read(node.test)

        self._loop(node, begin)

    def _with(self, node: cst.With) -> None:
        for item in node.items:
            value = self.read(item.item)
            if item.asname is not None:
                self.bind(item.asname.name, self.new(item, value.atoms), None)
        self.block(node.body)

    def _try(self, node: cst.Try) -> None:
        before = dict(self.state or {})
        self.block(node.body)
        after = self.state
        if node.orelse is not None and self.state is not None:
            self.block(node.orelse.body)
        ends = self.state
        for handler in node.handlers:
            self.state = joined(before, after, handler)
            self.block(handler.body)
            ends = joined(ends, self.state, node)
        self.state = ends
        if node.finalbody is not None and self.state is not None:
            self.block(node.finalbody.body)
