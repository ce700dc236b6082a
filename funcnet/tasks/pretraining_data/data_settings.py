"""The settings of pretraining data: groups that `funcnet data build` and `funcnet pretrain` share."""

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from funcnet.settings import Range, check_ranges, recorded, with_helps

__all__ = ["DataSettings", "PairSettings", "TextSettings"]

# The order of the settings in a manifest. Earlier versions used the same order.
RECORDED = (
    *("documents", "field", "language", "held_out", "vocab", "vocab_size", "cased", "seq_len", "passes"),
    *("short_share", "max_predictions", "whole_words", "static_masks", "seed"),
)


@with_helps
@dataclasses.dataclass(frozen=True)
class TextSettings:
    """The text, its held-out share, and its vocabulary."""

    corpus: Annotated[tuple[Path, ...] | None, tyro.conf.arg(metavar="PATH [PATH ...]")] = None
    """Files or folders to read. A file may be text (.txt), JSON lines (.jsonl, .json), a Wikipedia dump (.xml) or
    Parquet. All but Parquet may be compressed (.gz, .bz2, .xz). A folder saved by `datasets` also works. If a folder
    has files with these suffixes, its other files are ignored. The default is the presidential messages, which the
    extra 'demo' installs."""
    documents: Literal["auto", "file", "blank-line"] = "auto"
    """How plain text is divided into documents. "file": each file is one document. "blank-line": a blank line ends a
    document. "auto": the choice depends on the number, the size and the content of the files."""
    field: str = "text"
    """Name of the field (JSON lines) or column (tables) that contains the text."""
    language: str = "en"
    """Language of the text as an ISO 639 code, such as en or de. The language determines how the text is split into
    sentences.
    """
    held_out: Annotated[float, Range(0, 1, below=True)] = 0.05
    """Fraction of the text to hold out for evaluation. Documents are not split. At most four million characters are
    held out."""
    vocab: Path | None = None
    """Vocabulary to use: a vocab.txt, or a directory that contains one. By default, a vocabulary is trained on the
    text."""
    vocab_size: Annotated[int, Range(1)] = 4096
    """Size of the vocabulary to train. The vocabulary is trained on at most 32 million characters of the text."""
    cased: bool = False
    """Keep capital letters and accents."""

    def check(self, where: str) -> None:
        """Raise a ValueError if the language is not an ISO 639 code, or a vocabulary and its size are both given.

        The message begins with `where`, the name of the command, and names the flag.
        """
        # sentencex treats every unknown language as English, for example "german"
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]+)*", self.language):
            raise ValueError(
                f"{where}: --language is unknown; expected an ISO 639 code, such as en or de, got {self.language!r}."
            )
        if self.vocab is not None and self.vocab_size != TextSettings.vocab_size:
            raise ValueError(
                f"{where}: --vocab-size {self.vocab_size} cannot be combined with --vocab; expected one of them, got "
                "both. Omit --vocab-size, because a given vocabulary has a fixed size."
            )


@with_helps
@dataclasses.dataclass(frozen=True)
class PairSettings:
    """The sentence pairs that are built from the text, and the masking of their words."""

    passes: Annotated[int, Range(1, 99)] = 10
    """Number of passes over the text. Each pass builds different sentence pairs (Google's dupe_factor)."""
    whole_words: bool = False
    """Mask whole words: either all pieces of a word or none."""
    static_masks: bool = False
    """Mask the same words whenever a pass is repeated, as with Google's script. By default, new words are drawn each
    time."""


@with_helps
@dataclasses.dataclass(frozen=True)
class DataSettings:
    """All settings that determine the bytes of a data directory.

    Example:
        >>> from funcnet.settings import compose
        >>> compose(DataSettings, passes=2, seq_len=(32,)).pairs
        PairSettings(passes=2, whole_words=False, static_masks=False)
    """

    text: TextSettings = TextSettings()
    pairs: PairSettings = PairSettings()
    seq_len: Annotated[tuple[int, ...], Range(5, note="[CLS] a [SEP] b [SEP]")] = (128,)
    """Number of tokens per row, including [CLS] and [SEP]. Several lengths may be given, for runs in two phases."""
    short_share: Annotated[float, Range(0, 1)] = 0.1
    """Fraction of the sentence pairs that get a shorter target length, which is drawn at random."""
    max_predictions: Annotated[int, Range(1)] | None = None
    """Maximum number of masked words per row. The default is 15 % of the row length, rounded up."""
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    """Seed of all random numbers."""

    def check(self, where: str = "data build") -> None:
        """Check the settings before anything is read or written.

        The message of the `ValueError` begins with `where`, the name of the command, and names the flag.
        """
        check_ranges(self, where)
        self.text.check(where)
        if not self.seq_len or len(set(self.seq_len)) < len(self.seq_len):
            raise ValueError(
                f"{where}: --seq-len is invalid; expected one or more different lengths, got {list(self.seq_len)}."
            )

    def recorded(self, vocabulary: str | None) -> dict[str, Any]:
        """Return the settings in the form in which the manifest stores them, without the path of the corpus.

        `vocabulary` replaces the path of the vocabulary. `vocabulary` is the digest of a given vocabulary, or None if a
        vocabulary is trained.
        """
        values = {**recorded(self), "vocab": vocabulary}
        return {name: values[name] for name in RECORDED}
