"""Rewrites calls of `F.batch_norm` and `F.instance_norm`, which in torch change the running mean and variance in place.

In funcnet, both functions return (output, running_mean, running_var). If a call does not change running statistics,
only the output is used: `F.batch_norm(…)[0]`. Otherwise, a statement assigns all three results.
"""

from __future__ import annotations

import functools

import libcst as cst

from funcnet.porting.analysis.hoisting import free_name
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.expressions import code
from funcnet.porting.reading.syntax import walk
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["first", "line"]

_FLAGS = {"torch.nn.functional.batch_norm": "training", "torch.nn.functional.instance_norm": "use_input_stats"}
_SAVED = ("running_mean", "running_var")
_CHOICES = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
_ADVICE = "Write y, mean, var = F.{0}(…) as a statement, and assign mean and var to the buffers."


def _given(node: cst.Call, name: str) -> cst.BaseExpression | None:
    """Return the argument that a call of a normalisation function passes for a parameter, or None if it passes none."""
    places = {"running_mean": 1, "running_var": 2, "training": 5, "use_input_stats": 5}
    for place, arg in enumerate(node.args):
        if (arg.keyword is None and place == places[name]) or (arg.keyword is not None and arg.keyword.value == name):
            return arg.value
    return None


def _is_none(node: cst.BaseExpression | None, context: RewriteContext) -> bool:
    return node is None or code(node) == "None" or bool(context.fact(node).is_only("none"))


def _changes(node: cst.CSTNode, context: RewriteContext) -> bool:
    """Return whether a node is a call of `F.batch_norm` or `F.instance_norm` that changes running statistics."""
    name = context.qualified(node.func) if isinstance(node, cst.Call) else None
    if not isinstance(node, cst.Call) or name not in _FLAGS:
        return False
    flag = _given(node, _FLAGS[name])
    off = code(flag) == "False" if flag is not None else name.endswith("batch_norm")
    return not off and not all(_is_none(_given(node, one), context) for one in _SAVED)


def first(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `F.batch_norm(…)[0]` for a call that does not change running statistics.

    If a call changes statistics, the function `line` rewrites its statement instead. If the statement cannot be
    rewritten, the call is added to the register.
    """
    name = context.qualified(original.func)
    if name not in _FLAGS:
        return None
    if not _changes(original, context):
        return cst.Subscript(updated, [cst.SubscriptElement(cst.Index(cst.Integer("0")))])
    if _line_of(original, context) is None or None in _places(original, context):
        context.give_up(original, "The new running statistics are among the results, and not assigned.",
                        _ADVICE.format(name.rpartition(".")[2]))  # fmt: skip
    return None


def _line_of(node: cst.Call, context: RewriteContext) -> cst.SimpleStatementLine | None:
    """Return the statement that contains a call which changes running statistics.

    The result is None if the statement may not run the call, contains other calls that change running statistics, or is
    not an assignment, a `return` or a plain call.
    """
    found: cst.CSTNode | None = context.parent(node)
    while found is not None and not isinstance(found, cst.SimpleStatementLine):
        if isinstance(found, _CHOICES):
            return None
        found = context.parent(found)
    if found is None or len(found.body) != 1 or not isinstance(found.body[0], cst.Assign | cst.Return | cst.Expr):
        return None
    return found if sum(_changes(one, context) for one in walk(found)) == 1 else None


def _places(node: cst.Call, context: RewriteContext) -> list[cst.BaseExpression | None]:
    """Return the expressions to which the port assigns the running mean and variance, such as `self.running_mean`.

    For the argument `self.running_mean if … else None`, this is `self.running_mean` too. An argument to which nothing
    can be assigned gives None.
    """
    found: list[cst.BaseExpression | None] = []
    for one in (_given(node, name) for name in _SAVED):
        if isinstance(one, cst.IfExp):
            one = one.body if code(one.orelse) == "None" else one.orelse if code(one.body) == "None" else None
        found.append(one if isinstance(one, cst.Name | cst.Attribute) else None)
    return found


def line(
    original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine, context: RewriteContext
) -> cst.FlattenSentinel | None:
    """Write `y, self.running_mean, self.running_var = F.batch_norm(…)` before the statement that reads y."""
    call = next((one for one in walk(original) if _changes(one, context)), None)
    if not isinstance(call, cst.Call) or _line_of(call, context) is not original:
        return None
    places = _places(call, context)
    kept = [one for one in places if one is not None]
    written = context.written.get(call)
    if len(kept) < len(places) or not isinstance(written, cst.Call):
        return None
    statement = original.body[0]
    direct = isinstance(statement, cst.Assign) and statement.value is call and len(statement.targets) == 1
    function = enclosing(original, (cst.FunctionDef, cst.Module), context.parent) or original
    free = functools.partial(free_name, function)
    target = code(statement.targets[0].target) if isinstance(statement, cst.Assign) and direct else free("normalized")
    facts = [context.fact(one) for one in kept]
    chosen = any(isinstance(_given(call, name), cst.IfExp) for name in _SAVED)
    sure = not chosen and all(fact.is_tensor and "none" not in fact.kinds for fact in facts)
    homes = [code(context.rewritten(one)) for one in kept]
    news = homes if sure else [free("new_mean"), free("new_var")]
    lines: list[cst.BaseStatement] = [_parsed(f"{target}, {', '.join(news)} = __call__", written)]
    if not sure:
        lines.append(_parsed_if(f"if {news[0]} is not None:\n    {', '.join(homes)} = {', '.join(news)}\n"))
    if any(isinstance(one, cst.Name) and context.read_later(one) for one in places):
        context.roots.add("jax")  # torch changes the statistics without their gradient
        lines.append(_parsed(f"{', '.join(homes)} = __call__", _stopped(homes)))
    if not direct:
        lines.append(updated.deep_replace(written, cst.Name(target)).with_changes(leading_lines=[]))  # type: ignore[arg-type]
    lines[0] = lines[0].with_changes(leading_lines=updated.leading_lines)
    return cst.FlattenSentinel(lines)


def _parsed(text: str, call: cst.Call) -> cst.SimpleStatementLine:
    """Parse the text of an assignment, and return the assignment with the given call as its value."""
    found = cst.parse_statement(text)
    assert isinstance(found, cst.SimpleStatementLine) and isinstance(found.body[0], cst.Assign)
    return found.with_changes(body=[found.body[0].with_changes(value=call)])


def _stopped(names: list[str]) -> cst.Call:
    found = cst.parse_expression(f"jax.lax.stop_gradient(({', '.join(names)}))")
    assert isinstance(found, cst.Call)
    return found


def _parsed_if(text: str) -> cst.If:
    found = cst.parse_statement(text)
    assert isinstance(found, cst.If)
    return found
