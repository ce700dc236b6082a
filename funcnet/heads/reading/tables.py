"""Reads files of rows as dicts: CSV, TSV, JSON lines and plain lines of text.

Error messages name the file, line and column. The suffix of a file determines its format.

- `.csv`: the format of RFC 4180. Inside quotes, a quote is written twice, and line breaks are allowed. The first line
  has the names of the columns. If this line has semicolons and no comma, semicolons separate the columns, as in the
  files that spreadsheets write in languages with decimal commas.
- `.tsv`, `.tab`: columns separated by tabs. Quotes are ordinary characters, as in GLUE's files. The first line has the
  names of the columns. In a `.tab` file of the program Orange, two further header lines are skipped.
- `.jsonl`, `.ndjson`, `.json`: one object per line.
- All other files: one text per line.

All files are UTF-8, with or without a byte-order mark, and may have any kind of line ends.
"""

import codecs
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.files import wrong_json

__all__ = ["COLUMNS", "OBJECTS", "Record", "Table", "read_table", "read_text", "require_characters", "tab_rows"]

TABS, OBJECTS = (".tsv", ".tab"), (".jsonl", ".ndjson", ".json")
COLUMNS = (".csv", *TABS, *OBJECTS)  # suffixes of the formats that have columns
SIGNS = {",": "commas", ";": "semicolons", "\t": "tabs"}
csv.field_size_limit(2**31 - 1)  # 128 kB by default, less than a long article


@dataclass(frozen=True)
class Record:
    """One row as {column: value}, and the number of its first line, from 1. Values are strings, except in JSON."""

    values: dict[str, Any]
    line: int


@dataclass(frozen=True)
class Table:
    """The rows of a file, and the names of its columns in the order of the file."""

    file: Path
    columns: list[str]
    rows: list[Record]


def read_table(path: str | Path) -> Table:
    """Read a file of rows. The docstring of this module describes the format for each suffix.

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if the file is not UTF-8, has no rows, has rows of different lengths, or has wrong quotes or invalid
            JSON. The message gives the line and column.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "a.csv")
        ...     _ = file.write_text('text,label\\n"Yes, really",good\\nno,bad\\n')
        ...     [row.values for row in read_table(file).rows]
        [{'text': 'Yes, really', 'label': 'good'}, {'text': 'no', 'label': 'bad'}]
    """
    path = Path(path)
    text = read_text(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        sign = _sign(path, text, ",;")
        advice = f"Put texts with {SIGNS[sign]} in double quotes, without a space before them"
        table = _named(path, list(_csv_records(path, text, sign)), advice)
    elif suffix in TABS:
        _sign(path, text, "\t")
        records = list(tab_rows(text))
        table = _named(path, _without_orange_head(records) if suffix == ".tab" else records, "Remove tabs from texts")
    elif suffix in OBJECTS:
        table = _objects(path, text)
    else:
        lines = [Record({"text": line}, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        table = Table(path, ["text"], lines)
    if not table.rows:
        raise ValueError(f"read_table: {path} has no rows; expected at least one, got none.")
    return table


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, with `\\n` for every line end and without a byte-order mark."""
    if not path.is_file():
        got = "a folder" if path.is_dir() else "nothing"
        raise FileNotFoundError(f"read_table: {path} is missing; expected a file, got {got}.")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith(b"PK\x03\x04"):
            raise ValueError(
                f"read_table: {path} is not a text file; expected UTF-8 text, got a spreadsheet or another zip archive."
                " If it is a spreadsheet, save it as CSV (UTF-8)."
            ) from None
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        coding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin1"
        raise ValueError(
            f"read_table: {path}, line {line}, byte {column}: not UTF-8; expected UTF-8 text, got byte "
            f"0x{data[error.start]:02x}. Convert the file, for example with `iconv -f {coding} -t utf-8`."
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def require_characters(path: Path, text: str, value: object, line: int = 1) -> None:
    """Raise ValueError for JSON with half of a surrogate pair, such as `\\ud83d` alone, which UTF-8 cannot encode.

    Args:
        path: path of the file, for error messages.
        text: the JSON.
        value: the parsed JSON.
        line: number of the line where the JSON begins, for error messages.
    """
    if "\\ud" not in text and "\\uD" not in text:
        return
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        line += text.count("\n", 0, max(0, text.lower().find(half)))
        raise ValueError(
            f"read_table: {path}, line {line}: half of a surrogate pair, {half}; expected complete characters, got a "
            "text that was probably cut inside an emoji. Remove the incomplete character."
        ) from None


def tab_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of every line of a tab-separated text that is not empty. Quotes are ordinary
    characters.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line:
            yield number, line.split("\t")


def _sign(path: Path, text: str, known: str) -> str:
    """Return the character that separates the columns in the first line. Raise ValueError if `known` does not contain
    this character.
    """
    number, head = next(((n, line) for n, line in enumerate(text.split("\n"), 1) if line), (1, ""))
    found = next((sign for sign in known if sign in head), None)
    other = next((sign for sign in SIGNS if sign in head), None)
    if found is None and other is not None:
        name = ".tsv, where quotes are ordinary characters" if known[0] == "," else ".csv"
        raise ValueError(
            f"read_table: {path}, line {number}: wrong separator; expected {SIGNS[known[0]]}, got {SIGNS[other]}: "
            f"{head[:60]!r}. Save the file with {SIGNS[known[0]]}, or rename it to {name}."
        )
    return found or known[0]


def _csv_records(path: Path, text: str, sign: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sign, strict=True)
    begin = 1
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            line, column, reason = _broken_quote(text, begin, sign)
            raise ValueError(
                f"read_table: {path}, line {line}, character {column}: wrong quoting; expected a "
                f"{SIGNS[sign][:-1]} or the end of the line after a closing quote, got {reason}. Inside a quoted "
                "field, write each quote twice."
            ) from None
        if cells:
            yield begin, cells
        begin = reader.line_num + 1


def _broken_quote(text: str, begin: int, sign: str) -> tuple[int, int, str]:
    """Return (line, character, error message) of the first wrong quote in the CSV record that begins at line
    `begin`.
    """
    start = 0
    for _ in range(begin - 1):
        start = text.index("\n", start) + 1
    inside, opened, at_start = False, start, True
    place = start
    while place < len(text):
        letter = text[place]
        if inside:
            if letter == '"' and text[place + 1 : place + 2] == '"':
                place += 1
            elif letter == '"':
                inside = False
                after = text[place + 1 : place + 2]
                if after not in ("", sign, "\n"):
                    line, column = _line_and_column(text, place + 1)
                    first, character = _line_and_column(text, opened)
                    of = f" of the field that begins in line {first}, character {character}" if first < line else ""
                    return line, column, f"{after!r} after the closing quote{of}"
        elif letter == '"' and at_start:
            inside, opened = True, place
        at_start = not inside and letter in (sign, "\n")
        place += 1
    return *_line_and_column(text, opened), "a quote that never closes"


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)


def _named(path: Path, records: list[tuple[int, list[str]]], advice: str) -> Table:
    """Convert records to a table. The first record has the names of the columns. The error message for a row with too
    many cells ends with `advice`.
    """
    if not records:
        return Table(path, [], [])
    head_line, columns = records[0][0], [name.strip() for name in records[0][1]]
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise ValueError(
            f"read_table: {path}, line {head_line}: column {twice[0]!r} occurs more than once; expected each name "
            f"once, got {', '.join(columns)}. Rename one of these columns."
        )
    for line, cells in records[1:]:
        if len(cells) != len(columns):
            wrong = (
                f"nothing in column {columns[len(cells)]!r}"
                if len(cells) < len(columns)
                else f"{cells[len(columns)][:40]!r} in column {len(columns) + 1}"
            )
            raise ValueError(
                f"read_table: {path}, line {line}: wrong number of columns; expected {len(columns)} columns "
                f"({', '.join(columns)}), got {len(cells)}: {wrong}. "
                f"{advice if len(cells) > len(columns) else 'Fill in the missing cells'}."
            )
    rows = [Record(dict(zip(columns, cells, strict=True)), line) for line, cells in records[1:]]
    return Table(path, columns, rows)


def _without_orange_head(records: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Remove the second and the third header line of a file of the program Orange. These lines have the types and the
    flags of the columns. The line of the flags may be empty.
    """
    kinds = {"d", "discrete", "c", "continuous", "string", "s", "t", "time", "m", "meta", "class", "i", "ignore", ""}
    flags = [cells for _, cells in records[1:3]]
    if not flags or not all(cell in kinds - {""} for cell in flags[0]):
        return records
    second = len(flags) > 1 and len(flags[1]) <= len(records[0][1]) and all(cell in kinds for cell in flags[1])
    return [records[0], *records[3 if second else 2 :]]


def _objects(path: Path, text: str) -> Table:
    rows: list[Record] = []
    columns: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            where, why = wrong_json(error, number)
            raise ValueError(
                f"read_table: {path}, {where}: invalid JSON; expected one object per line, got '{why}'. Write each "
                "object on its own line, not inside a list."
            ) from None
        require_characters(path, line, value, number)
        if not isinstance(value, dict):
            raise ValueError(
                f"read_table: {path}, line {number}: not an object; expected a JSON object such as "
                f'{{"text": …, "label": …}}, got {type(value).__name__}.'
            )
        rows.append(Record(value, number))
        columns.update(dict.fromkeys(value))
    return Table(path, list(columns), rows)
