"""Our pairs and masks against those of Google's published algorithm: alike where they should be, better where not."""

import random
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from funcnet.tasks.pretraining_data import Masking, build_pairs
from tests.tasks.pretraining_data.google_instances import google_masks, google_pairs
from tests.tasks.pretraining_data.test_pairs import documents_of

T = 128
SCRIPT = Path(__file__).parents[3] / "scripts" / "parity" / "instances.py"


@pytest.fixture(scope="module")
def lengths():
    draw = np.random.default_rng(0)
    return [np.clip(draw.geometric(1 / 22, draw.integers(60, 400)), 1, 90).tolist() for _ in range(150)]


def ours(lengths, **options):
    return build_pairs(documents_of(lengths), seq_len=T, seed=1, **options)


def distance(one, other, name):
    """Kolmogorov and Smirnov's: the most by which the shares below any length differ."""
    of = lambda pairs: pairs["a_length"] + pairs["b_length"] if name == "both" else pairs[name]
    return ks_2samp(of(one), of(other)).statistic


@pytest.mark.parametrize("short_share", [0.0, 0.1])
def test_lengths_are_googles(lengths, short_share):
    """Of A, B and both, but for the ends of documents: 0.03 are three times the noise of so many pairs."""
    found = ours(lengths, short_share=short_share)
    expected = google_pairs(lengths, T, short_share=short_share, target_per_pair=True)
    assert len(expected["a_length"]) > 5000
    for name in ("a_length", "b_length", "both"):
        assert distance(found, expected, name) < 0.03, name
    assert abs(len(found["a_length"]) / len(expected["a_length"]) - 1) < 0.03


def test_one_aim_a_document_makes_more_short_pairs(lengths):
    """The one rule of Google's that we change in the lengths, see `build_pairs`."""
    per_document, per_pair = google_pairs(lengths, T), google_pairs(lengths, T, target_per_pair=True)
    full = [(p["a_length"] + p["b_length"] == T - 3).mean() for p in (ours(lengths), per_pair, per_document)]
    assert abs(full[0] - full[1]) < 0.03 and full[0] > full[2] + 0.05


def test_half_are_random_and_never_of_one_document(lengths):
    """Google calls every pair of a lone sentence random, and after ten tries takes what it has."""
    few = [document[:5] for document in lengths[:2]]
    pairs, google = ours(lengths), google_pairs(lengths, T)
    noise = 4 * 0.5 / len(pairs["a_length"]) ** 0.5
    assert abs(pairs["is_random_next"].mean() - 0.5) < noise and google["is_random_next"].mean() > 0.5
    for found in (pairs, ours(few)):
        assert ((found["a_document"] != found["b_document"]) == found["is_random_next"]).all()
    tries = [google_pairs(few, T, seed=seed) for seed in range(2000)]
    assert any(((p["a_document"] == p["b_document"]) & (p["is_random_next"] == 1)).any() for p in tries)


def test_as_many_words_are_hidden_and_whole(lengths):
    """Google counts the three special tokens too: half a word more a row. Whole words stay whole in both."""
    draw, rows, words = np.random.default_rng(0), [], []
    for _ in range(400):
        size = int(draw.integers(10, T - 2))
        pieces = draw.random(size) < 0.3
        pieces[0] = False
        places = np.split(np.arange(size), np.flatnonzero(~pieces)[1:])
        words.append([part.tolist() for part in places])
        rows.append(np.where(pieces, 60, 10))
    tokens = np.zeros((len(rows), T), np.int32)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
    is_piece = np.arange(90) >= 50
    hide = Masking(mask_id=4, never=(0, 1, 2, 3, 4), vocab_size=90, max_predictions=20, pieces=is_piece)
    batch = hide(tokens, tokens > 0, seed=0, epoch=0, examples=np.arange(len(rows)))
    shuffle, more = random.Random(0), []
    for row, parts in enumerate(words):
        found = set(batch["masked_positions"][row][batch["masked_weights"][row] == 1].tolist())
        expected = google_masks(parts, 20, shuffle)
        more.append(len(expected) - len(found))
        for hidden in (found, set(expected)):
            assert all(set(part) <= hidden or not set(part) & hidden for part in parts)
    assert 0.2 < np.mean(more) < 0.7 and max(map(abs, more)) <= 3, "the last words may fit in one alone"


@pytest.mark.slow
def test_the_table_beside_googles_of_the_default_corpus(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = capsys.readouterr().out.splitlines()
    shares = {row[:24].strip(): [float(share) for share in re.findall(r"([\d.]+)%", row)] for row in rows}
    random_next, shown = shares["random next"], [shares[name][-1] for name in ("show [MASK]", "show another")]
    assert abs(random_next[2] - 50) < 1 < random_next[0] - 50, "Google's rules give more than half"
    assert shown == pytest.approx([80, 10], abs=1) and abs(shares["words hidden"][0] - shares["words hidden"][1]) < 0.2
    assert abs(shares["full rows"][2] - shares["full rows"][1]) < 1
