"""Context managers and decorators of torch: `torch.no_grad`, `torch.autocast`, `torch.jit.script` and similar ones.

`torch.no_grad` becomes `jax.lax.stop_gradient` around each value that is assigned, returned or passed on under it. In
code that runs only in constructors, gradients do not matter, so no `stop_gradient` is written.
"""

from __future__ import annotations

from typing import Any

import libcst as cst

from funcnet.porting.reading.expressions import code, parenthesized, parse
from funcnet.porting.reading.syntax import walk
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["decorator", "is_stopped", "stop", "stopped", "stopped_call", "stopped_change", "with_block"]

_CACHES = frozenset({"functools.lru_cache", "functools.cache"})
_STOPS = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"}
)
_PASSES = frozenset({
    "torch.enable_grad", "torch.set_grad_enabled", "torch.autocast", "torch.cuda.amp.autocast", "torch.amp.autocast",
    "torch.cuda.device", "torch.profiler.record_function", "torch.autograd.profiler.record_function",
    "torch.cpu.amp.autocast",
    "torch.backends.cuda.sdp_kernel", "torch.nn.attention.sdpa_kernel", "torch.jit.optimized_execution", "torch.device",
    "torch.random.fork_rng",
})  # fmt: skip
_PLAIN = ("int", "float", "bool", "str", "none", "module", "dtype", "device", "function", "class")
_DROPPED = frozenset({
    "torch.jit.script", "torch.jit.ignore", "torch.jit.export", "torch.jit.unused", "torch.jit.script_method",
    "torch.compile",
    "torch.compiler.disable", "torch._dynamo.disable", "torch.cuda.amp.custom_fwd", "torch.cuda.amp.custom_bwd",
    "torch.amp.custom_fwd", "torch.amp.custom_bwd", "torch.fx.wrap", "torch.autograd.function.once_differentiable",
})  # fmt: skip


def _name(node: cst.BaseExpression, context: RewriteContext) -> str:
    found = context.qualified(node.func if isinstance(node, cst.Call) else node)
    return found or ""


def _mode(node: cst.BaseExpression, context: RewriteContext) -> bool | None:
    """Return True if a context manager or decorator turns gradients on, False if off, and None if it does neither."""
    name = _name(node, context)
    if name in _STOPS:
        return False
    if name == "torch.enable_grad":
        return True
    if name == "torch.set_grad_enabled" and isinstance(node, cst.Call) and node.args:
        return code(node.args[0].value) != "False"
    return None


def with_block(
    original: cst.With, updated: cst.With, context: RewriteContext
) -> cst.CSTNode | cst.FlattenSentinel | None:
    """Write the body of `with torch.no_grad():` without the `with`. Other context managers in the statement stay."""
    names = [_name(item.item, context) for item in original.items]
    gone = [name in _STOPS | _PASSES for name in names]
    if not any(gone):
        return None
    for item, name, goes in zip(original.items, names, gone, strict=True):
        if goes:
            context.settle(item)  # the manager is not in the result
        if name == "torch.set_grad_enabled" and not _is_known(item.item):
            context.give_up(item, "Whether gradients are computed is not known.",
                            "Write jax.lax.stop_gradient around what is computed there, if they are not.")  # fmt: skip
    if not all(gone):
        kept = [one for one, goes in zip(updated.items, gone, strict=True) if not goes]
        return updated.with_changes(items=[*kept[:-1], kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])
    body: Any = updated.body
    if not isinstance(body, cst.IndentedBlock):
        return cst.FlattenSentinel([cst.SimpleStatementLine(list(body.body), leading_lines=updated.leading_lines)])
    statements: list[Any] = list(body.body)
    first, *rest = statements
    ends = [line for line in body.footer if line.comment is not None]
    if ends and rest:
        rest[-1] = rest[-1].with_changes(leading_lines=[*rest[-1].leading_lines, *ends])
    elif ends:
        first = first.with_changes(leading_lines=[*first.leading_lines, *ends])
    said = [] if body.header.comment is None else [cst.EmptyLine(comment=body.header.comment)]
    first = first.with_changes(leading_lines=[*updated.leading_lines, *said, *first.leading_lines])
    return cst.FlattenSentinel([first, *rest])


def _is_known(node: cst.BaseExpression) -> bool:
    """Return whether the argument of `torch.set_grad_enabled(…)` is a literal or the training mode, `self.training`.

    The training mode needs no entry in the register, because gradients are not used outside of training.
    """
    text = code(node.args[0].value) if isinstance(node, cst.Call) and node.args else ""
    return text in ("True", "False", "self.training", "training")


def decorator(original: cst.Decorator, updated: cst.Decorator, context: RewriteContext) -> cst.RemovalSentinel | None:
    """Leave out a decorator of torch that has no effect in JAX, or a cache decorator of a function that may return
    tensors.
    """
    called = original.decorator.func if isinstance(original.decorator, cst.Call) else original.decorator
    if context.qualified(called) in _CACHES and _may_return_tensors(context.parent(original), context):
        return cst.RemoveFromParent()  # the cache would keep the tracers of the first `jit`
    if _name(original.decorator, context) not in _DROPPED | _STOPS | _PASSES:
        return None
    context.settle(original)
    return cst.RemoveFromParent()


def _may_return_tensors(function: cst.CSTNode | None, context: RewriteContext) -> bool:
    values = [one.value for one in walk(function) if isinstance(one, cst.Return)] if function is not None else []
    return any(value is not None and context.fact(value).is_tensor is not False for value in values)


def is_stopped(node: cst.CSTNode, context: RewriteContext) -> bool:
    """Return whether a node of the original tree runs in `forward` under `no_grad`.

    `no_grad` may be a block around the node or a decorator of its function.
    """
    if context.starts(node):
        return False
    block = context.parent(node)
    while block is not None:
        managers = [item.item for item in block.items] if isinstance(block, cst.With) else []
        if isinstance(block, cst.FunctionDef):
            managers = [one.decorator for one in block.decorators]
        modes = [mode for one in managers if (mode := _mode(one, context)) is not None]
        if modes or isinstance(block, cst.FunctionDef):
            return bool(modes) and not modes[-1]
        block = context.parent(block)
    return False


def stop(value: cst.BaseExpression, context: RewriteContext) -> cst.BaseExpression:
    """Return `jax.lax.stop_gradient(value)`."""
    context.roots.add("jax")
    bare = isinstance(value, cst.Tuple | cst.GeneratorExp) and not value.lpar
    return cst.Call(parse("jax.lax.stop_gradient").deep_clone(), [cst.Arg(parenthesized(value) if bare else value)])


def stopped(original: cst.CSTNode, updated: cst.CSTNode, context: RewriteContext) -> cst.CSTNode | None:
    """Write `jax.lax.stop_gradient` around a value that is assigned or returned under `torch.no_grad`."""
    assert isinstance(original, cst.Assign | cst.AnnAssign | cst.NamedExpr | cst.Return)
    value = updated.value  # type: ignore[attr-defined]
    if original.value is None or not is_stopped(original, context) or not _computes(original.value, context):
        return None
    return updated.with_changes(value=stop(value, context))


def _computes(node: cst.BaseExpression, context: RewriteContext) -> bool:
    """Return whether an expression may compute a new tensor that has a gradient.

    A name or an attribute computes nothing: under `no_grad`, its tensor keeps the gradient that it had before.
    """
    if isinstance(node, cst.Lambda) or (isinstance(node, cst.Name | cst.Attribute) and not _is_part(node)):
        return False
    fact = context.fact(node)
    display = isinstance(node, cst.List | cst.Dict | cst.ListComp | cst.DictComp)
    whole = bool(fact.is_only(*_PLAIN) or fact.is_integral or fact.is_boolean)
    return not whole and (display or not fact.is_only("list", "dict"))


def _is_part(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value in ("T", "mT", "H", "mH", "real", "imag")


def stopped_change(
    original: cst.AugAssign, updated: cst.AugAssign, context: RewriteContext
) -> cst.BaseSmallStatement | None:
    """Write `self.mean = jax.lax.stop_gradient(self.mean + x)` for `self.mean += x` under `no_grad`."""
    target = original.target
    if not isinstance(target, cst.Name | cst.Attribute) or not is_stopped(original, context):
        return None
    fact = context.fact(target)
    symbol = code(original.operator).strip().removesuffix("=")
    if fact.is_only(*_PLAIN, "list", "dict") or fact.is_integral or fact.is_boolean:
        return None
    if not fact.kinds and context.fact(original.value).is_only(*_PLAIN):
        return None  # `name` is most likely a counter
    operation = parse(f"__old__ {symbol} __value__").deep_clone()
    assert isinstance(operation, cst.BinaryOperation)
    changed = operation.with_changes(left=updated.target.deep_clone(), right=parenthesized(updated.value))
    return cst.Assign([cst.AssignTarget(updated.target)], stop(changed, context))


def stopped_call(original: cst.Expr, updated: cst.Expr, context: RewriteContext) -> cst.Expr | None:
    """Stop the gradients of tensors that a statement such as `found.append(x * 2)` passes on under `no_grad`."""
    before, now = original.value, updated.value
    if not isinstance(before, cst.Call) or not isinstance(now, cst.Call) or not is_stopped(original, context):
        return None
    collects = isinstance(before.func, cst.Attribute) and before.func.attr.value in ("append", "extend", "insert")
    if len(before.args) != len(now.args):
        return None
    args = [
        new.with_changes(value=stop(new.value, context)) if _passes(old, collects, context) else new
        for old, new in zip(before.args, now.args, strict=True)
    ]
    return updated.with_changes(value=now.with_changes(args=args)) if args != list(now.args) else None


def _passes(arg: cst.Arg, collects: bool, context: RewriteContext) -> bool:
    known = bool(context.fact(arg.value).is_tensor) and not arg.star
    return known and (_computes(arg.value, context) or not collects)
