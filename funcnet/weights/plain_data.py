"""The objects in torch's files that are not plain data, such as an `argparse.Namespace` that was saved with the
weights.

The reader of a pickle never makes such an object, and never imports the name that a file gives. A `Placeholder` takes
its place, and `plain_data` leaves it out of the result.
"""

import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from funcnet.weights.errors import UnsafeFileError

__all__ = ["Omission", "Placeholder", "plain_data", "warn_of"]

_MAX_DEPTH = 200
_LEAVES = (type(None), bool, int, float, complex, str, bytes, bytearray, np.ndarray)
_BRANCHES = (list, tuple, dict, set, frozenset)
_SHOWN = 6


class Placeholder:
    """A name that is not admitted, or an object that the file would make with it.

    Attributes:
        name: the name in the file, such as "argparse.Namespace".
        refusal: the message of the error for a file that contains nothing else.
    """

    def __init__(self, name: str, refusal: str):
        self.name, self.refusal = name, refusal

    def called(self, args: Any) -> "Placeholder":
        """Return the placeholder for the object that a call with `args` would make. In old protocols, `copyreg` is
        called with the class of the object as `args[0]`.
        """
        is_given = self.name.startswith(("copyreg.", "copy_reg.")) and type(args) is tuple and args
        return args[0] if is_given and isinstance(args[0], Placeholder) else self


class Omission(NamedTuple):
    """An object that was left out: its place in the tree, such as "['args']", and the name of its class or function."""

    place: str
    name: str


def plain_data(root: object, placeholders: list[Placeholder], most: int) -> tuple[Any, list[Omission]]:
    """Return the result of a pickle without the objects that are not plain data, and the list of these objects.

    If the result has arrays, an entry of a dict or a set is removed, and None takes the place of an item of a list or a
    tuple.

    Args:
        root: the result of the pickle.
        placeholders: all `Placeholder`s of the pickle, in their order.
        most: the largest number of nodes.

    Raises:
        UnsafeFileError: if there are such objects, but no arrays.
        ValueError: if the result contains itself, is too deep, or has more than `most` nodes.
    """
    others, has_arrays = _check_tree([root], most)
    if not others and not placeholders:
        return root, []
    if has_arrays and _is_plain(root):
        rest, omitted = _without_others(root)
        if _check_tree([rest], most)[1]:  # the arrays may have been under keys that are left out
            return rest, omitted
    first = (*placeholders, *others)[0]
    name = getattr(first, "name", type(first).__name__)
    found = f"the pickle contains {name!r} as a value; expected plain data"
    raise UnsafeFileError(first.refusal if isinstance(first, Placeholder) else found)


def _is_plain(value: object) -> bool:
    return type(value) in _LEAVES or isinstance(value, (*_BRANCHES, np.dtype))


def _check_tree(root: list[Any], most: int) -> tuple[list[Any], bool]:
    """Return the values in a tree that are not plain data, and whether the tree contains arrays.

    A node that occurs several times in the tree is counted once per occurrence.

    Raises:
        ValueError: if the tree contains itself, is too deep, or has more than `most` nodes.
    """
    others: list[Any] = []
    has_arrays = False
    sizes: dict[int, tuple[int, int]] = {}  # of each finished branch: the number of nodes, and the depth
    open_branches: set[int] = set()
    todo: list[tuple[Any, list[Any] | None]] = [(root, None)]
    while todo:
        node, below = todo.pop()
        if below is None:
            if id(node) in sizes:
                continue
            if id(node) in open_branches:
                raise ValueError("the pickle is invalid: a list or dict contains itself; expected a tree")
            open_branches.add(id(node))
            values: list[Any] = list(node.values()) if isinstance(node, dict) else list(node)
            values += vars(node).values() if type(node) is OrderedDict else ()
            others += [value for value in values if not _is_plain(value)]
            has_arrays = has_arrays or any(isinstance(value, np.ndarray) for value in values)
            below = [value for value in values if isinstance(value, _BRANCHES)]
            todo.append((node, below))
            todo.extend((child, None) for child in below)
            continue
        open_branches.discard(id(node))
        nodes = len(node) + sum(sizes[id(child)][0] for child in below)
        depth = 1 + max((sizes[id(child)][1] for child in below), default=0)
        if nodes > most:
            raise ValueError(f"the pickle is invalid: its shared parts repeat too often; expected at most {most} parts")
        if depth > _MAX_DEPTH:
            raise ValueError(f"the pickle is invalid: it is nested too deeply; expected at most {_MAX_DEPTH} levels")
        sizes[id(node)] = nodes, depth
    return others, has_arrays


def _without_others(root: object) -> tuple[Any, list[Omission]]:
    omitted: list[Omission] = []
    done: dict[int, tuple[Any, Any]] = {}  # id of a node -> (the node, which must live, and what takes its place)

    def left_out(value: object, place: str) -> bool:
        if _is_plain(value):
            return False
        omitted.append(Omission(place[:120], getattr(value, "name", type(value).__name__)[:120]))
        return True

    def has_plain_key(key: object, place: str) -> bool:
        return not any(left_out(part, f"a key of {place or 'the file'}") for part in _parts(key))

    def visit(node: object, place: str) -> Any:
        if not isinstance(node, _BRANCHES):
            return node
        if id(node) not in done:
            done[id(node)] = node, node  # a set cannot contain itself, and the others were checked
            done[id(node)] = node, rebuilt(node, place)
        return done[id(node)][1]

    def rebuilt(node: Any, place: str) -> Any:
        if isinstance(node, dict):
            for key, value in list(node.items()):
                inner = f"{place}[{key!r:.80}]"
                if not has_plain_key(key, place) or left_out(value, inner):
                    del node[key]
                else:
                    node[key] = visit(value, inner)
            for name, value in list(vars(node).items()) if hasattr(node, "__dict__") else ():
                setattr(node, name, None if left_out(value, f"{place}.{name}") else visit(value, f"{place}.{name}"))
            return node
        if isinstance(node, set | frozenset):
            return type(node)(item for item in node if has_plain_key(item, place))
        items = [
            None if left_out(item, f"{place}[{number}]") else visit(item, f"{place}[{number}]")
            for number, item in enumerate(node)
        ]
        if isinstance(node, list):
            node[:] = items
            return node
        return tuple(items) if any(a is not b for a, b in zip(items, node, strict=True)) else node

    return visit(root, ""), omitted


def warn_of(omitted: list[Omission], path: Path) -> None:
    """Give one warning that names all objects that were left out of a file."""
    if not omitted:
        return
    shown = ", ".join(f"{place} ({name})" for place, name in omitted[:_SHOWN])
    more = f" and {len(omitted) - _SHOWN} more" if len(omitted) > _SHOWN else ""
    warnings.warn(
        f"weights.load: {path}: left out what is not plain data: {shown}{more}; expected tensors, numbers, strings, "
        "lists and dicts. Nothing of it was run. To keep it, save it as plain data.",
        stacklevel=5,
    )


def _parts(key: object) -> tuple[Any, ...]:
    return key if type(key) is tuple else (key,)
