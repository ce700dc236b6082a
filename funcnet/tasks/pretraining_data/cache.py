"""A cache of data for pretraining, with one data directory for each combination of text and settings."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from funcnet.files import json_digest
from funcnet.tasks.pretraining_data.build import build
from funcnet.tasks.pretraining_data.build_state import intact_files
from funcnet.tasks.pretraining_data.data_settings import DataSettings
from funcnet.tasks.pretraining_data.known_files import MARGIN, known_layout, read_known, write_known, write_layout
from funcnet.tasks.pretraining_data.manifest import FORMAT, SILENT, Progress, describe_sources
from funcnet.tasks.pretraining_data.reader import PretrainingData, open_data
from funcnet.tasks.pretraining_data.vocabulary import given_vocabulary
from funcnet.text import open_corpus, vocabulary_digest

__all__ = ["prepare_data"]

KNOWN = "known-files.json"
LAYOUTS = "known-layouts.json"


def prepare_data(
    settings: DataSettings, cache: str | Path, *, processes: int = 1, progress: Progress = SILENT
) -> PretrainingData:
    """Build the data of a pretraining run, or open the data that an earlier call with the same text and settings built.

    Args:
        settings: the text, and the settings of the build.
        cache: folder of data directories, which several runs may share. The name of a directory is a digest of the text
            and the settings. `known-files.json` has the digests, sizes and modification times of the files of the text
            and of the data. Files that have not changed are not read again.
        processes: see `build`.
        progress: function that is called as `progress(step, done, total)`. The steps are reading, sentences,
            vocabulary, tokens, pairs and report, and also "checking files" if the data exist already.

    Returns:
        The data for rows of the first length in `settings.seq_len`. For other lengths, pass the `directory` of the
        result to `open_data`.

    Raises:
        OSError, ValueError: see `build`. If the data cannot be built from the corpus, the cache is not changed.

    Example:
        >>> import tempfile
        >>> from funcnet.settings import compose
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = "\\n\\n".join(f"This is text {i}. It goes on {i} times. Then it ends." for i in range(40))
        ...     _ = Path(folder, "corpus.txt").write_text(text)
        ...     corpus = (Path(folder, "corpus.txt"),)
        ...     settings = compose(DataSettings, corpus=corpus, seq_len=(32,), vocab_size=100)
        ...     data = prepare_data(settings, f"{folder}/cache")
        ...     batch = next(data.train_batches(8).batches())
        >>> batch["input_ids"].shape, batch["masked_positions"].shape, data.statistics["train"]["documents"]
        ((8, 32), (8, 5), 38)
    """
    settings.check()
    text, given = settings.text, given_vocabulary(settings.text)
    corpus = open_corpus(text.corpus, documents=text.documents, field=text.field)
    table, start = Path(cache) / KNOWN, time.time_ns()
    known = read_known(table)
    sources = describe_sources(corpus, known, progress)
    # the names of the files are part of the key, because their suffixes determine how the files are read
    paths = [source.path for source in corpus.sources]
    layout = known_layout(Path(cache) / LAYOUTS, paths, lambda: corpus.layout)
    corpus = dataclasses.replace(corpus, division=layout)
    names = [(one.name, one.sha256) for one in sources]
    recorded = settings.recorded(None if given is None else vocabulary_digest(given))
    key = json_digest({"format": FORMAT, "settings": recorded, "text": names, "layout": layout})
    folder = Path(cache) / key[:16]
    build(folder, settings, corpus=corpus, sources=sources, checked=known, processes=processes, progress=progress)
    digests = {one.key: one.sha256 for one in sources if one.mtime_ns < start - MARGIN}
    if (now := {**known, **digests, **intact_files(folder)}) != known:
        write_known(table, now)
    write_layout(Path(cache) / LAYOUTS, paths, layout, read=start)
    return open_data(folder, seq_len=settings.seq_len[0], seed=settings.seed)
