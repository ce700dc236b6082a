"""The plan of the memory: arrays that live together never overlap, and the plan is not much larger than it must be."""

from hypothesis import given
from hypothesis import strategies as st

from funcnet.loops.memory import Life, plan

LIVES = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 30), st.integers(0, 10)), max_size=25)


@given(LIVES)
def test_arrays_that_live_together_never_overlap(drawn):
    lives = {number: Life(size, first, first + long) for number, (size, first, long) in enumerate(drawn)}
    offsets, end = plan(lives)
    for a, one in lives.items():
        assert offsets[a] % 16 == 0 and offsets[a] + one.size <= end
        for b, other in lives.items():
            if a < b and one.first <= other.last and other.first <= one.last:
                assert offsets[a] + one.size <= offsets[b] or offsets[b] + other.size <= offsets[a]


def test_a_chain_needs_two_arrays():
    lives = {step: Life(160, step, step + 1) for step in range(50)}
    assert plan(lives)[1] == 320


def test_nothing():
    assert plan({}) == ({}, 0)
