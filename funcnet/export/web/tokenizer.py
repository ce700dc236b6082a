"""Write a tokenizer as data for `tokenizer.js`: its vocabulary, and tables of the characters that it changes or splits.

Browsers have newer Unicode tables than the tokenizer, and would give other ids. The tables of characters come from the
tokenizer itself, which is tested on all 1,112,064 characters.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tokenizers import Tokenizer

from funcnet import text

__all__ = ["tokenizer_data"]

WHERE = "web: the tokenizer"
BLOCK = 64  # characters that are tested together: most blocks stay as they are, and need no further tests
CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]


def tokenizer_data(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the JSON data from which `tokenizer.js` makes a tokenizer with the same ids.

    Args:
        tokenizer: a WordPiece tokenizer from `text.load_tokenizer`.

    Returns:
        `vocabulary` (tokens in the order of their ids), `added` (tokens that are found in the raw text), `special` (ids
        by name), `prefix`, `longest_word`, and tables of characters. The tables `removed`, `blank`, `apart`, `white`
        and `punctuation` are flat lists of the first and last codes of ranges. `replaced` maps a character to its
        normalised form. `replaced` leaves out a character if neither the character nor a letter of its form is in a
        token, because a word with this character is unknown in any case.

    Raises:
        ValueError: if the parts of the tokenizer are not those of BERT's tokenizer.

    Example:
        >>> data = tokenizer_data(text.train_wordpiece(["a cafe"] * 2, vocab_size=16))
        >>> data["vocabulary"][:6], data["replaced"]["É"]
        (['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a'], 'e')
    """
    settings = json.loads(tokenizer.to_str())
    _require_bert(tokenizer, settings)
    tokens, prefix = text.vocabulary(tokenizer), settings["model"]["continuing_subword_prefix"]
    white, punctuation = _separators(tokenizer)
    normalised = dict(_changed(tokenizer.normalizer.normalize_str))
    known = set("".join(token.removeprefix(prefix) for token in tokens)) | set(white) | set(punctuation)
    kinds: dict[str, list[str]] = {"removed": [], "blank": [], "apart": []}
    replaced = {}
    for character, form in normalised.items():
        kind = {"": "removed", " ": "blank", f" {character} ": "apart"}.get(form)
        if kind:
            kinds[kind].append(character)
        elif character in known or known.intersection(form):
            replaced[character] = form
    return {
        "vocabulary": tokens,
        "added": [token["content"] for token in settings["added_tokens"]],
        "special": {name.strip("[]").lower(): index for name, index in text.special_ids(tokenizer).items()},
        "prefix": prefix,
        "longest_word": settings["model"]["max_input_chars_per_word"],
        "white": _ranges(white),
        "punctuation": _ranges(punctuation),
        **{kind: _ranges(characters) for kind, characters in kinds.items()},
        "replaced": replaced,
    }


def _require_bert(tokenizer: Tokenizer, settings: Mapping[str, Any]) -> None:
    """Raise ValueError unless `tokenizer.js` supports all parts of the tokenizer."""
    for part, kind in (("model", "WordPiece"), ("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer")):
        found = (settings[part] or {}).get("type")
        if found != kind:
            raise ValueError(f"{WHERE} has another {part}; expected {kind}, got {found}.")
    if settings["model"]["unk_token"] != "[UNK]":
        raise ValueError(f"{WHERE} has another unknown token; expected [UNK], got {settings['model']['unk_token']!r}.")
    for token in settings["added_tokens"]:
        if token["normalized"] or token["single_word"] or token["lstrip"] or token["rstrip"]:
            raise ValueError(
                f"{WHERE} has an added token with options; expected tokens that are found in the raw text as they are, "
                f"got {token}."
            )
    ids = tokenizer.get_vocab(with_added_tokens=True)
    if sorted(ids.values()) != [*range(len(ids))]:
        raise ValueError(f"{WHERE} leaves ids out; expected the ids 0 to {len(ids) - 1}, got {max(ids.values())}.")
    pair = tokenizer.encode("", "")
    if (pair.tokens, pair.type_ids) != (["[CLS]", "[SEP]", "[SEP]"], [0, 0, 1]):
        raise ValueError(
            f"{WHERE} puts other special tokens around texts; expected [CLS] a [SEP] b [SEP] with types 0 and 1, got "
            f"{' '.join(pair.tokens)} with {pair.type_ids}."
        )


def _blocks() -> Iterator[str]:
    for start in range(0, len(CHARACTERS), BLOCK):
        yield "".join(CHARACTERS[start : start + BLOCK])


def _changed(normalise: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield (character, normalised form) of each character that normalisation changes."""
    for block in _blocks():
        if normalise(block) != block:
            yield from ((one, form) for one in block if (form := normalise(one)) != one)


def _separators(tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
    """Return two lists: the characters that separate words and are dropped, and the characters that become words
    themselves.
    """
    white: list[str] = []
    punctuation: list[str] = []
    split = tokenizer.pre_tokenizer.pre_tokenize_str
    for block in _blocks():
        if len(split(block)) == 1 and len(split(f"a{block}a")) == 1:
            continue
        for one in block:
            pieces = len(split(f"a{one}a"))
            if pieces > 1:
                (white if pieces == 2 else punctuation).append(one)
    return white, punctuation


def _ranges(characters: Iterable[str]) -> list[int]:
    """Return the first and last code of each run of consecutive characters, in one flat list.

    >>> _ranges("abcx")
    [97, 99, 120, 120]
    """
    found: list[int] = []
    for code in sorted(map(ord, characters)):
        if found and code == found[-1] + 1:
            found[-1] = code
        else:
            found += [code, code]
    return found
