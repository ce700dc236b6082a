"""WordPiece: a vocabulary trained from documents, and BERT's pipeline around a vocabulary.

A *tokenizer* is a `tokenizers.Tokenizer` (Rust) with BERT's normaliser, pre-tokenizer and template. Continuations of a
word start with `##`.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

__all__ = ["SPECIAL_TOKENS", "bert_tokenizer", "train_wordpiece"]

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PREFIX = "##"


def train_wordpiece(
    documents: Iterable[str],
    vocab_size: int = 8192,
    *,
    lower_case: bool = True,
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> Tokenizer:
    """Train a WordPiece vocabulary: the same documents give the same vocabulary, in the same order, on every run.

    Ids: the five special tokens, then the characters, then the characters inside words, both sorted, then the merges
    in the order in which they were made.

    Args:
        documents: the training documents, and only these.
        vocab_size: largest number of entries, at least the special tokens and the characters; small corpora give fewer.
        lower_case: lower-case and strip accents, as BERT's uncased models do.
        min_frequency: a pair that occurs less often is not merged.
        limit_alphabet: largest number of distinct characters; rarer ones become `[UNK]`.

    Returns:
        A tokenizer whose `encode("a", "b")` gives `[CLS] a [SEP] b [SEP]`.

    Raises:
        ValueError: `vocab_size` is smaller than the alphabet, or there is no text.

    Example:
        >>> tokenizer = train_wordpiece(["low lower lowest low low"] * 3, vocab_size=24)
        >>> tokenizer.encode("Lower!", "low").tokens
        ['[CLS]', 'lower', '[UNK]', '[SEP]', 'low', '[SEP]']

    Reference: `tokenizers.trainers.WordPieceTrainer`, https://huggingface.co/docs/tokenizers
    """
    tokenizer = bert_tokenizer({token: index for index, token in enumerate(SPECIAL_TOKENS)}, lower_case=lower_case)
    words = _count_words(documents, tokenizer)
    alphabet = _alphabet(words, limit_alphabet)
    if not alphabet:
        raise ValueError("train_wordpiece: the documents are empty; expected text, got none.")
    first = [*SPECIAL_TOKENS, *alphabet]
    if vocab_size < len(first):
        raise ValueError(
            f"train_wordpiece: vocab_size does not hold the alphabet; expected at least {len(first)} (special tokens "
            f"and characters), got {vocab_size}."
        )
    # The characters are passed as special tokens, because the trainer numbers `##` characters in the order of a hash
    # map, which differs between processes, and breaks ties between pairs by those numbers.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        limit_alphabet=0,  # no characters in addition to ours
        show_progress=False,
        special_tokens=first,
    )
    # Only the counts of words matter to it: each word is passed as often as it occurs, and text is cut at spaces alone.
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
    """BERT's pipeline around a vocabulary, as `transformers.convert_slow_tokenizer.BertConverter` builds it.

    Args:
        vocab: token -> id, with the five special tokens.
        lower_case: lower-case the text.
        strip_accents: None: as `lower_case`.
        chinese: put spaces around Chinese characters.
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
    """How often each word occurs in documents, after BERT's normaliser and pre-tokenizer.

    Both work between two spaces, so each such piece of text is processed once.
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
    """The characters, then the `##` characters, of words; both sorted. The rarest beyond a limit are left out."""
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
