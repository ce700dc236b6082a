"""Vocabularies: the same every time, and Hugging Face's ids on every line of the default corpus."""

import json
import subprocess
import sys
import warnings

import pytest
from tokenizers import Tokenizer
from transformers import BertTokenizerFast

from funcnet.text import (
    SPECIAL_TOKENS,
    is_lower_case,
    load_tokenizer,
    read_corpus,
    require_fit,
    save_tokenizer,
    special_ids,
    train_wordpiece,
    vocabulary,
)

AWKWARD = [
    "",
    " ",
    "Café ÉCOLE naïve Straße İstanbul",
    "你好, world! [MASK] and [SEP]",
    "a\u200bb\x00c\ufffd\tтест don't--stop…",
    "x" * 150,
    "[mask] ##ing [UNK]",
]


@pytest.fixture(scope="module")
def corpus():
    return read_corpus()


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def tokenizer(request, corpus):
    return train_wordpiece(corpus[::4], 4096, lower_case=request.param)


@pytest.mark.slow
def test_hugging_face_gives_the_same_ids_on_every_line(tokenizer, corpus, tmp_path):
    save_tokenizer(tokenizer, tmp_path, max_length=128)
    lines = [line for document in corpus for line in document.split("\n") if line] + AWKWARD
    ours = load_tokenizer(tmp_path)
    theirs = BertTokenizerFast.from_pretrained(tmp_path)
    assert theirs.model_max_length == 128 and theirs.vocab_size == len(vocabulary(ours))
    assert theirs.do_lower_case == is_lower_case(tokenizer)
    expected = theirs(lines, truncation=False, verbose=False)["input_ids"]
    assert [encoding.ids for encoding in ours.encode_batch_fast(lines)] == expected
    pair = theirs("one thing", "another")
    encoding = ours.encode("one thing", "another")
    assert encoding.ids == pair["input_ids"] and encoding.type_ids == pair["token_type_ids"]


def test_a_byte_order_mark_is_no_part_of_the_first_token(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*SPECIAL_TOKENS, "the"]), "utf-8-sig")
    assert file.read_bytes()[:3] == b"\xef\xbb\xbf"
    for path in file, tmp_path:
        assert vocabulary(load_tokenizer(path)) == [*SPECIAL_TOKENS, "the"]
    file.write_bytes(file.read_bytes() + b"\n\xff")
    with pytest.raises(
        ValueError,
        match=r"vocab\.txt is not UTF-8; expected UTF-8 text with one token per line, got byte 0xff at byte 38",
    ):
        load_tokenizer(file)


@pytest.mark.parametrize("rows", [9, 16, 64, 128, 136])
def test_a_padded_word_table_is_taken_without_a_word(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_fit(train_wordpiece(["aa ab"] * 2, vocab_size=9), rows, where="here")


def test_a_vocabulary_much_smaller_than_the_word_table_warns():
    tokenizer = train_wordpiece(["aa ab"] * 2, vocab_size=9)
    said = (
        r"^here: the vocabulary has 9 tokens, but the model's word table "
        r"has 1,137 rows\. Padding alone does not explain the difference\. Check "
    )
    with pytest.warns(UserWarning, match=said):
        require_fit(tokenizer, 1137, where="here")
    with pytest.warns(UserWarning, match="137 rows"):
        require_fit(tokenizer, 9 + 128, where="here")


@pytest.mark.slow
def test_each_file_alone_gives_the_same_tokenizer(tokenizer, corpus, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    lines = corpus[3].split("\n") + AWKWARD
    expected = [encoding.ids for encoding in tokenizer.encode_batch_fast(lines)]
    for path in (tmp_path, tmp_path / "tokenizer.json", tmp_path / "vocab.txt"):
        assert [encoding.ids for encoding in load_tokenizer(path).encode_batch_fast(lines)] == expected
    (tmp_path / "tokenizer.json").unlink()
    assert [encoding.ids for encoding in load_tokenizer(tmp_path).encode_batch_fast(lines)] == expected
    slow_files = BertTokenizerFast.from_pretrained(tmp_path)  # from vocab.txt and the configuration
    assert slow_files(lines, verbose=False)["input_ids"] == expected


@pytest.mark.slow
def test_vocabulary_has_the_special_tokens_first_and_fills_its_size(tokenizer):
    tokens = vocabulary(tokenizer)
    assert tuple(tokens[:5]) == SPECIAL_TOKENS and len(tokens) == 4096 == len(set(tokens))
    assert special_ids(tokenizer) == {token: index for index, token in enumerate(SPECIAL_TOKENS)}


def test_training_is_the_same_in_every_process():
    """The trainer's own order follows a hash map, and where pairs tie it decides which of them are merged."""
    program = (
        "from funcnet.text import train_wordpiece, vocabulary\n"
        "words = ['abcdefghijklmnopqrstuvwxyz'[i % 26] + 'zyxwvutsrqponmlkjihgfedcba'[i // 26] * 2 for i in "
        "range(600)]\n"
        "print(vocabulary(train_wordpiece([' '.join(words)] * 3, 200)))\n"
    )
    runs = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout for _ in range(3)}
    assert len(runs) == 1 and len(runs.pop()) > 1000


def test_padding_and_truncation_of_the_file_are_set_aside(tmp_path):
    tokenizer = train_wordpiece(["a b c"] * 2, 20)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=10)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert isinstance(load_tokenizer(tmp_path), Tokenizer)
    assert load_tokenizer(tmp_path).encode("a b c").tokens == ["[CLS]", "a", "b", "c", "[SEP]"]


def test_casing_of_a_bare_vocabulary_is_seen_from_its_tokens(tmp_path):
    (tmp_path / "cased.txt").write_text("\n".join([*SPECIAL_TOKENS, "Paris", "paris"]) + "\n")
    (tmp_path / "uncased.txt").write_text("\n".join([*SPECIAL_TOKENS, "paris"]))
    assert load_tokenizer(tmp_path / "cased.txt").encode("Paris paris").ids == [2, 5, 6, 3]
    assert load_tokenizer(tmp_path / "uncased.txt").encode("Paris").ids == [2, 5, 3]
    assert load_tokenizer(tmp_path / "cased.txt", lower_case=True).encode("Paris").ids == [2, 6, 3]


@pytest.mark.parametrize("lower_case", [True, False])
def test_a_tokenizer_that_does_otherwise_than_asked_is_refused(tmp_path, lower_case):
    save_tokenizer(train_wordpiece(["Low low"] * 2, 30, lower_case=lower_case), tmp_path)
    does = ["keeps capitals", "lower-cases"]
    wanted, found = does if lower_case else reversed(does)
    said = (
        rf"tokenizer\.json contradicts lower_case={not lower_case}; "
        rf"expected a tokenizer that {wanted}, got one that "
    )
    with pytest.raises(ValueError, match=rf"{said}{found}\. Pass a vocabulary file"):
        load_tokenizer(tmp_path / "tokenizer.json", lower_case=not lower_case)
    assert is_lower_case(load_tokenizer(tmp_path, lower_case=not lower_case)) is not lower_case  # by vocab.txt
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=rf"{said}{found}"):
        load_tokenizer(tmp_path, lower_case=not lower_case)
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert is_lower_case(load_tokenizer(path, lower_case=lower_case)) is lower_case


def test_rare_characters_beyond_the_limit_are_unknown():
    tokenizer = train_wordpiece(["aab ab a q"] * 3, 20, limit_alphabet=2)
    assert "q" not in vocabulary(tokenizer) and "##b" in vocabulary(tokenizer)
    assert tokenizer.encode("q").tokens[1] == "[UNK]"


def test_errors(tmp_path):
    with pytest.raises(ValueError, match=r"expected at least 8 \(special tokens and characters\), got 6"):
        train_wordpiece(["a b c"], 6)
    with pytest.raises(ValueError, match="train_wordpiece: the documents are empty"):
        train_wordpiece([" "], 100)
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist"):
        load_tokenizer(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"no vocabulary in .*; expected vocab\.txt or tokenizer\.json"):
        load_tokenizer(tmp_path)
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("[PAD]\n[UNK]\nword\n")
    with pytest.raises(
        ValueError, match=r"lacks special tokens; .* got none of \[CLS\] \[SEP\] \[MASK\]\. Add the missing"
    ):
        load_tokenizer(vocab)
    vocab.write_text("\n".join([*SPECIAL_TOKENS, "word", "other", "word"]))
    with pytest.raises(ValueError, match=r"contains 'word' twice; .* on lines 6 and 8"):
        load_tokenizer(tmp_path)
    vocab.write_bytes(b"[PAD]\n\xff")
    with pytest.raises(ValueError, match=r"vocab\.txt is not UTF-8; .* got byte 0xff at byte 6"):
        load_tokenizer(tmp_path)
    vocab.unlink()
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text(Tokenizer.from_str(json.dumps(PLAIN)).to_str())
    with pytest.raises(ValueError, match="lacks special tokens"):
        load_tokenizer(tmp_path)


PLAIN = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
