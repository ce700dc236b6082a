"""The head of a model's directory: its name and settings (`finetuning.json`), its tokenizer, the length of its rows.

Training writes the file; predicting, features and serving read it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from tokenizers import Tokenizer

from funcnet import text
from funcnet.files import read_json, write_json
from funcnet.heads.head import Head, ModelConfig, TrainedHead
from funcnet.heads.reading.examples import Columns

__all__ = ["check_length", "open_head", "read_settings", "write_settings"]

AnyHead = TypeVar("AnyHead", bound=Head)

SETTINGS = "finetuning.json"


def open_head(
    path: Path,
    config: ModelConfig,
    name: str | None,
    where: str,
    *,
    heads: Sequence[type[AnyHead]],
    max_length: int | None = None,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[AnyHead, Tokenizer, int]:
    """The head of a model's directory, with the tokenizer and the length of a row.

    Args:
        path: a directory of Hugging Face's files, with or without `finetuning.json`.
        config: what its config.json says.
        name: of the head; None: the one that was fine-tuned, else the usual one of the architecture.
        where: what messages begin with.
        heads: those to choose from, of the table.
        max_length: tokens of the longest row; None: as it was fine-tuned, else what the position table holds.
        more: settings of the head that no file has.

    Returns:
        (head, tokenizer, tokens of the longest row).

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: an unknown name, a name that does not fit the architecture, wrong settings, a vocabulary or a length
            that does not fit the model.
    """
    settings = read_settings(path)
    known = list(dict.fromkeys(known for head in heads for known in head.names))
    if name is not None and name not in known:
        raise ValueError(f"{where}: task is not known; expected one of {', '.join(known)}, got {name!r}.")
    architecture, *_ = (read_json(path / "config.json") or {}).get("architectures") or ["none"]
    fits = {one: head for head in heads for one in head.fits(architecture, config)}
    if name is None:
        if not fits:
            expected = dict.fromkeys(one for head in heads for one in head.architectures())
            raise ValueError(
                f"{where}: {path}: the architecture fits no task; expected one of {', '.join(expected)}, got "
                f"{architecture}. Name the task."
            )
        name = settings["name"] if settings.get("name") in fits else next(iter(fits))
    elif name == "pairs" and settings.get("pairs") is None:
        settings["pairs"] = True
    if fits and name not in fits:
        raise ValueError(
            f"{where}: {path}: its head was not made for this task; expected {' or '.join(map(repr, fits))}, of a "
            f"{architecture} with problem_type {config.problem_type!r} and {config.num_labels} labels, got {name!r}. "
            "Leave task out, or take another model."
        )
    by_config = {one: head for head in heads for one in head.fits(head.architecture, config)}
    kind = fits.get(name) or by_config.get(name) or next(head for head in heads if name in head.names)
    head = kind.from_directory(name, config, {**settings, **more})
    if name == "pairs" and head.reads_pairs is False:
        raise ValueError(
            f"{where}: {path} was fine-tuned on single texts; expected {next(iter(fits))!r}, got 'pairs'. Leave task "
            "out."
        )
    tokenizer = text.load_tokenizer(path)
    text.require_fit(tokenizer, config.vocab_size, where=f"{where}: {path}")
    seq_len = int(settings.get("seq_len", config.max_position_embeddings)) if max_length is None else max_length
    check_length(seq_len, config.max_position_embeddings, f"{where}: max_length", path)
    return head, tokenizer, seq_len


def read_settings(directory: Path) -> dict[str, Any]:
    """What `funcnet finetune` wrote beside the model; empty if the directory is from elsewhere.

    Raises:
        ValueError: the file is there, but it is not as it was written.
    """
    file = directory / SETTINGS
    settings = read_json(file) if file.exists() else {}
    if not isinstance(settings, dict):
        raise ValueError(
            f"{file}; expected a JSON object, got something else. Remove the file to use the default settings."
        )

    def refuse(name: str, expected: str) -> None:
        raise ValueError(f"{file}: {name}; expected {expected}, got {settings[name]!r}.")

    for name in ("seq_len", "doc_stride", "n_best", "max_answer"):
        if type(value := settings.get(name, 1)) is not int or value < 1:
            refuse(name, "a whole number from 1 on")
    if settings.get("long_texts", "cut") not in ("cut", "parts"):
        refuse("long_texts", "'cut' or 'parts'")
    if not isinstance(settings.get("pairs"), bool | None):
        refuse("pairs", "true, false or null")
    if type(settings.get("null_threshold", 0.0)) not in (int, float):
        refuse("null_threshold", "a number")
    if "columns" in settings:
        try:
            settings["columns"] = Columns(**settings["columns"])
        except TypeError:
            refuse("columns", f"an object with {', '.join(field.name for field in dataclasses.fields(Columns))}")
    return settings


def write_settings(directory: Path, head: TrainedHead, seq_len: int) -> None:
    """Writes `finetuning.json`."""
    write_json(directory / SETTINGS, {"seq_len": seq_len, **head.settings()})


def check_length(length: int, positions: int, where: str, directory: str | Path) -> None:
    """Refuses rows of fewer than 8 tokens, and rows longer than the position table.

    Args:
        length: tokens of the longest row.
        positions: rows of the position table.
        where: the setting, for the message.
        directory: of the model, for the message.

    Raises:
        ValueError: `length` is not 8 to `positions`.

    Example:
        >>> check_length(128, 512, "--seq-len", "model")
    """
    if not 8 <= length <= positions:
        raise ValueError(
            f"{where}; expected 8 to {positions}, the size of {directory}'s position table, got {length}. Choose a "
            "length in between."
        )
