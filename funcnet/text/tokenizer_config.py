"""Read a tokenizer's small settings files in the same way as transformers' `BertTokenizerFast`.

`tokenizer_config.json` sets the treatment of capitals, accents and Chinese characters, and takes precedence over
`tokenizer.json`. `added_tokens.json` and `special_tokens_map.json` are older files, whose content is part of
`tokenizer_config.json` today. If `tokenizer_config.json` does not set `do_lower_case`, the setting of `tokenizer.json`
is used, whereas `BertTokenizerFast` of transformers 4 lower-cases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, normalizers

from funcnet.files import parse_json

__all__ = ["add_tokens", "apply_tokenizer_config", "read_tokenizer_config"]

GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # classes that use tokenizer.json without changes
SPECIAL = ("unk", "sep", "pad", "cls", "mask")
NORMALIZER = {  # field of the normaliser -> name of the setting
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}


def read_tokenizer_config(directory: Path) -> dict[str, object]:
    """Return the settings of `tokenizer_config.json`, `added_tokens.json` and `special_tokens_map.json`, or {} if none
    of these files exists.

    Args:
        directory: directory of the tokenizer.

    Raises:
        ValueError: if a file is not JSON, two added tokens have the same id, or a special token has an unsupported
            name.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "tokenizer_config.json").write_text('{"do_lower_case": false}')
        ...     read_tokenizer_config(Path(folder))["do_lower_case"]
        False

    Reference: `transformers.PreTrainedTokenizerBase.from_pretrained`
    """
    settings = _read(directory / "tokenizer_config.json")
    if "added_tokens_decoder" not in settings:
        settings |= _read(directory / "special_tokens_map.json")
        settings["added_tokens_decoder"] = _decoder(directory / "added_tokens.json", settings)
    for name in SPECIAL:
        token, usual = _content(settings.get(f"{name}_token")), f"[{name.upper()}]"
        if token not in (None, usual):
            raise ValueError(
                f"load_tokenizer: {name}_token has an unsupported name in {directory}; expected {usual}, got "
                f"{token!r}. Rename the token in the vocabulary, tokenizer.json and tokenizer_config.json."
            )
    return settings


def apply_tokenizer_config(tokenizer: Tokenizer, settings: Mapping[str, object]) -> None:
    """Apply settings to the normaliser of a `tokenizer.json`, leaving all other options unchanged.

    Args:
        tokenizer: tokenizer that is changed in place, if its normaliser is BERT's.
        settings: settings from `read_tokenizer_config`. If their `tokenizer_class` is one of `GENERIC`, the tokenizer
            does not change.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> tokenizer = train_wordpiece(["aa ab"] * 2, vocab_size=9)
        >>> apply_tokenizer_config(tokenizer, {"do_lower_case": False})
        >>> tokenizer.normalizer.normalize_str("Ab")
        'Ab'

    Reference: `transformers.BertTokenizerFast.__init__`
    """
    state = json.loads(tokenizer.to_str())["normalizer"] or {}
    if state.pop("type", None) != "BertNormalizer" or settings.get("tokenizer_class") in GENERIC:
        return
    for field, name in NORMALIZER.items():
        value = settings.get(name, state[field])
        if isinstance(value, bool) or (value is None and field == "strip_accents"):
            state[field] = value
    tokenizer.normalizer = normalizers.BertNormalizer(**state)


def add_tokens(tokenizer: Tokenizer, settings: Mapping[str, object], where: str) -> None:
    """Add to a tokenizer the tokens that its settings list.

    The ids of new tokens must directly follow the ids of the vocabulary. Tokens that are in the vocabulary keep their
    ids even if the settings give them other ids, as in transformers.

    Args:
        tokenizer: tokenizer that is changed in place.
        settings: settings from `read_tokenizer_config`.
        where: path of the directory, for error messages.

    Raises:
        ValueError: if a new token would get an id that differs from the one in the settings, the settings name a new
            token without an id, or the added tokens have the wrong form.

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
                f"id {first}, got {index}. Use the files that the model was trained with."
            )
        tokenizer.add_tokens([token])
    for token in map(_content, _list(settings, "additional_special_tokens")):
        if token is not None and tokenizer.token_to_id(token) is None:
            raise ValueError(
                f"load_tokenizer: {where}: an additional special token is not in the vocabulary; expected an id for "
                f"each special token, got none for {token!r}. Add it to the vocabulary, or remove it from the settings."
            )


def _added(settings: Mapping[str, object], where: str) -> list[tuple[int, AddedToken]]:
    found = settings.get("added_tokens_decoder") or {}
    try:
        tokens = {
            int(index): AddedToken(**{name: value for name, value in token.items() if name != "__type"})
            for index, token in found.items()  # type: ignore[attr-defined]
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"load_tokenizer: {where}: the added tokens have the wrong form; expected a map from ids to tokens, got "
            f"{found!r:.80}. Correct added_tokens.json or tokenizer_config.json."
        ) from None
    return sorted(tokens.items(), key=lambda item: item[0])


def _decoder(file: Path, settings: Mapping[str, object]) -> dict[str, object]:
    """Convert `added_tokens.json`, which maps tokens to ids, to the form of `tokenizer_config.json`, which maps ids to
    tokens.
    """
    special = [_content(token) for token in _list(settings, "additional_special_tokens")]
    decoder: dict[str, object] = {}
    for token, index in _read(file).items():
        if str(index) in decoder:
            raise ValueError(
                f"load_tokenizer: {file} has two tokens with the same id; expected a different id for each token, got "
                f"{index} again for {token!r}. Use the file that the model was trained with."
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
    """Return the text of a token that a settings file gives as a string, or as an object with the field `content`."""
    return token.get("content") if isinstance(token, dict) else token
