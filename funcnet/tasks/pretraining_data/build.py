"""Builds a data directory from text of any size, in a fixed amount of memory. The bytes of the directory do not depend
on the number of processes.

    corpus -> shards of text, one sentence per line -> duplicates, held-out documents, vocabulary -> tokens -> pairs

The text is divided into shards of equal size, and (seed, pass, shard) determines every random number. Therefore the
bytes do not depend on which process handles which shard. Files are written atomically. If a build is killed, the next
call continues it. If a directory is complete, a call checks all files and rebuilds only damaged ones.
"""

from __future__ import annotations

import ctypes
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from funcnet.tasks.pretraining_data.build_state import BuildState, remove_damaged
from funcnet.tasks.pretraining_data.data_report import write_report
from funcnet.tasks.pretraining_data.data_settings import DataSettings
from funcnet.tasks.pretraining_data.held_out import drop_shared_sentences, plain_sentences
from funcnet.tasks.pretraining_data.known_files import Known
from funcnet.tasks.pretraining_data.manifest import (
    SILENT,
    Manifest,
    Progress,
    SourceFile,
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
from funcnet.tasks.pretraining_data.shard import is_whole, read_shard, write_shard
from funcnet.tasks.pretraining_data.text_shards import HELD_OUT, DocumentTable, read_document_table, write_text_shards
from funcnet.tasks.pretraining_data.token_shards import missing_tokens, tokenize_documents, write_token_shards
from funcnet.tasks.pretraining_data.vocabulary import digest_in, given_vocabulary, write_vocabulary
from funcnet.text import BulkTokenizer, Corpus, load_tokenizer, open_corpus, vocabulary_digest

__all__ = ["build", "require_new_folder"]

HELD_OUT_PASS = 1 << 31  # the number of the only pass over held-out documents; no training pass has this number


def build(
    folder: str | Path,
    settings: DataSettings,
    *,
    corpus: Corpus | None = None,
    sources: Sequence[SourceFile] | None = None,
    checked: Known | None = None,
    processes: int = 1,
    progress: Progress = SILENT,
) -> list[str]:
    """Build the data of pretraining runs, continue a build that was stopped, or check and repair a complete one.

    Args:
        folder: the data directory. It is created if it does not exist. The module `manifest` describes the files in
            this folder.
        settings: the settings, which determine the bytes of the directory.
        corpus: the result of `open_corpus` for these settings. If it is None, `build` calls `open_corpus`.
        sources: the result of `describe_sources` for this corpus. If it is None, `build` calls `describe_sources`.
        checked: what is known of files. The files of a complete folder that are in it (see `intact_files`) are not read
            to check them again.
        processes: number of worker processes. With 1, the calling process does all the work.
        progress: function that is called as `progress(step, done, total)`.

    Returns:
        The names of the files that were damaged or missing in a complete directory and have been rebuilt.

    Raises:
        OSError: if a file of the corpus is missing or cannot be read, or the folder cannot be written.
        ValueError: if the corpus is empty, has too few documents, changes during the build, or has files whose content
            does not match their suffix; if the vocabulary lacks special tokens; if a setting is out of range; or if the
            folder contains other files, or was built with other settings or another corpus. In the last case, the
            message lists the differences.

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
        raise NotADirectoryError(f"data build: --out {folder} is a file; expected a folder.")
    given = given_vocabulary(text)
    corpus = corpus or open_corpus(text.corpus, documents=text.documents, field=text.field)
    created = not folder.exists()
    with lock_build(folder, progress), pool:
        before = read_manifest(folder)
        recorded = settings.recorded(None if given is None else vocabulary_digest(given))
        known = {one.key: one.sha256 for one in before.sources} if before else {}
        sources = describe_sources(corpus, known, progress) if sources is None else sources
        manifest = Manifest(recorded, corpus.layout, list(sources))
        if before is None:
            require_new_folder(folder, "data build")
        else:
            refuse_changes(folder, before, manifest)
            manifest.vocabulary, manifest.shards, manifest.files = before.vocabulary, before.shards, before.files
        state = BuildState(folder, settings, corpus, manifest, pool, progress)
        damaged = remove_damaged(state, checked or {})
        if manifest.files is not None and not damaged:
            shutil.rmtree(state.files.work, ignore_errors=True)  # left by a build that was killed at its very end
            return []
        try:
            _run_stages(state)
        except ValueError:  # the text is unusable: leave nothing that would stop the next call
            if before is None:  # the results of an earlier call are not deleted
                shutil.rmtree(folder, ignore_errors=True)
                if not created:
                    folder.mkdir(exist_ok=True)
            raise
        return damaged


def require_new_folder(folder: Path, where: str) -> None:
    """Refuse a folder that contains files. The message begins with `where`, the name of the command."""
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if names:
        raise ValueError(
            f"{where}: {folder} contains other files; expected a new or empty folder, got {names[0]} in it. Use "
            "another --out."
        )


def _run_stages(build: BuildState) -> None:
    """Run all stages of a build. A stage does not write files again that are already complete."""
    for left in build.folder.rglob(".*.part"):  # left by processes that were killed
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
        except ValueError:  # the text that was read is of no use to a later call
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
    """Return the numbers of the shards of text that must be read again, because a file that is made from their text is
    not complete. None means all shards.
    """
    manifest, origin = build.manifest, build.manifest.origin("documents")
    if manifest.shards is None or manifest.vocabulary is None or digest_in(build.folder) is None:
        return None
    if not all(is_whole(build.files.shard("documents", shard), origin) for shard in range(manifest.shards)):
        return None
    wanted = set(missing_tokens(build))
    if wanted or not _has_held_out(build):  # training sentences are compared with held-out ones
        documents = read_document_table(build)
        wanted |= set(documents.shard[documents.role == HELD_OUT].tolist())
    return wanted


def _return_memory() -> None:
    """Return memory that Python has freed to the operating system. Otherwise, glibc would keep 300 MB of this
    memory.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc's, not musl's
        trim(0)


# --------------------------------------------------------------------------------------------------------- held out


def _has_held_out(build: BuildState) -> bool:
    """Return whether the files of the held-out documents are complete, or True if nothing is held out."""
    paths = [build.files.held_out_tokens, *map(build.files.held_out_pairs, build.settings.seq_len)]
    return not build.settings.text.held_out or all(is_whole(path, build.manifest.origin(path.name)) for path in paths)


def _held_out_text(build: BuildState, documents: DocumentTable) -> list[list[str]]:
    """Return the held-out documents as lists of sentences, and write their long sentences to a file that the worker
    processes read.
    """
    found = list(documents.texts(build.folder, documents.role == HELD_OUT))
    plain = [line for sentences in found for line in plain_sentences(sentences)]
    build.files.held_out_sentences.write_text("\n".join(dict.fromkeys(plain)), "utf-8")
    return found


def _write_held_out(build: BuildState, held_out: list[list[str]], shared: set[int]) -> int:
    """Write the tokens and pairs of the held-out documents. Return the number of held-out sentences that were dropped
    because training documents contain them too.
    """
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
