"""Text of any size -> a data directory, in a fixed memory, by any number of processes, the same bytes by each.

    corpus -> shards of text, a sentence a line -> duplicates, held-out documents, vocabulary -> tokens -> pairs

What is shared out is cut by the size of the text, and every random number follows from (seed, pass, shard), so the
bytes do not depend on who does what. Files appear whole; a build that was killed and is called again goes on, and a
complete one is looked over, and only what is damaged is made again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import draw_bits, to_uniform
from funcnet.tasks.pretraining.data_settings import DataSettings
from funcnet.tasks.pretraining.directory import (
    FORMAT,
    VOCABULARY,
    Directory,
    Progress,
    alone,
    plan_digest,
    read_manifest,
    vocabulary_digest,
    write_manifest,
)
from funcnet.tasks.pretraining.heldout import drop_shared_sentences, plain_sentences, split_documents
from funcnet.tasks.pretraining.instances import tokenize_documents
from funcnet.tasks.pretraining.pairs import build_pairs, check_enough_documents
from funcnet.tasks.pretraining.report import write_report
from funcnet.tasks.pretraining.shards import is_whole, read_shard, write_shard
from funcnet.tasks.pretraining.sources import describe_sources, refuse_changes
from funcnet.tasks.pretraining.stages import (
    HELD_OUT,
    TRAIN,
    PairsTask,
    TextTask,
    TokensTask,
    has_text,
    has_tokens,
    pass_without_pairs,
    read_text,
    write_cuts,
    write_pairs,
    write_text,
    write_tokens,
)
from funcnet.tasks.pretraining.workers import Workers
from funcnet.text import (
    BulkTokenizer,
    Corpus,
    Document,
    load_tokenizer,
    open_corpus,
    save_tokenizer,
    train_wordpiece,
)
from funcnet.text.corpus import empty, file_digest

SHARD = 16_000_000  # characters of text, give or take a document: what a process has in memory at once
SAMPLE = 32_000_000  # characters that a vocabulary is trained on, at most
HELD_OUT_PASS = 1 << 31  # the number of the held-out documents' only pass, apart from all training passes

__all__ = ["build"]


def build(
    folder: str | Path, settings: DataSettings, *, processes: int = 1, progress: Progress | None = None
) -> list[str]:
    """Makes the data of pretraining runs, or goes on where an earlier call was cut off, or looks over what it made.

    Args:
        folder: made when needed; see `directory` for what lies in it.
        settings: all that its bytes follow from.
        processes: workers; one works in this process.
        progress: called as `progress(step, done, total)`.

    Returns:
        The names of files that were complete once and found damaged or missing now, and were made again.

    Raises:
        OSError: a corpus file is not there or cannot be read; the folder cannot be written.
        ValueError: the corpus is empty, not what its names say or of too few documents; the vocabulary lacks special
            tokens; a setting is out of range; the folder was built from another corpus or with other settings, which
            are listed.
    """
    settings.check()
    if processes < 1:
        raise ValueError(f"data build: --processes; expected at least 1, got {processes}.")
    given = None
    if settings.vocab is not None:
        given = load_tokenizer(settings.vocab, lower_case=False if settings.cased else None)
    corpus = open_corpus(list(settings.corpus) or None, documents=settings.documents, field=settings.field)
    folder = Path(folder)
    created = not folder.exists()
    with alone(folder, progress), Workers(processes) as workers:
        told = read_manifest(folder)
        sources = describe_sources(corpus, told, progress)
        wanted = settings.told(None if given is None else vocabulary_digest(given))
        if told is not None:
            refuse_changes(folder, told, wanted, sources, corpus.layout)
        elif any(folder.iterdir()):
            raise ValueError(
                f"data build: {folder} holds other files; expected a new or empty folder, got "
                f"{min(path.name for path in folder.iterdir())} there. Name another --out."
            )
        told = told or {
            "format": FORMAT,
            "plan": plan_digest(wanted, sources, corpus.layout),
            "settings": wanted,
            "layout": corpus.layout,
            "vocabulary": None,
            "shards": None,
            "files": None,
        }
        told["sources"] = sources
        work = _Build(folder, settings, corpus, told, workers, progress)
        damaged = work.damaged() if told["files"] is not None else []
        if told["files"] is not None and not damaged:
            shutil.rmtree(work.files.work, ignore_errors=True)  # of a build that was killed at its very end
            return []
        try:
            work.make()
        except ValueError:  # the text is no good: nothing is left that the next call would trip over
            shutil.rmtree(folder, ignore_errors=True)
            if not created:
                folder.mkdir(exist_ok=True)
            raise
        return damaged


@dataclass
class _Documents:
    """What is known of every document of the corpus: (D,) each, and the shard that each is in."""

    characters: NDArray[np.int64]
    sentences: NDArray[np.int64]
    digest: NDArray[np.uint64]
    shard: NDArray[np.int64]


class _Build:
    """The stages, one after the other."""

    def __init__(
        self,
        folder: Path,
        settings: DataSettings,
        corpus: Corpus,
        told: dict[str, Any],
        workers: Workers,
        progress: Progress | None,
    ):
        self.folder, self.settings, self.corpus = folder, settings, corpus
        self.told, self.workers, self.progress = told, workers, progress
        self.files = Directory(folder)

    def damaged(self) -> list[str]:
        """The files of a complete directory that are not as they were written; they are taken away."""
        files = self.told["files"]
        found: list[str] = []

        def note(answer: tuple[str, bool]) -> None:
            name, good = answer
            seen.append(name)
            if not good:
                found.append(name)
            self._tell("looking over", len(seen), len(files))

        seen: list[str] = []
        tasks = [_Look(self.folder, name, self._made_from(name), files[name]) for name in sorted(files)]
        self.workers.run(_look, tasks, done=note)
        for name in found:
            (self.folder / name).unlink(missing_ok=True)
        return sorted(found)

    def make(self) -> None:
        """Every stage; each finds what is there already."""
        for left in self.folder.rglob(".*.part"):  # of processes that were killed
            left.unlink(missing_ok=True)
        self.told["files"] = None
        self._write()
        self.files.work.mkdir(exist_ok=True)
        has_text = self._text()
        documents = self._read_documents()
        roles = self._choose(documents)
        self._vocabulary(documents, roles)
        held_out = self._held_out_sentences(documents, roles) if has_text else []
        shared = self._tokens(documents, roles, held_out)
        dropped = self._held_out(held_out, shared)
        self._pairs()
        facts = {
            "files": len(self.corpus.sources),
            "bytes": sum(source["bytes"] for source in self.told["sources"]),
            "layout": self.corpus.layout,
            "documents": len(roles),
            "characters": int(documents.characters.sum()),
            "duplicates_dropped": int((roles == 0).sum()),
            "shared_sentences_dropped": dropped,
        }
        self._tell("report", 0, 1)
        write_report(self.folder, self.told, facts, self._made_from(self.files.counts.name))
        self._tell("report", 1, 1)
        self.told["files"] = {path.name: _describe(path) for path in self.files.files(self.told)}
        self._write()
        shutil.rmtree(self.files.work)

    # ---------------------------------------------------------------------------------------------------- the text

    def _text(self) -> bool:
        """Shards of text: all, or where tokens are there those that something missing follows from; whether any."""
        wanted = self._wanted()
        total = sum(source["bytes"] for source in self.told["sources"])
        position = [0]

        def note(step: str, done: int, _: int) -> None:
            position[0] = done

        count = 0

        def tasks() -> Iterator[TextTask]:
            nonlocal count
            for shard, documents in enumerate(_in_shards(self.corpus.documents(note))):
                count = shard + 1
                self._tell("sentences", position[0], total)
                if (wanted is None or shard in wanted) and not has_text(self.folder, shard, self._plan()):
                    texts = [(document.text.encode(), document.wikitext) for document in documents]
                    documents.clear()
                    yield TextTask(self.folder, shard, self._plan(), self.settings.language, texts)

        if wanted == set():
            return False
        self.workers.run(write_text, tasks(), done=lambda shard: self._tell("sentences", position[0], total))
        self._tell("sentences", total, total)
        if not count:
            raise empty([source.path for source in self.corpus.sources], len(self.corpus.sources))
        self.told["shards"] = count
        self._write()
        return True

    def _wanted(self) -> set[int] | None:
        """The shards whose text is read again; None for all."""
        shards = self.told["shards"]
        if shards is None or self.told["vocabulary"] is None or _vocabulary_in(self.folder) is None:
            return None
        if not all(is_whole(self.files.documents(shard), self._plan()) for shard in range(shards)):
            return None
        made_from = self._made_from("tokens")
        missing = {shard for shard in range(shards) if not has_tokens(self.folder, shard, made_from)}
        if missing or not self._has_held_out():  # tokens are compared with what is held out
            documents = self._read_documents()
            missing |= set(documents.shard[self._choose(documents) == HELD_OUT].tolist())
        return missing

    def _has_held_out(self) -> bool:
        paths = [self.files.held_out_tokens, *map(self.files.held_out_pairs, self.settings.seq_len)]
        return not self.settings.held_out or all(is_whole(path, self._made_from(path.name)) for path in paths)

    def _read_documents(self) -> _Documents:
        columns = [read_shard(self.files.documents(shard))[0] for shard in range(self.told["shards"])]
        found = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
        if not len(found["digest"]):
            raise empty([source.path for source in self.corpus.sources], len(self.corpus.sources))
        shard = np.repeat(np.arange(len(columns)), [len(one["digest"]) for one in columns])
        return _Documents(found["characters"], found["sentences"], found["digest"], shard)

    def _choose(self, documents: _Documents) -> NDArray[np.uint8]:
        """Every document's role: duplicates go, some are held out, the others train."""
        kept = np.sort(np.unique(documents.digest, return_index=True)[1])
        train, held_out = split_documents(
            documents.characters[kept],
            self.settings.held_out,
            seed=self.settings.seed,
            usable=documents.sentences[kept] > 1,
        )
        roles = np.zeros(len(documents.digest), np.uint8)
        roles[kept[train]], roles[kept[held_out]] = TRAIN, HELD_OUT
        return roles

    def _vocabulary(self, documents: _Documents, roles: NDArray[np.uint8]) -> None:
        digest = _vocabulary_in(self.folder)
        if digest is None or digest != self.told["vocabulary"]:
            self._tell("vocabulary", 0, 1)
            if self.settings.vocab is not None:
                tokenizer = load_tokenizer(self.settings.vocab, lower_case=False if self.settings.cased else None)
            else:
                texts = self._sample(documents, roles)
                tokenizer = train_wordpiece(texts, self.settings.vocab_size, lower_case=not self.settings.cased)
            save_tokenizer(tokenizer, self.folder, max_length=max(self.settings.seq_len))
            self.told["vocabulary"] = vocabulary_digest(tokenizer)
            self._write()
        self._tell("vocabulary", 1, 1)

    def _sample(self, documents: _Documents, roles: NDArray[np.uint8]) -> list[str]:
        """Training documents drawn at random, some 32 million characters of them; all if there are less."""
        share = SAMPLE / max(int(documents.characters[roles == TRAIN].sum()), 1)
        chosen = (roles == TRAIN) & (to_uniform(draw_bits(self.settings.seed, np.arange(len(roles)))) < share)
        return [" ".join(sentences) for sentences in self._texts(documents, chosen)]

    def _texts(self, documents: _Documents, chosen: NDArray[np.bool_]) -> Iterator[list[str]]:
        """The sentences of some documents, in order."""
        for shard in np.unique(documents.shard[chosen]).tolist():
            marks = chosen[documents.shard == shard].tolist()
            for sentences, mark in zip(read_text(self.folder, shard), marks, strict=True):
                if mark:
                    yield sentences

    # -------------------------------------------------------------------------------------------------- the tokens

    def _held_out_sentences(self, documents: _Documents, roles: NDArray[np.uint8]) -> list[list[str]]:
        """The held-out documents; their long sentences are laid out for the workers."""
        found = list(self._texts(documents, roles == HELD_OUT))
        plain = [line for sentences in found for line in plain_sentences(sentences)]
        self.files.held_out_sentences.write_text("\n".join(dict.fromkeys(plain)), "utf-8")
        return found

    def _tokens(self, documents: _Documents, roles: NDArray[np.uint8], held_out: list[list[str]]) -> set[str]:
        """Tokens of every shard; returns the held-out sentences that training documents hold too."""
        shards, made_from = self.told["shards"], self._made_from("tokens")
        done: list[int] = []

        def note(shard: int) -> None:
            done.append(shard)
            self._tell("tokens", len(done), shards)

        missing = [shard for shard in range(shards) if not has_tokens(self.folder, shard, made_from)]
        done.extend(set(range(shards)) - set(missing))
        tasks = (TokensTask(self.folder, shard, made_from, roles[documents.shard == shard]) for shard in missing)
        self.workers.run(write_tokens, tasks, done=note)
        numbers = {n for shard in range(shards) for n in read_shard(self.files.sentences(shard))[1]["shared"]}
        lines = self.files.held_out_sentences.read_text("utf-8").split("\n") if held_out else []
        return {lines[number] for number in numbers} if held_out else set()

    def _held_out(self, held_out: list[list[str]], shared: set[str]) -> int:
        """Tokens and pairs of the held-out documents; returns how many sentences were dropped."""
        if not self.settings.held_out:
            return 0
        made_from = self._made_from("tokens")
        if self._has_held_out():
            return int(read_shard(self.files.held_out_tokens)[1]["dropped"])
        kept, dropped = drop_shared_sentences(held_out, shared)
        tokenized = tokenize_documents(kept, BulkTokenizer(load_tokenizer(self.folder)))
        counted = np.diff(tokenized.documents)
        facts = {
            "dropped": dropped,
            "documents": len(counted),
            "documents_without_pairs": int((counted < 2).sum()),
            "sentences": len(tokenized.sentences) - 1,
        }
        write_shard(self.files.held_out_tokens, {"token": tokenized.tokens}, made_from, facts)
        for seq_len in self.settings.seq_len:
            pairs = build_pairs(
                tokenized,
                seq_len=seq_len,
                seed=self.settings.seed,
                number=HELD_OUT_PASS,
                short_share=self.settings.short_share,
            )
            write_shard(self.files.held_out_pairs(seq_len), pairs, made_from)
        return dropped

    # --------------------------------------------------------------------------------------------------- the pairs

    def _pairs(self) -> None:
        """Pairs of every length, pass and shard: first all are cut, then partners are drawn from all."""
        tasks = list(self._pairs_tasks())
        open_passes: set[tuple[int, int]] = set()
        self.workers.run(pass_without_pairs, tasks, done=lambda found: open_passes.add(found) if found else None)
        tasks = [task for task in tasks if (task.seq_len, task.number) in open_passes]
        total, done = 2 * len(tasks), 0

        def note(_: int) -> None:
            nonlocal done
            done += 1
            self._tell("pairs", done, total)

        self.workers.run(write_cuts, tasks, done=note)
        self._check_documents(tasks)
        self.workers.run(write_pairs, tasks, done=note)

    def _pairs_tasks(self) -> Iterable[PairsTask]:
        settings, made_from = self.settings, self._made_from("pairs")
        facts = [read_shard(self.files.sentences(shard))[1]["documents"] for shard in range(self.told["shards"])]
        sizes = [len(read_shard(self.files.tokens(shard))[0]["token"]) for shard in range(self.told["shards"])]
        before = [(np.cumsum(counts) - counts).tolist() for counts in (np.array(sizes), np.array(facts))]
        first = PairsTask(self.folder, 0, made_from, 0, 0, settings.seed, settings.short_share, *before)
        return (
            replace(first, shard=shard, seq_len=seq_len, number=number)
            for seq_len in settings.seq_len
            for number in range(settings.passes)
            for shard in range(self.told["shards"])
        )

    def _check_documents(self, tasks: list[PairsTask]) -> None:
        usable: set[int] = set()
        for task in tasks:
            columns, _ = read_shard(self.files.cuts(task.seq_len, task.number, task.shard))
            usable |= set(np.unique(columns["document"]).tolist())
            if len(usable) > 1:
                return
        if tasks:
            last = read_shard(self.files.sentences(self.told["shards"] - 1))[1]["documents"]
            check_enough_documents(len(usable), tasks[-1].first_documents[-1] + last)

    # ----------------------------------------------------------------------------------------------------- throughout

    def _plan(self) -> dict[str, str]:
        return {"plan": self.told["plan"]}

    def _made_from(self, name: str) -> dict[str, str]:
        """What a file follows from: documents from the plan alone, all others from the vocabulary too."""
        return self._plan() if name.startswith("documents") else {**self._plan(), "vocabulary": self.told["vocabulary"]}

    def _write(self) -> None:
        write_manifest(self.folder, self.told)

    def _tell(self, step: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(step, done, total)


@dataclass(frozen=True)
class _Look:
    folder: Path
    name: str
    made_from: dict[str, str]
    described: dict[str, Any]


def _look(task: _Look) -> tuple[str, bool]:
    path = task.folder / task.name
    good = path.is_file() and _describe(path) == task.described
    return task.name, good and (path.suffix != ".arrow" or is_whole(path, task.made_from))


def _describe(path: Path) -> dict[str, Any]:
    """The bytes of a file, and the SHA-256 of one that does not hold its own."""
    size = {"bytes": path.stat().st_size}
    return size if path.suffix == ".arrow" else {**size, "sha256": file_digest(path)}


def _in_shards(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in lists of some 16 million characters."""
    held: list[Document] = []
    size = 0
    for document in documents:
        held.append(document)
        size += len(document.text)
        if size >= SHARD:
            yield held
            held, size = [], 0
    if held:
        yield held


def _vocabulary_in(folder: Path) -> str | None:
    """The digest of the vocabulary in a folder; None where it is not whole."""
    if not all((folder / name).is_file() for name in VOCABULARY):
        return None
    try:
        return vocabulary_digest(load_tokenizer(folder))
    except ValueError:
        return None
