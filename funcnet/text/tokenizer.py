"""Read and write tokenizers, and query their properties.

Hugging Face's `BertTokenizerFast` can open the written files, and gives the same ids.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from tokenizers import Tokenizer

from funcnet.files import json_digest, replacing
from funcnet.text.tokenizer_config import add_tokens, apply_tokenizer_config, read_tokenizer_config
from funcnet.text.wordpiece import SPECIAL_TOKENS, bert_tokenizer

__all__ = [
    "is_lower_case",
    "load_tokenizer",
    "require_fit",
    "save_tokenizer",
    "special_ids",
    "truncating",
    "vocabulary",
    "vocabulary_digest",
]

MOST_PADDING = 127  # rows. Published tables are padded to multiples of 8 (NVIDIA), 64 (MosaicBERT) and 128 (Megatron)


def load_tokenizer(path: str | Path, *, lower_case: bool | None = None) -> Tokenizer:
    """Read a BERT tokenizer from a directory or from a vocabulary file.

    Args:
        path: a directory that contains `tokenizer.json` or `vocab.txt`, or one of these files. A vocabulary file has
            one token per line. The id of a token is its line number, counted from 0. In a directory,
            `tokenizer_config.json` sets `do_lower_case`, `strip_accents` and `tokenize_chinese_chars`, and takes
            precedence over `tokenizer.json`. The tokens of `added_tokens.json` follow the vocabulary.
        lower_case: whether the tokenizer of a vocabulary file lower-cases text. If a directory has a `tokenizer.json`
            but no `vocab.txt`, `lower_case` must equal the setting in `tokenizer.json`. None uses the setting of
            `tokenizer_config.json`, or else of `tokenizer.json`. If neither file has this setting, the tokenizer keeps
            capitals only if a token of the vocabulary has a capital letter, whereas transformers always lower-cases.

    Returns:
        A `tokenizers.Tokenizer` that neither pads nor truncates, even if `tokenizer.json` has settings for this.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if a special token is missing or has an unsupported name, a token occurs twice, an added token does
            not follow the vocabulary, a file does not have the format of its name, or a `tokenizer.json` without a
            `vocab.txt` in the same directory contradicts `lower_case`.

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
        fast, vocab, settings = path / "tokenizer.json", path / "vocab.txt", read_tokenizer_config(path)
        if fast.is_file() and (lower_case is None or not vocab.is_file()):
            tokenizer = _load_json(fast, lower_case, settings)
        elif vocab.is_file():
            tokenizer = _load_vocab(vocab, lower_case, settings)
        else:
            raise FileNotFoundError(
                f"load_tokenizer: no vocabulary in {path}; expected vocab.txt or tokenizer.json, got neither."
            )
        add_tokens(tokenizer, settings, str(path))
        return tokenizer
    if not path.is_file():
        raise FileNotFoundError(f"load_tokenizer: {path} does not exist; expected a directory or a vocabulary file.")
    return _load_json(path, lower_case, {}) if path.suffix == ".json" else _load_vocab(path, lower_case, {})


def save_tokenizer(tokenizer: Tokenizer, directory: str | Path, *, max_length: int = 512) -> None:
    """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`, which `BertTokenizerFast.from_pretrained` opens.

    Args:
        tokenizer: tokenizer from `train_wordpiece` or `load_tokenizer`.
        directory: directory to write to, which is created if needed. Each file is replaced atomically.
        max_length: longest sequence that the model accepts. Hugging Face's tokenizers truncate texts to this length.

    Raises:
        OSError: if the directory cannot be written.

    Example:
        >>> from funcnet.text import train_wordpiece
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
    """Return the tokens in the order of their ids.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> vocabulary(train_wordpiece(["aa ab"] * 2, vocab_size=9))[:7]
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b']
    """
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(ids, key=lambda token: ids[token])


def vocabulary_digest(tokenizer: Tokenizer) -> str:
    """Return the SHA-256 digest of the tokens and of the lower-case setting.

    A training run or a build of data can be resumed only if its tokenizer still has the same digest.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> vocabulary_digest(train_wordpiece(["aa ab"] * 2, vocab_size=9))[:8]
        '873afaff'
    """
    content = {"tokens": vocabulary(tokenizer), "lower_case": is_lower_case(tokenizer)}
    return json_digest(content)


def truncating(tokenizer: Tokenizer, length: int) -> Tokenizer:
    """Return a copy of a tokenizer that truncates long inputs. The copy does not pad.

    If the input is a pair of texts, the longer text is truncated first.

    Args:
        tokenizer: tokenizer from `load_tokenizer`, which is not changed.
        length: maximum number of tokens, including special tokens.

    Raises:
        ValueError: if `length` is below 1.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> cutting = truncating(train_wordpiece(["low lower lowest"] * 3, vocab_size=24), 4)
        >>> cutting.encode("low low low").tokens
        ['[CLS]', 'low', 'low', '[SEP]']
    """
    if length < 1:
        raise ValueError(f"truncating: length is too small; expected at least 1 token, got {length}.")
    cutting = Tokenizer.from_str(tokenizer.to_str())
    cutting.enable_truncation(length, strategy="longest_first")
    cutting.no_padding()
    return cutting


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids of the five special tokens.

    Raises:
        ValueError: if a special token is missing.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> special_ids(train_wordpiece(["aa ab"] * 2, vocab_size=9))
        {'[PAD]': 0, '[UNK]': 1, '[CLS]': 2, '[SEP]': 3, '[MASK]': 4}
    """
    found = {token: tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
    _require_special({token for token, index in found.items() if index is not None}, "special_ids")
    return found


def require_fit(tokenizer: Tokenizer, rows: int, *, where: str) -> None:
    """Check that a model's word embedding table has a row for every token, and at most 127 more rows for padding.

    Args:
        tokenizer: tokenizer with the vocabulary.
        rows: number of rows of the table.
        where: prefix for error messages, which names the directory or file.

    Raises:
        ValueError: if the vocabulary is larger than the table.

    Warns:
        UserWarning: if the table has more than 127 additional rows.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> require_fit(train_wordpiece(["aa ab"] * 2, vocab_size=9), 16, where="here")
    """
    ids = tokenizer.get_vocab(with_added_tokens=True)
    last = max(ids, key=lambda token: ids[token])
    if ids[last] >= rows:
        raise ValueError(
            f"{where}: the vocabulary does not fit the model's word table; expected ids below {rows}, got the id "
            f"{ids[last]} for {last!r}. Use the vocabulary that the model was trained with."
        )
    if rows - ids[last] - 1 > MOST_PADDING:
        warnings.warn(
            f"{where}: the vocabulary has {ids[last] + 1:,} tokens, but the model's word table has {rows:,} rows. "
            "Padding alone does not explain the difference. Check that the model was trained with this vocabulary.",
            stacklevel=3,
        )


def is_lower_case(tokenizer: Tokenizer) -> bool:
    """Return whether the tokenizer lower-cases text.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> is_lower_case(train_wordpiece(["aa ab"] * 2, vocab_size=9, lower_case=False))
        False
    """
    return tokenizer.normalizer is not None and tokenizer.normalizer.normalize_str("A") == "a"


def _load_json(file: Path, lower_case: bool | None, settings: Mapping[str, object]) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises bare Exception
        raise ValueError(
            f"load_tokenizer: {file} is not a tokenizer; expected JSON of Hugging Face's tokenizers, got '{error}'."
        ) from error
    _require_special(tokenizer.get_vocab(with_added_tokens=True), f"load_tokenizer: {file}")
    apply_tokenizer_config(tokenizer, settings)
    if lower_case is not None and is_lower_case(tokenizer) != lower_case:
        found, wanted = ("keeps capitals", "lower-cases") if lower_case else ("lower-cases", "keeps capitals")
        raise ValueError(
            f"load_tokenizer: {file} contradicts lower_case={lower_case}; expected a tokenizer that {wanted}, got one "
            f"that {found}. Pass a vocabulary file (vocab.txt) instead, or omit lower_case."
        )
    tokenizer.no_padding()  # published sentence encoders have both settings, and long lines would lose ids
    tokenizer.no_truncation()
    return tokenizer


def _load_vocab(file: Path, lower_case: bool | None, settings: Mapping[str, object]) -> Tokenizer:
    try:
        text = file.read_text("utf-8").removeprefix("\ufeff")  # a byte-order mark
    except UnicodeDecodeError as error:
        raise ValueError(
            f"load_tokenizer: {file} is not UTF-8; expected UTF-8 text with one token per line, got byte "
            f"0x{error.object[error.start]:02x} at byte {error.start}."
        ) from None
    vocab: dict[str, int] = {}
    for index, token in enumerate(text.removesuffix("\n").split("\n")):
        if token in vocab:
            raise ValueError(
                f"load_tokenizer: {file} contains {token!r} twice; expected each token once, got this token on lines "
                f"{vocab[token] + 1} and {index + 1}."
            )
        vocab[token] = index
    _require_special(vocab, f"load_tokenizer: {file}")
    if lower_case is None:
        setting = settings.get("do_lower_case")
        capitals = any(
            token not in SPECIAL_TOKENS and token != token.lower() and not token.startswith("[") for token in vocab
        )
        lower_case = setting if isinstance(setting, bool) else not capitals
    accents = settings.get("strip_accents")
    return bert_tokenizer(
        vocab,
        lower_case=lower_case,
        strip_accents=accents if isinstance(accents, bool) else None,
        chinese=bool(settings.get("tokenize_chinese_chars", True)),
    )


def _require_special(present: Iterable[str], where: str) -> None:
    known = set(present)
    missing = [token for token in SPECIAL_TOKENS if token not in known]
    if missing:
        raise ValueError(
            f"{where}: the vocabulary lacks special tokens; expected {' '.join(SPECIAL_TOKENS)}, got none of "
            f"{' '.join(missing)}. Add the missing tokens, each on its own line, or train a new vocabulary."
        )
