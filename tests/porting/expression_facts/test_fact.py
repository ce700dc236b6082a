"""Facts: what they answer, how they join, and what a value of torch gives."""

import collections

import numpy as np
import pytest
import torch

from funcnet.porting.expression_facts.fact import KINDS, UNKNOWN, Fact, fact_of, join

TENSOR = Fact(frozenset({"tensor"}), "float32", (2, 3))


def test_three_values():
    either = Fact(frozenset({"int", "none"}))
    assert either.is_only("int", "none") is True and either.is_only("int") is False and UNKNOWN.is_only("int") is None
    assert TENSOR.is_tensor is True and either.is_tensor is False and UNKNOWN.is_tensor is None
    assert (TENSOR.is_floating, TENSOR.is_boolean, TENSOR.is_integral, TENSOR.ndim) == (True, False, False, 2)
    assert (UNKNOWN.is_floating, UNKNOWN.is_boolean, UNKNOWN.is_integral, UNKNOWN.ndim) == (None,) * 4
    assert Fact(dtype="bfloat16").is_floating and Fact(dtype="uint8").is_integral and Fact(dtype="bool").is_boolean


def test_join_keeps_what_is_common():
    other = Fact(frozenset({"tensor"}), "float64", (2, 5))
    assert join([TENSOR, other]) == Fact(frozenset({"tensor"}), "", (2, None))
    assert join([TENSOR, Fact(frozenset({"tensor"}), "float32", (2,))]).shape is None
    assert join([TENSOR, Fact(frozenset({"none"}))]) == Fact(frozenset({"tensor", "none"}), "float32", (2, 3))
    assert join([TENSOR, UNKNOWN]) == UNKNOWN and join([]) == UNKNOWN
    pair = Fact(frozenset({"tuple"}), items=(TENSOR, UNKNOWN))
    assert join([pair, pair]).items == (TENSOR, UNKNOWN) and join([pair, Fact(frozenset({"tuple"}))]).items is None


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (torch.ones(2), "tensor"), (torch.nn.Parameter(torch.ones(2)), "parameter"), (torch.nn.ReLU(), "module"),
        (3, "int"), (3.0, "float"), (True, "bool"), (1j, "complex"), ("a", "str"), (None, "none"), ((1,), "tuple"),
        (torch.Size([2]), "tuple"), (Point(1, 2), "tuple"), ([1], "list"), ({}, "dict"), ({1}, "set"),
        (slice(1), "slice"), (..., "ellipsis"), (torch.float32, "dtype"), (torch.device("cpu"), "device"),
        (np.ones(2), "array"), (np.float32(1), "array"), (len, "function"), (torch.relu, "function"),
        (torch.nn.ReLU, "class"), (object(), "other"),
    ],
)  # fmt: skip
def test_kinds(value, kind):
    assert kind in KINDS and fact_of(value).kinds == {kind}


def test_details():
    assert fact_of(torch.ones(2, 3, dtype=torch.int64)) == Fact(frozenset({"tensor"}), "int64", (2, 3))
    assert fact_of(np.ones(2, np.float16)) == Fact(frozenset({"array"}), "float16", (2,))
    assert fact_of((torch.ones(2), 1)).items[0].shape == (2,)
    assert fact_of([1] * 17).items is None and fact_of([[[1]]]).items[0].items[0].items is None
    assert fact_of(torch.nn.ReLU()).name == "torch.nn.modules.activation.ReLU"
    assert fact_of(torch.float32).name == "torch.float32"
