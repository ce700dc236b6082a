"""A search for batches that are collated in another way than torch does it, without an error of ours."""

import numpy as np
import torch
import torch.utils.data as reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from funcnet import data
from tests.data.test_collate import same

DTYPES = ("bool", "int8", "int64", "uint8", "float16", "float32", "float64", "complex64")
PYTHON = [st.booleans(), st.integers(-(2**65), 2**65), st.integers(-9, 9), st.floats(), st.text(max_size=3)]
NUMPY = [arrays.from_dtype(np.dtype(name)) for name in DTYPES]
ARRAYS = [
    arrays.arrays(np.dtype(name), shape, elements=arrays.from_dtype(np.dtype(name)))
    for name in ("int64", "float32", "float64")
    for shape in ((), (2,), (2, 1), (0,))
]
TENSORS = [st.just(torch.ones(2)), st.just(torch.tensor(3)), st.just(torch.zeros(2, dtype=torch.bool))]
OTHERS = [st.none(), st.binary(max_size=2), st.just(np.str_("a")), st.just(np.datetime64("2020-01-01"))]
LEAVES = [*PYTHON, *NUMPY, *ARRAYS, *TENSORS, *OTHERS]


def items(leaf):
    """Batches of three items of one nesting, whose leaves may differ in type."""
    nestings = st.recursive(
        st.just("leaf"),
        lambda inner: st.one_of(
            st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=2),
            st.lists(inner, min_size=1, max_size=2),
            st.tuples(inner),
        ),
        max_leaves=4,
    )

    def filled(nesting):
        if nesting == "leaf":
            return leaf
        if isinstance(nesting, dict):
            return st.fixed_dictionaries({key: filled(one) for key, one in nesting.items()})
        whole = st.tuples(*map(filled, nesting))
        return whole if isinstance(nesting, tuple) else whole.map(list)

    return nestings.flatmap(lambda nesting: st.lists(filled(nesting), min_size=1, max_size=3))


def outcome(collate, batch):
    try:
        return collate(batch), None
    except Exception as error:
        return None, error


def check(batch):
    (ours, refusal), (theirs, _) = outcome(data.default_collate, batch), outcome(reference.default_collate, batch)
    if refusal is None:
        same(ours, theirs)
        return
    assert isinstance(refusal, TypeError | ValueError | RuntimeError | KeyError), repr(refusal)
    words = ("default_collate: ", "stack expects each tensor", "each element in list of batch")
    assert str(refusal).lstrip("'\"").startswith(words), repr(refusal)  # no error from the depths


@given(items(st.one_of(LEAVES)))
def test_leaves_of_any_types(batch):
    check(batch)


@given(st.sampled_from(LEAVES).flatmap(items))
def test_leaves_of_one_type(batch):
    check(batch)


@given(st.lists(st.one_of(PYTHON[:4]), min_size=1, max_size=4))
def test_numbers_of_python(batch):
    """None of them is refused that torch takes."""
    (ours, refusal), (theirs, theirs_refusal) = (
        outcome(collate, batch) for collate in (data.default_collate, reference.default_collate)
    )
    assert (refusal is None) == (theirs_refusal is None), (refusal, theirs_refusal)
    if refusal is None:
        same(ours, theirs)
