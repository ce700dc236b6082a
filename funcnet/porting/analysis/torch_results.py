"""Derives the type of a call's result from the name of the called function of torch, math, NumPy or einops."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import libcst as cst

from funcnet import functional, nn
from funcnet.porting.expression_facts.fact import FLOAT, INT, INTS, TENSOR, UNKNOWN, Fact
from funcnet.porting.rule_engine.rule import Rule

__all__ = ["of_kind", "result_of"]

_FUNCTIONAL = "torch.nn.functional."
_NUMBERS: Mapping[str, Fact] = {"math.ceil": INT, "math.floor": INT, "math.prod": INT, "operator.mul": INT}
_EINSTEIN = ("torch.einsum", "einops.rearrange", "einops.repeat", "einops.reduce")
_TENSORS = Fact(frozenset({"tuple"}), name="tensors")


def result_of(qualified: str, call: cst.Call, rules: Mapping[str, tuple[Rule, ...]]) -> Fact:
    """Return the `Fact` about the result of a call, such as its type and dtype, from the name of the called function.

    Args:
        qualified: the qualified name of what is called.
        call: the call.
        rules: {qualified name in torch: its rules}, which give the kinds of results.
    """
    if qualified.startswith(_FUNCTIONAL):
        return _of_functional(qualified.removeprefix(_FUNCTIONAL), call)
    if qualified in _EINSTEIN:
        return TENSOR
    if qualified == "torch.nn.Parameter" or qualified == "torch.nn.parameter.Parameter":
        return Fact(frozenset({"parameter"}))
    last = qualified.rpartition(".")[2]
    if qualified.startswith("torch.nn.") and last[:1].isupper():
        is_plain = _returns_indices(getattr(nn, last, None), call) is False
        return Fact(frozenset({"module"}), name=qualified if is_plain else "")  # without a name, its result is unknown
    if qualified in rules:
        return of_kind(rules[qualified][0].result)
    if qualified.startswith("numpy."):
        return Fact(frozenset({"array"}))
    return _NUMBERS.get(qualified, FLOAT if qualified.startswith("math.") else UNKNOWN)


def _of_functional(name: str, call: cst.Call) -> Fact:
    if name == "multi_head_attention_forward":
        return Fact(frozenset({"tuple"}), items=(TENSOR, Fact(frozenset({"tensor", "none"}))))
    if name.endswith("_with_indices"):
        return _TENSORS
    indices = _returns_indices(getattr(functional, name, None), call)
    return UNKNOWN if indices is None else _TENSORS if indices else TENSOR


def _returns_indices(function: object, call: cst.Call) -> bool | None:
    """Return whether a call of a pooling function passes `return_indices=True`, or None if this is not known. The
    argument may be passed by its name or by its position.
    """
    names = list(inspect.signature(function).parameters) if callable(function) else []
    if "return_indices" not in names:
        return False
    place = names.index("return_indices")
    for index, arg in enumerate(call.args):
        if arg.star:
            return None
        if (arg.keyword.value == "return_indices") if arg.keyword is not None else index == place:
            text = arg.value.value if isinstance(arg.value, cst.Name) else ""
            return {"True": True, "False": False}.get(text)
    return False


def of_kind(kind: str) -> Fact:
    """Return the `Fact` for the text in `Rule.result`, such as "tensor" or "int".

    >>> of_kind("tuple").name, of_kind("")
    ('tensors', Fact(kinds=frozenset(), dtype='', shape=None, items=None, name=''))
    """
    if kind == "tuple":
        return _TENSORS
    return INTS if kind == "sizes" else Fact(frozenset({kind})) if kind else UNKNOWN
