"""The data classes of `aliasing.follow`: its input about a source, and its findings about the names of one function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import libcst as cst

from funcnet.porting.expression_facts.fact import Fact

__all__ = ["Flow", "Known", "Miss"]


@dataclasses.dataclass(frozen=True)
class Known:
    """The functions that look up facts and names in the source of a function.

    Attributes:
        fact: function that returns what is known about the value of an expression.
        qualified: function that returns the qualified name of a Name or an Attribute, or None.
        changed: function that returns the arguments that a call changes in place.
        is_method: function that returns whether torch's tensors have a method of a given name, according to the rules.
    """

    fact: Callable[[cst.CSTNode], Fact]
    qualified: Callable[[cst.CSTNode], str | None]
    changed: Callable[[cst.Call], Sequence[cst.BaseExpression]]
    is_method: Callable[[str], bool]


@dataclasses.dataclass(frozen=True)
class Miss:
    """A read that would give an old value in the ported code, because the value was changed through another name.

    If a view is made from a name after the change, a read of this view counts as a read of the name.

    Attributes:
        change: the call, augmented assignment or assignment that makes the change.
        reader: the name that is read.
        sure: whether the two names certainly share storage.
    """

    change: cst.CSTNode
    reader: str
    sure: bool


@dataclasses.dataclass
class Flow:
    """The changes in place and the reads that `aliasing.follow` found in one function.

    Attributes:
        misses: the reads that would give an old value in the ported code.
        changes: {statement or call that changes a value in place: the names through which it changes the value}.
        steps: {change: steps from the changed name back to the names of which it is a view}. The step (base, subscript,
            name) means `name = base[…]`, and (base, None, name) means `name = base`.
        homes: names to which something other than a view of another name is assigned, and all parameters and attributes
            of self.
        uses: {node that reads or assigns a name: (this name, holders)}. The holders are the names in `homes` whose
            arrays contain the elements of the value in the ported code.
        inner: local names that functions inside the function read.
        mutated: {parameter whose storage is changed in place: True if the change is certain, False if it is possible}.
        lost: parameters that the caller needs, but that may refer to a different value when the function ends.
    """

    misses: set[Miss] = dataclasses.field(default_factory=set)
    changes: dict[cst.CSTNode, set[str]] = dataclasses.field(default_factory=dict)
    steps: dict[cst.CSTNode, tuple[tuple[str, cst.Subscript | None, str], ...]] = dataclasses.field(
        default_factory=dict
    )
    uses: dict[cst.CSTNode, tuple[str, frozenset[str]]] = dataclasses.field(default_factory=dict)
    inner: set[str] = dataclasses.field(default_factory=set)
    homes: frozenset[str] = frozenset()
    mutated: dict[str, bool] = dataclasses.field(default_factory=dict)
    lost: set[str] = dataclasses.field(default_factory=set)
