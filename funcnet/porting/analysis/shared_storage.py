"""Represents the values that the names of a function have, so that `aliasing.py` can tell which names share storage.

A token is a tuple that identifies a storage, or the value that one assignment gives to a name. These are the tokens:

- ("param", name): the value that the caller passed for a parameter,
- ("free", name): the first value of an attribute of self, or of a name from outside the function,
- ("site", node): the result of an expression,
- ("item", storage, position): the item at this position of a list or a tuple,
- ("bind", target): the value that was assigned to a target,
- ("join", node, token, token): one of two values, because two paths through the code meet at the node; ("join", node,
  name) if such tokens are nested too deeply,
- ("old", token): the value that a token identified in an earlier iteration of a loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping

import libcst as cst

__all__ = ["Origin", "State", "Value", "aged", "joined", "stale_keys"]

State = dict[str, "Value"]
Token = Hashable

_DEPTH = 4  # largest number of joins inside each other


@dataclasses.dataclass(frozen=True)
class Origin:
    """The expression that takes a value from a name: `base` itself, or `base[index]`.

    Attributes:
        base: the name, or an attribute of self.
        version: the `Value.version` of the base when the value was taken.
        node: the subscript, or None for the base itself.
        reads: (name, token of its storage) for each name in the index.
    """

    base: str
    version: Token
    node: cst.Subscript | None
    reads: tuple[tuple[str, Token], ...] = ()


@dataclasses.dataclass(frozen=True)
class Value:
    """The value that a name has at one point of a function.

    Attributes:
        storage: the token of the storage. Two names with the same token certainly share storage.
        version: the token of the assignment that gave the name its value. A change of the value in place keeps this
            token.
        frame: the `version` of the name whose array contains the elements of the value in the ported code. A name in
            `Flow.homes` has its own array, and `frame` equals `version`. Any other name is a view of a second name, and
            `frame` is the `version` of the second name.
        atoms: the storages that the value may share or contain. Names whose atoms overlap may share storage.
        origin: the name and the subscript from which the value was taken, or None if it was not taken in one step.
        stale: (change, name, sure) for each change in place that the array of `name` lacks in the ported code. `sure`
            is whether torch certainly changes the value.
    """

    storage: Token
    version: Token
    frame: Token
    atoms: frozenset[Token] = frozenset()
    origin: Origin | None = None
    stale: frozenset[tuple[cst.CSTNode, str, bool]] = frozenset()


def joined(one: State | None, other: State | None, node: cst.CSTNode) -> State | None:
    """Return {name: value} at a point where two paths through the code meet, such as the end of an `if`.

    Args:
        one, other: the states at the ends of the paths. The state is None for a path that ends earlier, for example
            with a `return`.
        node: the statement or expression after which the paths meet.
    """
    if one is None or other is None:
        return one if other is None else other
    result = {}
    for key in {**one, **other}:
        a, b = one.get(key), other.get(key)
        result[key] = _either(a, b, node, key) if a is not None and b is not None else a or b
    return result  # type: ignore[return-value]


def _either(a: Value, b: Value, node: cst.CSTNode, key: str) -> Value:
    if a == b:
        return a
    return Value(
        _one_of(a.storage, b.storage, node, key),
        _one_of(a.version, b.version, node, key),
        _one_of(a.frame, b.frame, node, key),
        a.atoms | b.atoms,
        a.origin if a.origin == b.origin else None,
        a.stale | b.stale,
    )


def _one_of(a: Token, b: Token, node: cst.CSTNode, key: str) -> Token:
    """Return a token for a value that is one of two, depending on the path through the code. If two names have the same
    two possible values, they get the same token, so they are still known to share storage.
    """
    if a == b:
        return a
    token = ("join", node, a, b)
    return token if _depth(token) <= _DEPTH else ("join", node, key)


def _depth(token: Token) -> int:
    return 1 + max(map(_depth, token[2:]), default=0) if isinstance(token, tuple) and token[0] == "join" else 0


def aged(state: State, token: Token) -> State:
    """Return the state with a token marked as old, because a loop is about to run the token's expression or assignment
    again.
    """
    if not any(_has(value, token) for value in state.values()):
        return state
    return {key: _aged_value(value, token) for key, value in state.items()}


def _has(value: Value, token: Token) -> bool:
    origin = value.origin
    more = () if origin is None else (origin.version, *(one for _, one in origin.reads))
    tokens = (value.storage, value.version, value.frame, *more)
    return token in value.atoms or any(_within(one, token) for one in tokens)


def _within(one: Token, token: Token) -> bool:
    return one == token or (
        isinstance(one, tuple) and one[0] == "join" and any(_within(part, token) for part in one[2:])
    )


def _aged_token(one: Token, token: Token) -> Token:
    if one == token:
        return ("old", token)
    if isinstance(one, tuple) and one[0] == "join":
        return (*one[:2], *(_aged_token(part, token) for part in one[2:]))
    return one


def _aged_value(value: Value, token: Token) -> Value:
    origin = value.origin
    if origin is not None:
        reads = tuple((name, _aged_token(one, token)) for name, one in origin.reads)
        origin = dataclasses.replace(origin, version=_aged_token(origin.version, token), reads=reads)
    atoms = frozenset(_aged_token(one, token) for one in value.atoms)
    storage, version, frame = (_aged_token(one, token) for one in (value.storage, value.version, value.frame))
    return Value(storage, version, frame, atoms, origin, value.stale)


def stale_keys(state: Mapping[str, Value], changed: Value, but: Iterable[str]) -> dict[str, bool]:
    """Return the other names whose values torch also changes when it changes a value in place. The result is {name:
    whether this is certain}.

    Args:
        state: the values of the names.
        changed: the value that is changed in place.
        but: names to leave out, because the changed value is assigned to them.
    """
    old = isinstance(changed.storage, tuple) and changed.storage[0] == "old"  # one of several earlier values
    found = {}
    for key, value in state.items():
        if key not in but and value.atoms & changed.atoms and not _apart(value.origin, changed.origin):
            found[key] = not old and (value.storage == changed.storage or changed.storage in value.atoms)
    return found


def _apart(one: Origin | None, other: Origin | None) -> bool:
    """Return whether two views are of different rows of the same array: `x[0]` and `x[1]`."""
    if one is None or other is None or (one.base, one.version) != (other.base, other.version):
        return False
    rows = [_row(origin.node) for origin in (one, other)]
    return None not in rows and rows[0] != rows[1]


def _row(node: cst.Subscript | None) -> int | None:
    first = node.slice[0].slice if node is not None else None
    if isinstance(first, cst.Index) and isinstance(first.value, cst.Integer):
        return first.value.evaluated_value
    return None
