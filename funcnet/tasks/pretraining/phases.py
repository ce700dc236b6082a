"""A run's one or two phases: rows of one length, then longer ones (Google: 128, then 512 in the last tenth)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from funcnet.data import DataLoader
from funcnet.settings import compose
from funcnet.tasks.pretraining.configuration import PretrainingConfig
from funcnet.tasks.pretraining_data.cache import prepare_data
from funcnet.tasks.pretraining_data.progress import progress_bars
from funcnet.tasks.pretraining_data.reader import PretrainingData, open_data
from funcnet.tasks.pretraining_data.settings import DataSettings
from funcnet.train import Interruption


@dataclass(frozen=True)
class Phase:
    """A part of a run.

    Attributes:
        data: what it reads.
        batch_size: rows an update.
        start: how many updates come before it.
        packed: whether a row holds several examples.
    """

    data: PretrainingData
    batch_size: int
    start: int
    packed: bool = False


class Phases:
    """Batches over all phases, by the number of the step: a run goes on from its step alone, before a boundary, on it
    or after it.

    Args:
        phases: at least one, in order; the first starts at 0.
    """

    def __init__(self, phases: Sequence[Phase]):
        self.phases = tuple(phases)
        self._loaders: list[DataLoader] = [
            phase.data.train_batches(phase.batch_size, packed=phase.packed) for phase in phases
        ]

    def batches(self, start: int = 0) -> Iterator[Any]:
        """The batches of the steps from `start` on."""
        first = self.number(start)
        for number in range(first, len(self.phases)):
            begin = self.phases[number].start
            end = self.phases[number + 1].start - begin if number + 1 < len(self.phases) else None
            yield from self._loaders[number].batches(max(start - begin, 0), end)

    def number(self, step: int) -> int:
        """The phase of the batch of a step."""
        return max(number for number, phase in enumerate(self.phases) if phase.start <= step)


def boundary(steps: int, long_share: float) -> int:
    """How many steps the first phase has; the second has at least one.

    Example:
        >>> boundary(1000, 0.1), boundary(3, 0.1)
        (900, 2)
    """
    return min(steps - round(steps * long_share), steps - 1)


def open_phases(config: PretrainingConfig, stop: Interruption) -> Phases:
    """The data of a run: of the folder in `config.data`, or made from its text, or found where they were made before.

    Raises:
        Stopped: a signal came while they were made.
        OSError, ValueError: see `build` and `open_data`; fewer examples than a batch.
    """
    lengths = [config.seq_len] if config.long_seq_len is None else [config.seq_len, config.long_seq_len]
    if config.data is not None:
        data = open_data(config.data, seq_len=lengths[0], seed=config.seed)
    else:
        data = _from_text(config, lengths, stop)
    _tell(data, config)
    phases = [Phase(data, config.batch_size, 0, config.packed)]
    if config.long_seq_len is not None:
        longer = open_data(data.directory, seq_len=config.long_seq_len, seed=config.seed)
        rows = config.long_batch_size or config.batch_size
        phases.append(Phase(longer, rows, boundary(config.steps, config.long_share), config.packed))
    return Phases(phases)


def _from_text(config: PretrainingConfig, lengths: Sequence[int], stop: Interruption) -> PretrainingData:
    with progress_bars(stop) as progress:
        settings = compose(
            DataSettings,
            corpus=config.corpus,
            seq_len=tuple(lengths),
            documents=config.documents,
            field=config.field,
            held_out=config.held_out,
            vocab=config.vocab,
            vocab_size=config.vocab_size,
            cased=config.cased,
            passes=config.passes,
            whole_words=config.whole_words,
            static_masks=config.static_masks,
            seed=config.seed,
        )
        return prepare_data(settings, Path(platformdirs.user_cache_dir("funcnet")) / "data", progress=progress)


def _tell(data: PretrainingData, config: PretrainingConfig) -> None:
    train, held_out = data.statistics["train"], data.statistics.get("evaluation", {"documents": 0, "tokens": 0})
    size = [f"{part['documents']:,} documents, " if "documents" in part else "" for part in (train, held_out)]
    rows = f", {len(data.packed()):,} packed rows" if config.packed else ""
    print(
        f"{size[0]}{train['tokens']:,} tokens, {len(data.train):,} pairs a pass{rows} to train on; "
        f"{size[1]}{held_out['tokens']:,} tokens held out."
    )
    share = held_out["tokens"] / (train["tokens"] + held_out["tokens"])
    if config.data is None and share > max(0.1, 3 * config.held_out):
        print("Much more than --held-out asks for is held out: documents are kept whole.")
