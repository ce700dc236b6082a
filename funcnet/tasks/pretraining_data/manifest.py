"""The files of a data directory, and its manifest: the settings, the files of the corpus, and the files that were
written.

    manifest.json               settings, source files with their digests, digest of the vocabulary, size of every file
    vocab.txt, tokenizer*.json  the vocabulary
    documents-SSSSS.arrow       length, digest and number of sentences of each document in a shard
    tokens-SSSSS.arrow          concatenated token ids of the training documents
    sentences-SSSSS.arrow       length of each sentence, and the document that contains it
    pairs-TTT-PP-SSSSS.arrow    pairs of one pass for rows of T tokens
    held-out-tokens.arrow, held-out-pairs-TTT.arrow
    counts.arrow                number of occurrences of each token in the training documents
    report.json, report.txt     statistics of the data; the command adds report.png
    work/                       only during a build: sentences as text, and pairs before random partners are drawn

A shard contains about 16 million characters of the corpus, which may come from several files. A directory of imported
examples has no files of documents and sentences.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.files import file_digest, json_digest, lock_folder, read_json, write_json
from funcnet.settings import differences
from funcnet.tasks.pretraining_data.known_files import Known, key_of
from funcnet.tasks.pretraining_data.shard import is_whole, origin_of
from funcnet.text import Corpus

__all__ = [
    "EXAMPLES",
    "FORMAT",
    "SILENT",
    "VOCABULARY",
    "DataFiles",
    "Manifest",
    "Progress",
    "SourceFile",
    "describe_file",
    "describe_source",
    "describe_sources",
    "file_problem",
    "lock_build",
    "read_manifest",
    "refuse_changes",
    "refuse_changes_meanwhile",
    "write_manifest",
]

FORMAT = 3  # version of the files and of the construction of pairs; data of another version must be built again
EXAMPLES = "examples"  # the layout of imported examples, whose documents are unknown
VOCABULARY = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
REPORTS = ("report.json", "report.txt")
MOST_LISTED = 5  # maximum number of changes that a message lists
Progress = Callable[[str, int, int], object]
SILENT: Progress = lambda step, done, total: None


@dataclass(frozen=True)
class SourceFile:
    """The state of a file of the corpus when a build read it: path, name, size, modification time and SHA-256
    digest.
    """

    path: str
    name: str
    bytes: int
    mtime_ns: int
    sha256: str

    @property
    def key(self) -> tuple[str, int, int]:
        """The key of the file in a `Known`."""
        return self.path, self.bytes, self.mtime_ns


@dataclass
class Manifest:
    """The sources and settings of a data directory, and the state of its build.

    Attributes:
        settings: the result of `DataSettings.recorded`.
        layout: how plain text is divided into documents (see `Corpus`), or `EXAMPLES`.
        sources: the files of the corpus.
        vocabulary: digest of the vocabulary, or None before it is written.
        shards: number of shards, or None before the text is read.
        files: the entry of `describe_file` for every file. None before the build ends.
    """

    settings: dict[str, Any]
    layout: str
    sources: list[SourceFile]
    vocabulary: str | None = None
    shards: int | None = None
    files: dict[str, Any] | None = None

    @functools.cached_property
    def plan(self) -> str:
        """A digest of everything that determines the bytes of the directory, except for a trained vocabulary."""
        names = [(source.name, source.sha256) for source in self.sources]
        return json_digest({"format": FORMAT, "settings": self.settings, "sources": names, "layout": self.layout})

    def origin(self, name: str = "") -> dict[str, str]:
        """Return {"plan": digest, "vocabulary": digest}, the digests of what a file is made from. The files of
        documents do not depend on the vocabulary and have only "plan".
        """
        plan = {"plan": self.plan}
        return plan if name.startswith("documents") else {**plan, "vocabulary": self.vocabulary or ""}


@dataclass(frozen=True)
class DataFiles:
    """The paths of the files in a data directory."""

    folder: Path

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def counts(self) -> Path:
        return self.folder / "counts.arrow"

    @property
    def held_out_tokens(self) -> Path:
        return self.folder / "held-out-tokens.arrow"

    @property
    def held_out_sentences(self) -> Path:
        return self.work / "held-out.txt"

    def held_out_pairs(self, seq_len: int) -> Path:
        return self.folder / f"held-out-pairs-{seq_len}.arrow"

    def shard(self, kind: str, number: int) -> Path:
        """Return the path of a shard of "documents", "tokens" or "sentences"."""
        return self.folder / f"{kind}-{number:05}.arrow"

    def pairs(self, seq_len: int, number: int, shard: int) -> Path:
        """Return the path of the file with the sentence pairs that one pass over a shard makes. `number` is the number
        of the pass.
        """
        return self.folder / f"pairs-{seq_len}-{number:02}-{shard:05}.arrow"

    def text(self, shard: int) -> Path:
        return self.work / f"text-{shard:05}.txt"

    def cuts(self, seq_len: int, number: int, shard: int) -> Path:
        return self.work / f"cuts-{seq_len}-{number:02}-{shard:05}.arrow"

    def all(self, manifest: Manifest) -> list[Path]:
        """Return the paths of all files of a complete directory with this manifest, except the manifest itself."""
        settings, shards = manifest.settings, range(manifest.shards or 0)
        kinds = ["tokens"] if manifest.layout == EXAMPLES else ["tokens", "documents", "sentences"]
        passes = [(seq_len, number) for seq_len in settings["seq_len"] for number in range(settings["passes"])]
        held_out = [self.held_out_tokens, *map(self.held_out_pairs, settings["seq_len"])]
        return [
            *(self.shard(kind, shard) for shard in shards for kind in kinds),
            *(self.pairs(seq_len, number, shard) for seq_len, number in passes for shard in shards),
            *(held_out if settings["held_out"] else []),
            self.counts,
            *(self.folder / name for name in (*VOCABULARY, *REPORTS)),
        ]


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a data directory, or None if the folder has no manifest. Raise a ValueError if the
    manifest has another format or was changed.
    """
    path = folder / "manifest.json"
    if not path.exists():
        return None
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        got = found.get("format") if isinstance(found, dict) else "a file that is not a JSON object"
        raise ValueError(
            f"data: {path} is not a manifest of this version; expected format {FORMAT}, got {got}. Build the "
            "data again in another folder."
        )
    try:
        plan = found["plan"]
        values = {field.name: found[field.name] for field in dataclasses.fields(Manifest)}
        manifest = Manifest(**{**values, "sources": [SourceFile(**source) for source in found["sources"]]})
        is_whole = manifest.plan == plan
    except (KeyError, TypeError):
        is_whole = False
    if not is_whole:
        raise ValueError(
            f"data: {path} was changed by hand or by another program; expected the original content, got settings or "
            "sources that do not match its digest. Restore it, or build the data again in another folder."
        )
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest atomically."""
    values = dataclasses.asdict(manifest)
    order = ("settings", "layout", "vocabulary", "shards", "files", "sources")
    written = {"format": FORMAT, "plan": manifest.plan, **{name: values[name] for name in order}}
    write_json(folder / "manifest.json", written)


def lock_build(folder: Path, progress: Progress) -> AbstractContextManager[None]:
    """Create the folder of a build, wait until no other process builds in this folder, and lock it."""
    folder.mkdir(parents=True, exist_ok=True)
    return lock_folder(folder, lambda: progress("waiting for another build", 0, 1))


def describe_file(path: Path) -> dict[str, Any]:
    """Return the size of a file, and the SHA-256 digest of its bytes unless the file itself contains a digest."""
    size = {"bytes": path.stat().st_size}
    return size if path.suffix == ".arrow" else {**size, "sha256": file_digest(path)}


def file_problem(path: Path, described: dict[str, Any], origin: Mapping[str, str], *, every_byte: bool) -> str | None:
    """Describe for an error message what is wrong with a file of a data directory. Return None if the file is intact.

    `described` is the entry of the file in the manifest, and `origin` has the digest of the settings and the corpus,
    and that of the vocabulary, from which the file must have been made. If `every_byte` is True, the complete file is
    read, and its SHA-256 digest is compared with that of the manifest or of the shard itself.
    """
    size = path.stat().st_size if path.is_file() else None
    if size is None:
        return f"is missing; expected {described['bytes']:,} bytes, got no file"
    if size != described["bytes"]:
        return f"is truncated or changed; expected {described['bytes']:,} bytes, got {size:,}"
    made_from = origin_of(path) if path.suffix == ".arrow" else {}
    for what, digest in (made_from or {}).items():
        if digest != (expected := origin.get(what, "none")):
            other = "corpus" if what == "plan" else what
            return (
                f"was made with another {other} than {path.parent}; expected SHA-256 {expected:.12}…, got {digest:.12}…"
            )
    if made_from is None or (
        every_byte and (describe_file(path) != described or (made_from and not is_whole(path, made_from)))
    ):
        return "is damaged or changed; expected the original bytes, got others (the digest differs)"
    return None


def describe_source(path: Path, known: Known | None = None) -> SourceFile:
    """Describe the current state of a file of the corpus. If its digest is known, the file is not read."""
    key = key_of(path)
    return SourceFile(key[0], path.name, *key[1:], (known or {}).get(key) or file_digest(path))


def describe_sources(corpus: Corpus, known: Known, progress: Progress) -> list[SourceFile]:
    """Describe all files of a corpus. Files whose digests are known are not read."""
    found: list[SourceFile] = []
    for source in corpus.sources:
        progress("reading", len(found), len(corpus.sources))
        found.append(describe_source(source.path, known))
    progress("reading", len(found), len(found))
    return found


def refuse_changes(folder: Path, before: Manifest, now: Manifest) -> None:
    """Raise a ValueError if a build would continue with other settings or another corpus. The message lists the
    differences.
    """
    old, new = ({**one.settings, "layout": one.layout} for one in (before, now))
    if changed := differences({name: old.get(name) for name in new}, new):
        raise ValueError(
            f"data build: {folder} was built with other settings; expected the same settings, got: "
            f"{'; '.join(changed)}. Use the original settings, or another --out."
        )
    lines = _changes(before.sources, now.sources)
    if lines:
        more = f"; and {len(lines) - MOST_LISTED} more" if len(lines) > MOST_LISTED else ""
        raise ValueError(
            f"data build: the corpus has changed since the build in {folder} started; expected the same files, got: "
            f"{'; '.join(lines[:MOST_LISTED])}{more}. Restore the files, or use another --out."
        )


def refuse_changes_meanwhile(manifest: Manifest) -> None:
    """Raise a ValueError if a file of the corpus has changed since its digest was computed. After such a change, the
    digest in the manifest does not describe the text that the build has read. The message names the first changed file.
    """
    for source in manifest.sources:
        path = Path(source.path)
        status = path.stat() if path.exists() else None
        if status is None or (status.st_size, status.st_mtime_ns) != (source.bytes, source.mtime_ns):
            got = "no file" if status is None else f"{status.st_size:,} bytes, changed since"
            raise ValueError(
                f"data build: {path} changed while it was read; expected its {source.bytes:,} bytes to stay the same, "
                f"got {got}. Run the command again when no other program writes to the file."
            )


def _changes(before: Sequence[SourceFile], now: Sequence[SourceFile]) -> list[str]:
    """Compare the files of a corpus with those in a manifest. Return one line for each file that is missing, new or
    changed. If the same files are only in a different folder, the list is empty.
    """
    if [(one.name, one.sha256) for one in before] == [(one.name, one.sha256) for one in now]:
        return []
    old, new = {one.path: one for one in before}, {one.path: one for one in now}
    lines = [f"{path} is missing" for path in old if path not in new]
    lines += [f"{path} is new" for path in new if path not in old]
    lines += [
        f"{path} has other text ({old[path].bytes:,} bytes, now {new[path].bytes:,})"
        for path in old
        if path in new and old[path].sha256 != new[path].sha256
    ]
    return lines or ["the files are in a different order"]
