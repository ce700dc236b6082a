"""Names and nested dicts: params and state are plain nested dicts of arrays, and every leaf has a dotted name.

The matcher reads a pattern segment by segment: ``*`` stays inside one segment, ``**`` spans any number of them (none
too). Where a pattern *covers*, it also takes all that lies beneath what it names: ``encoder`` covers
``encoder.fc.weight``. A segment of a *name* that is itself ``*`` stands for all the layers of a stack
(``nn.Repeat(…, scan=True)``): a pattern either takes all of them or is refused.

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

Tree = dict[str, Any]
Patterns = str | Iterable[str]
STACKED = "*"  # the segment for all the layers of a stack; its leaves have a leading axis of layers

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
    """`fn(name, leaf, *leaves of rest)` for every leaf, in a tree of the same structure.

    >>> map_with_name(lambda name, leaf: name, {"fc": {"weight": 0, "bias": 0}, "act": {}})
    {'fc': {'weight': 'fc.weight', 'bias': 'fc.bias'}, 'act': {}}
    """
    out = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        others = [other[key] for other in rest]
        is_leaf = not isinstance(value, dict)
        out[key] = fn(name, value, *others) if is_leaf else map_with_name(fn, value, *others, prefix=f"{name}.")
    return out


def flatten(tree: Tree) -> dict[str, Any]:
    """{dotted name: leaf} in the order of the dicts; empty dicts vanish.

    >>> flatten({"fc": {"weight": 1, "bias": 2}, "act": {}})
    {'fc.weight': 1, 'fc.bias': 2}
    """
    flat: dict[str, Any] = {}
    map_with_name(flat.__setitem__, tree)
    return flat


def unflatten(flat: Mapping[str, Any]) -> Tree:
    """The nested dicts of {dotted name: leaf}.

    Raises:
        ValueError: one name is a leaf and a prefix of another.

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
            raise ValueError(f"tree.unflatten: {name!r} would be a leaf and a subtree at once.")
        node[last] = leaf
    return tree


# --------------------------------------------------------------------------------------------------- the matcher


def _as_list(patterns: Patterns) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _regex(pattern: str, covers: bool) -> re.Pattern[str]:
    """Matches names written with a dot after every segment."""
    if not isinstance(pattern, str):
        raise TypeError(f"tree.select: a pattern is a string such as 'encoder.*.weight', got {type(pattern).__name__}.")
    many = r"(?:[^.]+\.)*"
    segments = pattern.split(".") if pattern else []
    body = "".join(many if s == "**" else re.escape(s).replace(r"\*", "[^.]*") + r"\." for s in segments)
    return re.compile(body + (many if covers else ""))


def _dotted(name: str) -> str:
    return f"{name}." if name else ""


def _refuse_single_layers(pattern: str, regex: re.Pattern[str], names: list[str], where: str) -> None:
    literal = {s.replace("*", "0") for s in pattern.split(".") if set(s) != {"*"}}
    numbers = sorted(n for n in literal if n.isdigit())  # what the pattern would call a layer
    for name in names:
        segments = name.split(".")
        if not numbers or STACKED not in segments or regex.fullmatch(_dotted(name)):
            continue
        for single in itertools.product(*([*numbers, s] if s == STACKED else [s] for s in segments)):
            if regex.fullmatch(_dotted(".".join(single))):
                raise ValueError(
                    f"{where}: pattern {pattern!r} picks single layers of the stack {name!r}. Write '*' for the layer, "
                    "or unstack it: net.unstack(params), with scan=False."
                )


def _nothing_matches(pattern: str, names: list[str], where: str) -> ValueError:
    known = dict.fromkeys(names)
    for name in names:
        segments = name.split(".")
        known.update(dict.fromkeys(".".join(segments[:i]) for i in range(1, len(segments))))
    near = difflib.get_close_matches(pattern, [n for n in known if n], n=4, cutoff=0.3) or list(known)[:4]
    shown = ", ".join(repr(n) for n in near) or "none: there are no names here"
    wild = " Only '*' and '**' are wild: give several patterns." if set(pattern) & set("[]{}?") else ""
    return ValueError(f"{where}: pattern {pattern!r} matches nothing. Nearest names: {shown}.{wild}")


def select(patterns: Patterns, names: Iterable[str], *, covers: bool = True, where: str = "tree.select") -> list[str]:
    """The names that any of the patterns matches, in their own order.

    Args:
        patterns: one pattern or several.
        names: dotted names; "" is the root.
        covers: whether a pattern takes what lies beneath it too.
        where: the caller, for error messages.

    Raises:
        ValueError: a pattern matches nothing (the nearest names are shown), or single layers of a stack.

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
    values: Mapping[str, Any], names: Iterable[str], default: Any, *, covers: bool = True, where: str = "tree.assign"
) -> dict[str, Any]:
    """{name: value} from {pattern: value}: the last pattern that matches wins; what nothing matches keeps `default`.

    >>> assign({"**": 1, "head": 2}, ["fc.weight", "head.weight"], default=0)
    {'fc.weight': 1, 'head.weight': 2}
    """
    names = list(names)
    out = dict.fromkeys(names, default)
    for pattern, value in values.items():
        out.update(dict.fromkeys(select(pattern, names, covers=covers, where=where), value))
    return out


# ------------------------------------------------------------------------------------------------ whole trees


def mask(tree: Tree, patterns: Patterns, *, where: str = "tree.mask") -> Tree:
    """The tree's structure with True where a pattern matches the leaf's name (optax's masks read this).

    >>> mask({"fc": {"weight": 1, "bias": 2}}, "**.bias")
    {'fc': {'weight': False, 'bias': True}}
    """
    chosen = set(select(patterns, flatten(tree), where=where))
    return map_with_name(lambda name, _: name in chosen, tree)


def partition(tree: Tree, patterns: Patterns, *, where: str = "tree.partition") -> tuple[Tree, Tree]:
    """(the matching leaves, the rest), both with all the dicts of `tree`; `merge` joins them again.

    Differentiate only with respect to the first, and the second needs no gradient:

    >>> params = {"body": {"weight": jnp.ones(3)}, "head": {"weight": jnp.ones(3)}}
    >>> chosen, rest = partition(params, "head")
    >>> loss = lambda chosen: merge(chosen, rest)["head"]["weight"].sum()
    >>> jax.grad(loss)(chosen)
    {'body': {}, 'head': {'weight': Array([1., 1., 1.], dtype=float32)}}
    """
    return divide(tree, select(patterns, flatten(tree), where=where), where=where)


def divide(tree: Tree, names: Iterable[str], *, where: str = "tree.divide") -> tuple[Tree, Tree]:
    """(the leaves of exactly these names, the rest): `partition` by names, in which `*` is an ordinary character.

    Raises:
        ValueError: the tree lacks one of them.

    >>> divide({"fc": {"weight": 1, "bias": 2}}, ["fc.bias"])
    ({'fc': {'bias': 2}}, {'fc': {'weight': 1}})
    """
    chosen = set(names)
    missing = sorted(chosen - flatten(tree).keys())
    if missing:
        shown = ", ".join(map(repr, missing))
        raise ValueError(f"{where}: the tree has no {shown}; expected every name given. Give the tree of this net.")

    def keep(node: Tree, wanted: bool, prefix: str = "") -> Tree:
        return {
            key: keep(value, wanted, f"{prefix}{key}.") if isinstance(value, dict) else value
            for key, value in node.items()
            if isinstance(value, dict) or (f"{prefix}{key}" in chosen) is wanted
        }

    return keep(tree, True), keep(tree, False)


def merge(first: Tree, second: Tree) -> Tree:
    """One tree with the leaves of both, in the order of `first`, then of `second`.

    Raises:
        ValueError: both hold the same leaf.

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
                raise ValueError(f"tree.merge: both trees hold {prefix + key!r}. Partition them by the same patterns.")
        return out

    return join(first, second, "")


def cast(tree: Any, dtype: Any) -> Any:
    """The tree with its floating leaves in `dtype`; integers, booleans and keys stay as they are.

    >>> out = cast({"weight": jnp.ones(2), "count": jnp.array(3)}, jnp.bfloat16)
    >>> out["weight"].dtype, out["count"].dtype
    (dtype(bfloat16), dtype('int32'))
    """

    def one(leaf: Any) -> Any:
        return jnp.asarray(leaf, dtype) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf

    return jax.tree.map(one, tree)


def arrays_of(values: Any, numpy_integers: bool = True) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """(the arrays in `values`, a function that puts others in their places).

    What a transformation may trace, apart from what it must leave as it is: Python's numbers and booleans, strings,
    functions; by default also numpy's integers, which may be lengths or sizes that a shape depends on.
    `jax.ShapeDtypeStruct`s count as arrays.

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
