"""What the small files beside a vocabulary say of a tokenizer, read as transformers' `BertTokenizerFast` reads them.

`tokenizer_config.json` has the last word on capitals, accents and Chinese characters, also over a `tokenizer.json`;
`added_tokens.json` and `special_tokens_map.json` are older ways of saying what it says by now. Where it is silent on
`do_lower_case`, what `tokenizer.json` says holds; transformers 4's `BertTokenizerFast` lower-cases then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, normalizers

from funcnet.files import parse_json

_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # classes that take tokenizer.json as it is
_SPECIAL = ("unk", "sep", "pad", "cls", "mask")
_TOLD = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}


def read_settings(directory: Path) -> dict[str, object]:
    """`tokenizer_config.json`, with what older files say where it does not; {} without any.

    Args:
        directory: of the tokenizer.

    Raises:
        ValueError: a file is no JSON, two added tokens have one id, or one of the five special tokens has another name.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "tokenizer_config.json").write_text('{"do_lower_case": false}')
        ...     read_settings(Path(folder))["do_lower_case"]
        False

    Reference: `transformers.PreTrainedTokenizerBase.from_pretrained`
    """
    settings = _read(directory / "tokenizer_config.json")
    if "added_tokens_decoder" not in settings:
        settings |= _read(directory / "special_tokens_map.json")
        settings["added_tokens_decoder"] = _decoder(directory / "added_tokens.json", settings)
    for name in _SPECIAL:
        token, usual = _content(settings.get(f"{name}_token")), f"[{name.upper()}]"
        if token not in (None, usual):
            raise ValueError(
                f"load_tokenizer: {directory} gives {name}_token another name; expected {usual}, got {token!r}. Rename "
                "it in the vocabulary, tokenizer.json and tokenizer_config.json."
            )
    return settings


def apply_settings(tokenizer: Tokenizer, settings: Mapping[str, object]) -> None:
    """Gives a `tokenizer.json`'s normaliser what the settings say; what they leave out stays as it is.

    Args:
        tokenizer: changed in place, if its normaliser is BERT's.
        settings: as from `read_settings`. Those of a generic class (`_GENERIC`) change nothing.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> tokenizer = train_wordpiece(["aa ab"] * 2, vocab_size=9)
        >>> apply_settings(tokenizer, {"do_lower_case": False})
        >>> tokenizer.normalizer.normalize_str("Ab")
        'Ab'

    Reference: `transformers.BertTokenizerFast.__init__`
    """
    state = json.loads(tokenizer.to_str())["normalizer"] or {}
    if state.pop("type", None) != "BertNormalizer" or settings.get("tokenizer_class") in _GENERIC:
        return
    for field, name in _TOLD.items():
        told = settings.get(name, state[field])
        if isinstance(told, bool) or (told is None and field == "strip_accents"):
            state[field] = told
    tokenizer.normalizer = normalizers.BertNormalizer(**state)


def add_tokens(tokenizer: Tokenizer, settings: Mapping[str, object], where: str) -> None:
    """Adds the tokens that are told beside the vocabulary. Those that it lacks must follow it; those that it has keep
    its ids, whatever is told of them, as in transformers.

    Args:
        tokenizer: changed in place.
        settings: as from `read_settings`.
        where: the directory, for the message.

    Raises:
        ValueError: a token that the vocabulary lacks would have another id than told, or is named without one; a file
            is not as it should be.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> tokenizer = train_wordpiece(["aa ab"] * 2, vocab_size=9)
        >>> size = tokenizer.get_vocab_size()
        >>> add_tokens(tokenizer, {"added_tokens_decoder": {str(size): {"content": "[NEW]"}}}, "here")
        >>> tokenizer.encode("[NEW]").ids[1] == size
        True
    """
    known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    for index, token in _added(settings, where):
        first = tokenizer.get_vocab_size()
        if token.content in known:
            continue
        if tokenizer.token_to_id(token.content) is None and index != first:
            raise ValueError(
                f"load_tokenizer: {where}: the added token {token.content!r} does not follow the vocabulary; expected "
                f"id {first}, got {index}. Put the files there that the model was trained with."
            )
        tokenizer.add_tokens([token])
    for token in map(_content, _list(settings, "additional_special_tokens")):
        if token is not None and tokenizer.token_to_id(token) is None:
            raise ValueError(
                f"load_tokenizer: {where}: an additional special token is not in the vocabulary; expected all of them "
                f"there, got {token!r} without an id. Add it to the vocabulary, or take it out of the settings."
            )


def _added(settings: Mapping[str, object], where: str) -> list[tuple[int, AddedToken]]:
    told = settings.get("added_tokens_decoder") or {}
    try:
        tokens = {
            int(index): AddedToken(**{name: value for name, value in token.items() if name != "__type"})
            for index, token in told.items()  # type: ignore[attr-defined]
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"load_tokenizer: {where}: the added tokens are not as they should be; expected ids and tokens, got "
            f"{told!r:.80}. Mend added_tokens.json or tokenizer_config.json."
        ) from None
    return sorted(tokens.items(), key=lambda item: item[0])


def _decoder(file: Path, settings: Mapping[str, object]) -> dict[str, object]:
    """`added_tokens.json`, which has an id for each token, the other way round, as `tokenizer_config.json` tells it."""
    special = [_content(token) for token in _list(settings, "additional_special_tokens")]
    decoder: dict[str, object] = {}
    for token, index in _read(file).items():
        if str(index) in decoder:
            raise ValueError(
                f"load_tokenizer: {file} has two tokens of one id; expected an id for each, got {index} again for "
                f"{token!r}. Put the file there that the model was trained with."
            )
        decoder[str(index)] = {"content": token, "special": token in special, "normalized": token not in special}
    return decoder


def _read(file: Path) -> dict[str, object]:
    if not file.is_file():
        return {}
    config = parse_json(file, "load_tokenizer")
    return config if isinstance(config, dict) else {}


def _list(settings: Mapping[str, object], name: str) -> list[object]:
    found = settings.get(name)
    return found if isinstance(found, list) else []


def _content(token: object) -> object:
    """Its letters: a token is told as them, or as an object with them in it."""
    return token.get("content") if isinstance(token, dict) else token
