"""WordPiece: a vocabulary trained from documents, and tokenizers read from and written to disk.

A *tokenizer* here is a `tokenizers.Tokenizer` (Rust) with BERT's normaliser, pre-tokenizer and template. What is
written opens in Hugging Face's `BertTokenizerFast` with the same ids. Continuations of a word start with `##`.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from funcnet.files import replacing
from funcnet.text.tokenizer_config import add_tokens, apply_settings, read_settings

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PREFIX = "##"
MOST_PADDING = 127  # rows: real tables are padded to multiples of 8 (NVIDIA), 64 (MosaicBERT) and 128 (Megatron)


def train_wordpiece(
    documents: Iterable[str],
    vocab_size: int = 8192,
    *,
    lower_case: bool = True,
    min_frequency: int = 2,
    limit_alphabet: int = 1000,
) -> Tokenizer:
    """Trains a WordPiece vocabulary: the same documents give the same vocabulary, in the same order, on every run.

    Ids: the five special tokens, then the characters, then the characters inside words, both sorted, then the merges
    as they were made.

    Args:
        documents: the training documents, and only these.
        vocab_size: the most entries, at least the special tokens and the characters; small corpora give fewer.
        lower_case: lower-case and strip accents, as BERT's uncased models do.
        min_frequency: a pair seen less often is not merged.
        limit_alphabet: the most distinct characters; the rarest beyond it become `[UNK]`.

    Returns:
        A tokenizer whose `encode("a", "b")` gives `[CLS] a [SEP] b [SEP]`.

    Raises:
        ValueError: `vocab_size` does not even hold the characters, or there is no text.

    Example:
        >>> tokenizer = train_wordpiece(["low lower lowest low low"] * 3, vocab_size=24)
        >>> tokenizer.encode("Lower!", "low").tokens
        ['[CLS]', 'lower', '[UNK]', '[SEP]', 'low', '[SEP]']

    Reference: `tokenizers.trainers.WordPieceTrainer`, https://huggingface.co/docs/tokenizers
    """
    tokenizer = _build({token: index for index, token in enumerate(SPECIAL_TOKENS)}, lower_case=lower_case)
    words = _count_words(documents, tokenizer)
    alphabet = _alphabet(words, limit_alphabet)
    if not alphabet:
        raise ValueError(
            "train_wordpiece: the documents are empty; expected text, got none. Give documents that hold text."
        )
    first = [*SPECIAL_TOKENS, *alphabet]
    if vocab_size < len(first):
        raise ValueError(
            f"train_wordpiece: vocab_size does not hold the alphabet; expected at least {len(first)} (special tokens "
            f"and characters), got {vocab_size}. Raise it."
        )
    # Why the characters are handed over as special tokens: the trainer numbers `##` characters in the order of a hash
    # map, another one in every process, and breaks ties between pairs by those numbers.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        limit_alphabet=0,  # no characters of its own beside ours
        show_progress=False,
        special_tokens=first,
    )
    # Only the words' counts matter to it: each is handed over as often as it stands, and cut at spaces alone.
    learning = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learning.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learning.train_from_iterator((f"{word} " * number for word, number in words.items()), trainer, length=len(words))
    learnt = learning.get_vocab()
    ordered = sorted(learnt, key=lambda token: learnt[token])
    return _build({token: index for index, token in enumerate(ordered)}, lower_case=lower_case)


def load_tokenizer(path: str | Path, *, lower_case: bool | None = None) -> Tokenizer:
    """Reads a BERT tokenizer from a directory or from a vocabulary file.

    Args:
        path: a directory with `tokenizer.json` or `vocab.txt`, or such a `.json` or vocabulary file itself (one token a
            line, its id the line's number from 0). In a directory `tokenizer_config.json`, if there, has the last word
            on `do_lower_case`, `strip_accents` and `tokenize_chinese_chars`, also over `tokenizer.json`, and tokens of
            `added_tokens.json` follow the vocabulary.
        lower_case: what a vocabulary is read with; of a `tokenizer.json`, which says it itself, what it has to say.
            None: as `tokenizer_config.json` says, else as `tokenizer.json`, else cased exactly if a token of the
            vocabulary has a capital letter (transformers lower-cases where `tokenizer_config.json` says nothing).

    Returns:
        A `tokenizers.Tokenizer` that neither pads nor truncates, whatever the file had set.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a special token is missing or has another name, a token is there twice, an added one does not follow
            the vocabulary, a file is not what its name says, or a `tokenizer.json` without a vocabulary beside it does
            the opposite of `lower_case`.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "vocab.txt")
        ...     _ = file.write_text("\\n".join([*SPECIAL_TOKENS, "play", "##ing"]))
        ...     load_tokenizer(folder).encode("Playing").ids
        [2, 5, 6, 3]
    """
    path = Path(path)
    if path.is_dir():
        fast, vocab, told = path / "tokenizer.json", path / "vocab.txt", read_settings(path)
        if fast.is_file() and (lower_case is None or not vocab.is_file()):
            tokenizer = _load_json(fast, lower_case, told)
        elif vocab.is_file():
            tokenizer = _load_vocab(vocab, told, lower_case)
        else:
            raise FileNotFoundError(
                f"load_tokenizer: no vocabulary in {path}; expected vocab.txt or tokenizer.json there, got neither. "
                "Name another directory."
            )
        add_tokens(tokenizer, told, str(path))
        return tokenizer
    if not path.is_file():
        raise FileNotFoundError(
            f"load_tokenizer: {path} is not there; expected a directory or a vocabulary file, got nothing. Check the "
            "path."
        )
    return _load_json(path, lower_case, {}) if path.suffix == ".json" else _load_vocab(path, {}, lower_case)


def save_tokenizer(tokenizer: Tokenizer, directory: str | Path, *, max_length: int = 512) -> None:
    """Writes `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`, which `BertTokenizerFast.from_pretrained`
    opens.

    Args:
        tokenizer: as from `train_wordpiece` or `load_tokenizer`.
        directory: made if it is not there; each file is replaced whole.
        max_length: the longest sequence the model takes, for Hugging Face's truncation.

    Raises:
        OSError: the directory cannot be written.

    Example:
        >>> import tempfile
        >>> tokenizer = train_wordpiece(["low lower lowest"] * 3, vocab_size=20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_tokenizer(tokenizer, folder)
        ...     load_tokenizer(folder).encode("low").ids == tokenizer.encode("low").ids
        True
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    normalizer = json.loads(tokenizer.to_str())["normalizer"] or {}
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": is_lower_case(tokenizer),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
        "model_max_length": max_length,
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    texts = {
        "vocab.txt": "".join(f"{token}\n" for token in vocabulary(tokenizer)),
        "tokenizer.json": tokenizer.to_str(pretty=True),
        "tokenizer_config.json": json.dumps(config, indent=2) + "\n",
    }
    for name, text in texts.items():
        with replacing(directory / name) as part:
            part.write_text(text, "utf-8")


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """The tokens, each at the place of its id.

    Example:
        >>> vocabulary(train_wordpiece(["aa ab"] * 2, vocab_size=9))[:7]
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b']
    """
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(ids, key=lambda token: ids[token])


def vocabulary_digest(tokenizer: Tokenizer) -> str:
    """SHA-256 of the tokens and of whether capitals are kept: what a run or data that go on have to find again.

    Example:
        >>> vocabulary_digest(train_wordpiece(["aa ab"] * 2, vocab_size=9))[:8]
        '873afaff'
    """
    told = {"tokens": vocabulary(tokenizer), "lower_case": is_lower_case(tokenizer)}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def truncating(tokenizer: Tokenizer, length: int) -> Tokenizer:
    """A copy that cuts to so many tokens, special ones included, the longer of two texts first, and pads nothing.

    Args:
        tokenizer: as from `load_tokenizer`; it stays as it is.
        length: the most tokens.

    Example:
        >>> cutting = truncating(train_wordpiece(["low lower lowest"] * 3, vocab_size=24), 4)
        >>> cutting.encode("low low low").tokens
        ['[CLS]', 'low', 'low', '[SEP]']
    """
    cutting = Tokenizer.from_str(tokenizer.to_str())
    cutting.enable_truncation(length, strategy="longest_first")
    cutting.no_padding()
    return cutting


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """The ids of the five special tokens.

    Raises:
        ValueError: one is missing.

    Example:
        >>> special_ids(train_wordpiece(["aa ab"] * 2, vocab_size=9))
        {'[PAD]': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, '[MASK]': 4}
    """
    found = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
    _require_special({token for token, index in found.items() if index is not None}, "special_ids")
    return found


def require_fit(tokenizer: Tokenizer, rows: int, *, where: str) -> None:
    """That a model's word table has a row for every token; a table padded to a round size has up to 127 more.

    Args:
        rows: of the table.
        where: the beginning of the message, with the directory or file in it.

    Raises:
        ValueError: the vocabulary is larger.

    Warns:
        UserWarning: it is smaller than padding explains.

    Example:
        >>> require_fit(train_wordpiece(["aa ab"] * 2, vocab_size=9), 16, where="here")
    """
    ids = tokenizer.get_vocab(with_added_tokens=True)
    last = max(ids, key=lambda token: ids[token])
    if ids[last] >= rows:
        raise ValueError(
            f"{where}: the vocabulary does not fit the model's word table; expected ids below {rows}, got up to "
            f"{ids[last]}, {last!r}. Put the vocabulary there that the model was trained with."
        )
    if rows - ids[last] - 1 > MOST_PADDING:
        warnings.warn(
            f"{where}: the vocabulary has {ids[last] + 1:,} tokens and the model's word table {rows:,} rows, more than "
            "padding explains. Look whether it is the vocabulary that the model was trained with.",
            stacklevel=3,
        )


def is_lower_case(tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer lower-cases what it reads.

    Example:
        >>> is_lower_case(train_wordpiece(["aa ab"] * 2, vocab_size=9, lower_case=False))
        False
    """
    return tokenizer.normalizer is not None and tokenizer.normalizer.normalize_str("A") == "a"


def _build(
    vocab: Mapping[str, int],
    *,
    lower_case: bool,
    strip_accents: bool | None = None,
    chinese: bool = True,
) -> Tokenizer:
    """BERT's pipeline around a vocabulary, as `transformers.convert_slow_tokenizer.BertConverter` sets it up."""
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
    """How often each word stands in documents, as BERT's normaliser leaves it and its pre-tokenizer cuts it.

    Both work within what stands between two spaces, so each such stretch is looked at once.
    """
    stretches: Counter[str] = Counter()
    for document in documents:
        stretches.update(document.split(" "))
    words: Counter[str] = Counter()
    apart = _Apart()
    for stretch, number in stretches.items():
        for word in tokenizer.normalizer.normalize_str(stretch).translate(apart).split():
            words[word] += number
    return words


class _Apart(dict[int, str]):
    """For `str.translate`: punctuation gets spaces around it."""

    def __missing__(self, code: int) -> str:
        self[code] = f" {chr(code)} " if _is_punctuation(chr(code)) else chr(code)
        return self[code]


def _alphabet(words: Mapping[str, int], limit: int) -> list[str]:
    """Characters, then `##` characters, that words begin and go on with; both sorted. The rarest beyond a limit go."""
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


def _load_json(file: Path, lower_case: bool | None, settings: Mapping[str, object]) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises bare Exception
        raise ValueError(
            f"load_tokenizer: {file} is no tokenizer; expected the JSON of Hugging Face's tokenizers, got '{error}'. "
            "Write it again."
        ) from error
    _require_special(tokenizer.get_vocab(with_added_tokens=True), f"load_tokenizer: {file}")
    apply_settings(tokenizer, settings)
    if lower_case is not None and is_lower_case(tokenizer) != lower_case:
        does, should = ("keeps capitals", "lower-case") if lower_case else ("lower-cases", "keep capitals")
        raise ValueError(
            f"load_tokenizer: {file} {does}; expected it to {should}, got its own setting. Name a vocabulary "
            "(vocab.txt), or take it as it is."
        )
    tokenizer.no_padding()  # sentence encoders ship with both set; ids of long lines would be cut
    tokenizer.no_truncation()
    return tokenizer


def _load_vocab(file: Path, config: Mapping[str, object], lower_case: bool | None) -> Tokenizer:
    try:
        text = file.read_text("utf-8").removeprefix("\ufeff")  # a byte-order mark
    except UnicodeDecodeError as error:
        raise ValueError(
            f"load_tokenizer: {file} is not UTF-8; expected one token a line, got byte "
            f"0x{error.object[error.start]:02x} at byte {error.start}. Name a vocabulary file."
        ) from None
    vocab: dict[str, int] = {}
    for index, token in enumerate(text.removesuffix("\n").split("\n")):
        if token in vocab:
            raise ValueError(
                f"load_tokenizer: {file} holds {token!r} twice; expected each token once, got it on lines "
                f"{vocab[token] + 1} and {index + 1}. Remove one."
            )
        vocab[token] = index
    _require_special(vocab, f"load_tokenizer: {file}")
    if lower_case is None:
        told = config.get("do_lower_case")
        capitals = any(
            token not in SPECIAL_TOKENS and token != token.lower() and not token.startswith("[") for token in vocab
        )
        lower_case = told if isinstance(told, bool) else not capitals
    accents = config.get("strip_accents")
    return _build(
        vocab,
        lower_case=lower_case,
        strip_accents=accents if isinstance(accents, bool) else None,
        chinese=bool(config.get("tokenize_chinese_chars", True)),
    )


def _require_special(present: Iterable[str], where: str) -> None:
    there = set(present)
    missing = [token for token in SPECIAL_TOKENS if token not in there]
    if missing:
        raise ValueError(
            f"{where}: the vocabulary lacks special tokens; expected {' '.join(SPECIAL_TOKENS)}, got none of "
            f"{' '.join(missing)}. Add them, each on a line of its own, or train a vocabulary."
        )
