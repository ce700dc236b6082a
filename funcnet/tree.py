"""Names and nested dicts: params and state are plain nested dicts of arrays, and every leaf has a dotted name.

Patterns are matched segment by segment: ``*`` matches within one segment, and ``**`` matches any number of segments,
including none. With ``covers=True``, the default of `select` and `assign`, a pattern also matches everything below the
names that it matches: ``encoder`` then matches ``encoder.fc.weight``. A segment ``*`` in a *name* means all layers of a
stack (``nn.Repeat(…, scan=True)``). A pattern must match either all layers of a stack or none.

Example:
    >>> params = {"fc": {"weight": 1.0, "bias": 2.0}, "head": {"bias": 3.0}}
    >>> partition(params, "**.bias")
    ({'fc': {'bias': 2.0}, 'head': {'bias': 3.0}}, {'fc': {'weight': 1.0}, 'head': {}})
"""

import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

Tree = dict[str, Any]  # nested dicts under the names of the parts of a net; the leaves are mostly arrays
Params = Tree  # the arrays that an optimizer moves, as `net.init` returns them: {"fc": {"weight": array}}
State = Tree  # the buffers of a net, such as running statistics, in the same form
PyTree = Any  # an array, or any nesting of tuples, lists, dicts and other containers of JAX with arrays as leaves
Patterns = str | Iterable[str]
STACKED = "*"
"""The segment of a name for all layers of a stack, whose leaves have a leading axis of layers."""

__all__ = [
    "STACKED",
    "arrays_of",
    "assign",
    "cast",
    "divide",
    "flatten",
    "map_with_name",
    "mask",
    "merge",
    "partition",
    "select",
    "unflatten",
]


def map_with_name(fn: Callable[..., Any], tree: Tree, *rest: Tree, prefix: str = "") -> Tree:
    """Return a copy of a tree in which `fn(name, leaf, *leaves of rest)` replaces every leaf. The leaves of `rest` are
    those with the same name in the other trees.

    >>> map_with_name(lambda name, leaf: name, {"fc": {"weight": 0, "bias": 0}, "act": {}})
    {'fc': {'weight': 'fc.weight', 'bias': 'fc.bias'}, 'act': {}}
    """
    if not isinstance(tree, Mapping):
        raise TypeError(
            f"tree: nested dicts are needed; expected params or state as init returns them, got {type(tree).__name__}."
        )
    out = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        others = [other[key] for other in rest]
        is_leaf = not isinstance(value, dict)
        out[key] = fn(name, value, *others) if is_leaf else map_with_name(fn, value, *others, prefix=f"{name}.")
    return out


def flatten(tree: Tree) -> dict[str, Any]:
    """Return {dotted name: leaf} in the order of the dicts. Empty dicts are left out.

    >>> flatten({"fc": {"weight": 1, "bias": 2}, "act": {}})
    {'fc.weight': 1, 'fc.bias': 2}
    """
    flat: dict[str, Any] = {}
    map_with_name(flat.__setitem__, tree)
    return flat


def unflatten(flat: Mapping[str, Any]) -> Tree:
    """Return nested dicts from {dotted name: leaf}.

    Raises:
        ValueError: if a name is both a leaf and a prefix of another name.

    >>> unflatten({"fc.weight": 1, "fc.bias": 2})
    {'fc': {'weight': 1, 'bias': 2}}
    """
    tree: Tree = {}
    for name, leaf in flat.items():
        *path, last = name.split(".")
        node = tree
        for segment in path:
            node = node.setdefault(segment, {})
            if not isinstance(node, dict):
                break
        if not isinstance(node, dict) or isinstance(node.get(last), dict):
            raise ValueError(f"tree.unflatten: {name!r} would be both a leaf and a subtree.")
        node[last] = leaf
    return tree


# --------------------------------------------------------------------------------------------------- the matcher


def _as_list(patterns: Patterns) -> list[str]:
    if not isinstance(patterns, Iterable):
        raise TypeError(
            f"tree.select: expected a pattern such as 'encoder.*.weight' or several, got {type(patterns).__name__}."
        )
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _regex(pattern: str, covers: bool) -> re.Pattern[str]:
    """Return a regular expression for a pattern of names. The expression expects a dot after every segment of a name,
    also after the last.
    """
    if not isinstance(pattern, str):
        raise TypeError(
            "tree.select: a pattern is not a string; expected a string such as 'encoder.*.weight', got "
            f"{type(pattern).__name__}."
        )
    many = r"(?:[^.]+\.)*"
    segments = pattern.split(".") if pattern else []
    body = "".join(many if s == "**" else re.escape(s).replace(r"\*", "[^.]*") + r"\." for s in segments)
    return re.compile(body + (many if covers else ""))


def _dotted(name: str) -> str:
    return f"{name}." if name else ""


def _refuse_single_layers(pattern: str, regex: re.Pattern[str], names: list[str], where: str) -> None:
    literal = {s.replace("*", "0") for s in pattern.split(".") if set(s) != {"*"}}
    numbers = sorted(n for n in literal if n.isdigit())  # the layer numbers in the pattern
    for name in names:
        segments = name.split(".")
        if not numbers or STACKED not in segments or regex.fullmatch(_dotted(name)):
            continue
        for single in itertools.product(*([*numbers, s] if s == STACKED else [s] for s in segments)):
            if regex.fullmatch(_dotted(".".join(single))):
                raise ValueError(
                    f"{where}: pattern {pattern!r} selects single layers of the stack {name!r}. Use '*' as the layer "
                    "index, or build the model with scan=False and convert the parameters with net.unstack(params)."
                )


def _nothing_matches(pattern: str, names: list[str], where: str) -> ValueError:
    known = dict.fromkeys(names)
    for name in names:
        segments = name.split(".")
        known.update(dict.fromkeys(".".join(segments[:i]) for i in range(1, len(segments))))
    near = difflib.get_close_matches(pattern, [n for n in known if n], n=4, cutoff=0.3) or list(known)[:4]
    shown = ", ".join(repr(n) for n in near) or "none, because there are no names"
    wild = (
        " The only wildcards are '*' and '**'. For several names, use a tuple of patterns."
        if set(pattern) & set("[]{}?")
        else ""
    )
    return ValueError(f"{where}: pattern {pattern!r} matches nothing. Nearest names: {shown}.{wild}")


def select(patterns: Patterns, names: Iterable[str], *, covers: bool = True, where: str = "tree.select") -> list[str]:
    """Return the names that match at least one of the patterns, in the order of `names`.

    Args:
        patterns: one pattern or several.
        names: dotted names; "" is the root.
        covers: whether a pattern also matches everything below the names that it matches.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        ValueError: if a pattern matches nothing (the message shows the nearest names), or matches only some layers of a
            stack.

    >>> select("encoder.*", ["encoder.0.weight", "encoder.1.weight", "head.weight"])
    ['encoder.0.weight', 'encoder.1.weight']
    """
    names = list(names)
    chosen: set[str] = set()
    for pattern in _as_list(patterns):
        regex = _regex(pattern, covers)
        _refuse_single_layers(pattern, regex, names, where)
        hits = [name for name in names if regex.fullmatch(_dotted(name))]
        if not hits:
            raise _nothing_matches(pattern, names, where)
        chosen.update(hits)
    return [name for name in names if name in chosen]


def assign(
    values: Mapping[Any, Any], names: Iterable[str], default: object, *, covers: bool = True, where: str = "tree.assign"
) -> dict[str, Any]:
    """Return {name: value} from {pattern: value}. If several patterns match a name, the value of the last one is used.
    Names without a match get `default`.

    A key of `values` may also be a tuple of patterns.

    >>> assign({"**": 1, "head": 2}, ["fc.weight", "head.weight"], default=0)
    {'fc.weight': 1, 'head.weight': 2}
    """
    names = list(names)
    out = dict.fromkeys(names, default)
    for pattern, value in values.items():
        out.update(dict.fromkeys(select(pattern, names, covers=covers, where=where), value))
    return out


# ------------------------------------------------------------------------------------------------ complete trees


def mask(tree: Tree, patterns: Patterns, *, where: str = "tree.mask") -> Tree:
    """Return a tree of booleans, True for each leaf whose name a pattern matches. optax accepts this tree as a mask.

    >>> mask({"fc": {"weight": 1, "bias": 2}}, "**.bias")
    {'fc': {'weight': False, 'bias': True}}
    """
    chosen = set(select(patterns, flatten(tree), where=where))
    return map_with_name(lambda name, _: name in chosen, tree)


def partition(tree: Tree, patterns: Patterns, *, where: str = "tree.partition") -> tuple[Tree, Tree]:
    """Return (tree of matching leaves, tree of the others). Both trees have all the dicts of `tree`, even if a dict
    becomes empty. `merge` is the inverse.

    To compute gradients of some leaves only, differentiate with respect to the first tree:

    >>> params = {"body": {"weight": jnp.ones(3)}, "head": {"weight": jnp.ones(3)}}
    >>> chosen, rest = partition(params, "head")
    >>> loss = lambda chosen: merge(chosen, rest)["head"]["weight"].sum()
    >>> jax.grad(loss)(chosen)
    {'body': {}, 'head': {'weight': Array([1., 1., 1.], dtype=float32)}}
    """
    return divide(tree, select(patterns, flatten(tree), where=where), where=where)


def divide(tree: Tree, names: Iterable[str], *, where: str = "tree.divide") -> tuple[Tree, Tree]:
    """Return (tree of the leaves with these exact names, tree of the others). In `names`, `*` is an ordinary character.

    Raises:
        ValueError: if a name is not in the tree.

    >>> divide({"fc": {"weight": 1, "bias": 2}}, ["fc.bias"])
    ({'fc': {'bias': 2}}, {'fc': {'weight': 1}})
    """
    chosen = set(names)
    missing = sorted(chosen - flatten(tree).keys())
    if missing:
        shown = ", ".join(map(repr, missing))
        raise ValueError(f"{where}: the tree has no {shown}; expected a tree that contains all given names.")

    def keep(node: Tree, wanted: bool, prefix: str = "") -> Tree:
        return {
            key: keep(value, wanted, f"{prefix}{key}.") if isinstance(value, dict) else value
            for key, value in node.items()
            if isinstance(value, dict) or (f"{prefix}{key}" in chosen) is wanted
        }

    return keep(tree, True), keep(tree, False)


def merge(first: Tree, second: Tree) -> Tree:
    """Return one tree with the leaves of both, in the order of `first`, then of `second`.

    Raises:
        ValueError: if both trees contain the same leaf.

    >>> merge({"fc": {"weight": 1}}, {"fc": {"bias": 2}})
    {'fc': {'weight': 1, 'bias': 2}}
    """

    def join(a: Tree, b: Tree, prefix: str) -> Tree:
        out = dict(a)
        for key, value in b.items():
            if key not in out:
                out[key] = value
            elif isinstance(value, dict) and isinstance(out[key], dict):
                out[key] = join(out[key], value, f"{prefix}{key}.")
            else:
                raise ValueError(f"tree.merge: both trees have {prefix + key!r}. Partition both by the same patterns.")
        return out

    return join(first, second, "")


def cast(tree: PyTree, dtype: DTypeLike) -> Any:
    """Return the tree with its floating leaves cast to `dtype`. Integers, booleans and keys do not change.

    >>> out = cast({"weight": jnp.ones(2), "count": jnp.array(3)}, jnp.bfloat16)
    >>> out["weight"].dtype, out["count"].dtype
    (dtype(bfloat16), dtype('int32'))
    """

    try:
        is_floating = jnp.issubdtype(jnp.dtype(dtype), jnp.inexact)
    except TypeError:
        is_floating = False
    if not is_floating:
        raise TypeError(f"tree.cast: dtype is not floating; expected a dtype such as jnp.bfloat16, got {dtype!r:.60}.")
    if hasattr(tree, "named_parameters"):
        raise TypeError(f"tree.cast: expected arrays, such as params, got {type(tree).__name__}.")

    def one(leaf: ArrayLike) -> Any:
        return jnp.asarray(leaf, dtype) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf

    return jax.tree.map(one, tree)


def arrays_of(values: PyTree, numpy_integers: bool = True) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return (the arrays in `values`, a function that puts other arrays in their places).

    The arrays are the leaves that a transformation may trace, including `jax.ShapeDtypeStruct`s. Python numbers and
    booleans, strings and functions do not count as arrays. With `numpy_integers=False`, numpy arrays of integers do not
    count either, because shapes may depend on their values.

    >>> arrays, join = arrays_of({"x": jax.numpy.ones(2), "flag": True})
    >>> len(arrays), join(["other"])
    (1, {'flag': True, 'x': 'other'})
    """
    leaves, structure = jax.tree.flatten(values)
    known = lambda x: not numpy_integers and isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.integer)
    places = [i for i, x in enumerate(leaves) if hasattr(x, "shape") and hasattr(x, "dtype") and not known(x)]

    def join(new: list[Any]) -> Any:
        whole = list(leaves)
        for i, value in zip(places, new, strict=True):
            whole[i] = value
        return jax.tree.unflatten(structure, whole)

    return [leaves[i] for i in places], join
