"""Fills a rule's template with the arguments of a call.

If a call leaves out an argument, torch uses the default of the parameter. The result leaves the argument out as well if
the function in the template has the same default. Otherwise, the result contains torch's default. So `torch.cat(xs)`
becomes `jnp.concatenate(xs)`, and `torch.meshgrid(x, y)` becomes `jnp.meshgrid(x, y, indexing='ij')`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax
import libcst as cst

from funcnet.porting.reading.expressions import code, count_names, is_simple, parenthesized, parse
from funcnet.porting.rule_engine.rule import IGNORED, MISSING, Argument, Given, Rule, TorchParameter, holds

__all__ = ["ROOTS", "fill", "reference", "roots_of"]

# {name that templates use: the module}. `imports.py` writes the imports.
ROOTS: Mapping[str, str] = {
    "jax": "jax",
    "jnp": "jax.numpy",
    "np": "numpy",
    "math": "math",
    "operator": "operator",
    "functools": "functools",
    "F": "funcnet.functional",
    "nn": "funcnet.nn",
    "tl": "funcnet.torchlike",
}


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """Remove one pair of parentheses from an expression that commas or brackets delimit, if it does not need them."""
    keeps = (cst.GeneratorExp, cst.NamedExpr, cst.Yield, cst.Tuple)
    if isinstance(node, keeps) or not getattr(node, "lpar", ()) or _spans_lines(node):
        return node
    return node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])


def _spans_lines(node: cst.BaseExpression) -> bool:
    return "\n" in code(node)


def roots_of(node: cst.CSTNode) -> set[str]:
    """Return the names of `ROOTS` that an expression uses."""
    return {name for name in count_names(node) if name in ROOTS}


@functools.cache
def _uses(template: str) -> Counter[str]:
    return count_names(parse(template))


def fill(rule: Rule, bound: Mapping[str, Argument]) -> cst.BaseExpression | bool | None:
    """Return the template of a rule with the arguments of a call filled in.

    Args:
        rule: the rule. If the rule has no template, the result is the expression `None`.
        bound: {name of a parameter: its argument}.

    Returns:
        The expression, False if the rule does not apply, or None if it is not known whether it applies.
    """
    if not rule.template:
        applies = holds(rule.when, bound)
        return parse("None") if applies else applies
    uses = _uses(rule.template)
    asked = _uses(rule.when) if rule.when else Counter()
    for name, argument in bound.items():
        used = uses[name] > 0 or asked[name] > 0
        if argument.is_given and not used and name not in IGNORED:
            default = argument.parameter.default
            if argument.value is MISSING or default is MISSING or argument.value != default:
                return False
        if argument.is_given and uses[name] > 1 and not all(is_simple(one.node) for one in argument.given):
            return False
    applies = holds(rule.when, bound)
    if not applies:
        return applies
    filled = parse(rule.template).deep_clone().visit(_Filling(bound))
    assert isinstance(filled, cst.BaseExpression)
    return filled


class _Filling(cst.CSTTransformer):
    def __init__(self, bound: Mapping[str, Argument]):
        self.bound = bound

    def visit_Call(self, node: cst.Call) -> bool:
        return False  # `leave_Call` fills the arguments of the call

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._expression(original_node.value) or updated_node

    def _expression(self, name: str) -> cst.BaseExpression | None:
        argument = self.bound.get(name)
        if argument is None:
            return None
        if not argument.given:
            return parse("()") if argument.parameter.star else parse(repr(argument.parameter.default))
        if argument.parameter.star and (len(argument.given) > 1 or argument.given[0].star):
            first = argument.given[0]
            if len(argument.given) == 1:
                return parenthesized(first.node)
            return _tuple([(one.star, one.node) for one in argument.given])
        return parenthesized(argument.given[0].node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        target = _target(original_node.func, self.bound)
        arguments: list[cst.Arg] = []
        pending: list[cst.Arg] = []  # positional arguments that are needed only if another one follows
        for place, arg in enumerate(original_node.args):
            name = arg.value.value if isinstance(arg.value, cst.Name) else ""
            argument = self.bound.get(name)
            if argument is not None and argument.parameter.star and arg.star == "*":
                arguments += [cst.Arg(_bare(one.node), star=one.star) for one in argument.given]
                continue
            value = arg.value.visit(self)
            assert isinstance(value, cst.BaseExpression)
            if arg.star == "*" and isinstance(value, cst.List | cst.Tuple):
                arguments += [cst.Arg(_bare(one.value), star=_star(one)) for one in value.elements]
                continue
            if arg.keyword is not None and arg.keyword.value in ("axis", "axes"):
                value = _as_tuple(value)
            filled = arg.with_changes(value=_bare(value), comma=cst.MaybeSentinel.DEFAULT)
            omitted = argument is not None and not argument.given and not argument.parameter.star
            if omitted and argument is not None:
                default = argument.parameter.default
                if arg.keyword is None:
                    if _default(target, place) == default:
                        pending.append(filled)
                        continue
                elif _default(target, arg.keyword.value) == default:
                    continue
            if arg.keyword is None:
                arguments += pending
                pending = []
            arguments.append(filled)
        if isinstance(original_node.func, cst.Name) and original_node.func.value == "tuple":
            written = _as_tuple(arguments[0].value)
            if isinstance(written, cst.Tuple):
                return written
        func = original_node.func.visit(self)
        assert isinstance(func, cst.BaseExpression)
        return updated_node.with_changes(func=func, args=arguments)

    def leave_Index(self, original_node: cst.Index, updated_node: cst.Index) -> cst.Index:
        return updated_node.with_changes(value=_bare(updated_node.value))

    def leave_Element(self, original_node: cst.Element, updated_node: cst.Element) -> cst.Element:
        return updated_node.with_changes(value=_bare(updated_node.value))


def _tuple(items: list[tuple[str, cst.BaseExpression]]) -> cst.Tuple:
    elements = [cst.StarredElement(node) if star else cst.Element(_bare(node)) for star, node in items]
    return cst.Tuple(elements)


def _star(element: cst.BaseElement) -> Literal["", "*"]:
    return "*" if isinstance(element, cst.StarredElement) else ""


def _as_tuple(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a tuple for an expression such as `[0, 1]`, and any other expression unchanged."""
    return _tuple([(_star(one), one.value) for one in node.elements]) if isinstance(node, cst.List) else node


def _target(func: cst.BaseExpression, bound: Mapping[str, Argument]) -> Callable[..., Any] | None:
    """Return the function that a template calls: a function in a module of `ROOTS`, or a method of `jax.Array`.

    The result is None if the function is not found.
    """
    names: list[str] = []
    while isinstance(func, cst.Attribute):
        names.insert(0, func.attr.value)
        func = func.value
    if not isinstance(func, cst.Name) or not names:
        return getattr(jax.Array, names[-1], None) if len(names) == 1 else None
    if func.value in bound or func.value not in ROOTS:
        return getattr(jax.Array, names[-1], None)
    found: Any = importlib.import_module(ROOTS[func.value])
    for name in names:
        found = getattr(found, name, None)
    return found


_NO_DEFAULT = object()


def _default(target: Callable[..., Any] | None, place: int | str) -> Any:
    """Return the default of the parameter at this position or with this name, or `_NO_DEFAULT` if it has none."""
    try:
        parameters = dict(inspect.signature(target).parameters) if target is not None else {}
    except (TypeError, ValueError):
        return _NO_DEFAULT
    parameters.pop("self", None)
    name = place if isinstance(place, str) else (list(parameters) + [""] * (place + 1))[place]
    found = parameters.get(str(name))
    return _NO_DEFAULT if found is None or found.default is inspect.Parameter.empty else found.default


def reference(rule: Rule) -> cst.BaseExpression | None:
    """Return the replacement of a torch function that is passed on without a call: `torch.tanh` becomes `jnp.tanh`.

    If the template is not a plain call with the parameters in order, the result is a lambda of the required parameters.
    The result is None if the rule has a condition or a star parameter, or has no signature or no template.
    """
    if rule.parameters is None or not rule.template or rule.when:
        return None
    required = [one.name for one in rule.parameters if one.default is MISSING and not one.star]
    if any(one.star for one in rule.parameters):
        return None
    template = parse(rule.template)
    if isinstance(template, cst.Call):
        passed = [one.value.value for one in template.args if isinstance(one.value, cst.Name) and one.keyword is None]
        same = [one for one in template.args if one.keyword is not None and code(one.value) == one.keyword.value]
        whole = len(template.args) == len(passed) + len(same)
        if passed == required and count_names(template.func).keys().isdisjoint(required) and whole:
            return template.func
    bound = {one.name: Argument(one, ()) if one.name not in required else _named(one) for one in rule.parameters}
    filled = fill(rule, bound)
    if not isinstance(filled, cst.BaseExpression):
        return None
    return cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)) for name in required]), filled)


def _named(parameter: TorchParameter) -> Argument:
    return Argument(parameter, (Given("", "", cst.Name(parameter.name)),))
