"""Text of any size -> a data directory, in a fixed memory, by any number of processes, the same bytes by each.

    corpus -> shards of text, a sentence a line -> duplicates, held-out documents, vocabulary -> tokens -> pairs

What is shared out is cut by the size of the text, and every random number follows from (seed, pass, shard), so the
bytes do not depend on who does what. Files appear whole; a build that was killed and is called again goes on, and a
complete one is looked over, and only what is damaged is made again.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from funcnet.tasks.pretraining_data.held_out import drop_shared_sentences, plain_sentences
from funcnet.tasks.pretraining_data.manifest import (
    FORMAT,
    Progress,
    lock_build,
    plan_digest,
    read_manifest,
)
from funcnet.tasks.pretraining_data.pairs import build_pairs, check_enough_documents
from funcnet.tasks.pretraining_data.process_pool import Workers
from funcnet.tasks.pretraining_data.report import write_report
from funcnet.tasks.pretraining_data.settings import DataSettings
from funcnet.tasks.pretraining_data.shard import read_shard, write_shard
from funcnet.tasks.pretraining_data.sources import describe_sources, refuse_changes, refuse_changes_meanwhile
from funcnet.tasks.pretraining_data.stages import (
    HELD_OUT,
    PairsTask,
    TokensTask,
    has_tokens,
    pass_without_pairs,
    write_cuts,
    write_pairs,
    write_tokens,
)
from funcnet.tasks.pretraining_data.text_shards import (
    Documents,
    has_held_out,
    make_vocabulary,
    read_documents,
    texts_of,
    write_texts,
)
from funcnet.tasks.pretraining_data.tokens import tokenize_documents
from funcnet.tasks.pretraining_data.work import Work, describe_file, take_damaged_away
from funcnet.text import BulkTokenizer, Corpus, load_tokenizer, open_corpus, vocabulary_digest

HELD_OUT_PASS = 1 << 31  # the number of the held-out documents' only pass, apart from all training passes

__all__ = ["build"]


def build(
    folder: str | Path,
    settings: DataSettings,
    *,
    corpus: Corpus | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[str]:
    """Makes the data of pretraining runs, or goes on where an earlier call was cut off, or looks over what it made.

    Args:
        folder: made when needed; see `directory` for what lies in it.
        settings: all that its bytes follow from.
        corpus: what `open_corpus` gave for these settings; None: it is called here.
        processes: workers; one works in this process.
        progress: called as `progress(step, done, total)`.

    Returns:
        The names of files that were complete once and found damaged or missing now, and were made again.

    Raises:
        OSError: a corpus file is not there or cannot be read; the folder cannot be written.
        ValueError: the corpus is empty, not what its names say or of too few documents; the vocabulary lacks special
            tokens; a setting is out of range; the folder was built from another corpus or with other settings, which
            are listed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = "\\n\\n".join(f"This is text {i}. It goes on {i} times. Then it ends." for i in range(40))
        ...     _ = Path(folder, "corpus.txt").write_text(text)
        ...     settings = DataSettings((Path(folder, "corpus.txt"),), seq_len=(32,), passes=1, vocab_size=100)
        ...     build(f"{folder}/data", settings), Path(folder, "data", "pairs-32-00-00000.arrow").exists()
        ([], True)
    """
    settings.check()
    if processes < 1:
        raise ValueError(f"data build: --processes; expected at least 1, got {processes}.")
    folder = Path(folder)
    if folder.is_file():
        raise NotADirectoryError(f"data build: --out {folder}; expected a folder, got a file. Name another --out.")
    given = None
    if settings.vocab is not None:
        given = load_tokenizer(settings.vocab, lower_case=False if settings.cased else None)
    if corpus is None:
        corpus = open_corpus(settings.corpus, documents=settings.documents, field=settings.field)
    created = not folder.exists()
    with lock_build(folder, progress), Workers(processes) as workers:
        begun = read_manifest(folder) is not None
        told = _manifest(folder, settings, corpus, given, progress)
        work = Work(folder, settings, corpus, told, workers, progress)
        damaged = take_damaged_away(work) if told["files"] is not None else []
        if told["files"] is not None and not damaged:
            shutil.rmtree(work.files.work, ignore_errors=True)  # of a build that was killed at its very end
            return []
        try:
            _make(work)
        except ValueError:  # the text is no good: nothing is left that the next call would trip over
            if not begun:  # what an earlier call made is no call's to delete
                shutil.rmtree(folder, ignore_errors=True)
                if not created:
                    folder.mkdir(exist_ok=True)
            raise
        return damaged


def _manifest(
    folder: Path, settings: DataSettings, corpus: Corpus, given: Tokenizer | None, progress: Progress | None
) -> dict[str, Any]:
    """That of the folder, or a new one; refuses a folder of something else."""
    told = read_manifest(folder)
    sources = describe_sources(corpus, told, progress)
    wanted = settings.told(None if given is None else vocabulary_digest(given))
    if told is not None:
        refuse_changes(folder, told, wanted, sources, corpus.layout)
        return {**told, "sources": sources}
    if any(folder.iterdir()):
        raise ValueError(
            f"data build: {folder} holds other files; expected a new or empty folder, got "
            f"{min(path.name for path in folder.iterdir())} there. Name another --out."
        )
    return {
        "format": FORMAT,
        "plan": plan_digest(wanted, sources, corpus.layout),
        "settings": wanted,
        "layout": corpus.layout,
        "vocabulary": None,
        "shards": None,
        "files": None,
        "sources": sources,
    }


def _make(work: Work) -> None:
    """Every stage; each finds what is there already."""
    for left in work.folder.rglob(".*.part"):  # of processes that were killed
        left.unlink(missing_ok=True)
    work.told["files"] = None
    work.write()
    work.files.work.mkdir(exist_ok=True)
    has_text = write_texts(work)
    if has_text:
        try:
            refuse_changes_meanwhile(work.told)
        except ValueError:  # what was read is of no use to any call
            shutil.rmtree(work.files.work)
            raise
    _give_memory_back()
    documents = read_documents(work)
    make_vocabulary(work, documents)
    _give_memory_back()
    held_out = _held_out_text(work, documents) if has_text else []
    shared = _write_tokens(work, documents, held_out)
    dropped = _write_held_out(work, held_out, shared)
    _write_pairs(work)
    facts = {
        "files": len(work.corpus.sources),
        "bytes": sum(source["bytes"] for source in work.told["sources"]),
        "layout": work.corpus.layout,
        "documents": len(documents.role),
        "characters": int(documents.characters.sum()),
        "duplicates_dropped": int((documents.role == 0).sum()),
        "shared_sentences_dropped": dropped,
    }
    work.tell("report", 0, 1)
    write_report(work.folder, work.told, facts, work.made_from(work.files.counts.name))
    work.tell("report", 1, 1)
    work.told["files"] = {path.name: describe_file(path) for path in work.files.files(work.told)}
    work.write()
    shutil.rmtree(work.files.work)


def _give_memory_back() -> None:
    """To the system what this process has freed: 300 MB of text and word counts, which glibc would keep to the end."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc's, not musl's
        trim(0)


# ---------------------------------------------------------------------------------------------------------- tokens


def _held_out_text(work: Work, documents: Documents) -> list[list[str]]:
    """The held-out documents as their sentences; the long ones are laid out for the workers."""
    found = list(texts_of(work.folder, documents, documents.role == HELD_OUT))
    plain = [line for sentences in found for line in plain_sentences(sentences)]
    work.files.held_out_sentences.write_text("\n".join(dict.fromkeys(plain)), "utf-8")
    return found


def _write_tokens(work: Work, documents: Documents, held_out: list[list[str]]) -> set[str]:
    """Tokens of every shard; returns the held-out sentences that training documents hold too."""
    folder, shards, made_from = work.folder, work.told["shards"], work.made_from("tokens")
    missing = [shard for shard in range(shards) if not has_tokens(folder, shard, made_from)]
    done = shards - len(missing)

    def note(_: int) -> None:
        nonlocal done
        done += 1
        work.tell("tokens", done, shards)

    tasks = (TokensTask(folder, shard, made_from, documents.role[documents.shard == shard]) for shard in missing)
    work.workers.run(write_tokens, tasks, done=note)
    if not held_out:
        return set()
    lines = work.files.held_out_sentences.read_text("utf-8").split("\n")
    return {lines[number] for shard in range(shards) for number in read_shard(work.files.sentences(shard))[1]["shared"]}


def _write_held_out(work: Work, held_out: list[list[str]], shared: set[str]) -> int:
    """Tokens and pairs of the held-out documents; returns how many sentences were dropped."""
    settings, files = work.settings, work.files
    if not settings.held_out:
        return 0
    if has_held_out(work):
        return int(read_shard(files.held_out_tokens)[1]["dropped"])
    made_from = work.made_from("tokens")
    kept, dropped = drop_shared_sentences(held_out, shared)
    tokenized = tokenize_documents(kept, BulkTokenizer(load_tokenizer(work.folder)))
    counted = np.diff(tokenized.documents)
    facts = {
        "dropped": dropped,
        "documents": len(counted),
        "documents_without_pairs": int((counted < 2).sum()),
        "sentences": len(tokenized.sentences) - 1,
    }
    write_shard(files.held_out_tokens, {"token": tokenized.tokens}, made_from, facts)
    for seq_len in settings.seq_len:
        pairs = build_pairs(
            tokenized, seq_len=seq_len, seed=settings.seed, number=HELD_OUT_PASS, short_share=settings.short_share
        )
        write_shard(files.held_out_pairs(seq_len), pairs, made_from)
    return dropped


# ------------------------------------------------------------------------------------------------------------ pairs


def _write_pairs(work: Work) -> None:
    """Pairs of every length, pass and shard: first all are cut, then partners are drawn from all."""
    tasks = list(_pairs_tasks(work))
    open_passes: set[tuple[int, int]] = set()
    work.workers.run(pass_without_pairs, tasks, done=lambda found: open_passes.add(found) if found else None)
    tasks = [task for task in tasks if (task.seq_len, task.number) in open_passes]
    done = 0

    def note(_: int) -> None:
        nonlocal done
        done += 1
        work.tell("pairs", done, 2 * len(tasks))

    work.workers.run(write_cuts, tasks, done=note)
    _check_documents(work, tasks)
    work.workers.run(write_pairs, tasks, done=note)


def _pairs_tasks(work: Work) -> Iterable[PairsTask]:
    settings, shards = work.settings, range(work.told["shards"])
    documents = np.array([read_shard(work.files.sentences(shard))[1]["documents"] for shard in shards])
    tokens = np.array([len(read_shard(work.files.tokens(shard))[0]["token"]) for shard in shards])
    before = [(np.cumsum(counts) - counts).tolist() for counts in (tokens, documents)]
    first = PairsTask(work.folder, 0, work.made_from("pairs"), 0, 0, settings.seed, settings.short_share, *before)
    return (
        replace(first, shard=shard, seq_len=seq_len, number=number)
        for seq_len in settings.seq_len
        for number in range(settings.passes)
        for shard in shards
    )


def _check_documents(work: Work, tasks: list[PairsTask]) -> None:
    usable: set[int] = set()
    for task in tasks:
        columns, _ = read_shard(work.files.cuts(task.seq_len, task.number, task.shard))
        usable |= set(np.unique(columns["document"]).tolist())
        if len(usable) > 1:
            return
    if tasks:
        last = read_shard(work.files.sentences(work.told["shards"] - 1))[1]["documents"]
        check_enough_documents(len(usable), tasks[-1].first_documents[-1] + last)
