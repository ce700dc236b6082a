"""Rewrites annotations that name types of torch, and annotations of results that differ from the ported function's
result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from funcnet.porting.reading.expressions import code, parse
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["returned", "subscripted", "unknown"]

_OTHERS = frozenset(["Dict", "dict", "List", "list", "Tuple", "tuple", "int", "float", "bool", "str", "None"])


def returned(original: cst.Annotation, updated: cst.Annotation, context: RewriteContext) -> cst.Annotation | None:
    """Write `-> jax.Array` if the function returns only arrays and the annotation says something else."""
    function = context.parent(original)
    if not isinstance(function, cst.FunctionDef) or function.returns is not original:
        return None
    said = original.annotation.value if isinstance(original.annotation, cst.Subscript) else original.annotation
    values = [one.value for one in _returns(function.body)]
    if code(said).rpartition(".")[2] not in _OTHERS or not values:
        return None
    if not all(value is not None and context.fact(value).kinds == {"tensor"} for value in values):
        return None
    context.roots.add("jax")
    return updated.with_changes(annotation=parse("jax.Array").deep_clone())


def unknown(original: cst.CSTNode, qualified: str, context: RewriteContext) -> cst.BaseExpression | None:
    """Return what to write in an annotation for a name of torch that has no counterpart.

    A size such as `torch.nn.common_types._size_2_t` becomes `int | tuple[int, ...]`, and a ratio becomes
    `float | tuple[float, ...]`. Any other class of torch.nn becomes `nn.Module`. All other names become `Any`.

    Args:
        original: the name.
        qualified: its qualified name.
        context: the context.

    Returns:
        The expression, or None if the name is not in an annotation.
    """
    if not _is_annotation(original, context):
        return None
    last = qualified.rpartition(".")[2]
    sizes = re.match(r"_(size|ratio)_(\d|any)_", last)
    if sizes is not None:
        kind = "int" if sizes[1] == "size" else "float"
        return parse(f"{kind} | tuple[{kind}, ...]").deep_clone()
    if qualified.startswith("torch.nn.") and last.lstrip("_")[:1].isupper():
        context.roots.add("nn")
        return parse("nn.Module").deep_clone()
    context.imports["Any"] = "typing.Any"
    return cst.Name("Any")


def subscripted(original: cst.Subscript, updated: cst.Subscript, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `Any` for `torch.futures.Future[int]`, because `Any[int]` is an error."""
    named = context.qualified(original.value) or ""
    if not named.startswith("torch.") or not _is_annotation(original, context):
        return None
    return updated.value if code(updated.value) in ("Any", "nn.Module") else None


def _is_annotation(node: cst.CSTNode | None, context: RewriteContext) -> bool:
    while isinstance(node, cst.BaseExpression | cst.Index | cst.SubscriptElement | cst.Element):
        node = context.parent(node)
    return isinstance(node, cst.Annotation)


def _returns(node: cst.CSTNode) -> Iterator[cst.Return]:
    """Yield the `return` statements of a function, but not those of functions inside it."""
    for one in node.children:
        if isinstance(one, cst.Return):
            yield one
        elif not isinstance(one, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            yield from _returns(one)
