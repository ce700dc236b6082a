"""Pairs of segments: what they are made of, and that lengths do not reveal the label."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from funcnet.tasks.pretraining_data import TokenizedDocuments, build_pairs
from funcnet.tasks.pretraining_data.pairs import AllCuts, cut_documents, join_partners


def documents_of(lengths):
    """Documents from their sentences' lengths; token i is i, so that a stretch shows where it is from."""
    flat = [length for document in lengths for length in document]
    bounds = np.concatenate([[0], np.cumsum([len(document) for document in lengths])]).astype(np.int64)
    sentences = np.concatenate([[0], np.cumsum(flat)]).astype(np.int64)
    return TokenizedDocuments(np.arange(sentences[-1], dtype=np.int32), sentences, bounds)


def random_documents(number, seed=0, most=60):
    random = np.random.default_rng(seed)
    return documents_of([random.geometric(1 / 25, random.integers(2, most)).tolist() for _ in range(number)])


def check(documents, pairs, seq_len):
    a, b = pairs["a_length"], pairs["b_length"]
    assert (a >= 1).all() and (b >= 1).all() and (a + b <= seq_len - 3).all()
    starts = documents.sentences[documents.documents]  # where documents start, in tokens
    for side in "ab":
        start, length, document = (pairs[f"{side}_{name}"] for name in ("start", "length", "document"))
        assert (start >= starts[document]).all() and (start + length <= starts[document + 1]).all(), "in one document"
    random = pairs["is_random_next"].astype(bool)
    assert (pairs["a_document"] != pairs["b_document"])[random].all()
    assert (pairs["a_document"] == pairs["b_document"])[~random].all()
    ahead = pairs["b_start"] - (pairs["a_start"] + a)
    assert (ahead[~random] >= 0).all(), "what follows comes after, apart from what truncation cut"
    untouched = ~random & (a + b < seq_len - 3)
    assert (ahead[untouched] == 0).all()
    bounds = set(documents.sentences.tolist())
    for row in np.flatnonzero(untouched):
        assert int(pairs["b_start"][row]) in bounds and int(pairs["b_start"][row] + b[row]) in bounds


@given(
    lengths=st.lists(st.lists(st.integers(1, 40), min_size=2, max_size=12), min_size=2, max_size=12),
    seq_len=st.integers(5, 64),
    seed=st.integers(0, 2**70),
)
def test_pairs_of_any_documents(lengths, seq_len, seed):
    documents = documents_of(lengths)
    pairs = build_pairs(documents, seq_len=seq_len, seed=seed)
    check(documents, pairs, seq_len)


def test_pairs_of_a_large_corpus_cover_it_and_are_half_random():
    documents = random_documents(300)
    pairs = build_pairs(documents, seq_len=128, seed=0)
    check(documents, pairs, 128)
    share = pairs["is_random_next"].mean()
    assert abs(share - 0.5) < 4 * 0.5 / len(share_of := pairs["a_start"]) ** 0.5, (share, len(share_of))
    seen = np.zeros(len(documents.tokens) + 1, np.int64)
    for side in "ab":
        np.add.at(seen, pairs[f"{side}_start"], 1)
        np.add.at(seen, pairs[f"{side}_start"] + pairs[f"{side}_length"], -1)
    assert (np.cumsum(seen)[:-1] > 0).mean() > 0.85, "the rest is what truncation cut"
    full = (pairs["a_length"] + pairs["b_length"] == 125).mean()
    assert 0.75 < full < 0.95, "short ones now and then"


def test_unused_sentences_are_put_back():
    """Without truncation, what a random B replaced starts the next pair of its document."""
    documents = documents_of([[3] * 200] * 20)
    pairs = build_pairs(documents, seq_len=63, seed=1, short_share=0.0)  # 20 sentences fill a pair exactly
    order = np.argsort(pairs["a_start"])
    pairs = {name: values[order] for name, values in pairs.items()}
    after = pairs["a_start"] + pairs["a_length"]
    after = np.where(pairs["is_random_next"] == 1, after, after + pairs["b_length"])
    inside = pairs["a_start"][:-1] % 600 < 530  # the last pair of a document may be cut
    np.testing.assert_array_equal(pairs["a_start"][1:][inside], after[:-1][inside])
    assert inside.sum() > 200 and 0 < pairs["is_random_next"].mean() < 1


def test_lengths_do_not_tell_the_label():
    documents = random_documents(400, seed=3, most=20)  # short documents: most pairs reach an end
    passes = [build_pairs(documents, seq_len=64, seed=5, number=number) for number in range(6)]
    joined = {name: np.concatenate([pairs[name] for pairs in passes]) for name in passes[0]}
    a, b, label = joined["a_length"], joined["b_length"], joined["is_random_next"]
    features = np.stack([a, b, a + b], 1) / 64
    half = len(label) // 2
    noise = 3.5 * 0.5 / half**0.5
    for classifier in (LogisticRegression(), HistGradientBoostingClassifier(max_iter=30)):
        score = classifier.fit(features[:half], label[:half]).score(features[half:], label[half:])
        assert abs(score - 0.5) < noise, (classifier, score, noise)
    for length in (a, b, a + b):
        assert abs(length[label == 1].mean() - length[label == 0].mean()) < 3.5 * length.std() / (len(label) / 4) ** 0.5


def test_shards_draw_their_random_partners_from_the_whole_corpus():
    documents = random_documents(120)
    bounds, shards = [0, 10, 10, 70, 120], []
    for first, last in pairwise(bounds):
        places = documents.sentences[documents.documents[first] : documents.documents[last] + 1]
        inside = documents.documents[first : last + 1] - documents.documents[first]
        shards.append(TokenizedDocuments(documents.tokens[places[0] : places[-1]], places - places[0], inside))
    settings = {"seq_len": 64, "seed": 4, "number": 3}
    tokens = np.cumsum([0, *(len(shard.tokens) for shard in shards)])
    cuts = [
        cut_documents(shard, **settings, shard=i, first_token=tokens[i], first_document=bounds[i])
        for i, shard in enumerate(shards)
    ]
    parts = [join_partners(AllCuts(cuts), i, **settings) for i in range(len(shards))]
    assert len(parts[1]["a_start"]) == 0, "a shard without documents"
    pairs = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    check(documents, pairs, 64)
    partners = parts[0]["b_document"][parts[0]["is_random_next"] == 1]
    sizes = [len(shard.tokens) for shard in shards]
    share = (partners >= 10).mean()
    expected = 1 - sizes[0] / sum(sizes)
    assert abs(share - expected) < 4 * (expected * (1 - expected) / len(partners)) ** 0.5, "as much text, as many"
    assert all((a["a_start"] != b["a_start"][: len(a["a_start"])]).any() for a, b in [(parts[0], parts[2])])


def test_passes_differ_and_repeat_with_their_seed():
    documents = random_documents(20)
    first, again = (build_pairs(documents, seq_len=64, seed=1, number=2) for _ in range(2))
    other, seed = build_pairs(documents, seq_len=64, seed=1, number=3), build_pairs(documents, seq_len=64, seed=2)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["a_start"][:20], other["a_start"][:20])
    assert not np.array_equal(first["a_start"][:20], seed["a_start"][:20])


def test_errors_of_pairs():
    with pytest.raises(ValueError, match=r"seq_len is too small for a pair; expected at least 5 .*, got 4"):
        build_pairs(random_documents(3), seq_len=4, seed=0)
    with pytest.raises(ValueError, match="expected at least 2 documents of 2 sentences or more, got 1 of 2"):
        build_pairs(documents_of([[3, 3], [4]]), seq_len=16, seed=0)
