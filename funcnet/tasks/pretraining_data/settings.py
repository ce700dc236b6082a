"""The settings of pretraining data: groups that `funcnet data build` and `funcnet pretrain` share."""

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from funcnet.settings import Range, check_ranges, recorded

__all__ = ["DataSettings", "PairSettings", "TextSettings"]

# The order of the settings in a manifest; a manifest of an earlier version has the same.
RECORDED = (
    *("documents", "field", "language", "held_out", "vocab", "vocab_size", "cased", "seq_len", "passes"),
    *("short_share", "max_predictions", "whole_words", "static_masks", "seed"),
)


@dataclasses.dataclass(frozen=True)
class TextSettings:
    """The text, what is held out of it, and its vocabulary."""

    corpus: Annotated[tuple[Path, ...] | None, tyro.conf.arg(metavar="PATH [PATH ...]")] = None
    """Files or folders to read: text (.txt), JSON lines (.jsonl, .json), a Wikipedia dump (.xml), each of them also
    compressed (.gz, .bz2, .xz), Parquet, or a folder that `datasets` saved. In a folder, only files with these suffixes
    are read, if there are any. The default is the presidential messages of the extra 'demo'."""
    documents: Literal["auto", "file", "blank-line"] = "auto"
    """Documents are whole files, or blocks between blank lines; auto guesses. This concerns plain text only."""
    field: str = "text"
    """Name of the field of JSON lines, or of the column of a table, that has the text."""
    language: str = "en"
    """Language of the text as an ISO 639 code, such as en or de; it decides where sentences end."""
    held_out: Annotated[float, Range(0, 1, below=True)] = 0.05
    """Share of the text that is kept for evaluation, in whole documents, at most four million characters."""
    vocab: Path | None = None
    """Vocabulary to use (vocab.txt, or a directory that contains one); without it, one is trained."""
    vocab_size: Annotated[int, Range(1)] = 4096
    """Size of the vocabulary to train, on at most 32 million characters of the text."""
    cased: bool = False
    """Keep capitals and accents."""

    def check(self, where: str) -> None:
        """Refuse a language that is no code, and a size beside a given vocabulary.

        Args:
            where: the command, as it is typed: the message begins with it.

        Raises:
            ValueError: names the flag, what is expected, and what it is.
        """
        # sentencex reads every language that it does not know as English, "german" too
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]+)*", self.language):
            raise ValueError(f"{where}: --language; expected an ISO 639 code, such as en or de, got {self.language!r}.")
        if self.vocab is not None and self.vocab_size != TextSettings.vocab_size:
            raise ValueError(
                f"{where}: --vocab-size {self.vocab_size} together with --vocab; expected one of them, got both. A "
                "given vocabulary has its own size."
            )


@dataclasses.dataclass(frozen=True)
class PairSettings:
    """The sentence pairs that are made from the text, and which of their words are hidden."""

    passes: Annotated[int, Range(1, 99)] = 10
    """Number of passes over the text, each with other sentence pairs (Google's dupe_factor)."""
    whole_words: bool = False
    """Hide either all pieces of a word or none."""
    static_masks: bool = False
    """Hide the same words whenever a pass is repeated, as Google's script does, instead of drawing them each time."""


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """Everything that determines the bytes of a data directory.

    Example:
        >>> from funcnet.settings import compose
        >>> compose(DataSettings, passes=2, seq_len=(32,)).pairs
        PairSettings(passes=2, whole_words=False, static_masks=False)
    """

    text: TextSettings = TextSettings()
    pairs: PairSettings = PairSettings()
    seq_len: Annotated[tuple[int, ...], Range(5, note="[CLS] a [SEP] b [SEP]")] = (128,)
    """Tokens in a row, [CLS] and [SEP] included; give several lengths for a run in two phases."""
    short_share: Annotated[float, Range(0, 1)] = 0.1
    """Share of the pairs that aim for a shorter length."""
    max_predictions: Annotated[int, Range(1)] | None = None
    """Largest number of masked words per row. The default is 15 % of the row length, rounded up."""
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    """Seed of all random numbers."""

    def check(self, where: str = "data build") -> None:
        """Refuse settings that no data can be made with, before anything is read or written.

        Args:
            where: the command, as it is typed: the message begins with it.

        Raises:
            ValueError: names the flag, what is expected, and what it is.
        """
        check_ranges(self, where)
        self.text.check(where)
        if not self.seq_len or len(set(self.seq_len)) < len(self.seq_len):
            raise ValueError(f"{where}: --seq-len; expected lengths that differ, got {list(self.seq_len)}.")

    def recorded(self, vocabulary: str | None) -> dict[str, Any]:
        """The settings as a manifest holds them: without the place of the corpus, and for the path of a given
        vocabulary its digest.

        Args:
            vocabulary: that digest; None where a vocabulary is trained.
        """
        values = {**recorded(self), "vocab": vocabulary}
        return {name: values[name] for name in RECORDED}
