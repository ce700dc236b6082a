"""From raw text to batches in one call: what is written, found again, resumed, and refused."""

import hashlib
import os
import shutil
import time

import numpy as np
import pytest

from funcnet.data import Prefetcher
from funcnet.settings import compose, differences
from funcnet.tasks.pretraining_data import DataSettings, evaluation_batches, prepare_data, unigram_log_probabilities
from funcnet.tasks.pretraining_data.manifest import SILENT
from funcnet.text import SPECIAL_TOKENS, load_tokenizer, special_ids, vocabulary


def text_of(number, seed=0):
    random = np.random.default_rng([seed, number])
    words = [f"{a}{b}" for a in ("bar", "lo", "mit", "sen", "tu") for b in ("ka", "ren", "so", "vin", "x")]
    sentences = [" ".join(random.choice(words, random.integers(3, 14))) + "." for _ in range(random.integers(6, 25))]
    return f"Text {number}. " + " ".join(sentences)


def prepare(corpus, *, directory, seq_len=128, progress=SILENT, **settings):
    chosen = compose(DataSettings, corpus=(corpus,), seq_len=(seq_len,), **settings)
    return prepare_data(chosen, directory, progress=progress)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(40):
        (folder / f"{number:02}.txt").write_text(text_of(number))
    (folder / "copy.txt").write_text(text_of(7).replace(" ", "\n"))
    return folder


@pytest.fixture(params=["new", "old"])
def corpus_of_any_age(corpus, request):
    """What is recorded of files depends on whether they were modified within the last seconds."""
    modified = time.time_ns() if request.param == "new" else 0
    for file in corpus.iterdir():
        os.utime(file, ns=(modified, modified))
    return corpus


@pytest.fixture(scope="module")
def prepared(corpus, tmp_path_factory):
    return prepare(
        corpus, directory=tmp_path_factory.mktemp("data"), seq_len=48, vocab_size=120, held_out=0.2, passes=3
    )


def test_statistics_say_what_was_made(prepared):
    corpus, train, held_out = (prepared.statistics[name] for name in ("corpus", "train", "evaluation"))
    assert corpus["layout"] == "file" and corpus["duplicates_dropped"] == 1
    assert train["documents"] + held_out["documents"] == 40
    assert train["tokens"] == len(prepared.train.tokens) and train["passes"] == 3
    assert train["examples"] == len(prepared.train) and held_out["examples"] == len(prepared.evaluation)
    assert abs(train["random_next_share"] - 0.5) < 0.15 and train["unknown_share"] < 0.01
    assert len(train["sentence_lengths"]) == 513 and sum(train["document_lengths"]) == 38 - 6


def test_a_batch_is_what_hugging_face_names_it(prepared):
    batch = prepared.train_batches(16).batch(3)
    shapes = {name: (values.shape, values.dtype.name) for name, values in batch.items()}
    assert shapes == {
        "input_ids": ((16, 48), "int32"),
        "token_type_ids": ((16, 48), "int32"),
        "attention_mask": ((16, 48), "int32"),
        "masked_positions": ((16, 8), "int32"),
        "masked_ids": ((16, 8), "int32"),
        "masked_weights": ((16, 8), "float32"),
        "next_sentence_label": ((16,), "int32"),
    }
    special = special_ids(prepared.tokenizer)
    whole = batch["input_ids"].copy()
    taken = batch["masked_weights"] == 1
    whole[np.nonzero(taken)[0], batch["masked_positions"][taken]] = batch["masked_ids"][taken]
    for row, types, mask in zip(whole, batch["token_type_ids"], batch["attention_mask"], strict=True):
        length = mask.sum()
        ends = np.flatnonzero(row == special["[SEP]"])
        assert row[0] == special["[CLS]"] and len(ends) == 2 and ends[1] == length - 1 and mask[:length].all()
        assert (row[length:] == special["[PAD]"]).all() and 1 < ends[0] < ends[1] - 1
        expected = np.zeros(48, np.int64)
        expected[ends[0] + 1 : length] = 1
        np.testing.assert_array_equal(types, expected)
        assert special["[MASK]"] not in row


def test_held_out_documents_share_nothing_with_training(prepared):
    words = vocabulary(prepared.tokenizer)

    def sentences(tokens):
        text = " ".join(words[token] for token in tokens).replace(" ##", "")
        return {sentence for sentence in text.split(" .") if len(sentence.split()) >= 8}

    train, held_out = sentences(prepared.train.tokens), sentences(prepared.evaluation.tokens)
    assert len(held_out) > 20 and not train & held_out


def test_the_second_call_opens_the_first_and_repeats_it_elsewhere(prepared, corpus, tmp_path):
    settings = {"seq_len": 48, "vocab_size": 120, "held_out": 0.2, "passes": 3}
    events = []
    note = lambda *event: events.append(event)
    again = prepare(
        corpus, directory=prepared.directory.parent, **settings, progress=lambda *event: events.append(event)
    )
    assert again.directory == prepared.directory and {step for step, *_ in events} == {"reading"}
    elsewhere = prepare(corpus, directory=tmp_path, **settings, progress=note)
    assert {step for step, *_ in events} >= {"reading", "sentences", "vocabulary", "tokens", "pairs", "report"}
    assert elsewhere.fingerprint == prepared.fingerprint
    for file in sorted(prepared.directory.iterdir()):
        same = [
            hashlib.sha256((folder / file.name).read_bytes()).digest()
            for folder in (elsewhere.directory, prepared.directory)
        ]
        assert same[0] == same[1], file.name


def test_resume_gives_the_same_batches(prepared):
    loader = prepared.train_batches(8)
    epochs = 4 * len(loader)
    with Prefetcher(loader.batches(0, epochs)) as ahead:
        whole = list(ahead)
    for step in (1, len(loader) - 1, len(loader), 3 * len(loader) + 1):
        resumed = next(prepared.train_batches(8).batches(step))
        for name, values in resumed.items():
            np.testing.assert_array_equal(values, whole[step][name])
    assert not np.array_equal(whole[0]["input_ids"], whole[len(loader)]["input_ids"])


def test_the_same_example_has_other_masks_at_its_next_visit(prepared):
    first, pass_again = prepared.train.at_epoch(0)[np.arange(8)], prepared.train.at_epoch(3)[np.arange(8)]
    np.testing.assert_array_equal(first["token_type_ids"], pass_again["token_type_ids"])
    assert not np.array_equal(first["masked_positions"], pass_again["masked_positions"])
    fixed = [prepared.evaluation.at_epoch(epoch)[np.arange(8)]["input_ids"] for epoch in (0, 5)]
    np.testing.assert_array_equal(*fixed)


def test_evaluation_has_every_example_once_in_batches_of_one_size(prepared):
    size = len(prepared.evaluation) - 3
    batches = list(evaluation_batches(prepared.evaluation, size))
    assert [len(batch["input_ids"]) for batch in batches] == [size, size]
    labels = np.concatenate([batch["next_sentence_label"] for batch in batches])
    assert (labels >= 0).sum() == len(prepared.evaluation) and (labels[-(size - 3) :] == -100).all()
    assert batches[1]["masked_weights"][3:].sum() == 0 < batches[1]["masked_weights"][:3].sum()


def test_unigram_is_the_training_frequencies(prepared):
    log = prepared.unigram()
    assert log.shape == (len(vocabulary(prepared.tokenizer)),) and abs(np.exp(log).sum() - 1) < 1e-5
    counts = np.bincount(np.asarray(prepared.train.tokens), minlength=len(log))
    np.testing.assert_allclose(np.exp(log), (counts + 1) / (counts.sum() + len(log)), rtol=1e-5)
    assert unigram_log_probabilities(np.array([0, 0, 1]))[2] == pytest.approx(np.log(0.5))


def test_a_given_vocabulary_and_no_held_out(prepared, corpus, tmp_path):
    given = prepare(corpus, directory=tmp_path, seq_len=32, vocab=prepared.directory, held_out=0, passes=1)
    assert given.evaluation is None and "evaluation" not in given.statistics
    assert vocabulary(given.tokenizer) == vocabulary(prepared.tokenizer) == vocabulary(load_tokenizer(given.directory))
    changed = differences(prepared.fingerprint, given.fingerprint)
    assert changed == [
        "held_out was 0.2, now 0",
        "max_predictions was 8, now 5",
        "passes was 3, now 1",
        "seq_len was 48, now 32",
    ]
    cased = prepare(corpus, directory=tmp_path, seq_len=32, vocab_size=150, cased=True, passes=1)
    assert "cased was False, now True" in differences(prepared.fingerprint, cased.fingerprint)
    assert any(line.startswith("vocabulary was ") for line in differences(prepared.fingerprint, cased.fingerprint))


def test_other_text_is_another_corpus(prepared, corpus, tmp_path):
    for file in corpus.iterdir():
        (tmp_path / file.name).write_text(file.read_text() + " More.")
    other = prepare(tmp_path, directory=tmp_path / "data", seq_len=48, vocab_size=120, held_out=0.2, passes=3)
    assert differences(prepared.fingerprint, other.fingerprint)[0].startswith("corpus was ")


def test_a_renamed_corpus_is_made_anew(tmp_path):
    (tmp_path / "a.txt").write_text("\n\n".join(map(text_of, range(20))))
    settings = {"directory": tmp_path / "data", "seq_len": 48, "vocab_size": 120, "held_out": 0.2, "passes": 1}
    before = prepare(tmp_path / "a.txt", **settings)
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    after = prepare(tmp_path / "b.txt", **settings)
    assert after.directory != before.directory and len(after.train) == len(before.train)


def test_a_damaged_folder_is_made_again(corpus, tmp_path):
    settings = {"directory": tmp_path, "seq_len": 32, "vocab_size": 120, "passes": 1}
    first = prepare(corpus, **settings)
    file = first.directory / "pairs-32-00-00000.arrow"
    before = file.read_bytes()
    file.write_bytes(before[:100])
    prepare(corpus, **settings)
    assert file.read_bytes() == before


def test_an_interrupted_call_is_gone_on_with(corpus_of_any_age, tmp_path):
    settings = {"directory": tmp_path, "seq_len": 32, "vocab_size": 120, "passes": 2}

    def interrupt(step, done, total):
        if step == "pairs":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(corpus_of_any_age, **settings, progress=interrupt)
    (folder,) = tmp_path.iterdir()
    vocabulary_before = (folder / "vocab.txt").stat().st_mtime_ns
    assert prepare(corpus_of_any_age, **settings).directory == folder
    assert (folder / "vocab.txt").stat().st_mtime_ns == vocabulary_before, "what was there was taken"


def test_there_is_one_warning_about_files_that_are_left_out(corpus, tmp_path):
    text = shutil.copytree(corpus, tmp_path / "corpus")
    (text / "b.md").write_text("no")
    with pytest.warns(UserWarning) as warned:
        prepare(text, directory=tmp_path / "data", seq_len=48, vocab_size=120, passes=1)
    assert ["b.md" in str(one.message) for one in warned] == [True]


def test_bad_input(corpus_of_any_age, tmp_path, prepared):
    corpus = corpus_of_any_age

    def refused(path, **settings):
        if "vocab" not in settings:
            settings.setdefault("vocab_size", 200)
        with pytest.raises((ValueError, OSError)) as caught:
            prepare(path, directory=tmp_path / "data", **settings)
        assert not (tmp_path / "data").exists() or list((tmp_path / "data").iterdir()) == []
        return str(caught.value)

    one = tmp_path / "one.txt"
    one.write_text("The only document. It has two sentences.")
    assert "there is no other document to draw a random next sentence from; expected at least 4" in refused(one)
    assert "--documents blank-line" in refused(one, held_out=0)
    one.write_text("\n\n".join(["The same document. Again and again."] * 9))
    assert "there is no other document" in refused(one), "duplicates are one document"
    one.write_text(" \n")
    assert "the corpus is empty" in refused(one)
    one.write_bytes(b"ok. \xff")
    assert "one.txt is not UTF-8; expected UTF-8 text, got byte 0xff at byte 4" in refused(one)
    assert "does not exist" in refused(tmp_path / "none")
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL_TOKENS[:3]))
    assert "lacks special tokens" in refused(corpus, vocab=tmp_path / "vocab.txt")
    assert "--passes is out of range; expected 1 to 99, got 0" in refused(corpus, passes=0)
    assert "--seq-len is out of range; expected at least 5 ([CLS] a [SEP] b [SEP]), got 3" in refused(corpus, seq_len=3)
    assert "vocab_size is smaller than the alphabet" in refused(corpus, vocab_size=9)
    with pytest.raises(ValueError, match=r"smaller than one batch; expected at least 4096 training examples, got \d+"):
        prepared.train_batches(4096)
