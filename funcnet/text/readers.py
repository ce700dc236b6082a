"""Read the documents of one file, as a stream. The formats are text, JSON lines and Wikipedia dumps (all three may be
compressed), Parquet and Arrow.

No file is read into memory completely. Only a block of text and the current document are in memory.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from funcnet.files import wrong_json
from funcnet.text.compressed import BLOCK, Advance, open_bytes, read_block
from funcnet.text.wikipedia import read_pages

__all__ = ["Document", "Source", "SourceKind", "TextLayout", "beginning", "read_documents"]

TextLayout = Literal["blank-line", "file"]
SourceKind = Literal["text", "json-lines", "parquet", "arrow", "wikipedia"]

LONGEST_DOCUMENT = 1 << 24  # characters. Longer texts are split, so that a text file may exceed the memory.


@dataclass(frozen=True)
class Source:
    """A file of a corpus, and its format."""

    path: Path
    kind: SourceKind


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a file.

    Attributes:
        name: path of the file, and the number or title of the document if the file contains several.
        text: text as in the file, with `\\n` as newline.
        wikitext: whether the text is MediaWiki markup.
        hidden: for MediaWiki markup, the names of the namespaces whose links are not text; see `plain_text`.
    """

    name: str
    text: str
    wikitext: bool = False
    hidden: tuple[str, ...] = ()


def read_documents(source: Source, layout: TextLayout, field: str, advance: Advance) -> Iterator[Document]:
    """Yield the documents of one file, in order, including those that contain only white space.

    Args:
        source: file and its format.
        layout: layout of plain text. With `"file"`, a file is one document. With `"blank-line"`, a blank line ends a
            document.
        field: field of JSON lines, or column of Parquet and Arrow, that contains the text.
        advance: function that is called now and then with the fraction of the file that has been read, up to 1.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file does not have the format of its suffix. The message gives the position of the error in
            the file.
    """
    if source.kind == "parquet":
        yield from _parquet(source.path, field, advance)
    elif source.kind == "arrow":
        yield from _arrow(source.path, field)
    elif source.kind == "wikipedia":
        with open_bytes(source.path, advance) as stream:
            for page in read_pages(stream, source.path):
                yield Document(f"{source.path}:{page.title}", page.text, wikitext=True, hidden=page.hidden)
    elif source.kind == "json-lines":
        yield from _json_lines(source.path, field, advance)
    else:
        yield from _text(source.path, layout, advance)
    advance(1.0)


def beginning(source: Source, characters: int) -> str:
    """Return the first characters of a text file."""
    found, length = [], 0
    for block in _blocks(source.path, lambda share: None, size=1 << 15):
        found.append(block)
        length += len(block)
        if length >= characters:
            break
    return "".join(found)[:characters]


# --------------------------------------------------------------------------------------------------------------- text


def _text(path: Path, layout: TextLayout, advance: Advance) -> Iterator[Document]:
    if layout == "file":
        yield from _whole_file(path, advance)
        return
    number, length = 0, 0
    lines: list[str] = []
    for line in _lines(path, advance):
        blank = not line or line.isspace()
        if lines and (blank or length > LONGEST_DOCUMENT):
            number += 1
            yield Document(f"{path}:{number}", "\n".join(lines))
            lines, length = [], 0
        if not blank:
            lines.append(line)
            length += len(line)
    if lines:
        yield Document(f"{path}:{number + 1}", "\n".join(lines))


def _whole_file(path: Path, advance: Advance) -> Iterator[Document]:
    found: list[str] = []
    length = 0
    for block in _blocks(path, advance):
        found.append(block)
        length += len(block)
        if length > LONGEST_DOCUMENT:
            whole = "".join(found)
            cut = next((at for end in ("\n\n", "\n", " ") if (at := whole.rfind(end)) > 0), len(whole))
            yield Document(str(path), whole[:cut])
            found, length = [whole[cut:]], len(whole) - cut
    yield Document(str(path), "".join(found))


def _lines(path: Path, advance: Advance) -> Iterator[str]:
    carry = ""
    for block in _blocks(path, advance):
        *whole, carry = (carry + block).split("\n")
        yield from whole
        if len(carry) > LONGEST_DOCUMENT:
            yield carry
            carry = ""
    if carry:
        yield carry


def _blocks(path: Path, advance: Advance, size: int = BLOCK) -> Iterator[str]:
    """Yield the text of a file in blocks, with `\\n` as newline and without a byte order mark."""
    utf8 = codecs.getincrementaldecoder("utf-8")()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    done, first = 0, True
    with open_bytes(path, advance) as stream:
        while True:
            data = read_block(stream, size, path)
            pending = len(utf8.getstate()[0])
            try:
                text = utf8.decode(data, not data)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"read_corpus: {path} is not UTF-8; expected UTF-8 text, got byte "
                    f"0x{error.object[error.start]:02x} at byte {done - pending + error.start}. Convert the file, for "
                    f"example with `iconv -f {_likely_encoding(error.object)} -t utf-8`, or omit the file."
                ) from None
            done += len(data)
            if first and text:
                text, first = text.removeprefix("\ufeff"), False
            text = newlines.decode(text, not data)
            if text:
                yield text
            if not data:
                return


def _likely_encoding(data: bytes) -> str:
    return "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin1"


# --------------------------------------------------------------------------------------------------- rows with a field


def _json_lines(path: Path, field: str, advance: Advance) -> Iterator[Document]:
    for number, line in enumerate(_lines(path, advance), 1):
        if not line or line.isspace():
            continue
        if len(line) > LONGEST_DOCUMENT:
            raise ValueError(
                f"read_corpus: {path}, line {number} is too long; expected one object per line, of at most "
                f"{LONGEST_DOCUMENT:,} characters, got more. Write each object on its own line, not inside a list, and "
                "split longer texts."
            )
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # RecursionError for very deep nesting
            where, why = wrong_json(error, number)
            raise ValueError(
                f"read_corpus: {path}, {where}: not valid JSON; expected one object per line, got '{why}'. Write each "
                "object on its own line, not inside a list, or omit the file."
            ) from None
        if not isinstance(row, dict):
            raise ValueError(
                f"read_corpus: {path}, line {number}: not a JSON object; expected one object per line, got "
                f"{type(row).__name__}. Write each object on its own line, not inside a list, or omit the file."
            )
        if field not in row:
            raise ValueError(
                f"read_corpus: {path}, line {number} has no field {field!r}; expected an object with the text in this "
                f"field, got the fields {', '.join(map(repr, row)) or '(none)'}. Pass the name of the text field "
                "with --field, or omit the file."
            )
        yield Document(f"{path}:{number}", _string(row[field], path, f"line {number}", field))


def _parquet(path: Path, field: str, advance: Advance) -> Iterator[Document]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(path)
        _check_column(file.schema_arrow, field, path)
        done, total = 0, max(file.metadata.num_rows, 1)
        for batch in file.iter_batches(batch_size=1024, columns=[field]):
            for text in batch.column(0).to_pylist():
                done += 1
                yield Document(f"{path}:{done}", _string(text, path, f"row {done}", field))
            advance(done / total)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _no_table(path, "Parquet", error) from error


def _arrow(path: Path, field: str) -> Iterator[Document]:
    """Yield the documents of a file in Arrow's stream format, which `datasets` saves, or in Arrow's file format."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file:
            if file.read(6) == b"ARROW1":
                opened = pa.ipc.open_file(file)
                batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
            else:
                file.seek(0)
                opened = pa.ipc.open_stream(file)
                batches = iter(opened)
            _check_column(opened.schema, field, path)
            done = 0
            for batch in batches:
                for start in range(0, batch.num_rows, 1024):
                    for text in batch.column(field).slice(start, 1024).to_pylist():
                        done += 1
                        yield Document(f"{path}:{done}", _string(text, path, f"row {done}", field))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _no_table(path, "Arrow", error) from error


def _check_column(schema: Any, field: str, path: Path) -> None:
    if field not in schema.names:
        raise ValueError(
            f"read_corpus: {path} has no column {field!r}; expected a column of this name with the text, got the "
            f"columns {', '.join(map(repr, schema.names))}. Pass the name of the text column with --field."
        )


def _string(value: object, path: Path, place: str, field: str) -> str:
    if value is None:  # a row without text
        return ""
    if not isinstance(value, str):
        raise ValueError(
            f"read_corpus: {path}, {place}: {field!r} is not a string; expected a string, got {type(value).__name__}. "
            "Pass the name of the text field with --field."
        )
    # JSON can contain half of a surrogate pair, which UTF-8 cannot represent
    return value.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _no_table(path: Path, what: str, error: Exception) -> ValueError:
    return ValueError(
        f"read_corpus: {path} cannot be read; expected a complete {what} file, got '{error}'. Create the file again."
    )
