"""The phases of a pretraining run, which uses rows of one length and then, optionally, longer rows. (Google's recipe
uses 128 tokens, and 512 in the last tenth of the steps.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from funcnet.data.fetch import Rows
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining_data import DataSettings, PretrainingData, open_data, prepare_data
from funcnet.tasks.pretraining_data.progress import progress_bars
from funcnet.train import Interruption

__all__ = ["Phase", "Phases", "boundary", "open_phases"]


@dataclass(frozen=True)
class Phase:
    """A phase of a run, which starts after `start` updates. If `packed` is True, a row contains several examples."""

    data: PretrainingData
    batch_size: int
    start: int
    packed: bool = False


class Phases:
    """Yields the batches of all phases of a run, one phase after the other. The number of a step determines its batch,
    so a run can resume at any step. The first phase starts at step 0.

    Args:
        phases: the phases.
        rows: which rows of each batch are read; see `DataLoader.read_rows`.
    """

    def __init__(self, phases: Sequence[Phase], rows: Rows = None):
        self.phases = tuple(phases)
        self._loaders = [phase.data.train_batches(phase.batch_size, packed=phase.packed) for phase in phases]
        for loader in self._loaders:
            loader.read_rows(rows)

    def batches(self, start: int = 0) -> Iterator[Any]:
        """Yield the batches of the training steps, beginning with step `start`."""
        first = self.number(start)
        for number in range(first, len(self.phases)):
            begin = self.phases[number].start
            end = self.phases[number + 1].start - begin if number + 1 < len(self.phases) else None
            yield from self._loaders[number].batches(max(start - begin, 0), end)

    def number(self, step: int) -> int:
        """Return the index of the phase to which a training step belongs."""
        return max(number for number, phase in enumerate(self.phases) if phase.start <= step)


def boundary(steps: int, long_share: float) -> int:
    """Return the number of steps in the first phase. The second phase has `long_share` of all steps, and at least one
    step.
    """
    return min(steps - round(steps * long_share), steps - 1)


def open_phases(settings: PretrainingSettings, stop: Interruption, own_rows: Rows = None) -> Phases:
    """Open the data of a pretraining run. The data are in the folder --data, or are built from the text and cached for
    later runs.

    A signal while the data are built raises `Stopped`.
    """
    model, rows = settings.model, settings.loop.batch_size
    lengths = [model.seq_len] if model.long_seq_len is None else [model.seq_len, model.long_seq_len]
    if settings.data is not None:
        data = open_data(settings.data, seq_len=lengths[0], seed=settings.run.seed)
    else:
        with progress_bars(stop) as progress:
            wanted = DataSettings(settings.text, settings.pairs, tuple(lengths), seed=settings.run.seed)
            data = prepare_data(wanted, Path(platformdirs.user_cache_dir("funcnet")) / "data", progress=progress)
    _describe(data, settings)
    phases = [Phase(data, rows, 0, model.packed)]
    if model.long_seq_len is not None:
        longer = open_data(data.directory, seq_len=model.long_seq_len, seed=settings.run.seed)
        start = boundary(settings.optimizer.steps, model.long_share)
        phases.append(Phase(longer, model.long_batch_size or rows, start, model.packed))
    return Phases(phases, own_rows)


def _describe(data: PretrainingData, settings: PretrainingSettings) -> None:
    train, held_out = data.statistics["train"], data.statistics.get("evaluation", {"documents": 0, "tokens": 0})
    size = [f"{part['documents']:,} documents, " if "documents" in part else "" for part in (train, held_out)]
    rows = f", {len(data.packed()):,} packed rows" if settings.model.packed else ""
    print(
        f"Training: {size[0]}{train['tokens']:,} tokens, {len(data.train):,} pairs per pass{rows}. "
        f"Held out: {size[1]}{held_out['tokens']:,} tokens."
    )
    share = held_out["tokens"] / (train["tokens"] + held_out["tokens"])
    if settings.data is None and share > max(0.1, 3 * settings.text.held_out):
        print("More text is held out than --held-out requests, because documents are never split.")
