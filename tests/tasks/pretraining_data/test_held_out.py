"""Held-out documents: a share by seed, at least two on each side, without sentences that training documents contain."""

import numpy as np
import pytest

from funcnet.tasks.pretraining_data.held_out import drop_shared_sentences, plain_sentences, split_documents


def test_held_out_documents_are_a_share_by_seed():
    sizes = np.random.default_rng(0).integers(10, 1000, 200).tolist()
    train, held_out = split_documents(sizes, 0.1, seed=4)
    assert sorted([*train, *held_out]) == list(range(200))
    assert 0.08 < sum(sizes[i] for i in held_out) / sum(sizes) <= 0.1
    assert split_documents(sizes, 0.1, seed=4)[1].tolist() == held_out.tolist()
    assert split_documents(sizes, 0.1, seed=5)[1].tolist() != held_out.tolist()
    assert split_documents([5, 100, 7, 100], 0.01, seed=0)[1].tolist() == [0, 2], "two at least"
    assert split_documents([5, 5], 0.0, seed=0)[1].tolist() == []
    assert 3 not in split_documents([9] * 8, 0.5, seed=0, usable=[i != 3 for i in range(8)])[1]


@pytest.mark.parametrize("sizes,message", [([5], "there is no other document"), ([5, 5, 5], "too few documents")])
def test_too_few_documents(sizes, message):
    with pytest.raises(ValueError, match=rf"split_documents: {message}.*; expected at least 4 different documents"):
        split_documents(sizes, 0.1, seed=0)
    with pytest.raises(ValueError, match="expected 0 <= held_out < 1, got 1"):
        split_documents([5] * 9, 1.0, seed=0)


def test_copied_sentences_leave_the_held_out_documents():
    copied = "We hold that this sentence was copied from elsewhere."
    shared = plain_sentences(["Thank you.", copied.upper().replace("hat", "HAT -")])
    kept, dropped = drop_shared_sentences([["Mine.", copied, "Thank you."]], shared)
    assert kept == [["Mine.", "Thank you."]] and dropped == 1
