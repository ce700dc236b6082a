"""Indices: joined and split again, they are the same elements."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from funcnet.loops.index import Index, join, split

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def value(index: Index, values: dict[str, int]) -> int:
    return index.constant + sum(factor * values[name] for name, factor in index.terms)


@given(SIZES, st.randoms())
def test_a_reshape_reads_the_same_elements(shape, random):
    count = int(np.prod(shape))
    factors = [n for n in range(1, count + 1) if count % n == 0]
    rows = random.choice(factors)
    other = (rows, count // rows)
    names = [f"i{a}" for a in range(len(shape))]
    sizes = dict(zip(names, shape, strict=True))
    made: dict[str, tuple[Index, int, bool]] = {}

    def divided(place, by):
        quotient, rest = f"q{len(made)}", f"r{len(made)}"
        made[quotient], made[rest] = (place, by, True), (place, by, False)
        sizes[quotient], sizes[rest] = place.bounds(sizes)[1] // by + 1, by
        return Index.variable(quotient), Index.variable(rest)

    place = join([Index.variable(name) for name in names], shape)
    index = split(place, other, sizes, divided)
    for values in itertools.product(*map(range, shape)):
        known = dict(zip(names, values, strict=True))
        for name, (inner, by, is_quotient) in made.items():
            known[name] = value(inner, known) // by if is_quotient else value(inner, known) % by
        found = tuple(value(one, known) for one in index)
        assert found == np.unravel_index(np.ravel_multi_index(values, shape), other)


def test_splitting_an_axis_needs_no_division():
    heads, tokens = Index.variable("h"), Index.variable("t")
    sizes = {"h": 4, "t": 10}
    refuse = lambda place, by: 1 / 0
    assert split(tokens * 32 + heads * 8 + 3, (10, 4, 8), sizes, refuse) == [tokens, heads, Index(3)]


def test_sums_cancel():
    i = Index.variable("i")
    assert (i * 3 + i * -3 + 2) == Index(2)
    assert (i * 0).text() == "0"
    assert (i * -2 + 5).bounds({"i": 4}) == (-1, 5)
