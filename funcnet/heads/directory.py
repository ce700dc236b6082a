"""Opens the head of a model's directory, together with its settings, its tokenizer and the length of its rows.

Fine-tuning writes the settings to `finetuning.json`. Prediction, feature extraction and serving read these settings.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from tokenizers import Tokenizer

from funcnet import text
from funcnet.files import read_json, write_json
from funcnet.heads.head import Head, ModelConfig, TrainedHead
from funcnet.heads.input_settings import InputSettings
from funcnet.heads.reading.examples import Columns

__all__ = ["check_length", "open_head", "read_settings", "require_types", "write_settings"]

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
    """Open the head of a model's directory, with its tokenizer and the largest number of tokens per row.

    Args:
        path: directory of Hugging Face's files, with or without `finetuning.json`.
        config: config of the model.
        name: name of the task. None means the task for which the model was fine-tuned. If the model was not fine-tuned,
            None means the usual task of the architecture.
        where: prefix for error messages, such as the name of the caller.
        heads: heads to choose from.
        max_length: largest number of tokens per row. The default is the row length with which the model was fine-tuned,
            or the size of its position table if it was not fine-tuned.
        more: further settings of the head, which are added to those in `finetuning.json`.

    Returns:
        (head, tokenizer, largest number of tokens per row).

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if the name is unknown or does not fit the architecture, a setting is invalid, the vocabulary has
            more entries than the embedding table, the model has one token type and the task has rows of two texts, or
            `max_length` is out of range.

    Example:
        >>> import tempfile
        >>> from funcnet.heads.table import HEADS
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["fine soup", "bad soup"] * 2, vocab_size=30)
        >>> config = bert.BertConfig.preset("tiny", vocab_size=30, id2label={0: "bad", 1: "fine"})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_json(Path(folder, "config.json"), config.to_dict("BertForSequenceClassification"))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     head, _, longest = open_head(Path(folder), config, None, "example", heads=HEADS, max_length=16)
        >>> head.name, head.labels, longest
        ('classify', ('bad', 'fine'), 16)
    """
    settings = read_settings(path)
    known = list(dict.fromkeys(known for head in heads for known in head.names))
    if name is not None and name not in known:
        raise ValueError(f"{where}: task is unknown; expected one of {', '.join(known)}, got {name!r}.")
    architecture, *_ = (read_json(path / "config.json") or {}).get("architectures") or ["none"]
    fits = {one: head for head in heads for one in head.fits(architecture, config)}
    if name is None:
        if not fits:
            expected = dict.fromkeys(one for head in heads for one in head.architectures())
            raise ValueError(
                f"{where}: {path}: the architecture has no default task; expected one of the "
                f"architectures {', '.join(expected)}, got {architecture}. Pass the name of a task."
            )
        name = settings["name"] if settings.get("name") in fits else next(iter(fits))
    elif name == "pairs" and settings.get("pairs") is None:
        settings["pairs"] = True
    if settings.get("pairs") is None and config.type_vocab_size < 2:
        settings["pairs"] = False  # a second text would have token type 1, which is not in the table
    if fits and name not in fits:
        raise ValueError(
            f"{where}: {path}: the model's head was not trained for this task; expected {' or '.join(map(repr, fits))} "
            f"for a {architecture} with problem_type {config.problem_type!r} and {config.num_labels} labels, got "
            f"{name!r}. Omit the task, or choose another model."
        )
    by_config = {one: head for head in heads for one in head.fits(head.architecture, config)}
    kind = fits.get(name) or by_config.get(name) or next(head for head in heads if name in head.names)
    head = kind.from_directory(name, config, {**settings, **more})
    if name == "pairs" and head.reads_pairs is False:
        raise ValueError(
            f"{where}: {path} was fine-tuned on single texts; expected the task {next(iter(fits))!r}, got 'pairs'. "
            "Omit the task."
        )
    require_types(head, config, f"{where}: {path}")
    tokenizer = text.load_tokenizer(path)
    text.require_fit(tokenizer, config.vocab_size, where=f"{where}: {path}")
    seq_len = int(settings.get("seq_len", config.max_position_embeddings)) if max_length is None else max_length
    check_length(seq_len, config.max_position_embeddings, f"{where}: max_length", path)
    return head, tokenizer, seq_len


def read_settings(directory: Path) -> dict[str, Any]:
    """Return the contents of `finetuning.json`, or an empty dict if the file does not exist.

    Raises:
        ValueError: if the file is invalid, for example because it was edited.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_json(Path(folder, "finetuning.json"), {"seq_len": 64, "pairs": False})
        ...     read_settings(Path(folder))
        {'seq_len': 64, 'pairs': False}
    """
    file = directory / SETTINGS
    settings = read_json(file) if file.exists() else {}
    if not isinstance(settings, dict):
        raise ValueError(
            f"{file} is invalid; expected a JSON object, got other content. Remove the file to use the "
            "default settings."
        )

    def refuse(name: str, expected: str) -> None:
        raise ValueError(f"{file}: {name} is invalid; expected {expected}, got {settings[name]!r}.")

    for name, hint in get_type_hints(InputSettings).items():
        value = settings.get(name, getattr(InputSettings, name))
        if hint is int and (type(value) is not int or value < 1):
            refuse(name, "an integer >= 1")
        elif hint is float and type(value) not in (int, float):
            refuse(name, "a number")
        elif get_origin(hint) is Literal and value not in get_args(hint):
            refuse(name, " or ".join(map(repr, get_args(hint))))
    if not isinstance(settings.get("pairs"), bool | None):
        refuse("pairs", "true, false or null")
    if "columns" in settings:
        try:
            settings["columns"] = Columns(**settings["columns"])
        except TypeError:
            refuse(
                "columns", f"an object with the keys {', '.join(field.name for field in dataclasses.fields(Columns))}"
            )
    return settings


def write_settings(directory: Path, head: TrainedHead, seq_len: int) -> None:
    """Write the file `finetuning.json`, which `read_settings` reads.

    Args:
        directory: the folder of the model.
        head: the head, which says what is stored of it (`TrainedHead.settings`).
        seq_len: largest number of tokens per row.

    Raises:
        OSError: if the file cannot be written.

    Example:
        >>> import tempfile
        >>> from funcnet.heads.text import Classify
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_settings(Path(folder), Classify(labels=("bad", "fine")), seq_len=64)
        ...     settings = read_settings(Path(folder))
        >>> settings["name"], settings["seq_len"], "labels" in settings  # config.json has the labels
        ('classify', 64, False)
    """
    write_json(directory / SETTINGS, {"seq_len": seq_len, **head.settings()})


def require_types(head: Head, config: ModelConfig, where: str) -> None:
    """Raise ValueError if the rows of a head have more token types than the model. In a compiled program, such a token
    type would make all outputs NaN.

    Example:
        >>> from funcnet.heads.choice import Choice
        >>> from funcnet.models import bert
        >>> require_types(Choice(), bert.BertConfig(type_vocab_size=1), "model")
        Traceback (most recent call last):
        ValueError: model: the task 'choice' reads two texts in a row; expected a model with type_vocab_size >= 2 in \
config.json, got 1. Use another model, or a task with one text in a row.
    """
    if head.token_types > config.type_vocab_size:
        raise ValueError(
            f"{where}: the task {head.name!r} reads two texts in a row; expected a model with type_vocab_size >= "
            f"{head.token_types} in config.json, got {config.type_vocab_size}. Use another model, or a task with one "
            "text in a row."
        )


def check_length(length: int, positions: int, where: str, directory: str | Path) -> None:
    """Raise ValueError if a row length is less than 8 or more than the size of the position table.

    Example:
        >>> check_length(128, 512, "--seq-len", "model")
    """
    if not 8 <= length <= positions:
        raise ValueError(
            f"{where} is out of range; expected 8 to {positions} (the size of the position table in {directory}), got "
            f"{length}."
        )
