"""Text of any size -> a data directory, in a fixed amount of memory, with the same bytes from any number of processes.

    corpus -> shards of text, a sentence a line -> duplicates, held-out documents, vocabulary -> tokens -> pairs

Work is divided by the size of the text, and every random number follows from (seed, pass, shard), so the bytes do not
depend on which process does what. Files appear complete. A build that was killed continues when it is called again; for
a complete directory, all files are checked, and only damaged ones are made again.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from funcnet.tasks.pretraining_data.build_state import BuildState, remove_damaged
from funcnet.tasks.pretraining_data.held_out import drop_shared_sentences, plain_sentences
from funcnet.tasks.pretraining_data.manifest import (
    SILENT,
    Manifest,
    Progress,
    describe_file,
    describe_sources,
    lock_build,
    read_manifest,
    refuse_changes,
    refuse_changes_meanwhile,
)
from funcnet.tasks.pretraining_data.pair_shards import write_pair_shards
from funcnet.tasks.pretraining_data.pairs import build_pairs
from funcnet.tasks.pretraining_data.process_pool import ProcessPool
from funcnet.tasks.pretraining_data.report import write_report
from funcnet.tasks.pretraining_data.settings import DataSettings
from funcnet.tasks.pretraining_data.shard import is_whole, read_shard, write_shard
from funcnet.tasks.pretraining_data.text_shards import HELD_OUT, DocumentTable, read_document_table, write_text_shards
from funcnet.tasks.pretraining_data.token_shards import missing_tokens, tokenize_documents, write_token_shards
from funcnet.tasks.pretraining_data.vocabulary import digest_in, given_vocabulary, write_vocabulary
from funcnet.text import BulkTokenizer, Corpus, load_tokenizer, open_corpus, vocabulary_digest

__all__ = ["build", "require_new_folder"]

HELD_OUT_PASS = 1 << 31  # the number of the only pass over held-out documents, which no training pass has


def build(
    folder: str | Path,
    settings: DataSettings,
    *,
    corpus: Corpus | None = None,
    processes: int = 1,
    progress: Progress = SILENT,
) -> list[str]:
    """Build the data of pretraining runs, continue a build that was stopped, or check and repair a complete one.

    Args:
        folder: the data directory; created if needed; see `manifest` for what is in it.
        settings: everything that determines its bytes.
        corpus: what `open_corpus` gives for these settings; None: it is called here.
        processes: workers; with 1, the work is done in this process.
        progress: called as `progress(step, done, total)`.

    Returns:
        The names of files that were complete before, are damaged or missing now, and were made again.

    Raises:
        OSError: a file of the corpus is missing or cannot be read; the folder cannot be written.
        ValueError: the corpus is empty, is not what its names say, or has too few documents; the vocabulary lacks
            special tokens; a setting is out of range; the folder was built from something else, which is listed.

    Example:
        >>> import tempfile
        >>> from funcnet.settings import compose
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = "\\n\\n".join(f"This is text {i}. It goes on {i} times. Then it ends." for i in range(40))
        ...     _ = Path(folder, "corpus.txt").write_text(text)
        ...     corpus = (Path(folder, "corpus.txt"),)
        ...     settings = compose(DataSettings, corpus=corpus, seq_len=(32,), passes=1, vocab_size=100)
        ...     build(f"{folder}/data", settings), Path(folder, "data", "pairs-32-00-00000.arrow").exists()
        ([], True)
    """
    settings.check()
    folder, text, pool = Path(folder), settings.text, ProcessPool(processes)
    if folder.is_file():
        raise NotADirectoryError(f"data build: --out {folder}; expected a folder, got a file.")
    given = given_vocabulary(text)
    corpus = corpus or open_corpus(text.corpus, documents=text.documents, field=text.field)
    created = not folder.exists()
    with lock_build(folder, progress), pool:
        begun = read_manifest(folder) is not None
        manifest = _manifest(folder, settings, corpus, given, progress)
        state = BuildState(folder, settings, corpus, manifest, pool, progress)
        damaged = remove_damaged(state)
        if manifest.files is not None and not damaged:
            shutil.rmtree(state.files.work, ignore_errors=True)  # of a build that was killed at its very end
            return []
        try:
            _run_stages(state)
        except ValueError:  # the text is unusable: nothing is left that would stop the next call
            if not begun:  # what an earlier call made is not deleted
                shutil.rmtree(folder, ignore_errors=True)
                if not created:
                    folder.mkdir(exist_ok=True)
            raise
        return damaged


def require_new_folder(folder: Path, where: str) -> None:
    """Refuse a folder that contains files.

    Args:
        folder: it need not exist.
        where: the command, as it is typed: the message begins with it.

    Raises:
        ValueError: names one of the files.
    """
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if names:
        raise ValueError(
            f"{where}: {folder} holds other files; expected a new or empty folder, got {names[0]} there. Use another "
            "--out."
        )


def _manifest(
    folder: Path, settings: DataSettings, corpus: Corpus, given: Tokenizer | None, progress: Progress
) -> Manifest:
    """The manifest of the folder, or a new one; refuses a folder that contains something else."""
    before = read_manifest(folder)
    sources = describe_sources(corpus, before, progress)
    recorded = settings.recorded(None if given is None else vocabulary_digest(given))
    manifest = Manifest(recorded, corpus.layout, sources)
    if before is None:
        require_new_folder(folder, "data build")
        return manifest
    refuse_changes(folder, before, manifest)
    manifest.vocabulary, manifest.shards, manifest.files = before.vocabulary, before.shards, before.files
    return manifest


def _run_stages(build: BuildState) -> None:
    """Every stage; each keeps what is complete."""
    for left in build.folder.rglob(".*.part"):  # of processes that were killed
        left.unlink(missing_ok=True)
    manifest, files = build.manifest, build.files
    manifest.files = None
    build.save()
    files.work.mkdir(exist_ok=True)
    wanted = _wanted_text(build)
    has_text = wanted is None or bool(wanted)
    if has_text:
        write_text_shards(build, wanted)
        try:
            refuse_changes_meanwhile(manifest)
        except ValueError:  # what was read is of no use to any call
            shutil.rmtree(files.work)
            raise
    _return_memory()
    documents = read_document_table(build)
    write_vocabulary(build, documents)
    _return_memory()
    held_out = _held_out_text(build, documents) if has_text else []
    shared = write_token_shards(build, documents)
    dropped = _write_held_out(build, held_out, shared)
    write_pair_shards(build)
    facts = {
        "files": len(build.corpus.sources),
        "bytes": sum(source.bytes for source in manifest.sources),
        "layout": build.corpus.layout,
        "documents": len(documents.role),
        "characters": int(documents.characters.sum()),
        "duplicates_dropped": int((documents.role == 0).sum()),
        "shared_sentences_dropped": dropped,
    }
    build.progress("report", 0, 1)
    write_report(build.folder, manifest, facts, build.manifest.origin("counts"))
    build.progress("report", 1, 1)
    manifest.files = {path.name: describe_file(path) for path in files.all(manifest)}
    build.save()
    shutil.rmtree(files.work)


def _wanted_text(build: BuildState) -> set[int] | None:
    """The shards whose text is needed, because a file that follows from it is not complete; None for all."""
    manifest, origin = build.manifest, build.manifest.origin("documents")
    if manifest.shards is None or manifest.vocabulary is None or digest_in(build.folder) is None:
        return None
    if not all(is_whole(build.files.shard("documents", shard), origin) for shard in range(manifest.shards)):
        return None
    wanted = set(missing_tokens(build))
    if wanted or not _has_held_out(build):  # tokens are compared with what is held out
        documents = read_document_table(build)
        wanted |= set(documents.shard[documents.role == HELD_OUT].tolist())
    return wanted


def _return_memory() -> None:
    """Return to the system what this process has freed: 300 MB of text and word counts, which glibc would keep."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc's, not musl's
        trim(0)


# --------------------------------------------------------------------------------------------------------- held out


def _has_held_out(build: BuildState) -> bool:
    """Whether the files of the held-out documents are complete; True if nothing is held out."""
    paths = [build.files.held_out_tokens, *map(build.files.held_out_pairs, build.settings.seq_len)]
    return not build.settings.text.held_out or all(is_whole(path, build.manifest.origin(path.name)) for path in paths)


def _held_out_text(build: BuildState, documents: DocumentTable) -> list[list[str]]:
    """The held-out documents as their sentences; the long sentences are written where workers find them."""
    found = list(documents.texts(build.folder, documents.role == HELD_OUT))
    plain = [line for sentences in found for line in plain_sentences(sentences)]
    build.files.held_out_sentences.write_text("\n".join(dict.fromkeys(plain)), "utf-8")
    return found


def _write_held_out(build: BuildState, held_out: list[list[str]], shared: set[int]) -> int:
    """Write tokens and pairs of the held-out documents; returns how many sentences were dropped."""
    settings, files, origin = build.settings, build.files, build.manifest.origin("held-out")
    if not settings.text.held_out:
        return 0
    if _has_held_out(build):
        return int(read_shard(files.held_out_tokens)[1]["dropped"])
    lines = files.held_out_sentences.read_text("utf-8").split("\n")
    kept, dropped = drop_shared_sentences(held_out, {lines[number] for number in shared})
    tokenized = tokenize_documents(kept, BulkTokenizer(load_tokenizer(build.folder)))
    counts = np.diff(tokenized.documents)
    facts = {
        "dropped": dropped,
        "documents": len(counts),
        "documents_without_pairs": int((counts < 2).sum()),
        "sentences": len(tokenized.sentences) - 1,
    }
    write_shard(files.held_out_tokens, {"token": tokenized.tokens}, origin, facts)
    for seq_len in settings.seq_len:
        pairs = build_pairs(
            tokenized, seq_len=seq_len, seed=settings.seed, number=HELD_OUT_PASS, short_share=settings.short_share
        )
        write_shard(files.held_out_pairs(seq_len), pairs, origin)
    return dropped
