"""Rewrites tests of types and dtypes: `type(x) == torch.Tensor`, `x.dtype is torch.float32`,
`isinstance(x, torch.LongTensor)`, `x.type() == "torch.cuda.HalfTensor"`.

Such tests of types and dtypes need another form in JAX. The class of an array does not show its dtype, two equal dtypes
may be different objects, and a parameter is a plain array in `forward`.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.reading.expressions import code, is_atom, is_simple, parenthesized, parse
from funcnet.porting.reading.syntax import walk
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["compared", "is_instance", "membership", "scripted"]

_ADVICE = "Write isinstance(x, jax.Array), and compare x.dtype with a dtype such as jnp.float32."


_FLOATING = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16"}


def _tensors(node: cst.CSTNode, context: RewriteContext) -> set[str]:
    """Return the names of classes of tensors in an expression, such as "torch.Tensor" and "torch.LongTensor"."""
    names = {context.qualified(one) or "" for one in walk(node) if isinstance(one, cst.Name | cst.Attribute)}
    return {name for name in names if name.startswith("torch.") and name.endswith(("Tensor", ".Parameter"))}


def compared(original: cst.Comparison, updated: cst.Comparison, context: RewriteContext) -> cst.BaseExpression | None:
    """Rewrite a comparison of types, dtypes or devices.

    `type(x) == torch.Tensor` becomes `isinstance(x, jax.Array)`, `x.dtype is torch.float32` is written with `==`,
    `x.type() == "torch.cuda.HalfTensor"` compares `x.dtype`, and a comparison with `torch.device("cuda")` becomes the
    value that it has in torch on a CPU.
    """
    if len(original.comparisons) != 1:
        return None
    left, target = original.left, original.comparisons[0]
    if (
        isinstance(left, cst.Call)
        and isinstance(left.func, cst.Name)
        and left.func.value == "type"
        and len(left.args) == 1
    ):
        return _type(original, updated, context)
    dtype = _floating(left, target)
    if dtype and isinstance(updated.left, cst.Call):
        context.settle(left)
        context.roots.add("jnp")
        old, array = updated.comparisons[0], context.rewritten(left.func.value)  # type: ignore[attr-defined]
        asked = cst.Attribute(array if is_atom(array) else parenthesized(array), cst.Name("dtype"))
        return updated.with_changes(left=asked, comparisons=[old.with_changes(comparator=parse(f"jnp.{dtype}"))])
    sides = (left, target.comparator)
    names = [_device(one, context) for one in sides]
    devices = all(name or context.fact(one).is_only("device") for one, name in zip(sides, names, strict=True))
    if isinstance(target.operator, cst.Equal | cst.NotEqual) and devices and any(names):  # as torch on a CPU
        return cst.Name(str((set(names) <= {"", "cpu"}) is isinstance(target.operator, cst.Equal)))
    if isinstance(target.operator, cst.Is | cst.IsNot):
        facts = [context.fact(one) for one in sides]
        if any(one.is_only("dtype") for one in facts) and not any(one.is_only("none") for one in facts):
            old = updated.comparisons[0]
            spaces = {name: getattr(old.operator, name) for name in ("whitespace_before", "whitespace_after")}
            operator = cst.Equal(**spaces) if isinstance(target.operator, cst.Is) else cst.NotEqual("!=", **spaces)
            return updated.with_changes(comparisons=[old.with_changes(operator=operator)])
    return None


def _floating(left: cst.BaseExpression, target: cst.ComparisonTarget) -> str:
    """Return the dtype for which a comparison tests ("float16" for `x.type() == "torch.cuda.HalfTensor"`), or ""."""
    asked = isinstance(left, cst.Call) and isinstance(left.func, cst.Attribute) and left.func.attr.value == "type"
    known = isinstance(target.operator, cst.Equal | cst.NotEqual) and isinstance(target.comparator, cst.SimpleString)
    if not asked or not known or left.args:  # type: ignore[attr-defined]
        return ""
    name = str(target.comparator.evaluated_value)  # type: ignore[attr-defined]
    return _FLOATING.get(name.removeprefix("torch.").removeprefix("cuda.").removesuffix("Tensor"), "")


def _device(node: cst.BaseExpression, context: RewriteContext) -> str:
    """Return the kind of a device: "cuda" for `torch.device("cuda:0")`. For other expressions, return ""."""
    if not isinstance(node, cst.Call) or context.qualified(node.func) != "torch.device" or not node.args:
        return ""
    value = node.args[0].value
    return str(value.evaluated_value).partition(":")[0] if isinstance(value, cst.SimpleString) else ""


def _type(original: cst.Comparison, updated: cst.Comparison, context: RewriteContext) -> cst.BaseExpression | None:
    target = original.comparisons[0]
    found = _tensors(target.comparator, context)
    if not found:
        return None
    whole = context.qualified(target.comparator) == "torch.Tensor"
    negative = isinstance(target.operator, cst.IsNot | cst.NotEqual)
    if not whole or not (negative or isinstance(target.operator, cst.Is | cst.Equal)):
        context.give_up(original, "An array has its own type.", _ADVICE)
        return None
    assert isinstance(updated.left, cst.Call)
    context.roots.add("jax")
    asked = cst.Call(cst.Name("isinstance"), [updated.left.args[0], cst.Arg(parse("jax.Array").deep_clone())])
    asked = asked.with_changes(args=[asked.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT), asked.args[1]])
    return cst.UnaryOperation(cst.Not(), asked) if negative else asked


def is_instance(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Register an `isinstance` test for a tensor of one dtype, or for a parameter in `forward`.

    If y is a tensor, `isinstance(x, type(y))` becomes `isinstance(x, jax.Array)`, because two arrays may have different
    classes under `jit`.
    """
    if not isinstance(original.func, cst.Name) or original.func.value not in ("isinstance", "issubclass"):
        return None
    if len(original.args) != 2:
        return None
    kind = original.args[1].value
    if isinstance(kind, cst.Call) and code(kind.func) == "type" and len(kind.args) == 1:
        if not context.fact(kind.args[0].value).is_tensor:
            return None
        context.roots.add("jax")
        return updated.with_changes(args=[updated.args[0], cst.Arg(parse("jax.Array").deep_clone())])
    found = _tensors(original.args[1].value, context) - {"torch.Tensor"}
    parameters = {name for name in found if name.endswith("Parameter")}
    if found - parameters:
        context.give_up(original, "An array's class does not say what dtype it has.", _ADVICE)
    elif parameters and not context.starts(original):
        context.give_up(original, "In forward, a parameter is an array like any other.", "Leave the test out.")
    return None


def scripted(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `isinstance(x, list) and all(isinstance(one, jax.Array) for one in x)` for `torch.jit.isinstance`."""
    asked = context.qualified(original.func) == "torch.jit.isinstance" and len(original.args) == 2
    if not asked or any(arg.star or arg.keyword is not None for arg in original.args):
        return None
    value = updated.args[0].value
    found = _question(code(parenthesized(value)), original.args[1].value, context)
    if found is None or ((" and " in found or " or " in found) and not is_simple(value)):
        return None  # the rule for `torch.jit.isinstance` registers the call
    context.settle(original.args[1])
    context.roots |= {"jax"} if "jax." in found else set()
    return cst.parse_expression(found)


_PARTS = ("one", "part", "piece")


def _question(value: str, kind: cst.BaseExpression, context: RewriteContext, depth: int = 0) -> str | None:
    """Return a test in plain Python for `torch.jit.isinstance(value, kind)`, or None if the type is not known."""
    if isinstance(kind, cst.Tuple):
        return _any([_question(value, one.value, context, depth) for one in kind.elements])
    if isinstance(kind, cst.BinaryOperation) and isinstance(kind.operator, cst.BitOr):
        sides = [_question(value, side, context, depth) for side in (kind.left, kind.right) if code(side) != "None"]
        return _any([f"{value} is None", *sides])
    if not isinstance(kind, cst.Subscript):
        others = context.values(kind)
        if len(others) == 1 and isinstance(kind, cst.Name):
            return _question(value, others[0], context, depth)
        known = context.qualified(kind) is not None or context.fact(kind).is_only("class") or code(kind) in _CLASSES
        return f"isinstance({value}, {code(context.rewritten(kind))})" if known else None
    name = code(kind.value).rpartition(".")[2]
    inner = [one.slice.value for one in kind.slice if isinstance(one.slice, cst.Index)]
    if name in ("Optional", "Union"):  # torch treats None as an instance of any union
        return _any([f"{value} is None", *(_question(value, one, context, depth) for one in inner
                                           if code(one) != "None")])  # fmt: skip
    return _contained(value, name.lower(), inner, context, depth)


_CLASSES = ("str", "int", "float", "bool", "bytes", "complex")


def _any(questions: list[str | None]) -> str | None:
    known = [one if " and " not in one else f"({one})" for one in questions if one is not None]
    return " or ".join(dict.fromkeys(known)) if len(known) == len(questions) else None


def _contained(
    value: str, name: str, inner: list[cst.BaseExpression], context: RewriteContext, depth: int
) -> str | None:
    """Return a Python expression that tests for a list, dict or tuple and for the types of its items. For other types,
    return None.
    """
    if depth >= len(_PARTS):
        return None
    part, whole = _PARTS[depth], f"isinstance({value}, {name})"
    if name == "list" and len(inner) == 1:
        asked = _question(part, inner[0], context, depth + 1)
        return asked and f"{whole} and all({asked} for {part} in {value})"
    if name == "dict" and len(inner) == 2:
        names = ("key", part)
        asks = [_question(one, kind, context, depth + 1) for one, kind in zip(names, inner, strict=True)]
        keys, values = (one and f"({one})" if " or " in (one or "") else one for one in asks)
        return keys and values and f"{whole} and all({keys} and {values} for key, {part} in {value}.items())"
    if name == "tuple" and inner and not any(isinstance(one, cst.Ellipsis) for one in inner):
        parts = [_question(f"{value}[{place}]", kind, context, depth + 1) for place, kind in enumerate(inner)]
        joined = [f"({one})" if one is not None and " or " in one else one for one in parts]
        known = [one for one in joined if one is not None]
        return " and ".join([whole, f"len({value}) == {len(inner)}", *known]) if len(known) == len(joined) else None
    return None


def membership(original: cst.Set, updated: cst.Set, context: RewriteContext) -> cst.BaseExpression | None:
    """Write a tuple in place of a set of dtypes, because equal dtypes in JAX may have different hashes."""
    if not original.elements or not all(context.fact(one.value).is_only("dtype") for one in original.elements):
        return None
    return cst.Tuple([one.with_changes() for one in updated.elements], lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
