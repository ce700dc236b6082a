"""Rewrites changes in place: `x.add_(y)`, `torch.relu_(x)`, `F.relu(x, inplace=True)`, and chains such as
`x.mul_(2).add_(y)`.

JAX arrays cannot change, so the port assigns the new value to the name of the tensor. A write through a view without a
name, such as `x.view(-1).add_(1)`, goes to the register. Changes of a parameter's initial value in a constructor stay
as they are, because descriptions have these methods. `item_assignments.py` rewrites `x[i] = v`.
"""

from __future__ import annotations

import dataclasses

import libcst as cst

from funcnet import functional
from funcnet.porting.analysis.random_functions import draws
from funcnet.porting.analysis.view_expressions import inplace_flag
from funcnet.porting.expression_facts.fact import is_tensor
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.expressions import code, parse
from funcnet.porting.transforms.calls import FUNCTIONAL, by_rules, given_of
from funcnet.porting.transforms.context_managers import is_stopped, stop
from funcnet.porting.transforms.descriptions import describes
from funcnet.porting.transforms.random_keys import passed
from funcnet.porting.transforms.rewrite_context import RewriteContext
from funcnet.porting.transforms.subscripts import setting

__all__ = ["OPERATORS", "assigned", "bound", "method", "statement"]

OPERATORS = {
    cst.AddAssign: ("add", "+"), cst.SubtractAssign: ("subtract", "-"), cst.MultiplyAssign: ("multiply", "*"),
    cst.DivideAssign: ("divide", "/"), cst.PowerAssign: ("power", "**"), cst.FloorDivideAssign: ("", "//"),
    cst.ModuloAssign: ("", "%"), cst.BitAndAssign: ("", "&"), cst.BitOrAssign: ("", "|"), cst.BitXorAssign: ("", "^"),
}  # fmt: skip

_UNSEEN = "{} is changed without its gradient: the new value keeps the gradient of the old one."
_UNSEEN_ADVICE = "Write x + jax.lax.stop_gradient(new - x), or give the new array another name."
_ADVICE = "Assign the changed array to the name that holds it."
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


# ------------------------------------------------------------------------------------------------ which calls these are


def _method_name(node: cst.CSTNode, context: RewriteContext) -> str:
    """Return the name of the called method, such as "add_" for `x.add_(…)`, if it changes a possible tensor in place.
    Otherwise, return "".
    """
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return ""
    name = node.func.attr.value
    if not name.endswith("_") or name.endswith("__") or name == "requires_grad_":
        return ""
    if context.qualified(node.func) is not None or describes(node.func.value, context):
        return ""
    known = f"Tensor.{name}" in context.rules or f"Tensor.{name.removesuffix('_')}" in context.rules
    return name if known and is_tensor(context.fact(node.func.value), name) is not False else ""


def _function_name(node: cst.CSTNode, context: RewriteContext) -> str:
    """Return the qualified name of the called torch function if a node calls one that changes its first argument.

    The result is "module" for a call of a layer that was made with `inplace=True`, and "" for other nodes.
    """
    if not isinstance(node, cst.Call) or not node.args or node.args[0].star:
        return ""
    name = context.qualified(node.func) or ""
    if describes(node.args[0].value, context):
        return ""
    if not name or name.startswith("torch.nn.modules"):
        return "module" if _is_changing_module(node.func, context) else ""
    if name.endswith("_") and not name.endswith("__"):
        own = name.removeprefix(FUNCTIONAL) if name.startswith(FUNCTIONAL) else name.removeprefix("torch.")
        return name if own != name and "." not in own else ""
    return name if name.startswith(FUNCTIONAL) and inplace_flag(node, name) is not None else ""


def _is_changing_module(node: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether an expression is a layer that always has `inplace=True`, as in `self.act = nn.ReLU(True)`."""
    calls = [node] if isinstance(node, cst.Call) else context.values(node)
    names = [context.qualified(one.func) or "" if isinstance(one, cst.Call) else "" for one in calls]
    return bool(calls) and all(inplace_flag(one, name) is not None for one, name in zip(calls, names, strict=True))  # type: ignore[arg-type]


def _changed(node: cst.CSTNode, context: RewriteContext) -> cst.BaseExpression | None:
    """Return the expression whose tensor a call changes in place, or None if the node is not such a call."""
    if _method_name(node, context):
        return node.func.value  # type: ignore[attr-defined]
    return node.args[0].value if _function_name(node, context) else None  # type: ignore[attr-defined]


def _place(node: cst.BaseExpression, context: RewriteContext) -> cst.BaseExpression:
    """Return the expression whose tensor a chain of changes in place changes: `x` for `x.data.mul_(2).add_(1)`."""
    while True:
        inner = _changed(node, context)
        if inner is None and isinstance(node, cst.Attribute) and node.attr.value == "data":
            inner = node.value
        if inner is None:
            return node
        node = inner


# ------------------------------------------------------------------------------------------------------- what to write


def method(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Replace `x.add_(y)` with the new value of the tensor."""
    receiver = _changed(original, context)
    if receiver is None:
        return None
    parent = context.parent(original)
    value = _value(original, updated, context)
    above = context.parent(parent) if isinstance(parent, cst.Attribute | cst.Arg) else None
    if value is None or isinstance(parent, cst.Expr) or (above is not None and _changed(above, context) is original):
        return value  # a statement, or a part of a chain
    place = _place(receiver, context)
    if isinstance(place, cst.Name):
        return value if _is_idle(original, place, context) else _rebound(original, place, value, context)
    if isinstance(parent, cst.Assign | cst.Return) or not _holds(place, context):
        return value  # `bound` assigns the value, or nothing holds the tensor
    context.give_up(original, f"{code(place)} is changed inside an expression, and may be read later.", _ADVICE)
    return value


def _value(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    name = _method_name(original, context)
    if name:
        rules = context.rules.get(f"Tensor.{name}") or context.rules[f"Tensor.{name.removesuffix('_')}"]
        given = given_of(original, updated, context, is_method=True)
        holder = original.func.value  # type: ignore[attr-defined]
        if isinstance(context.parent(original), cst.Expr) and _is_data(holder) and not context.starts(holder):
            given[0] = dataclasses.replace(
                given[0], node=context.rewritten(holder.value)
            )  # `assigned` stops the gradient
        return _fresh(by_rules(original, rules, given, context))
    name = _function_name(original, context)
    if name == "module":
        return updated
    short = name.removesuffix("_")
    found = context.rules.get(name) or context.rules.get(short)
    if found and short != name:
        return by_rules(original, found, given_of(original, updated, context, is_method=False), context)
    own = short.removeprefix(FUNCTIONAL).removeprefix("torch.")
    context.settle(original.func)
    if not hasattr(functional, own) or (short != name and draws(f"{FUNCTIONAL}{own}", context.rules)):
        context.give_up(original, f"There is no rule for {name}.")
        return None
    if short != name:
        context.roots.add("F")
        return updated.with_changes(func=parse(f"F.{own}").deep_clone())
    flag = inplace_flag(original, name)
    kept = [
        now for old, now in zip(original.args, updated.args, strict=True) if old is not flag or flag.keyword is None
    ]
    if len(kept) < len(updated.args) and flag is original.args[-1]:
        kept[-1] = kept[-1].with_changes(
            comma=updated.args[-1].comma, whitespace_after_arg=updated.args[-1].whitespace_after_arg
        )
    updated = updated.with_changes(args=kept)
    return passed(original, updated, context) or updated


def _is_idle(original: cst.Call, place: cst.Name, context: RewriteContext) -> bool:
    """Return whether no code reads a changed name again, because it is assigned anew or not used any more."""
    parent = context.parent(original)
    same = isinstance(parent, cst.Assign) and any(code(one.target) == place.value for one in parent.targets)
    return same or not context.read_later(place)


def _rebound(
    original: cst.Call, place: cst.Name, value: cst.BaseExpression, context: RewriteContext
) -> cst.BaseExpression:
    """Return `(x := value)` for a changed name x, or only the value if x is in a comprehension or a lambda."""
    around = enclosing(original, (*_COMPREHENSIONS, cst.Lambda, cst.FunctionDef), context.parent)
    if isinstance(around, (*_COMPREHENSIONS, cst.Lambda)):
        return value
    if is_stopped(original, context):
        value = stop(value, context)
    return cst.NamedExpr(cst.Name(place.value), value, lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _holds(place: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether the changed expression is an attribute or an item, through which the tensor may be read later."""
    if context.starts(place) and context.fact(place).is_only("module"):
        return False
    return isinstance(place, cst.Attribute | cst.Subscript)


def statement(original: cst.Expr, updated: cst.Expr, context: RewriteContext) -> cst.BaseSmallStatement | None:
    """Write `x = x + y` for the statement `x.add_(y)`."""
    call = original.value
    if _changed(call, context) is None or updated.value is call:
        return None
    place = _place(call, context)
    if isinstance(place, cst.Call) and _function_name(call, context):
        return None  # `F.relu(self.conv(x), inplace=True)`: nothing reads the result
    return assigned(place, updated.value, context, through=call)


def bound(
    original: cst.Assign | cst.Return, updated: cst.Assign | cst.Return, context: RewriteContext
) -> cst.CSTNode | cst.FlattenSentinel | None:
    """Write `y = self.count = self.count + 1` for `y = self.count.add_(1)`."""
    call, value = original.value, updated.value
    if call is None or value is None or _changed(call, context) is None or value is call:
        return None
    place = _place(call, context)
    if not isinstance(place, cst.Attribute | cst.Subscript) or not _holds(place, context):
        return None
    first = assigned(place, value, context, through=call)
    if first is None:
        return None
    if isinstance(updated, cst.Assign) and isinstance(place, cst.Attribute) and isinstance(first, cst.Assign):
        return first.with_changes(targets=[*updated.targets, *first.targets])
    return cst.FlattenSentinel([first, updated.with_changes(value=context.rewritten(place))])


def assigned(
    target: cst.BaseExpression, value: cst.BaseExpression, context: RewriteContext, through: cst.CSTNode | None = None
) -> cst.BaseSmallStatement | None:
    """Return the statement that assigns the changed array `value` to a target of the original tree.

    Args:
        target: a name, an attribute, or an item.
        value: the new value, in the tree of the result.
        context: the context.
        through: the call or the item that changes the target in place, or None. If the change goes through `.data`, the
            port stops the gradient of the value, because torch's autograd ignores the change.

    Returns:
        The statement, or None if the target is a view without a name, which is registered.
    """
    place = target
    while isinstance(place, cst.Subscript) and context.fact(place.value).is_tensor:
        value = setting(place, context.rewritten(place.value), context.rewritten_index(place), value, context)
        place = place.value
    if isinstance(place, cst.Name | cst.Attribute | cst.Subscript) and not _is_data(place):
        written = context.rewritten(place)
        if isinstance(written, cst.Name | cst.Attribute | cst.Subscript):
            unseen = is_stopped(target, context) or (through is not None and _through_data(through, context))
            if unseen and not context.starts(target):
                if not _has_no_gradient(place, context):
                    context.give_up(target, _UNSEEN.format(code(place)), _UNSEEN_ADVICE)
                value = stop(value, context)
            return cst.Assign([cst.AssignTarget(written)], value)
    context.give_up(target, f"{code(target)} is a view without a name, so what is written to it is lost.", _ADVICE)
    return None


def _is_data(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "data"


def _through_data(node: cst.CSTNode, context: RewriteContext) -> bool:
    while node is not None:
        if isinstance(node, cst.Attribute) and node.attr.value == "data":
            return True
        inner = _changed(node, context)
        if inner is None:
            return isinstance(node, cst.Subscript) and _through_data(node.value, context)
        node = inner
    return False


def _has_no_gradient(place: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether a tensor certainly has no gradient, because it is a buffer, an integer, or newly made."""
    fact = context.fact(place)
    if fact.is_integral or fact.is_boolean or isinstance(place, cst.Attribute):
        return "parameter" not in fact.kinds
    values = context.values(place) if isinstance(place, cst.Name) else []
    return bool(values) and all(is_stopped(one, context) or _is_made(one, context) for one in values)


_MAKERS = frozenset(
    ["zeros", "ones", "full", "empty", "arange", "linspace", "eye", "tensor", "rand", "randn", "randint"]
)


def _is_made(node: cst.CSTNode, context: RewriteContext) -> bool:
    while isinstance(node, cst.Call):
        name = context.qualified(node.func) or ""
        if name.startswith("torch.") and name.rpartition(".")[2].removesuffix("_like") in _MAKERS:
            return True
        if not isinstance(node.func, cst.Attribute):
            return False
        if node.func.attr.value.startswith("new_") or node.func.attr.value == "detach":
            return True
        node = node.func.value
    return False


_INFINITIES = ("np.inf", "math.inf", "jnp.inf", "float('inf')", 'float("inf")')


def _fresh(value: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """Write `jnp.full(shape, 0.5)` for `jnp.full_like(jnp.zeros(shape), 0.5)`, as in `torch.empty(…).fill_(0.5)`."""
    if not isinstance(value, cst.Call) or code(value.func) != "jnp.full_like" or len(value.args) != 2:
        return value
    made, filling = value.args[0].value, value.args[1].value
    if not isinstance(made, cst.Call) or code(made.func) != "jnp.zeros" or len(made.args) != 1:
        return value
    number = filling.expression if isinstance(filling, cst.UnaryOperation) else filling
    is_float = isinstance(number, cst.Float) or code(number) in _INFINITIES
    dtype = "" if is_float else ", jnp.float32"
    return cst.parse_expression(f"jnp.full({code(made.args[0].value)}, {code(filling)}{dtype})")
