"""Rewrites names and attributes: dtypes and constants of torch, attributes of tensors, and functions that are passed on
without a call.
"""

from __future__ import annotations

import builtins

import libcst as cst

from funcnet import functional, nn
from funcnet.porting.errors.unported_lines import BLOCKS
from funcnet.porting.expression_facts.fact import Fact, is_tensor
from funcnet.porting.reading.expressions import code, count_names, parse
from funcnet.porting.rule_engine.rule import Argument, Given, Rule, TorchParameter
from funcnet.porting.rule_engine.template_filling import ROOTS, fill, reference, roots_of
from funcnet.porting.transforms import torch_annotations
from funcnet.porting.transforms.calls import FUNCTIONAL, qualified_of, rules_of
from funcnet.porting.transforms.descriptions import describes
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["attribute", "final", "free_names", "got", "in_torch", "name"]

# {private base class of torch's layers: the class of funcnet}, for `isinstance(m, nn.modules.batchnorm._BatchNorm)`.
_BASES = {
    "_BatchNorm": "batchnorm.BatchNorm", "_NormBase": "batchnorm.RunningNorm", "_ConvNd": "conv.Convolution",
    "_ConvTransposeNd": "conv_transpose.ConvTranspose", "_Loss": "loss_base.Loss",
    "_WeightedLoss": "loss_base.WeightedLoss",
}  # fmt: skip


def name(original: cst.Name, updated: cst.Name, context: RewriteContext) -> cst.BaseExpression | None:
    """Replace a name that was imported from torch: `Tensor`, `float32`, `einsum`."""
    parent = context.parent(original)
    if isinstance(parent, cst.Attribute) and parent.attr is original:
        return None
    if isinstance(parent, cst.Arg) and parent.keyword is original:
        return None
    if isinstance(parent, cst.Param) and parent.name is original:
        return None
    return _imported(original, context)


def attribute(original: cst.Attribute, updated: cst.Attribute, context: RewriteContext) -> cst.BaseExpression | None:
    """Replace a dotted name of torch, such as `torch.float32`, or an attribute of a tensor, such as `x.T`."""
    found = _imported(original, context) or _of_device(original, context) or _of_package(original, context)
    if found is not None:
        return found
    parent = context.parent(original)
    called = isinstance(parent, cst.Call) and parent.func is original
    owner = _owner(original.value, context)
    rules = rules_of(context, f"{owner}.{original.attr.value}")
    if called or not rules or rules[0].parameters is not None or qualified_of(original, context) is not None:
        return None
    if describes(original.value, context):
        return cst.Name("None") if original.attr.value == "device" else None
    if _is_setting(original, context) or _is_asked_early(original, context):
        return None  # descriptions have `requires_grad` too
    tensor = owner != "Tensor" or is_tensor(context.fact(original.value), original.attr.value)
    if tensor is None:
        context.give_up(original, f"It is not known whether .{original.attr.value} is the attribute of a tensor.")
    if not tensor:
        return None
    rule = rules[0]
    if rule.level:
        context.give_up(original, rule.note, level=rule.level)
    if rule.kind == "register":
        return None
    filled = fill(rule, {"input": _receiver(updated.value, context.fact(original.value))})
    assert isinstance(filled, cst.BaseExpression)
    context.roots |= roots_of(filled)
    return filled


def _of_package(original: cst.Attribute, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `SIZE` and an import for `package.SIZE`, if `package` is the source's own package."""
    home = context.home_of(original)
    if home is None:
        return None
    context.imports[home[0]] = home[1]
    return cst.Name(home[0])


def _is_setting(node: cst.Attribute, context: RewriteContext) -> bool:
    """Return whether code sets `requires_grad` of parameters: `for p in net.parameters(): p.requires_grad = False`."""
    parameter = context.fact(node.value).is_only("parameter") or isinstance(node.value, cst.Attribute)
    return node.attr.value == "requires_grad" and isinstance(context.parent(node), cst.AssignTarget) and bool(parameter)


def _is_asked_early(node: cst.Attribute, context: RewriteContext) -> bool:
    """Return whether an attribute such as `m.weight.requires_grad` is outside `forward`.

    Outside `forward`, `m.weight` is a description, which has this attribute.
    """
    own = node.attr.value == "requires_grad" and isinstance(node.value, cst.Attribute)
    return own and not context.in_forward(node)


def final(original: cst.Subscript, updated: cst.Subscript, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `bool` for `torch.jit.Final[bool]`."""
    if context.qualified(original.value) != "torch.jit.Final" or len(updated.slice) != 1:
        return None
    index = updated.slice[0].slice
    context.undecided = [one for one in context.undecided if one.node is not original.value]
    return index.value if isinstance(index, cst.Index) else None


def in_torch(original: cst.Comparison, updated: cst.Comparison, context: RewriteContext) -> cst.BaseExpression | None:
    """Write True for `"sinc" in dir(torch)` if torch has the function, and False for `not in`."""
    target = original.comparisons[0]
    asked = target.comparator
    if not isinstance(original.left, cst.SimpleString) or not isinstance(target.operator, cst.In | cst.NotIn):
        return None
    if not isinstance(asked, cst.Call) or code(asked.func) != "dir" or len(asked.args) != 1:
        return None
    module = context.qualified(asked.args[0].value)
    if module is None or not _has(f"{module}.{original.left.evaluated_value!s}", context):
        return None
    context.settle(original)
    return cst.Name(str(isinstance(target.operator, cst.In)))


def _has(name: str, context: RewriteContext) -> bool:
    """Return whether torch has a function or a module of this qualified name, according to the rules."""
    return any(one == name or one.startswith(f"{name}.") for one in context.rules)


def got(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write the function for `getattr(torch.compiler, "is_compiling", None)`, and True for `hasattr(torch, "vmap")`."""
    args = [arg.value for arg in original.args]
    asked = original.func.value if isinstance(original.func, cst.Name) else ""
    named = asked in ("getattr", "hasattr") and len(args) > 1
    if named and asked == "getattr":
        _check_method(original, args, context)
    module = context.qualified(args[0]) if named and isinstance(args[0], cst.Name | cst.Attribute) else None
    if module is None or not f"{module}.".startswith("torch.") or not isinstance(args[1], cst.SimpleString):
        return None
    name = f"{module}.{args[1].evaluated_value!s}"
    rules = rules_of(context, name)
    if asked == "hasattr":
        if not _has(name, context):
            return None  # for `F` and `nn`, `hasattr` stays in the port
        context.settle(original)
        return cst.Name("True")
    found = next((one for rule in rules if (one := _standing(rule)) is not None), None)
    if found is None or any(rule.level for rule in rules):
        return None
    context.settle(original)
    context.roots |= roots_of(found)
    return found


def _check_method(original: cst.Call, args: list[cst.BaseExpression], context: RewriteContext) -> None:
    """Register `getattr(x, "std")(1)` if x is a tensor, because the method `std` of an array may be different."""
    parent, name = context.parent(original), args[1]
    if not isinstance(parent, cst.Call) or parent.func is not original or not isinstance(name, cst.SimpleString):
        return
    method = str(name.evaluated_value)
    if context.fact(args[0]).is_tensor and f"Tensor.{method}" in context.rules:
        context.give_up(original, f".{method} of a tensor is called by its name.", f"Write the method: x.{method}(…).")


def _of_device(original: cst.Attribute, context: RewriteContext) -> cst.BaseExpression | None:
    """Write 'cpu' for `x.device.type` and None for `x.device.index`, as in torch on a CPU."""
    if original.attr.value not in ("type", "index") or not context.fact(original.value).is_only("device"):
        return None
    return parse("'cpu'" if original.attr.value == "type" else "None").deep_clone()


def _owner(node: cst.BaseExpression, context: RewriteContext) -> str:
    """Return the first part of the rule's name for an attribute of `node`: "finfo", "dtype" or "Tensor"."""
    if isinstance(node, cst.Call) and context.qualified(node.func) == "torch.finfo":
        return "finfo"
    return "dtype" if context.fact(node).is_only("dtype") else "Tensor"


def _receiver(node: cst.BaseExpression, fact: Fact) -> Argument:
    return Argument(TorchParameter("input"), (Given("", "", node, fact),))


def _is_beside_numpy(parent: cst.CSTNode | None, context: RewriteContext) -> bool:
    """Return whether code chooses between NumPy and torch: `lib = np if isinstance(x, np.ndarray) else torch`.

    Such code uses only functions that NumPy and torch both have. So the port of such code can use jax.numpy, which has
    the functions of NumPy.
    """
    sides = (parent.body, parent.orelse) if isinstance(parent, cst.IfExp) else ()
    return any(qualified_of(side, context) == "numpy" for side in sides if isinstance(side, cst.Name))


def _imported(original: cst.Name | cst.Attribute, context: RewriteContext) -> cst.BaseExpression | None:
    qualified = qualified_of(original, context)
    parent = context.parent(original)
    if qualified == "torch" and not (isinstance(parent, cst.Attribute) and parent.value is original):
        if _is_beside_numpy(parent, context):
            return _written("jnp", context)
        context.give_up(original, "torch itself is passed on, so it is not known which function is used.",
                        "Write a dict of the functions: {'tanh': jnp.tanh}.")  # fmt: skip
    if qualified is None or not qualified.startswith("torch."):
        return None
    if isinstance(parent, cst.Attribute) and parent.value is original and qualified_of(parent, context) is not None:
        return None  # a part of a longer name
    rest = qualified.removeprefix(FUNCTIONAL)
    rules = rules_of(context, qualified)
    own = not qualified.startswith("torch.nn.") or bool(rules)
    if isinstance(parent, cst.Call) and parent.func is original and own:
        return None  # `calls.py` rewrites the call
    if not rules and rest != qualified and hasattr(functional, rest):
        if isinstance(original, cst.Name):
            context.imports[original.value] = f"funcnet.functional.{rest}"
            return original
        return _written(f"F.{rest}", context)
    if not rules and (qualified == "torch.nn" or qualified.startswith("torch.nn.")):
        return _of_nn(original, qualified, context)
    rules = tuple(sorted(rules, key=lambda one: one.parameters is not None))  # rules without arguments first
    found = next((one for rule in rules if (one := _standing(rule)) is not None), None)
    if found is None and (found := torch_annotations.unknown(original, qualified, context)) is not None:
        return found
    if found is None:
        noted = next((rule for rule in rules if rule.kind == "register"), None)
        why = f"There is no rule for {qualified} as a value." if noted is None else noted.note
        context.give_up(original, why, level=BLOCKS if noted is None else noted.level)
        return None
    if rules[0].level:
        context.give_up(original, rules[0].note, level=rules[0].level)
    context.roots |= roots_of(found)
    return found


def _standing(rule: Rule) -> cst.BaseExpression | None:
    if rule.parameters is None:
        return parse(rule.template).deep_clone() if rule.template else None
    return reference(rule)


def _of_nn(original: cst.CSTNode, qualified: str, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `nn.Conv2d` for `torch.nn.modules.conv.Conv2d` and `torch.nn.Conv2d`, or register that funcnet lacks it."""
    path = qualified.removeprefix("torch.nn").strip(".").split(".") if qualified != "torch.nn" else []
    if not path:
        return _written("nn", context)
    path = path[min(len(path) - 1, 2) :] if path[0] == "modules" else path
    path = path[-1:] if path[0] == "parameter" else path
    path = _BASES.get(path[-1], ".".join(path)).split(".")
    found: object = nn
    if path == ["functional"]:
        return _written("F", context)
    try:
        for part in path:
            found = getattr(found, part)
    except AttributeError as error:
        for_types = torch_annotations.unknown(original, qualified, context)
        if for_types is not None:
            return for_types
        context.give_up(original, f"funcnet has no {qualified}.", str(error).partition(". ")[2])
        return None
    if isinstance(original, cst.Name) and path:
        context.imports[original.value] = ".".join(["funcnet.nn", *path])
        return original  # `from torch.nn import Module` becomes `from funcnet.nn import Module`
    return _written(".".join(["nn", *path]), context)


def _written(text: str, context: RewriteContext) -> cst.BaseExpression:
    context.roots.add(text.partition(".")[0])
    return parse(text).deep_clone()


def free_names(node: cst.BaseExpression) -> set[str]:
    """Return the names of local variables that a rewritten expression reads.

    The result does not contain the names of modules and builtins, and not `key`, `shape` and `dtype`, which are the
    arguments of an init function.
    """
    known = {*ROOTS, *dir(builtins), "key", "shape", "dtype"}
    return count_names(node).keys() - known
