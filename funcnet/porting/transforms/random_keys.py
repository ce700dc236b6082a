"""Writes random keys: `self.make_rng()` in a method of a module, and a parameter `make_rng` in a function that such a
method calls.

In a rule's template, the name `rng` is replaced with an expression for a key. A function of the file that draws random
numbers, directly or through a call, gets a keyword argument `make_rng`, which returns a new key at each call. In a
constructor, a value is drawn once with a fixed key, and the register has an entry "start differs".
"""

from __future__ import annotations

import inspect

import libcst as cst

from funcnet import functional, nn
from funcnet.porting.analysis.random_functions import draws
from funcnet.porting.errors.unported_lines import START_DIFFERS
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.expressions import code, parse
from funcnet.porting.reading.syntax import walk
from funcnet.porting.rule_engine.rule import Rule
from funcnet.porting.transforms.descriptions import is_draft
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["added", "initialised", "key", "parameter", "passed"]

FUNCTIONAL = "torch.nn.functional."
_RATES = ("p", "dropout_p")


def _is_zero(node: cst.Call, name: str) -> bool:
    """Return whether the dropout rate of a call is 0: a number (`p=0.0`), or left out with a default of 0."""
    parameters = list(inspect.signature(getattr(functional, name)).parameters.values())
    rate = next((place for place, one in enumerate(parameters) if one.name in _RATES), None)
    if rate is None:
        return False
    for place, arg in enumerate(node.args):
        if (arg.keyword is None and place == rate) or (arg.keyword is not None and arg.keyword.value in _RATES):
            return isinstance(arg.value, cst.Integer | cst.Float) and float(arg.value.evaluated_value) == 0
    return parameters[rate].default in (0, 0.0)


def key(original: cst.CSTNode, context: RewriteContext) -> cst.BaseExpression:
    """Return the expression that makes a new random key in place of a node of the original tree."""
    if context.starts(original):
        context.give_up(original, "The initial value is drawn with a fixed key. In torch it is random.",
                        "If it should vary, use nn.Parameter(shape, init) with a function of nn.init.",
                        START_DIFFERS)  # fmt: skip
        context.roots.add("jax")
        return parse("jax.random.key(0)").deep_clone()
    return parse(f"{_maker(original, context)}()").deep_clone()


def initialised(original: cst.Expr, updated: cst.Expr, context: RewriteContext) -> cst.Assign | None:
    """Write `w = nn.init.normal()(key, w.shape, w.dtype)` for `nn.init.normal_(w)` in a constructor, if w is an array.

    If w is a description, the call stays as it is, because it sets the init of w.
    """
    call, now = original.value, updated.value
    if not isinstance(call, cst.Call) or not isinstance(now, cst.Call) or not call.args or not context.starts(original):
        return None
    name = (context.qualified(call.func) or "").removeprefix("torch.nn.init.")
    array = call.args[0].value
    if not name.endswith("_") or not hasattr(nn.init, name) or not isinstance(array, cst.Name):
        return None
    if not context.fact(array).is_only("tensor") or is_draft(array, context):
        return None
    context.roots.add("nn")
    drawn = code(cst.Call(parse(f"nn.init.{name[:-1]}").deep_clone(), now.args[1:]))
    made = f"{drawn}({code(key(call, context))}, {array.value}.shape, {array.value}.dtype)"
    return cst.Assign([cst.AssignTarget(array)], cst.parse_expression(made))


def _maker(original: cst.CSTNode, context: RewriteContext) -> str:
    function = enclosing(original, (cst.FunctionDef,), context.parent)
    inside = function is not None
    while function is not None and not context.is_drawer(function):
        if context.is_module_method(function):
            return "self.make_rng"
        function = enclosing(function, (cst.FunctionDef,), context.parent)
    if function is None and inside:
        context.give_up(original, "Random numbers are drawn where no key can be made.", "Pass a key to the function.")
    return "make_rng" if function is not None else "self.make_rng"


class _Keys(cst.CSTTransformer):
    def __init__(self, original: cst.CSTNode, context: RewriteContext):
        super().__init__()
        self.original, self.context = original, context

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return key(self.original, self.context) if original_node.value == "rng" else updated_node

    def visit_Arg_keyword(self, node: cst.Arg) -> None:
        return None

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


def added(filled: cst.BaseExpression, rule: Rule, original: cst.CSTNode, context: RewriteContext) -> cst.BaseExpression:
    """Replace the name `rng` in the filled template of a rule with the expression for a new random key."""
    if "rng" not in rule.template:
        return filled
    result = filled.visit(_Keys(original, context)).visit(_Shaped())  # type: ignore[union-attr]
    assert isinstance(result, cst.BaseExpression)
    if "jax" in {one.value for one in walk(result) if isinstance(one, cst.Name)}:
        context.roots.add("jax")
    return result


class _Shaped(cst.CSTTransformer):
    """Writes `jax.random.normal(key, shape)` for `tl.randn_like(jnp.zeros(shape), rng=key)`."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = {"tl.rand_like": "uniform", "tl.randn_like": "normal"}.get(code(updated_node.func))
        like = updated_node.args[0].value if updated_node.args else None
        if (
            name is None
            or len(updated_node.args) != 2
            or not isinstance(like, cst.Call)
            or code(like.func) != "jnp.zeros"
        ):
            return updated_node
        if any(arg.star or arg.keyword is not None for arg in like.args):
            return updated_node
        key = updated_node.args[1].with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
        return cst.Call(parse(f"jax.random.{name}").deep_clone(), [key, *like.args])


def passed(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Pass a key to a call of a function of `F` that draws random numbers, or `make_rng` to one of the source."""
    if any(arg.keyword is not None and arg.keyword.value in ("rng", "make_rng") for arg in updated.args):
        return None
    qualified = context.qualified(original.func) or ""
    name = qualified.removeprefix(FUNCTIONAL)
    if name != qualified and hasattr(functional, name) and qualified not in context.rules:
        if not draws(qualified, context.rules) or _is_zero(original, name):
            return None
        return _with(updated, "rng", key(original, context))
    if context.is_drawer_call(original) and not context.starts(original):
        return _with(updated, "make_rng", parse(_maker(original, context)).deep_clone())
    return None


def _with(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    args = list(call.args)
    if args and isinstance(args[-1].comma, cst.Comma):  # a trailing comma, often with a line break after it
        last = args[-1].comma
        before = args[-2].comma if len(args) > 1 and isinstance(args[-2].comma, cst.Comma) else last
        args[-1] = args[-1].with_changes(comma=before)
        return call.with_changes(args=[*args, cst.Arg(value, cst.Name(name), equal, comma=last)])
    if args and args[-1].whitespace_after_arg is not None:
        end = args[-1].whitespace_after_arg
        args[-1] = args[-1].with_changes(whitespace_after_arg=cst.SimpleWhitespace(""))
        return call.with_changes(args=[*args, cst.Arg(value, cst.Name(name), equal, whitespace_after_arg=end)])
    return call.with_changes(args=[*args, cst.Arg(value, cst.Name(name), equal)])


def parameter(original: cst.FunctionDef, updated: cst.FunctionDef, context: RewriteContext) -> cst.FunctionDef | None:
    """Add the keyword argument `make_rng` to the definition of a function that draws random numbers."""
    if not context.is_drawer(original) or context.is_module_method(original):
        return None
    params = updated.params
    named = "kwonly_params" if params.kwonly_params else "params"
    before = list(getattr(params, named))
    new = cst.Param(cst.Name("make_rng"))
    if before and isinstance(before[-1].comma, cst.Comma):  # a trailing comma, often with a line break after it
        new = new.with_changes(comma=before[-1].comma)
        inner = before[-2].comma if len(before) > 1 else cst.MaybeSentinel.DEFAULT
        before[-1] = before[-1].with_changes(comma=inner)
    star = params.star_arg
    if isinstance(star, cst.MaybeSentinel):
        star = cst.ParamStar() if not params.kwonly_params else star
    changed = params.with_changes(**{named: before})
    return updated.with_changes(params=changed.with_changes(star_arg=star, kwonly_params=[*changed.kwonly_params, new]))
