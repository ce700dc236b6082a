"""Applies the rules to calls of torch functions and tensor methods."""

from __future__ import annotations

import libcst as cst
import numpy as np

from funcnet import functional, nn
from funcnet.porting.errors.unported_lines import EAGER_ONLY
from funcnet.porting.expression_facts.fact import Fact, is_tensor
from funcnet.porting.reading.expressions import code
from funcnet.porting.rule_engine.rule import IGNORED, Argument, Given, Rule, bind, missing_facts
from funcnet.porting.rule_engine.template_filling import fill, roots_of
from funcnet.porting.transforms.descriptions import base_of, describes
from funcnet.porting.transforms.random_keys import added
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["by_rules", "call", "given_of", "part_of", "qualified_of", "rules_of", "target_of"]

FUNCTIONAL = "torch.nn.functional."

_NUMPYS = frozenset(dir(np.ndarray))


def rules_of(context: RewriteContext, name: str) -> tuple[Rule, ...]:
    """Return the rules for a qualified name, or else those of its module, such as `torch.distributions.*`."""
    found = context.rules.get(name, ())
    while not found and "." in name:
        name = name.rpartition(".")[0]
        found = context.rules.get(f"{name}.*", ())
    return found


def qualified_of(node: cst.BaseExpression, context: RewriteContext) -> str | None:
    """Return the qualified name to which an expression refers, or None if it refers to no imported name.

    The result is also None for an attribute of one of torch's constants, such as `torch.long.itemsize`.
    """
    qualified = context.qualified(node)
    owner = context.rules.get((qualified or "").rpartition(".")[0], ())
    plain = any(one.parameters is None and one.result in ("str", "dtype", "float") for one in owner)
    return None if plain else qualified


def target_of(original: cst.Call, context: RewriteContext) -> tuple[str, bool]:
    """Return (name under which to look for rules, whether the call is a method call on a value that may be a tensor).

    The name is "" if the call is neither a function of torch nor a method that a tensor may have.
    """
    qualified = qualified_of(original.func, context)
    if qualified is not None and qualified.startswith("torch.Tensor."):
        return qualified.removeprefix("torch."), False
    if qualified is not None and qualified.startswith("torch."):
        return qualified, False
    if isinstance(original.func, cst.Name) and original.func.value == "abs" and len(original.args) == 1:
        return ("Tensor.abs" if context.fact(original.args[0].value).is_tensor else ""), False
    if isinstance(original.func, cst.Attribute) and qualified is None:
        early = original.func.attr.value == "requires_grad_" and not context.in_forward(original)
        if _has_method(original.func, context) or (early and isinstance(original.func.value, cst.Attribute)):
            return "", False  # a description has this method too
        name = f"Tensor.{original.func.attr.value}"
        receiver = context.fact(original.func.value)
        known = is_tensor(receiver, original.func.attr.value)
        if known is not False and name in context.rules:
            return name, True
    return "", False


def _has_method(func: cst.Attribute, context: RewriteContext) -> bool:
    """Return whether funcnet's parameter descriptions have a method, such as `fill_` in `self.weight.fill_`.

    Descriptions lack methods that compute with the values of a parameter, such as `cumsum`.
    """
    lacks = "parameter" in context.fact(base_of(func.value)).kinds and not hasattr(nn.Parameter, func.attr.value)
    return describes(func.value, context) and not lacks


def part_of(original: cst.Call, context: RewriteContext) -> str:
    """Return "values" or "indices" if only this part of a call's result is read, as in `x.max(1)[0]`. Otherwise, ""."""
    parent = context.parent(original)
    if isinstance(parent, cst.Attribute) and parent.value is original:
        return parent.attr.value if parent.attr.value in ("values", "indices") else ""
    if isinstance(parent, cst.Subscript) and parent.value is original:
        return {"0": "values", "1": "indices"}.get(", ".join(code(one.slice) for one in parent.slice), "")
    return ""


def call(
    original: cst.Call, updated: cst.Call, context: RewriteContext, whole: bool = False
) -> cst.BaseExpression | None:
    """Replace a call according to the rules.

    Some calls return values and indices. If the source reads only one of them, and a rule for this part exists,
    `result_parts.py` rewrites the call instead. If no rule for the part applies, `result_parts.py` calls this function
    with `whole=True`.
    """
    name, is_method = target_of(original, context)
    if not name or (is_method and name.endswith("_") and name != "Tensor.requires_grad_"):
        return None  # `in_place.py` rewrites changes in place, except those of initial values of parameters
    if (
        name.startswith(FUNCTIONAL)
        and hasattr(functional, name.removeprefix(FUNCTIONAL))
        and not rules_of(context, name)
    ):
        return None  # `names.py` writes the name with `F`, and the call stays
    if name.startswith("torch.nn.") and not rules_of(context, name):
        return None
    if not whole and f"{name}.{part_of(original, context)}" in context.rules:
        return None
    rules = rules_of(context, name)
    if not rules:
        context.give_up(original, f"There is no rule for {name}.")
        return None
    if is_method and is_tensor(context.fact(original.func.value), name.removeprefix("Tensor.")) is None:  # type: ignore[attr-defined]
        receiver = code(original.func.value)  # type: ignore[attr-defined]
        method = name.removeprefix("Tensor.")
        if _is_no_tensors(original, method, rules, given_of(original, updated, context, is_method)):
            return None
        why = f"It is not known whether {receiver} is a tensor, so .{method} may be another method."
        context.give_up(original, why, "Pass --example, so that a run of the model shows it.")
        return None
    given = given_of(original, updated, context, is_method)
    return by_rules(original, rules, given, context)


def _is_no_tensors(original: cst.Call, method: str, rules: tuple[Rule, ...], given: list[Given]) -> bool:
    """Return whether the arguments of a method call show that it is not a tensor's method: `a.split(",")`."""
    if any(one.star for one in given):
        return False
    if method in dir(str) and len(given) > 1 and given[1].fact.is_only("str"):
        return True
    return not any(rule.parameters is None or bind(rule.parameters, given) is not None for rule in rules)


def given_of(original: cst.Call, updated: cst.Call, context: RewriteContext, is_method: bool) -> list[Given]:
    found = []
    if is_method:
        func, method = updated.func, original.func
        assert isinstance(func, cst.Attribute) and isinstance(method, cst.Attribute)
        fact = context.fact(method.value)
        found.append(Given("", "", func.value, fact if fact.kinds else Fact(frozenset({"tensor"}))))
    for before, now in zip(original.args, updated.args, strict=True):
        keyword = "" if now.keyword is None else now.keyword.value
        found.append(Given(keyword, now.star, now.value, context.fact(before.value)))
    return found


def by_rules(
    original: cst.Call, rules: tuple[Rule, ...], given: list[Given], context: RewriteContext
) -> cst.BaseExpression | None:
    unknown: list[tuple[Rule, dict[str, Argument]]] = []
    known = _makes(rules[0]) or rules[0].name == "torch.utils.checkpoint.checkpoint"
    passed = [one for one in given if one.star == "**" and (known or code(one.node) == "factory_kwargs")]
    given = [one for one in given if one not in passed]
    if rules[0].kind == "register" and rules[0].parameters is None:
        context.give_up(original, rules[0].note, level=rules[0].level)
        return None
    for rule in rules:
        bound = bind(rule.parameters, given) if rule.parameters is not None else None
        if bound is None:
            continue
        filled = fill(rule, bound)
        if filled is False:
            continue
        if filled is None:
            unknown.append((rule, bound))
            continue
        if unknown:  # an earlier rule may be the right one
            break
        if rule.level and not (rule.level == EAGER_ONLY and (context.starts(original) or context.is_static(original))):
            context.give_up(original, rule.note, level=rule.level)
        if rule.kind == "register":
            return None
        assert isinstance(filled, cst.BaseExpression)
        for arg in original.args:
            if arg.keyword is not None and arg.keyword.value in IGNORED and arg.keyword.value not in bound:
                context.settle(arg)  # the argument is not in the result
        filled = added(filled, rule, original, context)
        if context.is_numpys(original):
            filled = _numpys(filled, original, context)
        context.roots |= roots_of(filled)
        if passed and isinstance(filled, cst.Call):
            return filled.with_changes(args=[*filled.args, *(cst.Arg(one.node, star="**") for one in passed)])
        return filled
    if unknown:
        context.give_up(original, _undecided(*unknown[0]), unknown[0][0].note)
    else:
        context.give_up(original, f"{rules[0].name} is called in a way for which there is no rule.")
    return None


def _undecided(rule: Rule, bound: dict[str, Argument]) -> str:
    """Return a text for the register that says what is not known about the arguments of a call."""
    facts = [
        f"what {kind} {bound[name].text or name} has (the argument {name} of {rule.name})"
        for kind, name in missing_facts(rule.when, bound)
    ]
    return f"It is not known {' and '.join(facts)}."


def _makes(rule: Rule) -> bool:
    """Return whether a function makes a tensor of a given dtype, so that `**options` in `torch.zeros(3, **options)` may
    pass the dtype.
    """
    names = [one.name for one in rule.parameters or ()]
    return rule.name.startswith("torch.") and "dtype" in names and "dtype" in rule.template and names[0] != "input"


class _Numpys(cst.CSTTransformer):
    """Replaces functions of jax.numpy with NumPy's functions of the same names, and collects all other functions."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[str] = []

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        root = updated_node.value
        if not isinstance(root, cst.Name) or root.value not in ("jnp", "jax", "F", "tl"):
            return updated_node
        if root.value == "jnp" and hasattr(np, updated_node.attr.value):
            return updated_node.with_changes(value=cst.Name("np"))
        self.others.append(code(updated_node))
        return updated_node


def _numpys(filled: cst.BaseExpression, original: cst.CSTNode, context: RewriteContext) -> cst.BaseExpression:
    """Return an expression with NumPy's functions, so that its value is known under `jit`.

    If NumPy lacks one of the functions, add an entry to the register and return the expression unchanged.
    """
    change = _Numpys()
    written = filled.visit(change)
    assert isinstance(written, cst.BaseExpression)
    if change.others:
        context.give_up(original, f"The value of this tensor is needed under jit, and NumPy has no {change.others[0]}.",
                        "Compute it from shapes with Python or NumPy.", EAGER_ONLY)  # fmt: skip
        return filled
    return written
