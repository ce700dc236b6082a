"""Determines which expressions of a torch source are views: `x[0]`, `x.view(2, -1)`, `torch.transpose(x, 1, 2)`.

A *place* is a name, or an attribute of self. The key of a place is its text, such as "self.x".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import libcst as cst

from funcnet import functional, nn
from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.reading.syntax import walk

__all__ = ["inplace_flag", "is_plain", "key_of", "looks_only", "places_of", "step", "targets_of", "written_part"]

Facts = Callable[[cst.CSTNode], Fact]
Names = Callable[[cst.CSTNode], str | None]

# Methods and torch functions whose results always share storage with the tensor. They can also be applied to positions.
_VIEWS = frozenset([
    "view", "transpose", "permute", "t", "unsqueeze", "squeeze", "narrow", "select", "swapaxes", "swapdims", "movedim",
    "moveaxis", "unflatten", "view_as", "chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit",
    "diagonal",
])  # fmt: skip
# Methods and torch functions whose results share storage only in some cases, or have other elements than the tensor.
_MAYBE = frozenset([
    "reshape", "flatten", "ravel", "reshape_as", "detach", "expand", "expand_as", "unfold", "as_strided",
    "view_as_real", "view_as_complex", "real", "imag", "broadcast_to",
])  # fmt: skip
_ONLY_TENSORS = frozenset(["view", "permute", "unsqueeze", "narrow", "unbind", "view_as", "expand_as", "movedim"])
_LOOKS = frozenset(["shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "itemsize"])
_SIZES = frozenset(["size", "dim", "numel", "nelement", "ndimension", "is_floating_point", "is_contiguous", "stride"])
_SKIPPED = ("requires_grad_", "share_memory_", "retain_grad_")


def key_of(node: cst.CSTNode | None, qualified: Names) -> str | None:
    """Return the key of a place, or None for any other expression."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        return f"self.{node.attr.value}"
    return None


def is_plain(node: cst.Subscript, fact: Facts) -> bool | None:
    """Return whether the index of a subscript makes a view, as slices, integers, None and an ellipsis do.

    The result is None if this is not known.
    """
    known: list[bool | None] = []
    for one in node.slice:
        if isinstance(one.slice, cst.Index):
            known.append(fact(one.slice.value).is_only("int", "slice", "none", "ellipsis"))
    return False if False in known else None if None in known else True


def step(node: cst.CSTNode, fact: Facts, qualified: Names) -> tuple[cst.BaseExpression, bool] | None:
    """Return (expression `x` of which a node is a view, whether this is certain): `x` for `x[0]` or `x.view(-1)`. The
    result is None if the node is not a view of a tensor.
    """
    if isinstance(node, cst.Subscript):
        plain = is_plain(node, fact)
        return (node.value, bool(plain)) if fact(node.value).is_tensor and plain is not False else None
    if isinstance(node, cst.Attribute):
        if node.attr.value not in ("T", "mT", "data", "real", "imag") or not fact(node.value).is_tensor:
            return None
        return node.value, node.attr.value in ("T", "mT")
    if not isinstance(node, cst.Call):
        return None
    name = qualified(node.func) if isinstance(node.func, cst.Name | cst.Attribute) else None
    if name is not None:
        short = name.removeprefix("torch.")
        known = short != name and short in _VIEWS | _MAYBE and node.args and not node.args[0].star
        known = known and (node.args[0].keyword is None or node.args[0].keyword.value in ("input", "tensor"))
        return (node.args[0].value, short in _VIEWS) if known else None
    if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in _VIEWS | _MAYBE:
        return None
    method, receiver = node.func.attr.value, fact(node.func.value)
    if not (receiver.is_tensor or (not receiver.kinds and method in _ONLY_TENSORS)):
        return None
    other_dtype = method == "view" and any(fact(arg.value).is_only("dtype") for arg in node.args)
    return node.func.value, method in _VIEWS and not other_dtype


def looks_only(node: cst.CSTNode, qualified: Names) -> bool:
    """Return whether an expression reads only metadata of a value, such as its sizes or dtype, and not its elements."""
    if isinstance(node, cst.Attribute):
        return node.attr.value in _LOOKS and qualified(node) is None
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in _SIZES and qualified(node.func) is None
    return False


def places_of(node: cst.BaseExpression, fact: Facts, qualified: Names) -> Iterator[cst.BaseExpression]:
    """Yield the names and attributes of self whose arrays contain the elements of an expression. This is the expression
    itself or, for a view such as `x[0]`, the name `x`.
    """
    if key_of(node, qualified) is not None:
        yield node
    elif isinstance(node, cst.IfExp):
        yield from places_of(node.body, fact, qualified)
        yield from places_of(node.orelse, fact, qualified)
    elif isinstance(node, cst.NamedExpr):
        yield from places_of(node.value, fact, qualified)
    elif (found := step(node, fact, qualified)) is not None:
        yield from places_of(found[0], fact, qualified)


def written_part(
    node: cst.CSTNode, fact: Facts, qualified: Names, is_method: Callable[[str], bool]
) -> cst.BaseExpression | None:
    """Return the expression that a call changes in place: `x[0]` for `x[0].add_(1)` or `torch.relu_(x[0])`.

    The result is None for any other expression.
    """
    if not isinstance(node, cst.Call):
        return None
    function = qualified(node.func) if isinstance(node.func, cst.Name | cst.Attribute) else None
    if function is not None:
        first = node.args[0] if node.args and not node.args[0].star else None
        return first.value if first is not None and _writes(function, node) else None
    if not isinstance(node.func, cst.Attribute):
        return None
    name = node.func.attr.value
    if not name.endswith("_") or name.endswith("__") or name in _SKIPPED:
        return None
    known = is_method(name) or is_method(name.removesuffix("_"))
    return node.func.value if known and fact(node.func.value).is_tensor is not False else None


def _writes(function: str, node: cst.Call) -> bool:
    """Return whether a torch function changes its first argument: `torch.relu_(x)`, `F.relu(x, inplace=True)`."""
    name = function.removeprefix("torch.nn.functional.").removeprefix("torch.")
    if name == function or "." in name:
        return False
    changes = name.endswith("_") and not name.endswith("__")
    return changes or inplace_flag(node, function) is not None


def inplace_flag(node: cst.Call, name: str) -> cst.Arg | None:
    """Return the argument `inplace=True` of a call of a function of F or of a layer's constructor, or None if there is
    none.

    Args:
        node: the call.
        name: the qualified name of the called function or class. The argument may also be passed by its position.
    """
    home = functional if name.startswith("torch.nn.functional.") else nn
    function = getattr(home, name.rpartition(".")[2], None) if name.startswith("torch.nn.") else None
    parameters = list(inspect.signature(function).parameters) if callable(function) else []
    if "inplace" not in parameters:
        return None
    place = parameters.index("inplace")
    for index, arg in enumerate(node.args):
        named = arg.keyword is not None and arg.keyword.value == "inplace"
        is_true = isinstance(arg.value, cst.Name) and arg.value.value == "True"
        if (named or (arg.keyword is None and index == place)) and is_true:
            return arg
    return None


def targets_of(node: cst.CSTNode) -> Iterator[tuple[str, cst.BaseExpression | None, cst.CSTNode]]:
    """Yield (key, value or None, target) for each place that the statements in a node assign.

    The value is the assigned expression. If the target gets only an item of an expression, as in a `for` loop, the
    yielded value is the entire expression. The yielded value is None for the counter of `enumerate` and for the target
    of a `with` statement. Inner functions are not included.
    """
    for one in _own(node):
        if isinstance(one, cst.Assign):
            for target in one.targets:
                yield from _paired(target.target, one.value)
        elif isinstance(one, cst.AnnAssign | cst.NamedExpr):
            if one.value is not None:
                yield from _paired(one.target, one.value)
        elif isinstance(one, cst.For | cst.CompFor):
            iterable = one.iter
            goal: Any = one.target
            counted = isinstance(iterable, cst.Call) and getattr(iterable.func, "value", "") == "enumerate"
            if counted and iterable.args and isinstance(goal, cst.Tuple):  # type: ignore[attr-defined]
                yield from _paired(goal.elements[0].value, None)
                goal, iterable = goal.elements[1].value, iterable.args[0].value  # type: ignore[attr-defined]
            yield from _paired(goal, iterable)
        elif isinstance(one, cst.WithItem) and one.asname is not None:
            yield from _paired(one.asname.name, None)


def _paired(
    target: cst.CSTNode, value: cst.BaseExpression | None
) -> Iterator[tuple[str, cst.BaseExpression | None, cst.CSTNode]]:
    if isinstance(target, cst.Tuple | cst.List):
        parts: list[cst.BaseExpression | None] = [value] * len(target.elements)
        if isinstance(value, cst.Tuple | cst.List) and len(value.elements) == len(target.elements):
            parts = [one.value for one in value.elements]
        for element, part in zip(target.elements, parts, strict=True):
            yield from _paired(element.value, part)
    elif isinstance(target, cst.Name):
        yield target.value, value, target
    elif isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name) and target.value.value == "self":
        yield f"self.{target.attr.value}", value, target


def _own(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    inner = [
        one for one in walk(node) if isinstance(one, cst.FunctionDef | cst.Lambda | cst.ClassDef) and one is not node
    ]
    skipped = {below for one in inner for below in walk(one)}
    return (one for one in walk(node) if one not in skipped)
