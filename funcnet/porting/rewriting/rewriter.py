"""The single pass over a syntax tree that replaces torch with jax.numpy and funcnet.

`HANDLERS` lists the transformers for each kind of node. When the pass leaves a node, it calls these transformers with
(original node, updated node, context) until one of them returns a replacement. The parts of a node are therefore
rewritten before the node itself. All decisions are based on the original node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

from funcnet.porting.expression_facts.fact import UNKNOWN, Fact
from funcnet.porting.reading.expressions import code, parenthesized
from funcnet.porting.rule_engine.rule import Rule
from funcnet.porting.rules import RULES
from funcnet.porting.transforms import (
    calls,
    classes,
    comparisons,
    computed_initial_values,
    conditions,
    context_managers,
    descriptions,
    devices,
    docstrings,
    dry_runs,
    in_place,
    item_assignments,
    names,
    parameters,
    partials,
    properties,
    random_keys,
    result_parts,
    running_statistics,
    subscripts,
    torch_annotations,
    undecided_statements,
    unknown_changes,
    views,
)
from funcnet.porting.transforms.rewrite_context import RewriteContext, Undecided

__all__ = ["HANDLERS", "Rewriter", "port_expression"]

Handler = Callable[[Any, Any, RewriteContext], cst.CSTNode | cst.FlattenSentinel | cst.RemovalSentinel | None]


HANDLERS: Mapping[type[cst.CSTNode], tuple[Handler, ...]] = {
    cst.Call: (
        conditions.number,
        comparisons.is_instance,
        comparisons.scripted,
        partials.partial,
        in_place.method,
        dry_runs.dry_run,
        parameters.parameter,
        result_parts.count,
        names.got,
        running_statistics.first,
        devices.moved,
        parameters.draft,
        calls.call,
        random_keys.passed,
        devices.argument,
        devices.made,
    ),
    cst.SimpleStatementLine: (running_statistics.line,),
    cst.Expr: (
        conditions.checked,
        random_keys.initialised,
        views.statement,
        in_place.statement,
        context_managers.stopped_call,
    ),
    cst.Assign: (
        computed_initial_values.changed,
        views.item,
        in_place.bound,
        item_assignments.item,
        undecided_statements.idle,
        context_managers.stopped,
    ),
    cst.AnnAssign: (context_managers.stopped,),
    cst.NamedExpr: (context_managers.stopped,),
    cst.Return: (in_place.bound, context_managers.stopped),
    cst.With: (context_managers.with_block,),
    cst.Decorator: (context_managers.decorator,),
    cst.Annotation: (torch_annotations.returned,),
    cst.FunctionDef: (random_keys.parameter,),
    cst.ClassDef: (classes.autograd_function,),
    cst.If: (conditions.branch,),
    cst.While: (conditions.branch,),
    cst.IfExp: (conditions.choice,),
    cst.CompIf: (conditions.picked,),
    cst.BooleanOperation: (conditions.truth,),
    cst.UnaryOperation: (conditions.truth,),
    cst.Assert: (conditions.asserted,),
    cst.Comparison: (names.in_torch, properties.absent, comparisons.compared),
    cst.Set: (comparisons.membership,),
    cst.AugAssign: (
        unknown_changes.augmented,
        views.augmented,
        item_assignments.augmented,
        context_managers.stopped_change,
    ),
    cst.Attribute: (descriptions.value, result_parts.part, names.attribute),
    cst.Name: (names.name,),
    cst.Subscript: (names.final, torch_annotations.subscripted, result_parts.part, subscripts.read),
    cst.List: (undecided_statements.items,),
    cst.Dict: (devices.entry,),
    cst.SimpleString: (docstrings.docstring,),
}

# Kinds of parents in which an expression never needs parentheses.
_SEPARATED = (cst.Arg, cst.Assign, cst.AnnAssign, cst.Return, cst.Expr, cst.Element, cst.Index, cst.DictElement, cst.If,
              cst.While, cst.CompIf, cst.Annotation)  # fmt: skip


class Rewriter(cst.CSTTransformer):
    """Rewrites every node of a syntax tree with `HANDLERS`, and leaves out the nodes in `removed`."""

    def __init__(self, context: RewriteContext, removed: frozenset[cst.CSTNode] = frozenset()):
        super().__init__()
        self.context, self.removed = context, removed

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.removed and super().on_visit(node)

    def visit_Import(self, node: cst.Import) -> bool:
        return False  # `imports.py` rewrites imports

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        if original_node in self.removed:
            return cst.RemoveFromParent()
        written = updated_node
        for handler in HANDLERS.get(type(original_node), ()):
            found = handler(original_node, updated_node, self.context)
            if found is not None:
                written = self._in_place(original_node, found)
                break
        written = views.finished(original_node, written, self.context)
        if isinstance(original_node, cst.BaseExpression) and isinstance(written, cst.BaseExpression):
            self.context.written[original_node] = written
        if isinstance(original_node, undecided_statements.STATEMENTS):
            return undecided_statements.finish(original_node, written, self.context)
        return written

    def _in_place(self, original: cst.CSTNode, written: object) -> Any:
        """Add the parentheses that a rewritten expression needs in its place, and those that the original expression
        had.
        """
        if not isinstance(original, cst.BaseExpression) or not isinstance(written, cst.BaseExpression):
            return written
        if original.lpar and not getattr(written, "lpar", ()):
            return written.with_changes(lpar=original.lpar, rpar=original.rpar)
        parent = self.context.parent(original)
        alone = isinstance(parent, _SEPARATED) or parent is None or type(written) is type(original)
        return written if alone else parenthesized(written)


def port_expression(
    text: str, facts: Mapping[str, Fact], rules: Mapping[str, tuple[Rule, ...]] = RULES
) -> tuple[str, list[Undecided]]:
    """Port one expression, in which `torch`, `nn` and `F` refer to torch.

    Args:
        text: the expression.
        facts: {name: what is known about its value}.
        rules: {name: rules}.

    Returns:
        (the expression rewritten for jax.numpy, the parts of it that could not be rewritten).

    >>> from funcnet.porting.expression_facts.fact import Fact
    >>> port_expression("x.relu()", {"x": Fact(frozenset({"tensor"}), "float32", (2, 3))})[0]
    'F.relu(x)'
    """
    wrapper = MetadataWrapper(cst.parse_module(text + "\n"))
    parents, positions = wrapper.resolve(ParentNodeProvider), wrapper.resolve(PositionProvider)
    modules = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional"}

    def qualified(node: cst.CSTNode) -> str | None:
        if isinstance(node, cst.Attribute):
            base = qualified(node.value)
            return None if base is None else f"{base}.{node.attr.value}"
        known = isinstance(node, cst.Name) and node.value not in facts
        parent = parents.get(node)
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            return None
        return modules.get(node.value) if known and isinstance(node, cst.Name) else None

    def fact(node: cst.CSTNode) -> Fact:
        if isinstance(node, cst.Name) and node.value in facts:
            return facts[node.value]
        if isinstance(node, cst.Attribute):  # `torch.float32`, `x.dtype`, `x.device`
            found = [one.result for one in rules.get(qualified(node) or f"Tensor.{node.attr.value}", ())]
            kinds = [one for one in (node.attr.value,) if one in ("dtype", "device")]
            kinds += [one for one in found if one in ("dtype", "str", "float", "bool")]
            return Fact(frozenset(kinds[:1])) if kinds else UNKNOWN
        return _literal(node)

    context = RewriteContext("expression", qualified, fact, parents.get, lambda node: positions[node].start.line, rules)
    statement = wrapper.module.body[0]
    assert isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Expr)
    ported = statement.body[0].value.visit(Rewriter(context))  # without its statement, so that nothing is registered
    assert isinstance(ported, cst.CSTNode)
    return code(ported), context.undecided


def _literal(node: cst.CSTNode) -> Fact:
    """Return the fact of an expression that is a literal, such as a number or a string."""
    if isinstance(node, cst.UnaryOperation):
        return _literal(node.expression)
    if isinstance(node, cst.Name) and node.value in ("True", "False", "None"):
        return Fact(frozenset({"none" if node.value == "None" else "bool"}))
    if isinstance(node, cst.List | cst.Tuple):
        items = tuple(_literal(one.value) for one in node.elements)
        return Fact(frozenset({"list" if isinstance(node, cst.List) else "tuple"}), items=items)
    kinds: dict[type[cst.CSTNode], str] = {
        cst.Integer: "int", cst.Float: "float", cst.Imaginary: "complex", cst.SimpleString: "str", cst.Dict: "dict",
        cst.ConcatenatedString: "str", cst.FormattedString: "str", cst.Ellipsis: "ellipsis",
    }  # fmt: skip
    kind = kinds.get(type(node))
    return Fact(frozenset({kind})) if kind else UNKNOWN
