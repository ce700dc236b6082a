"""Rewrites reads and assignments of parts of tensors that JAX treats differently from torch: `x[0, :, indices]`,
`x[[0, 2]]`, `x[mask]`.
"""

from __future__ import annotations

import libcst as cst

from funcnet.porting.errors.unported_lines import EAGER_ONLY
from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.reading.expressions import code, parenthesized, parse
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["eager", "is_part", "kinds_of", "read", "reading", "setting"]

_PLAIN = ("int", "slice", "none", "ellipsis")


def read(original: cst.Subscript, updated: cst.Subscript, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `tl.get_item` for `x[index]` if JAX orders the axes of the result differently from torch. Write an array in
    place of an index that is a list.

    Add a register entry for a mask, because the shape of the result depends on the values of the mask.
    """
    if not is_part(original, context) or _is_target(original, context):
        return None
    kinds = kinds_of(original, context)
    if {"mask", "bytes"} & set(kinds) and not context.starts(original) and not context.is_static(original):
        eager(original, context)
    return reading(kinds, updated.value, tuple(updated.slice), context)


def eager(node: cst.CSTNode, context: RewriteContext) -> None:
    """Add a register entry for `x[mask]`, which does not work under `jit` because its shape is not known."""
    context.give_up(node, f"The shape of {code(node)} depends on the values of the mask.",
                    "Use jnp.where, which keeps the shape.", EAGER_ONLY)  # fmt: skip


def reading(
    kinds: list[str], array: cst.BaseExpression, index: tuple[cst.SubscriptElement, ...], context: RewriteContext
) -> cst.BaseExpression | None:
    """Return the expression that reads a part of an array, or None if the plain subscript `array[index]` is right.

    Args:
        kinds: the kinds of the index's parts; see `kinds_of`.
        array: the array, in the tree of the result.
        index: the index, in the tree of the result.
        context: the context.
    """
    if kinds == ["list"]:
        return cst.Subscript(array, _listed(index, context))
    if not _differs(kinds) and "bytes" not in kinds:
        return None
    context.roots.add("tl")
    return cst.Call(parse("tl.get_item").deep_clone(), [cst.Arg(array), cst.Arg(_whole(index))])


def setting(
    target: cst.Subscript,
    array: cst.BaseExpression,
    index: tuple[cst.SubscriptElement, ...],
    value: cst.BaseExpression,
    context: RewriteContext,
    fact: Fact | None = None,
    keeps: bool = False,
) -> cst.BaseExpression:
    """Return an expression for the new array in which a part has the assigned value: `x.at[i].set(v)` for `x[i] = v`.

    Args:
        target: the subscript to which the value is assigned, in the original tree.
        array: the array, in the tree of the result.
        index: the index, in the tree of the result.
        value: the assigned value, in the tree of the result.
        context: the context.
        fact: what is known about the value.
        keeps: whether the assigned value certainly has the dtype of the array.
    """
    kinds = kinds_of(target, context)
    fact = Fact() if fact is None else fact
    scalar = bool(fact.is_only("int", "float", "bool"))
    if kinds == ["mask"] and (_fits(target, fact, keeps, context) if scalar else _broadcasts(target, fact, context)):
        context.roots.add("jnp")
        mask = _spread(index[0].slice.value, _missing(target, context))  # type: ignore[union-attr, attr-defined]
        return cst.Call(parse("jnp.where").deep_clone(), [cst.Arg(mask), cst.Arg(value), cst.Arg(array)])
    if {"mask", "bytes", "other"} & set(kinds) or (_differs(kinds) and not scalar):
        context.roots.add("tl")
        return cst.Call(parse("tl.set_item").deep_clone(), [cst.Arg(array), cst.Arg(_whole(index)), cst.Arg(value)])
    place = cst.Subscript(cst.Attribute(array, cst.Name("at")), _listed(index, context) if kinds == ["list"] else index)
    return cst.Call(cst.Attribute(place, cst.Name("set")), [cst.Arg(value)])


def is_part(node: cst.Subscript, context: RewriteContext) -> bool:
    """Return whether a subscript is a part of a tensor. If nothing is known about the expression before the index, the
    form of the index decides.
    """
    fact = context.fact(node.value)
    if fact.kinds:
        return bool(fact.is_tensor)
    kinds = kinds_of(node, context)
    several = len(kinds) > 1 and any(isinstance(one.slice, cst.Slice) for one in node.slice)
    return several or "mask" in kinds or (kinds == ["list"] and _is_display(node))


def _is_display(node: cst.Subscript) -> bool:
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, cst.List)


def _is_target(node: cst.Subscript, context: RewriteContext) -> bool:
    parent = context.parent(node)
    return isinstance(parent, cst.AssignTarget | cst.Del) or (
        isinstance(parent, cst.AugAssign) and parent.target is node
    )


def kinds_of(node: cst.Subscript, context: RewriteContext) -> list[str]:
    """Return the kind of each part of an index.

    The kinds are "slice", "int", "none" (for None and `...`), "array", "mask" (a boolean array), "bytes" (a mask of
    dtype uint8), "list" and "other".
    """
    if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        fact = context.fact(node.slice[0].slice.value)
        if fact.is_only("tuple") and fact.items is not None:
            found = [_kind(one) for one in fact.items]
            return found if all(kind in ("int", "slice", "none") for kind in found) else [*found, "other"]
    return [_kind(context.fact(one.slice.value)) if isinstance(one.slice, cst.Index) else "slice" for one in node.slice]


def _kind(fact: Fact) -> str:
    if fact.is_tensor or fact.is_only("array"):
        if fact.is_boolean:
            return "mask"
        if fact.dtype == "uint8" and fact.ndim != 0:
            return "bytes"  # a mask of dtype uint8, which torch used before it had booleans
        return "int" if fact.ndim == 0 else "array"
    if fact.is_only("none", "ellipsis"):
        return "none"
    for kind in ("int", "list", "slice"):
        if fact.is_only(kind):
            return kind
    return "other"


def _differs(kinds: list[str]) -> bool:
    """Return whether JAX may order the axes of an indexed array differently from torch.

    If a slice separates an array and an int, NumPy and JAX put the indexed axes first, and torch does not.
    """
    places = [place for place, kind in enumerate(kinds) if kind not in ("slice", "none")]
    apart = bool(places) and any(kinds[at] in ("slice", "none") for at in range(places[0], places[-1]))
    arrays = [at for at in places if kinds[at] != "int"]
    ints = [at for at in places if kinds[at] in ("int", "other")]
    return apart and bool(arrays) and bool(ints) and (len(arrays) > 1 or len(ints) > 1 or arrays != ints)


def _fits(target: cst.Subscript, value: Fact, keeps: bool, context: RewriteContext) -> bool:
    """Return whether it is known which axes a mask covers, and an assigned number keeps the array's dtype."""
    array, index = context.fact(target.value), target.slice[0].slice
    assert isinstance(index, cst.Index)
    same = _missing(target, context) is not None or _masks(index.value, code(target.value), context)
    kept = (value.is_only("bool") and array.is_boolean) or (value.is_only("int") and array.is_integral)
    return bool(same and (keeps or array.is_floating or kept))


def _missing(target: cst.Subscript, context: RewriteContext) -> int | None:
    """Return how many axes an array has after those that its mask covers, or None if this is not known."""
    index = target.slice[0].slice
    assert isinstance(index, cst.Index)
    whole, part = context.fact(target.value).ndim, context.fact(index.value).ndim
    return whole - part if whole is not None and part is not None else None


def _broadcasts(target: cst.Subscript, value: Fact, context: RewriteContext) -> bool:
    """Return whether an assigned tensor has the array's dtype, and each entry that a mask selects gets all of it.

    The result is False for a tensor with one value for each selected entry, because `jnp.where` cannot distribute the
    values.
    """
    missing = _missing(target, context)
    if missing is None or value.shape is None or value.ndim is None or not value.is_only("tensor", "parameter"):
        return False
    same = value.ndim <= missing or (value.ndim == missing + 1 and value.shape[0] == 1)
    return same and bool(value.dtype) and value.dtype == context.fact(target.value).dtype


def _spread(mask: cst.BaseExpression, missing: int | None) -> cst.BaseExpression:
    """Return a mask with `missing` new axes at its end."""
    if not missing:
        return mask
    return cst.Subscript(parenthesized(mask), parse(f"x[..., {', '.join(['None'] * missing)}]").deep_clone().slice)  # type: ignore[attr-defined]


def _masks(node: cst.BaseExpression, array: str, context: RewriteContext) -> bool:
    """Return whether an expression such as `~(x > 0)` or `(x > 0) & (x < 1)` compares every entry of an array."""
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.BitInvert) and _masks(node.expression, array, context)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd | cst.BitOr | cst.BitXor):
        return _masks(node.left, array, context) and _masks(node.right, array, context)
    if not isinstance(node, cst.Comparison) or code(node.left) != array:
        return False
    return all(bool(context.fact(one.comparator).is_only("int", "float", "bool")) for one in node.comparisons)


def _listed(index: tuple[cst.SubscriptElement, ...], context: RewriteContext) -> list[cst.SubscriptElement]:
    """Return an index with an array in place of a list: that of `x[np.array([0, 2])]` for `x[[0, 2]]`."""
    only = index[0].slice
    assert isinstance(only, cst.Index)
    numbers = isinstance(only.value, cst.List) and all(_is_number(one.value) for one in only.value.elements)
    context.roots.add("np" if numbers else "jnp")
    function = parse("np.array" if numbers else "jnp.asarray").deep_clone()
    return [cst.SubscriptElement(cst.Index(cst.Call(function, [cst.Arg(only.value)])))]


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation):
        return _is_number(node.expression)
    return isinstance(node, cst.Integer) or (isinstance(node, cst.Name) and node.value in ("True", "False"))


def _whole(index: tuple[cst.SubscriptElement, ...]) -> cst.BaseExpression:
    """Return the index of a subscript as one expression, with `slice(a, b)` for each slice `a:b`."""
    written = [_written(one) for one in index]
    return written[0] if len(written) == 1 else cst.Tuple([cst.Element(one) for one in written])


def _written(element: cst.SubscriptElement) -> cst.BaseExpression:
    if isinstance(element.slice, cst.Index):
        return element.slice.value
    part = element.slice
    assert isinstance(part, cst.Slice)
    ends = [part.lower, part.upper] if part.step is None else [part.lower, part.upper, part.step]
    return cst.Call(cst.Name("slice"), [cst.Arg(cst.Name("None") if one is None else one) for one in ends])
