"""Train a WordPiece vocabulary from documents, and build BERT's tokenizer from a vocabulary.

A *tokenizer* is a `tokenizers.Tokenizer` (Rust) with BERT's normaliser, pre-tokenizer and template. Tokens that
continue a word start with `##`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

__all__ = ["SPECIAL_TOKENS", "bert_tokenizer", "train_wordpiece"]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""BERT's special tokens, in the order of their ids."""

PREFIX = "##"


def train_wordpiece(
    documents: Iterable[str],
    vocab_size: int = 8192,
    *,
    lower_case: bool = True,
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> Tokenizer:
    """Train a WordPiece vocabulary.

    The same documents give the same vocabulary, in the same order, on every run. The ids begin with the five special
    tokens. The sorted characters follow, then the sorted characters inside words (with `##`), then the merged tokens in
    the order of the merges.

    Args:
        documents: training documents. Do not train the vocabulary on held-out documents.
        vocab_size: maximum number of tokens. It must be at least the number of special tokens, characters, and
            characters inside words. A small corpus gives a vocabulary with fewer tokens.
        lower_case: whether to lower-case the text and strip accents, as in BERT's uncased models.
        min_frequency: number of times that a pair of tokens must occur to be merged.
        limit_alphabet: maximum number of distinct characters. Rarer characters become `[UNK]`.

    Returns:
        A tokenizer whose `encode("a", "b")` gives `[CLS] a [SEP] b [SEP]`.

    Raises:
        ValueError: if `vocab_size` is smaller than the number of special tokens, characters, and characters inside
            words, or the documents are empty.
        TypeError: if `documents` is one text instead of several.

    Example:
        >>> tokenizer = train_wordpiece(["low lower lowest low low"] * 3, vocab_size=24)
        >>> tokenizer.encode("Lower!", "low").tokens
        ['[CLS]', 'lower', '[UNK]', '[SEP]', 'low', '[SEP]']

    Reference: `tokenizers.trainers.WordPieceTrainer`, https://huggingface.co/docs/tokenizers
    """
    tokenizer = bert_tokenizer({token: index for index, token in enumerate(SPECIAL_TOKENS)}, lower_case=lower_case)
    if isinstance(documents, str | bytes):
        raise TypeError(
            f"train_wordpiece: documents is one text; expected several texts, got {type(documents).__name__}. Pass a "
            "list: [text]."
        )
    words = _count_words(documents, tokenizer)
    alphabet = _alphabet(words, limit_alphabet)
    if not alphabet:
        raise ValueError("train_wordpiece: the documents are empty; expected text, got none.")
    first = [*SPECIAL_TOKENS, *alphabet]
    if vocab_size < len(first):
        raise ValueError(
            f"train_wordpiece: vocab_size is smaller than the alphabet; expected at least {len(first)} (special tokens "
            f"and characters), got {vocab_size}."
        )
    # The characters are passed as special tokens, because the trainer numbers `##` characters in the order of a hash
    # map, which differs between processes, and breaks ties between pairs by those numbers.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        limit_alphabet=0,  # no characters in addition to those in `first`
        show_progress=False,
        special_tokens=first,
    )
    # The trainer needs only the counts of words. Each word is repeated as often as it occurs. Text is split at spaces.
    learning = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learning.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learning.train_from_iterator((f"{word} " * number for word, number in words.items()), trainer, length=len(words))
    learnt = learning.get_vocab()
    ordered = sorted(learnt, key=lambda token: learnt[token])
    return bert_tokenizer({token: index for index, token in enumerate(ordered)}, lower_case=lower_case)


def bert_tokenizer(
    vocab: Mapping[str, int],
    *,
    lower_case: bool,
    strip_accents: bool | None = None,
    chinese: bool = True,
) -> Tokenizer:
    """Build BERT's tokenizer from a vocabulary, like `transformers.convert_slow_tokenizer.BertConverter`.

    Args:
        vocab: dict from token to id, with the five special tokens.
        lower_case: whether to lower-case the text.
        strip_accents: whether to strip accents. None means the value of `lower_case`.
        chinese: whether to put spaces around Chinese characters.
    """
    tokenizer = Tokenizer(models.WordPiece(dict(vocab), unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=strip_accents, lowercase=lower_case
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=PREFIX)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    return tokenizer


def _count_words(documents: Iterable[str], tokenizer: Tokenizer) -> Counter[str]:
    """Count each word in documents, after BERT's normaliser and pre-tokenizer.

    Neither the normaliser nor the pre-tokenizer looks across a space, so each distinct piece of text between spaces is
    processed once.
    """
    pieces: Counter[str] = Counter()
    for document in documents:
        pieces.update(document.split(" "))
    words: Counter[str] = Counter()
    spaced = _Spaced()
    for piece, number in pieces.items():
        for word in tokenizer.normalizer.normalize_str(piece).translate(spaced).split():
            words[word] += number
    return words


class _Spaced(dict[int, str]):
    """A table for `str.translate` that puts spaces around punctuation."""

    def __missing__(self, code: int) -> str:
        self[code] = f" {chr(code)} " if _is_punctuation(chr(code)) else chr(code)
        return self[code]


def _alphabet(words: Mapping[str, int], limit: int) -> list[str]:
    """Return the sorted characters of all words, then the sorted characters inside words, with the prefix `##`. At most
    `limit` characters are kept.
    """
    counts: Counter[str] = Counter()
    for word, number in words.items():
        for character in word:
            counts[character] += number
    kept = set(sorted(counts, key=lambda character: (-counts[character], character))[:limit])
    inside = {character for word in words for character in word[1:]}
    begin = {word[0] for word in words} | inside
    return [*sorted(begin & kept), *(PREFIX + character for character in sorted(inside & kept))]


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")
