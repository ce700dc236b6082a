"""Rewrites uses of parameters and buffers in constructors. In constructors, parameters and buffers are descriptions,
which have torch's methods but no values.

If a buffer is made from an array, its description has the array as `.value`. Code in a constructor that computes with
the buffer reads this attribute.

A draft is a tensor `torch.empty(shape)` that initialisers fill and whose values are then written to a parameter, as in
`self.bias.copy_(nn.init.uniform_(torch.empty(3)))`. A draft becomes a description too, so that `net.init(key)` draws
the values.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.analysis.random_functions import changes
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.syntax import walk
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["base_of", "describes", "is_draft", "value"]

_PARTS = ("view", "reshape", "flatten", "detach", "clone", "chunk", "split", "narrow")  # descriptions have these
_OF_DESCRIPTIONS = ("shape", "size", "dim", "ndim", "numel", "nelement", "dtype", "device", "requires_grad", "data")
_BUILTINS = ("int", "float", "bool", "list", "tuple", "set", "sorted", "sum", "min", "max", "any", "all", "enumerate",
             "zip", "map", "range", "abs", "round", "reversed", "iter")  # fmt: skip


def base_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression of which a node is a part, a view or a copy: `p` for `p[0].data.view(-1)`."""
    while True:
        if isinstance(node, cst.Subscript) or (isinstance(node, cst.Attribute) and node.attr.value in ("data", "T")):
            node = node.value
        elif (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and (node.func.attr.value in ("view", "detach", "clone") or changes(node.func.attr.value))
        ):
            node = node.func.value
        else:
            return node


def describes(node: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether an expression in constructor code is a parameter, a draft, or a part or view of either."""
    if not context.starts(node):
        return False
    base = base_of(node)
    return _is_leaf(base, context) or is_draft(base, context) or _is_given_draft(base, context)


def _is_leaf(base: cst.BaseExpression, context: RewriteContext) -> bool:
    if isinstance(base, cst.Attribute) and not context.fact(base).is_only("array"):
        holder = base.value
        if (
            not (isinstance(holder, cst.Name) and holder.value == "self")
            and context.fact(holder).is_only("module") is not False
        ):
            return True  # `m.weight`, `self.fc.bias`
        if context.is_buffer(base):
            return not _computes(base, context)
    return "parameter" in context.fact(base).kinds or _is_filled(base, context)


def _is_filled(base: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether a name is the parameter that a function such as `def trunc_normal_(tensor)` fills.

    The result is False if a run of the torch model has recorded the value of the name. The recorded fact then decides.
    """
    function = enclosing(base, (cst.FunctionDef,), context.parent)
    if not isinstance(base, cst.Name) or not isinstance(function, cst.FunctionDef) or context.fact(base).dtype:
        return False
    first = function.params.params[0].name.value if function.params.params else ""
    return changes(function.name.value) and first == base.value


# ------------------------------------------------------------------------------------------------------------- drafts


def is_draft(node: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether an expression is a draft: `torch.empty(3)`, the result of filling a draft, or a draft's name."""
    if isinstance(node, cst.Call):
        if context.qualified(node.func) == "torch.empty":
            return context.starts(node) and _is_taken(node, context, filled=False)
        return _is_filler(node.func, context) and bool(node.args) and is_draft(node.args[0].value, context)
    values = context.values(node) if isinstance(node, cst.Name) and context.starts(node) else []
    fresh = [one for one in values if not _fills(one, node, context)]
    return bool(fresh) and all(isinstance(one, cst.Call) and is_draft(one, context) for one in fresh)


def _fills(value: cst.BaseExpression, name: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether a value is a call that fills the tensor of a name, as in `nn.init.uniform_(name)`."""
    first = value.args[0].value if isinstance(value, cst.Call) and value.args else None
    same = isinstance(first, cst.Name) and isinstance(name, cst.Name) and first.value == name.value
    return same and _is_filler(value.func, context)  # type: ignore[attr-defined]


def _is_filler(func: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether a function fills its first argument.

    Such a function is in nn.init or in the source, and its name ends with an underscore. A variable for such functions
    counts too.
    """
    name = context.qualified(func)
    if name is not None:
        return changes(name) and (name.startswith("torch.nn.init.") or not name.startswith("torch."))
    if not isinstance(func, cst.Name):
        return False
    values = context.values(func)
    return changes(func.value) or (
        bool(values) and all(isinstance(one, _NAMES) and _is_filler(one, context) for one in values)
    )


_NAMES = (cst.Name, cst.Attribute)


def _is_taken(node: cst.CSTNode, context: RewriteContext, filled: bool) -> bool:
    """Return whether the only uses of a possible draft are filling it and writing its values to a parameter.

    Args:
        node: the expression.
        context: the context.
        filled: whether an initialiser has already filled the possible draft.
    """
    above = context.parent(node)
    if isinstance(above, cst.Expr):
        return filled
    if isinstance(above, cst.Assign) and len(above.targets) == 1:
        target = above.targets[0].target
        if isinstance(target, cst.Subscript):
            return filled and context.starts(target) and _is_leaf(base_of(target), context)
        return isinstance(target, cst.Name) and _are_taken(target, context)
    if isinstance(above, cst.Attribute):
        return above.attr.value in _OF_DESCRIPTIONS
    call = context.parent(above) if isinstance(above, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not above:
        return False
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "copy_":
        return _is_leaf(base_of(call.func.value), context)
    if context.qualified(call.func) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return len(call.args) == 1 and (filled or isinstance(node, cst.Name))
    return _is_filler(call.func, context) and _is_taken(call, context, filled=True)


def _are_taken(name: cst.Name, context: RewriteContext) -> bool:
    """Return whether the tensor of a name is filled, and otherwise only filled again or written to a parameter."""
    function = enclosing(name, (cst.FunctionDef,), context.parent)
    places = (
        [one for one in walk(function) if isinstance(one, cst.Name) and one.value == name.value] if function else []
    )
    reads = [one for one in places if not isinstance(context.parent(one), cst.AssignTarget)]
    given = [context.parent(context.parent(one)) for one in reads if isinstance(context.parent(one), cst.Arg)]  # type: ignore[arg-type]
    fill = any(isinstance(one, cst.Call) and _is_filler(one.func, context) for one in given)
    return fill and all(_rebinds(one, name, context) or _is_taken(one, context, filled=False) for one in reads)


def _rebinds(node: cst.Name, name: cst.Name, context: RewriteContext) -> bool:
    """Return whether the place that reads a name is `name = nn.init.uniform_(name)`."""
    call = context.parent(context.parent(node)) if isinstance(context.parent(node), cst.Arg) else None  # type: ignore[arg-type]
    above = None if call is None else context.parent(call)
    if not isinstance(above, cst.Assign) or len(above.targets) != 1 or not _fills(above.value, name, context):
        return False
    target = above.targets[0].target
    return isinstance(target, cst.Name) and target.value == name.value


def _is_given_draft(base: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether a name is the first parameter of an initialiser in the file to which some call passes a draft."""
    function = enclosing(base, (cst.FunctionDef,), context.parent)
    if not isinstance(base, cst.Name) or not isinstance(function, cst.FunctionDef) or not function.params.params:
        return False
    name = function.name.value
    if not changes(name) or function.params.params[0].name.value != base.value:
        return False
    whole = enclosing(function, (cst.Module,), context.parent)
    calls = [one for one in walk(whole) if isinstance(one, cst.Call) and one.args] if whole is not None else []
    return any(_calls(one.func, name, context) and is_draft(one.args[0].value, context) for one in calls)


def _calls(func: cst.BaseExpression, name: str, context: RewriteContext) -> bool:
    """Return whether the expression `func` is the function `name`, or a variable that may refer to this function."""
    if not isinstance(func, cst.Name):
        return False
    return name in (func.value, *(one.value for one in context.values(func) if isinstance(one, cst.Name)))


def value(original: cst.Attribute, updated: cst.Attribute, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `self.index.value` for the buffer `self.index` if a constructor computes with its array."""
    if not context.starts(original) or not context.is_buffer(original) or not _computes(original, context):
        return None
    return cst.Attribute(updated, cst.Name("value"))


def _computes(node: cst.Attribute, context: RewriteContext) -> bool:
    """Return whether an expression needs the array of a buffer, and not only its description."""
    return _is_always_buffer(node, context) and _is_read(*_whole(node, context), context)


def _is_always_buffer(node: cst.Attribute, context: RewriteContext) -> bool:
    """Return whether all values that are assigned to an attribute of self are buffers or tensors."""

    def registered(one: cst.CSTNode) -> bool:
        arg = context.parent(one)
        call = context.parent(arg) if isinstance(arg, cst.Arg) else None
        named = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
        return named and call.func.attr.value == "register_buffer"  # type: ignore[union-attr]

    values = context.values(node)
    return bool(values) and all(registered(one) or context.fact(one).is_tensor for one in values)


def _whole(node: cst.CSTNode, context: RewriteContext) -> tuple[cst.CSTNode, cst.CSTNode | None]:
    """Return (the largest part or view that is made from a node, its parent): `p[0].view(-1)` for `p`."""
    while True:
        above = context.parent(node)
        item = isinstance(above, cst.Subscript) and above.value is node
        if above is not None and (item or (isinstance(above, cst.Attribute) and above.attr.value in ("data", "T"))):
            node = above
        elif isinstance(above, cst.Attribute) and above.attr.value in _PARTS:
            call = context.parent(above)
            if not isinstance(call, cst.Call) or call.func is not above:
                return node, above
            node = call
        else:
            return node, above


def _is_read(node: cst.CSTNode, above: cst.CSTNode | None, context: RewriteContext) -> bool:
    """Return whether the code around an expression (its parent is `above`) needs the numbers in its array."""
    if isinstance(above, cst.BinaryOperation | cst.UnaryOperation | cst.Index):
        return True
    if isinstance(above, cst.ComparisonTarget | cst.Comparison):
        target = above if isinstance(above, cst.ComparisonTarget) else above.comparisons[0]
        return not isinstance(target.operator, cst.Is | cst.IsNot)
    if isinstance(above, cst.AugAssign):
        return node is above.value
    if isinstance(above, cst.For | cst.CompFor):
        return node is above.iter
    if isinstance(above, cst.Attribute):
        name = above.attr.value
        return name not in _OF_DESCRIPTIONS and not name.endswith("_") and f"Tensor.{name}" in context.rules
    while isinstance(above, cst.Element | cst.Tuple | cst.List):
        above = context.parent(above)
    call = context.parent(above) if isinstance(above, cst.Arg) else None
    return isinstance(call, cst.Call) and _is_computation(call.func, context)


def _is_computation(func: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether a function of torch, NumPy or Python computes with arrays, unlike a layer or an initialiser."""
    name = context.qualified(func)
    if name is None:
        method = func.attr.value if isinstance(func, cst.Attribute) else ""
        own = isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"
        known = bool(method) and not own and not method.endswith("_") and f"Tensor.{method}" in context.rules
        return known or (isinstance(func, cst.Name) and func.value in _BUILTINS)
    parts = name.startswith("torch.nn.") and not name.startswith("torch.nn.functional.")
    return name.startswith(("torch.", "numpy.", "math.")) and not parts and not name.endswith("_")
