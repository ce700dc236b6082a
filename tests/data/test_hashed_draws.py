"""Draws are functions of their counters; permutations are permutations, and look random in every place."""

import numpy as np
import pytest

from funcnet.data import draw_bits, hashed_draws, permute, to_integers, to_uniform


def test_a_draw_depends_on_its_own_counters_alone():
    many = draw_bits(3, 5, np.arange(100)[:, None], np.arange(7))
    assert many.shape == (100, 7) and many.dtype == np.uint64
    np.testing.assert_array_equal(many[[9, 2]][:, 3], draw_bits(3, 5, np.array([9, 2]), 3))
    assert len(np.unique(many)) == 700
    assert not np.array_equal(many, draw_bits(4, 5, np.arange(100)[:, None], np.arange(7)))
    assert draw_bits(1, 2, 3) != draw_bits(1, 3, 2), "the order of counters matters"
    assert draw_bits(-1, 0) == draw_bits(2**64 - 1, 0)


def test_uniform_and_integers_fill_their_range():
    bits = draw_bits(0, np.arange(200_000))
    uniform = to_uniform(bits)
    assert uniform.min() >= 0 and uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.003 and abs(uniform.var() - 1 / 12) < 0.002
    counts = np.bincount(to_integers(bits, 10), minlength=10)
    assert counts.shape == (10,)
    assert ((counts - 20_000) ** 2 / 20_000).sum() < 28, "chi-square of 9 degrees, p = 0.001"


@pytest.mark.parametrize("size", [1, 2, 3, 17, 64, 65, 1000, 4097])
def test_a_permutation_has_every_number_once(size):
    for epoch in range(3):
        whole = permute(np.arange(size), size, seed=11, epoch=epoch)
        assert sorted(whole.tolist()) == list(range(size))
        np.testing.assert_array_equal(permute(np.arange(size)[::-1], size, seed=11, epoch=epoch), whole[::-1])


@pytest.mark.slow
def test_all_permutations_are_as_likely():
    epochs = 3000
    drawn = np.array([permute(np.arange(4), 4, seed=1, epoch=epoch) for epoch in range(epochs)])
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    expected = epochs / 24
    assert len(counts) == 24
    assert ((counts - expected) ** 2 / expected).sum() < 49.7, "chi-square of 23 degrees, p = 0.001"


def test_fewer_rounds_would_show(monkeypatch):
    monkeypatch.setattr(hashed_draws, "ROUNDS", 2)
    drawn = np.array([permute(np.arange(4), 4, seed=1, epoch=epoch) for epoch in range(1000)])
    counts = np.unique(drawn, axis=0, return_counts=True)[1]
    assert ((counts - 1000 / 24) ** 2 / (1000 / 24)).sum() > 49.7
