"""Rows and batches: tokens as transformers cuts them, windows as its tokenizer slides them, spans where answers are,
buckets that see every row once with the same shapes in every epoch."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as TF
import transformers
from hypothesis import given
from hypothesis import strategies as st

from funcnet.data import BucketBatchSampler, bucket_lengths
from funcnet.heads import check_length
from funcnet.heads.answer import Answer
from funcnet.heads.choice import Choice
from funcnet.heads.reading.examples import ChoiceExample, TextExample, TokenExample
from funcnet.heads.reading.squad import Question, read_squad
from funcnet.heads.text import Classify, Regress
from funcnet.heads.tokens import Tokens
from funcnet.heads.windows import stretches
from funcnet.tasks.finetuning.batches import make_loader
from funcnet.tasks.finetuning.rows import Rows, encode_rows, mean_loss
from funcnet.text import load_tokenizer, require_fit
from tests import real_data

TEXT = "The quick brown fox jumps over the lazy dog, and unbelievably naïve café-goers applaud."


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(real_data.minilm())


@pytest.fixture(scope="module")
def theirs():
    return transformers.BertTokenizerFast.from_pretrained(real_data.minilm())


def of_texts(head, texts, tokenizer, seq_len):
    """The rows of texts, or of pairs of texts, without labels."""
    examples = [head.example(text, "") for text in texts]
    return encode_rows(head, examples, tokenizer, seq_len, labelled=False)


def row(rows, number):
    part = slice(rows.starts[number], rows.starts[number + 1])
    return rows.tokens[part].tolist(), rows.types[part].tolist()


@pytest.mark.parametrize("seq_len", [8, 13, 64])
def test_texts_and_pairs_are_cut_as_by_transformers(tokenizer, theirs, seq_len):
    texts = [TEXT, "", "short", TEXT * 3]
    pairs = [(a, b) for a in texts for b in texts]
    for some in (texts, pairs):
        rows = of_texts(Classify(), some, tokenizer, seq_len)
        columns = [list(column) for column in zip(*some, strict=True)] if some is pairs else [some]
        expected = theirs(*columns, truncation="longest_first", max_length=seq_len)
        for number in range(len(some)):
            assert row(rows, number) == (expected["input_ids"][number], expected["token_type_ids"][number])
        whole = theirs(*columns)["input_ids"]
        assert rows.truncated == sum(len(ids) > seq_len for ids in whole)


@pytest.mark.slow
@given(st.lists(st.integers(0, 60), min_size=1, max_size=6), st.integers(8, 32))
def test_parts_are_the_whole_text_in_few_rows_of_one_length(tokenizer, counts, seq_len):
    texts = [" ".join("abcdefghij"[n % 10] for n in range(count)) for count in counts]
    rows = of_texts(Classify(long_texts="parts"), texts, tokenizer, seq_len)
    owners = np.repeat(np.arange(len(texts)), rows.counts)
    for number, text in enumerate(texts):
        parts = [row(rows, place)[0] for place in np.flatnonzero(owners == number)]
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert [token for part in parts for token in part[1:-1]] == ids
        assert {(part[0], part[-1]) for part in parts} == {(101, 102)}
        lengths = [len(part) for part in parts]
        assert max(lengths) <= seq_len and max(lengths) - min(lengths) <= 1
        assert len(parts) == 1 or (len(parts) - 1) * (seq_len - 2) < len(ids)


def test_every_part_has_the_label_and_a_number_is_the_mean(tokenizer):
    head = Regress(long_texts="parts")
    examples = [TextExample("a b c d e f g h i j", None, 2.5, ""), TextExample("a", None, -1.0, "")]
    rows = encode_rows(head, examples, tokenizer, 8, labelled=True)
    assert rows.labels.tolist() == [2.5, 2.5, -1.0] and rows.counts == [2, 1]
    outputs = [np.array([1.0]), np.array([2.0]), np.array([5.0])]
    found = head.answers(examples, rows.details, rows.counts, outputs)
    assert found == [{"value": 1.5}, {"value": 5.0}]
    pair = TextExample("a", "b", 1.0, "a.csv, line 3")
    with pytest.raises(
        ValueError, match=r"a.csv, line 3: `--long-texts parts` does not .*; expected one text, got two"
    ):
        encode_rows(head, [pair], tokenizer, 8, labelled=True)


def test_the_first_token_of_a_word_has_its_tag(tokenizer, theirs):
    words, tags = ["Unbelievably", "naïve", "applauds", "."], ["B-X", "I-X", "O", "O"]
    head = Tokens().learn([TokenExample(words, tags, "")])
    rows = encode_rows(head, [TokenExample(words, tags, "")], tokenizer, 32, labelled=True)
    expected = theirs(words, is_split_into_words=True)
    assert rows.tokens.tolist() == expected["input_ids"]
    seen, wanted = set(), []
    for word in expected.word_ids():
        wanted.append(-100 if word is None or word in seen else head.labels.index(tags[word]))
        seen.add(word)
    assert rows.labels.tolist() == wanted


def test_an_unseen_tag_is_named(tokenizer):
    head = Tokens().learn([TokenExample(["a", "b"], ["O", "B-X"], "")])
    with pytest.raises(ValueError, match=r"b.conll, line 3, word 2: tag 'B-Y' did not occur in training"):
        encode_rows(head, [TokenExample(["a", "b"], ["O", "B-Y"], "b.conll, line 3")], tokenizer, 32, labelled=True)


def test_choices_are_rows_of_pairs(tokenizer, theirs):
    example = ChoiceExample("How was it?", ["fine", "not very good at all"], 1, "")
    rows = encode_rows(Choice(), [example], tokenizer, 32, labelled=True)
    batch = rows.fill(np.array([0]), 16, 2, pad_id=0)
    expected = theirs([example.text] * 2, example.choices, padding="max_length", max_length=16, return_tensors="np")
    assert batch["input_ids"].shape == (2, 2, 16)
    np.testing.assert_array_equal(batch["input_ids"][0], expected["input_ids"])
    np.testing.assert_array_equal(batch["attention_mask"][0], expected["attention_mask"])
    assert batch["labels"].tolist() == [1, -100] and batch["counted"].tolist() == [True, False]
    other = ChoiceExample("?", ["a", "b", "c"], 1, "a.csv, line 9")
    with pytest.raises(
        ValueError, match=r"a.csv, line 9: wrong number of choices; expected 2, as in the first row, got 3"
    ):
        encode_rows(Choice(), [example, other], tokenizer, 32, labelled=True)


@pytest.mark.parametrize("stride", [16, 40])
def test_windows_are_those_of_transformers(tokenizer, theirs, stride):
    """Its stride is what two windows share; ours, as Google's, how far they are apart."""
    questions = read_squad(real_data.squad())
    head = Answer(doc_stride=stride)
    rows = encode_rows(head, questions, tokenizer, 64, labelled=True)
    number = 0
    for question, windows in zip(questions, rows.details, strict=True):
        room = 64 - 3 - len(theirs(question.question, add_special_tokens=False)["input_ids"])
        overlap = {"truncation": "only_second", "max_length": 64, "stride": room - min(stride, room)}
        also = {"return_overflowing_tokens": True, "return_offsets_mapping": True}
        expected = theirs(question.question, question.context, **overlap, **also)
        for place, ids in enumerate(expected["input_ids"]):
            assert row(rows, number) == (ids, expected["token_type_ids"][place])
            window = windows[place]
            here = slice(window.prefix, window.prefix + len(window.offsets))
            np.testing.assert_array_equal(window.offsets, expected["offset_mapping"][place][here])
            number += 1
        assert len(windows) == len(expected["input_ids"])
    assert number == len(rows)


def test_spans_are_the_answers_or_the_head_of_the_row(tokenizer):
    questions = read_squad(real_data.squad())
    rows = encode_rows(Answer(doc_stride=16), questions, tokenizer, 64, labelled=True)
    held = set()
    every = [
        (question, window) for question, windows in zip(questions, rows.details, strict=True) for window in windows
    ]
    for (question, window), (first, last) in zip(every, rows.labels, strict=True):
        answer, start = question.answers[0]
        offsets = window.offsets
        whole = offsets[0, 0] <= start and start + len(answer) <= offsets[-1, 1]
        assert (first > 0) == whole
        if whole:
            held.add(question.id)
            assert question.context[offsets[first - window.prefix, 0] : offsets[last - window.prefix, 1]] == answer
    assert held == {question.id for question in questions}


def test_long_questions_are_cut_and_counted(tokenizer):
    questions = [Question(str(n), "why " * n, TEXT, (), False, "") for n in (3, 80)]
    rows = encode_rows(Answer(), questions, tokenizer, 128, labelled=False)
    assert Answer().describe_cut(rows.truncated, 128) == "1 questions longer than 64 tokens were cut"
    assert rows.lengths.max() <= 128


def test_every_token_leads_in_one_window_alone(tokenizer):
    """Google's check_is_max_context: the window with the most context on the poorer side."""
    question = Question("q", "Who?", TEXT * 6, (), False, "")
    rows = encode_rows(Answer(doc_stride=20), [question], tokenizer, 64, labelled=False)
    seen = {}
    for number, window in enumerate(rows.details[0]):
        for place, (first, _) in enumerate(window.offsets):
            context = min(place, len(window.offsets) - 1 - place) + 0.01 * len(window.offsets)
            seen.setdefault(int(first), []).append((context, -number, bool(window.leads[place])))
    for places in seen.values():
        assert [lead for *_, lead in sorted(places)] == [False] * (len(places) - 1) + [True]
    assert max(map(len, seen.values())) > 1


LOSSES = {  # rows of outputs of three sequences with 3, 5 and 2 tokens; labels; torch's loss
    "classes": (Classify(labels=("a", "b")), (2,), [0, 1, 1], lambda x, y: TF.cross_entropy(torch.stack(x), y)),
    "numbers": (Regress(), (1,), [0.5, -1.0, 2.0], lambda x, y: TF.mse_loss(torch.stack(x)[:, 0], y)),
    "tags": (
        Tokens(labels=("O", "X")),
        ("T", 2),
        [-100, 0, -100, -100, 1, 1, 0, -100, 0, -100],
        lambda x, y: TF.cross_entropy(torch.cat(x), y),
    ),
    "spans": (
        Answer(),
        ("T", 2),
        [[0, 2], [1, 4], [1, 1]],
        lambda x, y: sum(TF.cross_entropy(a.T, b) for a, b in zip(x, y, strict=True)) / 3,
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_loss_is_torchs_and_no_padding_counts(name):
    head, shape, labels, expected = LOSSES[name]
    lengths, rng = [3, 5, 2], np.random.default_rng(0)
    sized = lambda size: rng.normal(size=[size if n == "T" else n for n in shape]).astype(np.float32)
    outputs = [sized(length) for length in lengths]
    labels = np.array(labels)
    if labels.dtype == np.float64:
        labels = labels.astype(np.float32)
    rows = dataclasses.replace(encoded(lengths), labels=labels, by_token=head.by_token)
    value = expected([torch.tensor(output) for output in outputs], torch.tensor(labels))
    padded = [np.concatenate([output, sized(4)]) if shape[0] == "T" else output for output in outputs]
    assert mean_loss(head, padded, rows) == pytest.approx(float(value), rel=1e-6)


def test_the_mean_loss_of_choices_is_torchs():
    logits = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    rows = dataclasses.replace(encoded([2] * 6), choices=3, labels=np.array([2, 0]))
    expected = float(TF.cross_entropy(torch.tensor(logits), torch.tensor([2, 0])))
    assert mean_loss(Choice(), list(logits.reshape(-1)), rows) == pytest.approx(expected, rel=1e-6)


@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 50))
def test_windows_hold_every_token(tokens, room, stride):
    found = stretches(tokens, room, stride)
    assert {i for begin, size in found for i in range(begin, begin + size)} == set(range(tokens))
    assert all(size <= room for _, size in found)


def encoded(lengths):
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Rows(np.arange(starts[-1], dtype=np.int32), np.zeros(starts[-1], np.uint8), starts)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(1, 8), st.integers(1, 4))
def test_an_epoch_sees_every_row_once_in_the_same_shapes(lengths, batch_size, most):
    rows = encoded(lengths)
    buckets = bucket_lengths(rows.lengths, 60, most)
    assert len(buckets) <= most and buckets[-1] >= max(lengths)
    sampler = BucketBatchSampler(rows.lengths, batch_size, buckets, seed=7)
    loader = make_loader(rows, batch_size, buckets, pad_id=0, seed=7)
    plans = [sampler.plan(epoch) for epoch in range(3)]
    shapes = [sorted(batch["input_ids"].shape for batch in loader.epoch(epoch)) for epoch in range(3)]
    for plan in plans:
        assert sorted(index for batch in plan for index in batch) == list(range(len(lengths)))
        assert len(plan) == len(loader) == -(-len(lengths) // batch_size)
    assert shapes[0] == shapes[1] == shapes[2]
    for batch in loader.epoch(0):
        assert batch["attention_mask"].sum(1).max() <= batch["input_ids"].shape[1] <= buckets[-1]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 3))
def test_buckets_pad_the_least(lengths, most):
    """Against every choice there is."""
    sizes = range(8, 41, 8)
    cost = lambda chosen: sum(min(size for size in chosen if size >= length) for length in lengths)
    choices = [c for n in range(1, most + 1) for c in itertools.combinations(sizes, n) if max(c) >= max(lengths)]
    assert cost(bucket_lengths(np.array(lengths), 40, most)) == min(map(cost, choices))


def test_batches_go_on_where_they_were():
    loader = make_loader(encoded([3, 9, 20, 4, 30, 8, 8]), 2, [8, 32], pad_id=0, seed=1)
    whole = [loader.batch(step)["input_ids"] for step in range(9)]
    for start in (0, 3, 5):
        loader.load_state_dict(loader.position(start))
        going = loader.endless()
        for batch in whole[start:]:
            np.testing.assert_array_equal(batch, next(going)["input_ids"])


def test_a_vocabulary_or_a_length_that_does_not_fit(tokenizer):
    with pytest.raises(ValueError, match=r"expected ids below 30521, got the id 30521 for"):
        require_fit(tokenizer, 30521, where="there")
    with pytest.raises(
        ValueError,
        match=r"--seq-len is out of range; expected 8 to 512 \(the size of the position table in there\), got 513",
    ):
        check_length(513, 512, "finetune: --seq-len", "there")
