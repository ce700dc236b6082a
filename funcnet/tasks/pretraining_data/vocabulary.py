"""The vocabulary of a data directory, which is given or trained on a sample of the training documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from funcnet.data import draw_bits, to_uniform
from funcnet.tasks.pretraining_data.build_state import BuildState
from funcnet.tasks.pretraining_data.data_settings import TextSettings
from funcnet.tasks.pretraining_data.manifest import VOCABULARY
from funcnet.tasks.pretraining_data.text_shards import TRAIN, DocumentTable
from funcnet.text import load_tokenizer, save_tokenizer, train_wordpiece, vocabulary_digest

__all__ = ["digest_in", "given_vocabulary", "write_vocabulary"]

SAMPLE = 32_000_000  # maximum number of characters on which a vocabulary is trained


def given_vocabulary(text: TextSettings) -> Tokenizer | None:
    """Return the tokenizer of `--vocab`, or None if a tokenizer must be trained."""
    return None if text.vocab is None else load_tokenizer(text.vocab, lower_case=False if text.cased else None)


def write_vocabulary(build: BuildState, documents: DocumentTable) -> None:
    """Write the files of the vocabulary, unless they are already complete, and record the digest of the vocabulary in
    the manifest.
    """
    digest = digest_in(build.folder)
    if digest is None or digest != build.manifest.vocabulary:
        build.progress("vocabulary", 0, 1)
        text = build.settings.text
        tokenizer = given_vocabulary(text)
        if tokenizer is None:
            tokenizer = train_wordpiece(_sample(build, documents), text.vocab_size, lower_case=not text.cased)
        save_tokenizer(tokenizer, build.folder, max_length=max(build.settings.seq_len))
        build.manifest.vocabulary = vocabulary_digest(tokenizer)
        build.save()
    build.progress("vocabulary", 1, 1)


def digest_in(folder: Path) -> str | None:
    """Return the digest of the vocabulary in a folder, or None if the vocabulary is not complete."""
    if not all((folder / name).is_file() for name in VOCABULARY):
        return None
    try:
        return vocabulary_digest(load_tokenizer(folder))
    except ValueError:
        return None


def _sample(build: BuildState, documents: DocumentTable) -> Iterator[str]:
    """Return a random sample of training documents with about `SAMPLE` characters in total, or all training documents
    if they have fewer characters.
    """
    train = documents.role == TRAIN
    share = SAMPLE / max(int(documents.characters[train].sum()), 1)
    chosen = train & (to_uniform(draw_bits(build.settings.seed, np.arange(len(train)))) < share)
    return (" ".join(sentences) for sentences in documents.texts(build.folder, chosen))
