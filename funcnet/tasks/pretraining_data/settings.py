"""What data are made from text: the settings of `funcnet data build`, each with its reason."""

import dataclasses
import math
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

__all__ = ["BuildData", "DataSettings"]


@dataclasses.dataclass(frozen=True)
class DataSettings:
    """Everything that the bytes of a data directory follow from."""

    corpus: Annotated[tuple[Path, ...] | None, tyro.conf.arg(metavar="PATH [PATH ...]")] = None
    """files, or folders of them: text (.txt), JSON lines (.jsonl, .json), a Wikipedia dump (.xml), these compressed too
    (.gz, .bz2, .xz), Parquet, a folder that `datasets` saved; of a folder, where one has such a name, those alone;
    without any the presidential messages of the extra 'demo'"""
    documents: Literal["auto", "file", "blank-line"] = "auto"
    """what is a document in text: a whole file, or what stands between blank lines"""
    field: str = "text"
    """of JSON lines, or column of a table, with the text"""
    language: str = "en"
    """of the text, as in ISO 639: where its sentences end"""
    held_out: float = 0.05
    """share of the text kept for evaluation, by whole documents, four million characters at most"""
    vocab: Path | None = None
    """a vocabulary (vocab.txt, or a directory with one) to use instead of training one"""
    vocab_size: int = 4096
    """size of the vocabulary to train, on 32 million characters of the text at most"""
    cased: bool = False
    """keep capitals and accents"""
    seq_len: tuple[int, ...] = (128,)
    """tokens a row, [CLS] and [SEP] included; several for a run in two phases"""
    passes: int = 10
    """over the text, each with other sentence pairs (Google's dupe_factor)"""
    short_share: float = 0.1
    """of pairs that aim for a shorter length"""
    max_predictions: int | None = None
    """most hidden words of a row; without it 15 % of its length, rounded up"""
    whole_words: bool = False
    """hide all pieces of a word or none"""
    static_masks: bool = False
    """the words hidden in a pass are the same at every visit, as in Google's script; else they are drawn anew"""
    seed: int = 0
    """of everything random"""

    def check(self) -> None:
        """Refuses what no data can be made of, before anything is read or written.

        Raises:
            ValueError: names the flag, what it may be, and what it is.
        """
        ranges: dict[str, tuple[float, float, str]] = {
            "held_out": (0, 1 - 1e-9, "from 0 to below 1"),
            "vocab_size": (1, math.inf, "at least 1"),
            "passes": (1, 99, "1 to 99"),
            "short_share": (0, 1, "0 to 1"),
            "max_predictions": (1, math.inf, "at least 1"),
            "seed": (0, 2**63 - 1, "0 to 2**63 - 1"),
        }
        for name, (low, high, expected) in ranges.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"data build: --{name.replace('_', '-')}; expected {expected}, got {value}.")
        # sentencex reads all it does not know as English, "german" too
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z]+)*", self.language):
            raise ValueError(
                f"data build: --language; expected a code as in ISO 639, such as en or de, got {self.language!r}. "
                "Give the code."
            )
        if not self.seq_len or len(set(self.seq_len)) < len(self.seq_len):
            raise ValueError(f"data build: --seq-len; expected lengths that differ, got {list(self.seq_len)}.")
        if min(self.seq_len) < 5:
            raise ValueError(
                "data build: seq_len holds no pair; expected at least 5 ([CLS] a [SEP] b [SEP]), got "
                f"{min(self.seq_len)}. Raise it."
            )
        sizes = {field.name: field.default for field in dataclasses.fields(self)}
        if self.vocab is not None and self.vocab_size != sizes["vocab_size"]:
            raise ValueError(
                f"data build: vocab_size {self.vocab_size} together with vocab; expected one of them, got both. A "
                "given vocabulary has its own size: leave vocab_size out."
            )

    def told(self, vocabulary: str | None) -> dict[str, Any]:
        """As JSON, without where things lie: the digest of the given vocabulary in place of its path."""
        values = dataclasses.asdict(self)
        names = [field.name for field in dataclasses.fields(DataSettings) if field.name != "corpus"]
        return {**{name: values[name] for name in names}, "vocab": vocabulary, "seq_len": list(self.seq_len)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildData(DataSettings):
    """Make the data of pretraining runs from text of any size, for `funcnet pretrain --data`.

    Writes into --out shards of tokens and of sentence pairs, the vocabulary, a manifest and a report (report.txt,
    report.json, report.png), in little memory: 1 GB of text took 425 MB with one process, 663 with two, 895 with
    four. Killed, it goes on when it is called again; called on what is complete, it looks everything over and makes
    what is damaged again.

    Exit codes: 0 done; 2 something in the arguments, the text or on the disk is wrong (a line says what); 130 after
    Ctrl-C and 143 after SIGTERM: call it again to go on.
    """

    out: Path
    """the folder"""
    processes: int = os.cpu_count() or 1
    """workers; what is written does not depend on how many"""
