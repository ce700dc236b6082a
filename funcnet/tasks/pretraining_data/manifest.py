"""What lies where in a data directory, and its manifest.

    manifest.json               settings, sources with their digests, the vocabulary's digest, every file's size
    vocab.txt, tokenizer*.json  the vocabulary
    documents-SSSSS.arrow       of each document of a shard: length, digest, sentences
    tokens-SSSSS.arrow          the training documents' ids, one after the other
    sentences-SSSSS.arrow       the length of each sentence, and the document that it is in
    pairs-TTT-PP-SSSSS.arrow    the pairs of a pass for rows of T tokens
    held-out-tokens.arrow, held-out-pairs-TTT.arrow
    counts.arrow                how often each token occurs in the training documents
    report.json, report.txt     what a person wants to know; report.png too where the command built
    work/                       while it is built: sentences as text, and pairs before partners are drawn

A shard is some 16 million characters of the corpus, wherever they lie. Imported examples have no documents and no
sentences.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.files import lock_folder, read_json, write_json
from funcnet.tasks.pretraining_data.shard import digest_of

FORMAT = 3  # of the files and of how pairs are drawn; another number and a directory is built anew
EXAMPLES = "examples"  # the layout of what was imported: Google's rows, of no known documents
VOCABULARY = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
REPORTS = ("report.json", "report.txt")
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Directory:
    """The names of the files in a data directory."""

    path: Path

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def counts(self) -> Path:
        return self.path / "counts.arrow"

    @property
    def held_out_tokens(self) -> Path:
        return self.path / "held-out-tokens.arrow"

    @property
    def held_out_sentences(self) -> Path:
        return self.work / "held-out.txt"

    def documents(self, shard: int) -> Path:
        return self.path / f"documents-{shard:05}.arrow"

    def tokens(self, shard: int) -> Path:
        return self.path / f"tokens-{shard:05}.arrow"

    def sentences(self, shard: int) -> Path:
        return self.path / f"sentences-{shard:05}.arrow"

    def text(self, shard: int) -> Path:
        return self.work / f"text-{shard:05}.txt"

    def cuts(self, seq_len: int, number: int, shard: int) -> Path:
        return self.work / f"cuts-{seq_len}-{number:02}-{shard:05}.arrow"

    def pairs(self, seq_len: int, number: int, shard: int) -> Path:
        return self.path / f"pairs-{seq_len}-{number:02}-{shard:05}.arrow"

    def held_out_pairs(self, seq_len: int) -> Path:
        return self.path / f"held-out-pairs-{seq_len}.arrow"

    def shards(self, told: Mapping[str, Any]) -> list[Path]:
        """Every file of columns that a complete directory with this manifest has."""
        settings, shards = told["settings"], range(told["shards"])
        each = [[self.tokens(shard)] for shard in shards]
        if told["layout"] != EXAMPLES:
            each += [[self.documents(shard), self.sentences(shard)] for shard in shards]
        pairs = [
            self.pairs(seq_len, number, shard)
            for seq_len in settings["seq_len"]
            for number in range(settings["passes"])
            for shard in shards
        ]
        held = [self.held_out_pairs(seq_len) for seq_len in settings["seq_len"]]
        held_out = [self.held_out_tokens, *held] if settings["held_out"] else []
        return [*(file for files in each for file in files), *pairs, *held_out, self.counts]

    def files(self, told: Mapping[str, Any]) -> list[Path]:
        """Every file but the manifest."""
        return [*self.shards(told), *(self.path / name for name in (*VOCABULARY, *REPORTS))]


def plan_digest(settings: Mapping[str, Any], sources: Sequence[Mapping[str, Any]], layout: str) -> str:
    """What every byte of a directory follows from, but for a vocabulary that is trained."""
    names = [(source["name"], source["sha256"]) for source in sources]
    return digest_of({"format": FORMAT, "settings": settings, "sources": names, "layout": layout})


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest, or None where there is none.

    Raises:
        ValueError: something lies there that is no manifest of this format, or one that was changed.
    """
    path = Directory(folder).manifest
    if not path.exists():
        return None
    told = read_json(path)
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        got = told.get("format") if isinstance(told, dict) else "no JSON object"
        raise ValueError(
            f"data: {path} is no manifest of this version; expected format {FORMAT}, got {got}. Build the data again, "
            "into another folder."
        )
    try:
        plan = plan_digest(told["settings"], told["sources"], told["layout"])
        whole = plan == told["plan"] and {"vocabulary", "shards", "files"} <= set(told)
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise ValueError(
            f"data: {path} was changed by hand or by another program; expected it as it was written, got settings or "
            "sources that its digest is not of. Put it back, or build the data again, into another folder."
        )
    return told


def write_manifest(folder: Path, told: Mapping[str, Any]) -> None:
    """Replaces the manifest, in one step."""
    write_json(Directory(folder).manifest, told)


@contextlib.contextmanager
def lock_build(folder: Path, progress: Progress | None) -> Iterator[None]:
    """Makes the folder, and waits until no other process builds in it."""
    folder.mkdir(parents=True, exist_ok=True)
    told = progress or (lambda *_: None)
    with lock_folder(folder, lambda: told("waiting for another build", 0, 1)):
        yield
