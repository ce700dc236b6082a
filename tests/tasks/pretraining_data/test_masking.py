"""Hidden words: how many, which, what they show; and that a draw depends on (seed, epoch, example) alone."""

import numpy as np
import pytest

from funcnet.tasks.pretraining_data import Masking, default_predictions
from funcnet.tasks.pretraining_data.data_report import describe_masks

B, T, V, M = 2000, 64, 500, 10
SPECIAL = (0, 2, 3, 4)


@pytest.fixture(scope="module")
def batch():
    random = np.random.default_rng(0)
    tokens = random.integers(5, V, (B, T)).astype(np.int32)
    lengths = random.integers(5, T + 1, B)
    tokens[np.arange(T) >= lengths[:, None]] = 0
    tokens[:, 0] = 2
    tokens[np.arange(B), lengths - 1] = 3
    maskable = (np.arange(T) > 0) & (np.arange(T) < lengths[:, None] - 1)
    return tokens, maskable


@pytest.fixture(scope="module")
def masking():
    return Masking(mask_id=4, never=SPECIAL, vocab_size=V, max_predictions=M)


def test_share_cap_and_slots(batch, masking):
    tokens, maskable = batch
    hidden = masking(tokens, maskable, seed=1, epoch=2, examples=np.arange(B))
    used = hidden["masked_weights"].sum(1)
    expected = np.clip(np.rint(maskable.sum(1) * 0.15), 1, M)
    np.testing.assert_array_equal(used, expected)
    assert used.max() <= M and abs(used.sum() / maskable.sum() - 0.15) < 0.01
    taken = hidden["masked_weights"] == 1
    rows = np.nonzero(taken)[0]
    positions = hidden["masked_positions"][taken]
    assert maskable[rows, positions].all(), "never [CLS], [SEP], [PAD]"
    np.testing.assert_array_equal(tokens[rows, positions], hidden["masked_ids"][taken])
    assert len({*zip(rows.tolist(), positions.tolist(), strict=True)}) == len(rows), "each position once"
    for row in range(50):
        inside = hidden["masked_positions"][row][taken[row]]
        assert (np.diff(inside) > 0).all() and not taken[row][len(inside) :].any()
    for name in ("masked_positions", "masked_ids"):
        assert (hidden[name][~taken] == 0).all() and hidden[name].dtype == np.int32
    outside = np.ones_like(maskable)
    outside[rows, positions] = False
    np.testing.assert_array_equal(hidden["input_ids"][outside], tokens[outside])
    assert hidden["input_ids"].dtype == np.int32 and hidden["masked_weights"].dtype == np.float32


def test_80_10_10_and_every_place_and_word(batch, masking):
    tokens, maskable = batch
    full = np.flatnonzero(maskable.sum(1) >= 40)
    counts, places, shown_words, total = np.zeros(3), np.zeros(T), [], 0
    for epoch in range(4):
        hidden = masking(tokens[full], maskable[full], seed=1, epoch=epoch, examples=full)
        taken = hidden["masked_weights"] == 1
        rows, positions = np.nonzero(taken)[0], hidden["masked_positions"][taken]
        shown, label = hidden["input_ids"][rows, positions], hidden["masked_ids"][taken]
        masked, same = shown == 4, shown == label
        counts += [masked.sum(), (~masked & ~same).sum(), same.sum()]
        shown_words.append(shown[~masked & ~same])
        places += np.bincount(positions, minlength=T)
        total += len(shown)
    expected = np.array([0.8, 0.1 * (1 - 1 / V), 0.1 * (1 + 1 / V)]) * total
    assert ((counts - expected) ** 2 / expected).sum() < 13.8, "chi-square of 2 degrees, p = 0.001"
    words = np.concatenate(shown_words)
    assert not np.isin(words, SPECIAL).any()
    spread = np.bincount(words // 50, minlength=10)[:10]
    assert spread.min() > 0.7 * spread.mean()
    everywhere = places[1:40] / (maskable[full].sum(0)[1:40])
    assert everywhere.std() < 0.06 * everywhere.mean() + 0.05


def test_a_draw_does_not_depend_on_its_batch(batch, masking):
    tokens, maskable = batch
    whole = masking(tokens, maskable, seed=1, epoch=2, examples=np.arange(B))
    some = np.array([1500, 3, 77])
    part = masking(tokens[some], maskable[some], seed=1, epoch=2, examples=some)
    for name, values in part.items():
        np.testing.assert_array_equal(values, whole[name][some])


def test_another_epoch_seed_or_example_is_another_draw(batch, masking):
    tokens, maskable = (values[:50] for values in batch)
    examples = np.arange(50)
    first = masking(tokens, maskable, seed=1, epoch=2, examples=examples)["masked_positions"]
    for other in ({"seed": 2, "epoch": 2}, {"seed": 1, "epoch": 3}):
        assert (first != masking(tokens, maskable, examples=examples, **other)["masked_positions"]).any(1).mean() > 0.8
    assert (
        first != masking(tokens, maskable, seed=1, epoch=2, examples=examples + 50)["masked_positions"]
    ).mean() > 0.3


def test_edges(masking):
    tokens = np.array([[2, 7, 3, 3, 0, 0], [2, 4, 3, 0, 3, 0]], np.int32)
    hidden = masking(tokens, tokens > 3, seed=0, epoch=0, examples=np.array([0, 1]))
    assert hidden["masked_weights"].sum(1).tolist() == [1, 0], "one at least, if there is one; a literal [MASK] is none"
    assert hidden["masked_positions"].shape == (2, M), "more slots than positions"
    np.testing.assert_array_equal(hidden["input_ids"][1], tokens[1])
    empty = masking(np.zeros((0, 6), np.int32), np.zeros((0, 6), bool), seed=0, epoch=0, examples=np.zeros(0, np.int64))
    assert empty["input_ids"].shape == (0, 6)
    assert [default_predictions(length) for length in (5, 20, 64, 100, 128)] == [1, 3, 10, 15, 20]


# ------------------------------------------------------------------------------------------------------- whole words


def words_of(row, maskable, pieces):
    """Google's rule, read off create_masked_lm_predictions: a piece joins the word before it, [CLS] and [SEP] none."""
    words = []
    for place in np.flatnonzero(maskable):
        if words and pieces[row[place]] and place > 0 and words[-1][-1] == place - 1:
            words[-1].append(int(place))
        else:
            words.append([int(place)])
    return words


@pytest.fixture(scope="module")
def whole_words():
    pieces = np.arange(V) % 3 == 0
    return Masking(mask_id=4, never=SPECIAL, vocab_size=V, max_predictions=M, pieces=pieces)


def test_whole_words_are_whole_and_as_many_as_fit(batch, whole_words):
    tokens, maskable = batch
    hidden = whole_words(tokens, maskable, seed=1, epoch=0, examples=np.arange(B))
    most = np.clip(np.rint(maskable.sum(1) * 0.15), 1, M).astype(int)
    chosen = 0
    for row in range(300):
        words = words_of(tokens[row], maskable[row], whole_words.pieces)
        used = int(hidden["masked_weights"][row].sum())
        taken = set(hidden["masked_positions"][row, :used].tolist())
        assert all(taken.issuperset(word) or taken.isdisjoint(word) for word in words), "all pieces or none"
        assert len(taken) == used <= most[row]
        left = [word for word in words if taken.isdisjoint(word)]
        assert not left or min(map(len, left)) > most[row] - used, "no word that would fit is left out"
        np.testing.assert_array_equal(hidden["masked_ids"][row, :used], tokens[row, sorted(taken)])
        assert (hidden["masked_weights"][row, used:] == 0).all()
        chosen += used
    assert 0.12 < chosen / maskable[:300].sum() < 0.16
    again = whole_words(tokens[7:9], maskable[7:9], seed=1, epoch=0, examples=np.arange(7, 9))
    np.testing.assert_array_equal(again["input_ids"], hidden["input_ids"][7:9])


def test_whole_words_show_what_pieces_do(batch, whole_words):
    tokens, maskable = batch
    hidden = whole_words(tokens, maskable, seed=3, epoch=0, examples=np.arange(B))
    taken = hidden["masked_weights"] == 1
    shown = hidden["input_ids"][np.nonzero(taken)[0], hidden["masked_positions"][taken]]
    counts = np.array([(shown == 4).sum(), (shown == hidden["masked_ids"][taken]).sum()]) / len(shown)
    assert abs(counts - [0.8, 0.1]).max() < 4 * (0.16 / len(shown)) ** 0.5
    outside = np.ones_like(maskable)
    outside[np.nonzero(taken)[0], hidden["masked_positions"][taken]] = False
    np.testing.assert_array_equal(hidden["input_ids"][outside], tokens[outside])


def test_where_no_word_fits_the_report_has_numbers(whole_words):
    """Rows of one long word under whole-word masking hide nothing; a share of nothing is 0, which JSON can say."""
    tokens = np.array([[2, 7, 9, 12, 15, 3]] * 2, np.int32)
    hidden = whole_words(tokens, tokens > 3, seed=0, epoch=0, examples=np.arange(2))
    assert not hidden["masked_weights"].any()
    found = describe_masks({**hidden, "attention_mask": np.ones_like(tokens)}, 4)
    assert found == {"rows": 2, "hidden_share": 0.0, "shows_mask": 0.0, "shows_itself": 0.0, "shows_another": 0.0}
