"""From raw text to what a pretraining run reads, in one call, kept on disk and found again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from funcnet.tasks.pretraining_data.build import build
from funcnet.tasks.pretraining_data.manifest import FORMAT, Progress
from funcnet.tasks.pretraining_data.reader import Prepared, open_data
from funcnet.tasks.pretraining_data.settings import DataSettings
from funcnet.tasks.pretraining_data.shard import digest_of
from funcnet.tasks.pretraining_data.sources import describe_sources
from funcnet.text import load_tokenizer, open_corpus, vocabulary_digest


def prepare(
    corpus: str | Path | Sequence[str | Path] | None = None,
    *,
    directory: str | Path,
    seq_len: int | Sequence[int] = 128,
    processes: int = 1,
    progress: Progress | None = None,
    **settings: Any,
) -> Prepared:
    """Makes the data of a pretraining run from raw text, or opens what an earlier call with the same text and settings
    made: `build` in a folder named by the digest of both, and `open_data`.

    Args:
        corpus: files and folders of text; None is the default corpus. See `funcnet.text.open_corpus`.
        directory: where that folder lies; a cache that runs may share.
        seq_len: T, of all batches; of several the first is opened, the others by `open_data` from its directory.
        processes: see `build`.
        progress: called as `progress(step, done, total)`; steps are reading, sentences, vocabulary, tokens, pairs,
            report.
        settings: see `DataSettings`.

    Returns:
        A `Prepared`.

    Raises:
        OSError, ValueError: as `build`. Of a corpus that no data can be made of nothing is left.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = "\\n\\n".join(f"This is text {i}. It goes on {i} times. Then it ends." for i in range(40))
        ...     _ = Path(folder, "corpus.txt").write_text(text)
        ...     data = prepare(f"{folder}/corpus.txt", directory=f"{folder}/data", seq_len=32, vocab_size=100)
        ...     batch = next(data.train_batches(8).batches())
        >>> batch["input_ids"].shape, batch["masked_positions"].shape, data.statistics["train"]["documents"]
        ((8, 32), (8, 5), 38)
    """
    paths = (corpus,) if isinstance(corpus, str | Path) else corpus
    lengths = (seq_len,) if isinstance(seq_len, int) else tuple(seq_len)
    given_paths = None if paths is None else tuple(Path(path) for path in paths)
    wanted = DataSettings(corpus=given_paths, seq_len=lengths, **settings)
    wanted.check()
    found = open_corpus(wanted.corpus, documents=wanted.documents, field=wanted.field)
    sources = describe_sources(found, None, progress)
    given = None
    if wanted.vocab is not None:
        given = vocabulary_digest(load_tokenizer(wanted.vocab, lower_case=False if wanted.cased else None))
    text = [(one["name"], one["sha256"]) for one in sources]  # a name says how the file is read
    told = {"format": FORMAT, "settings": wanted.told(given), "text": text, "layout": found.layout}
    folder = Path(directory) / digest_of(told)[:16]
    build(folder, wanted, corpus=found, processes=processes, progress=progress)
    return open_data(folder, seq_len=lengths[0], seed=wanted.seed)
