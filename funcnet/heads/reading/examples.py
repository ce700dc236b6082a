"""Converts the rows of files to examples. Every example has its place in the file, for error messages.

By default, the names of the columns are `text`, `text_b` (the second text of a pair) and `label`. The columns of tagged
sentences are `tokens` and `tags`. Files for multiple choice have the choices as a list in the column `choices`, or one
column per choice (`choice0`, `choice1`, … or `ending0`, `ending1`, …).
"""

import difflib
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.heads.reading.labels import as_class, as_classes, as_index, as_number
from funcnet.heads.reading.tables import COLUMNS, Record, Table, read_table, read_text

__all__ = [
    "DEFAULT",
    "ChoiceExample",
    "Columns",
    "TextExample",
    "TokenExample",
    "read_choices",
    "read_texts",
    "read_tokens",
]


@dataclass(frozen=True)
class Columns:
    """Names of columns. None means the name that the task uses by default.

    Attributes:
        separator: separator between several labels in one cell.
    """

    text: str | None = None
    second: str | None = None
    label: str | None = None
    separator: str | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "Columns":
        """Return the names of columns in the settings of `funcnet finetune`.

        >>> Columns.from_settings({"text_column": "body"}).text
        'body'
        """
        names = ("text_column", "second_column", "label_column", "label_separator")
        return cls(*map(settings.get, names))


DEFAULT = Columns()


@dataclass(frozen=True)
class TextExample:
    """A text or a pair of texts.

    Attributes:
        label: a class, a tuple of classes, a number, or None.
        column: name of the column of the label.
    """

    text: str
    second: str | None
    label: Any
    where: str
    column: str = "label"

    @property
    def where_label(self) -> str:
        """Place of the label in the file, for error messages."""
        return f"{self.where}, column {self.column!r}"

    @property
    def group(self) -> Hashable:
        """Key that is equal for copies of a text. Examples with equal keys stay together when a file is split."""
        return self.text, self.second

    @property
    def is_empty(self) -> bool:
        """Whether the text is empty or consists of white space only."""
        return not (self.text + (self.second or "")).strip()


@dataclass(frozen=True)
class TokenExample:
    """A sentence, with one tag per word or `tags=None`. If `words` is a string, the tokenizer splits it into words."""

    words: list[str] | str
    tags: list[str] | None
    where: str
    is_empty = False

    @property
    def group(self) -> Hashable:
        """Key that is equal for copies of a sentence."""
        return tuple(self.words)


@dataclass(frozen=True)
class ChoiceExample:
    """A text and its possible continuations. `label` is the index of the right choice, from 0."""

    text: str
    choices: list[str]
    label: int | None
    where: str
    is_empty = False

    @property
    def group(self) -> Hashable:
        """Key that is equal for copies of a text with its choices."""
        return self.text, *self.choices


def read_texts(
    path: str | Path, columns: Columns, *, pairs: bool | None = False, numbers: bool = False, labelled: bool = True
) -> list[TextExample]:
    """Read the texts, or pairs of texts, in a file.

    Args:
        path: file for `read_table`.
        columns: names of the columns.
        pairs: whether to read a second text. If None, a second text is read if the file has a column for it.
        numbers: whether labels are numbers.
        labelled: if True, every row must have a label. If False, no labels are read.

    Raises:
        ValueError: if `read_table` cannot read the file, or a column is missing.
        ValueError: if a label is missing, is not a number although `numbers` is True, or has a space before its quotes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "a.tsv")
        ...     _ = file.write_text("text\\tlabel\\nfine\\tgood\\n")
        ...     example, = read_texts(file, Columns())
        >>> example.text, example.label
        ('fine', 'good')
    """
    table = read_table(path)
    is_plain = table.columns == ["text"]  # lines of text have no names for columns
    text, second = columns.text if columns.text and not is_plain else "text", columns.second or "text_b"
    if pairs is None:
        pairs = _has_second(table, second)
    label = columns.label or "label"
    _require_columns(table, [text, *([second] if pairs else []), *([label] if labelled else [])])
    examples = []
    for row in table.rows:
        value = None
        if labelled:
            cell, where = row.values.get(label), f"read_table: {place(table.file, row.line)}, column {label!r}"
            value = as_number(where, cell) if numbers else as_classes(where, cell, columns.separator)
        one = _text(table.file, row, text)
        other = _text(table.file, row, second) if pairs else None
        examples.append(TextExample(one, other, value, place(table.file, row.line), label))
    return examples


def read_tokens(
    path: str | Path, columns: Columns, *, labelled: bool = True, known: Sequence[str] = ()
) -> list[TokenExample]:
    """Read sentences from JSON lines, from CoNLL columns, or from lines of text without tags.

    Every object of JSON lines has a list of words and a list of tags. A line of CoNLL columns has a word in its first
    column, and the tag of the word in its last column. Columns are separated by spaces or tabs, sentences by empty
    lines, and documents by `-DOCSTART-`. If `labelled` is False, each line of a `.txt` file is a sentence, unless all
    lines end in one of the tags in `known`, as in CoNLL's `test.txt`.

    Raises:
        ValueError: if `read_table` cannot read the file, a row has the wrong number of columns, or the two lists of an
            object have different lengths.
    """
    path = Path(path)
    if path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
        return _token_objects(read_table(path), columns, labelled)
    if path.suffix.lower() == ".txt" and not labelled and not _ends_in_tags(read_text(path), known):
        rows = read_table(path).rows
        return [TokenExample(row.values["text"], None, place(path, row.line)) for row in rows]
    return _conll(path, labelled)


def read_choices(path: str | Path, columns: Columns, *, labelled: bool = True) -> list[ChoiceExample]:
    """Read texts and their choices.

    The choices are a list in the column `choices`, or each choice has its own column: `choice0`, `choice1`, …, or
    `ending0`, `ending1`, …. If the file has the column `text_b` or `columns.second`, its text is put before each
    choice, as in SWAG.

    Raises:
        ValueError: if `read_table` cannot read the file, the number of choices differs between rows, or a label is out
            of range.
    """
    table = read_table(path)
    text, label = columns.text or "text", columns.label or "label"
    second = columns.second if columns.second else "text_b" if "text_b" in table.columns else None
    _require_columns(table, [text, *([second] if second else []), *([label] if labelled else [])])
    numbered = [name for name in table.columns if re.fullmatch(r"(choice|ending)_?\d+", name)]
    numbered.sort(key=lambda name: int(re.sub(r"\D", "", name)))  # by number, whatever the order of the columns
    if "choices" not in table.columns and len(numbered) < 2:
        raise ValueError(
            f"read_choices: {table.file}: no choices; expected a column 'choices' (lists) or the columns choice0, "
            f"choice1, …, got the columns {', '.join(table.columns)}. Rename the columns."
        )
    examples: list[ChoiceExample] = []
    for row in table.rows:
        where = place(table.file, row.line)
        in_list = "choices" in table.columns
        found = row.values.get("choices") if in_list else [_text(table.file, row, name) for name in numbered]
        expected = len(examples[0].choices) if examples else None
        if not isinstance(found, list) or len(found) < 2 or len(found) != (expected or len(found)):
            got = f"{len(found)} choices" if isinstance(found, list) else repr(found)
            raise ValueError(
                f"read_choices: {where}: wrong number of choices; expected {expected or 'at least 2'} choices, got "
                f"{got}."
            )
        wrong = [choice for choice in found if not isinstance(choice, str)]
        if wrong:
            raise ValueError(
                f"read_choices: {where}, column 'choices': a choice is not a string; expected strings, got "
                f"{wrong[0]!r:.40}."
            )
        begin = f"{_text(table.file, row, second)} " if second else ""
        choices = [f"{begin}{choice}" for choice in found]
        place_of_label = f"read_choices: {where}, column {label!r}"
        which = as_index(place_of_label, row.values.get(label), len(choices)) if labelled else None
        examples.append(ChoiceExample(_text(table.file, row, text), choices, which, where))
    return examples


def place(path: Path, line: int) -> str:
    """Describe the place of a row in a file, for error messages.

    >>> place(Path("a.csv"), 3)
    'a.csv, line 3'
    """
    return f"{path}, line {line}"


def _require_columns(table: Table, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in table.columns]
    if missing:
        advice = (
            "Rename the columns, or pass their names to `funcnet finetune` with --text-column, --second-column and "
            "--label-column"
            if table.file.suffix.lower() in COLUMNS
            else "Pass a .csv, .tsv or .jsonl file, because lines of text have no columns"
        )
        got = ", ".join(f"{name!r:.40}" for name in table.columns)
        near = difflib.get_close_matches(missing[0], table.columns, n=1)
        raise ValueError(
            f"read_table: {table.file}, line 1: no column {missing[0]!r}; expected the columns "
            f"{', '.join(map(repr, names))}, got {got}. {f'Nearest: {near[0]!r:.40}. ' if near else ''}{advice}."
        )


def _has_second(table: Table, second: str) -> bool:
    """Return whether the rows are pairs, or raise ValueError for a mix of pairs and single texts."""
    two = next((row for row in table.rows if row.values.get(second) is not None), None)
    one = next((row for row in table.rows if row.values.get(second) is None), None)
    if two is not None and one is not None:
        raise ValueError(
            f"read_table: {place(table.file, two.line)}, column {second!r}: this row has a second text; expected one "
            f"in every row or in no row, got none in line {one.line}. Remove this text, or add one to every row."
        )
    return two is not None


def _text(path: Path, row: Record, column: str) -> str:
    value = row.values.get(column)
    if not isinstance(value, str):
        raise ValueError(
            f"read_table: {place(path, row.line)}, column {column!r}: not a string; expected a string, got "
            f"{'nothing' if value is None else repr(value)[:40]}."
        )
    return value


def _token_objects(table: Table, columns: Columns, labelled: bool) -> list[TokenExample]:
    words, tags = columns.text or "tokens", columns.label or "tags"
    _require_columns(table, [words, *([tags] if labelled else [])])
    examples = []
    for row in table.rows:
        where = f"read_tokens: {place(table.file, row.line)}"
        found, marks = _list(where, row, words), None
        wrong = [one for one in found if not isinstance(one, str | int | float) or one != one]  # NaN is not a word
        if wrong:
            raise ValueError(
                f"{where}, column {words!r}: not a list of words; expected only words, got the item {wrong[0]!r:.40}."
            )
        if labelled:
            marks = [as_class(f"{where}, column {tags!r}", one) for one in _list(where, row, tags)]
            if len(found) != len(marks):
                raise ValueError(
                    f"{where}: the numbers of words and tags differ; expected one tag per word, got {len(found)} words "
                    f"and {len(marks)} tags."
                )
        examples.append(TokenExample([*map(str, found)], marks, place(table.file, row.line)))
    return examples


def _list(where: str, row: Record, column: str) -> list[Any]:
    value = row.values.get(column)
    if not isinstance(value, list):
        raise ValueError(f"{where}, column {column!r}: not a list; expected a list, got {value!r}.")
    return value


def _conll(path: Path, labelled: bool) -> list[TokenExample]:
    examples: list[TokenExample] = []
    sentence: list[list[str]] = []
    width = begin = 0
    for number, line in enumerate([*read_text(path).split("\n"), ""], start=1):
        cells = _cells(line)
        if cells and cells[0] == "-DOCSTART-":
            cells = []
        if not cells:
            if sentence:
                tags = [row[-1] for row in sentence] if labelled else None
                examples.append(TokenExample([row[0] for row in sentence], tags, place(path, begin)))
            sentence = []
            continue
        if not sentence:
            begin = number
        width = width or len(cells)
        if labelled and width < 2:
            raise ValueError(
                f"read_tokens: {place(path, number)}: the tag is missing; expected a word and its tag, separated by a "
                f"tab or a space, got {line!r}."
            )
        if len(cells) != width:
            raise ValueError(
                f"read_tokens: {place(path, number)}: wrong number of columns; expected {width} columns, got "
                f"{len(cells)}: {line[:60]!r}."
            )
        sentence.append(cells)
    if not examples:
        raise ValueError(f"read_tokens: {path} has no sentences; expected at least one, got none.")
    return examples


def _cells(line: str) -> list[str]:
    """Split a line into cells at spaces and tabs. Other white space, such as a no-break space, is part of a cell."""
    return [cell for cell in re.split(r"[ \t]+", line) if cell]


def _ends_in_tags(text: str, known: Sequence[str]) -> bool:
    rows = [cells for cells in map(_cells, text.split("\n")) if cells]
    return all(len(cells) > 1 and cells[-1] in known for cells in rows)
