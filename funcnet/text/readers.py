"""One file -> its documents, streamed: text and JSON lines, compressed too, Parquet and Arrow.

Nothing here holds a file: memory is a block of text and the document that is being read.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from funcnet.files import wrong_json

Layout = Literal["blank-line", "file"]
Kind = Literal["text", "json-lines", "parquet", "arrow", "wikipedia"]
Advance = Callable[[float], None]

BLOCK = 1 << 20  # bytes read at a time
LONGEST_DOCUMENT = 1 << 24  # characters; a longer one is cut at a blank line, so that no file must fit into memory
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


@dataclass(frozen=True)
class Source:
    """A file of a corpus, and how it is read."""

    path: Path
    kind: Kind


@dataclass(frozen=True, slots=True)
class Document:
    """A document as its file holds it: `wikitext` says that the text is still MediaWiki's markup."""

    name: str
    text: str
    wikitext: bool = False


def read_documents(source: Source, layout: Layout, field: str, advance: Advance) -> Iterator[Document]:
    """The documents of one file, in order; those of nothing but white space too.

    Args:
        source: the file.
        layout: of plain text: a file is a document, or a blank line ends one.
        field: of JSON lines, Parquet and Arrow, the field or column with the text.
        advance: called now and then with the share of the file that has been read, up to 1.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not what its name says; the message has the place.
    """
    if source.kind == "parquet":
        yield from _parquet(source.path, field, advance)
    elif source.kind == "arrow":
        yield from _arrow(source.path, field)
    elif source.kind == "wikipedia":
        from funcnet.text.wikipedia import read_pages

        with open_bytes(source.path, advance) as stream:
            for title, text in read_pages(stream, source.path):
                yield Document(f"{source.path}:{title}", text, wikitext=True)
    elif source.kind == "json-lines":
        yield from _json_lines(source.path, field, advance)
    else:
        yield from _text(source.path, layout, advance)
    advance(1.0)


def beginning(source: Source, characters: int) -> str:
    """The first characters of a file of text."""
    found, length = [], 0
    for block in _blocks(source.path, lambda share: None, size=1 << 15):
        found.append(block)
        length += len(block)
        if length >= characters:
            break
    return "".join(found)[:characters]


def open_bytes(path: Path, advance: Advance) -> IO[bytes]:
    """A file's bytes, decompressed as its name says; reading it reports how far the file itself has been read."""
    try:
        raw = io.BufferedReader(_Counted(path, advance), BLOCK)
    except OSError as error:
        raise type(error)(unreadable(path, error)) from error
    opener = OPENERS.get(path.suffix.lower())
    return raw if opener is None else opener(raw, "rb")


def unreadable(path: Path, error: OSError) -> str:
    """What to say of a file that the system does not let us read."""
    return f"read_corpus: {path} cannot be read; expected readable text, got '{error.strerror}'. Check its permissions."


def broken(path: Path, error: Exception) -> ValueError:
    """A compressed file that ends too early or is none."""
    return ValueError(
        f"read_corpus: {path} cannot be decompressed; expected a whole {path.suffix[1:]} file, got '{error}'. "
        "Fetch or make it again."
    )


# --------------------------------------------------------------------------------------------------------------- text


def _text(path: Path, layout: Layout, advance: Advance) -> Iterator[Document]:
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
    held: list[str] = []
    length = 0
    for block in _blocks(path, advance):
        held.append(block)
        length += len(block)
        if length > LONGEST_DOCUMENT:
            whole = "".join(held)
            cut = next((at for end in ("\n\n", "\n", " ") if (at := whole.rfind(end)) > 0), len(whole))
            yield Document(str(path), whole[:cut])
            held, length = [whole[cut:]], len(whole) - cut
    yield Document(str(path), "".join(held))


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
    """The text of a file, newlines as `\\n`, without a byte order mark."""
    utf8 = codecs.getincrementaldecoder("utf-8")()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    done, first = 0, True
    with open_bytes(path, advance) as stream:
        while True:
            data = _read(stream, size, path)
            pending = len(utf8.getstate()[0])
            try:
                text = utf8.decode(data, not data)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"read_corpus: {path} is not UTF-8; expected UTF-8 text, got byte "
                    f"0x{error.object[error.start]:02x} at byte {done - pending + error.start}. Convert it (for "
                    f"example `iconv -f {_likely_encoding(error.object)} -t utf-8`), or leave it out."
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


def _read(stream: IO[bytes], size: int, path: Path) -> bytes:
    try:
        return stream.read(size)
    except BROKEN as error:
        raise broken(path, error) from error
    except OSError as error:
        if path.suffix.lower() in OPENERS and error.errno is None:  # so bz2 says that bytes are wrong
            raise broken(path, error) from error
        raise type(error)(unreadable(path, error)) from error


class _Counted(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: Path, advance: Advance):
        super().__init__(path, "rb")
        self._advance, self._size = advance, max(path.stat().st_size, 1)

    def readinto(self, buffer: Any) -> int | None:  # type: ignore[override]
        count = super().readinto(buffer)
        self._advance(min(self.tell() / self._size, 1.0))
        return count


# --------------------------------------------------------------------------------------------------- rows with a field


def _json_lines(path: Path, field: str, advance: Advance) -> Iterator[Document]:
    for number, line in enumerate(_lines(path, advance), 1):
        if not line or line.isspace():
            continue
        if len(line) > LONGEST_DOCUMENT:
            raise ValueError(
                f"read_corpus: {path}, line {number} is too long; expected an object a line, of {LONGEST_DOCUMENT:,} "
                "characters at most, got more. Write each object on one line, without a list around them, and cut "
                "longer texts."
            )
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # the latter of brackets within brackets
            where, why = wrong_json(error, number)
            raise ValueError(
                f"read_corpus: {path}, {where}: no JSON; expected an object a line, got '{why}'. Write each object on "
                "one line, without a list around them, or leave the file out."
            ) from None
        if not isinstance(row, dict):
            raise ValueError(
                f"read_corpus: {path}, line {number}: no JSON object; expected one a line, got {type(row).__name__}. "
                "Write each object on one line, without a list around them, or leave the file out."
            )
        if field not in row:
            raise ValueError(
                f"read_corpus: {path}, line {number} has no field {field!r}; expected an object with the text there, "
                f"got the fields {', '.join(map(repr, row)) or '(none)'}. Name the field: --field NAME, or leave the "
                "file out."
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
    """As Hugging Face's `datasets` saves: Arrow's stream format; its file format too."""
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
            f"read_corpus: {path} has no column {field!r}; expected one with the text, got the columns "
            f"{', '.join(map(repr, schema.names))}. Name the column: --field NAME."
        )


def _string(value: Any, path: Path, place: str, field: str) -> str:
    if value is None:  # a row without text
        return ""
    if not isinstance(value, str):
        raise ValueError(
            f"read_corpus: {path}, {place}: {field!r} is no text; expected a string, got {type(value).__name__}. "
            "Name another field: --field NAME."
        )
    # JSON can say half a surrogate pair, which no file can
    return value.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _no_table(path: Path, what: str, error: Exception) -> ValueError:
    return ValueError(
        f"read_corpus: {path} cannot be read; expected a whole {what} file, got '{error}'. Fetch or make it again."
    )
