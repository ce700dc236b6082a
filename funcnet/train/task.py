"""What a run trains: the value that `run_task` is given, and what it hands over and gets back.

A *task* says what to initialise, what is learnt (objective and counts, see `funcnet.train.step`), from which batches,
how the model is evaluated, and what stands in the run's directory at the end. It knows nothing of devices, checkpoints
or signals; `run_task` knows nothing of models.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import optax

from funcnet import tree
from funcnet.parallel import Layout
from funcnet.train.interruption import Interruption
from funcnet.train.loop import Cadence, Outcome
from funcnet.train.precision import Precision
from funcnet.train.report import Matrix, Panel
from funcnet.train.state import TrainState

__all__ = ["Best", "Conclusion", "Context", "Ended", "Task"]

Sums = dict[str, dict[str, jax.Array]]


@dataclasses.dataclass(frozen=True)
class Context:
    """What a task may know of its run.

    Attributes:
        layout: of the run's arrays; `place`, `shard` and `parallelize` take it.
        precision: of the run's step.
        stop: asked by anything slow; see `Interruption`.
    """

    layout: Layout
    precision: Precision
    stop: Interruption


@dataclasses.dataclass(frozen=True)
class Best:
    """Keeps the best model of all evaluations in place of the last one.

    Attributes:
        metric: the evaluation's figure that decides; of equal ones the lower loss.
        largest: whether a larger figure is better.
        patience: evaluations without a better figure after which the run ends; 0: never.
    """

    metric: str
    largest: bool = True
    patience: int = 0


@dataclasses.dataclass(frozen=True)
class Ended:
    """What `Task.conclude` may look at.

    Attributes:
        folder: of the run, or of one seed in it.
        seed: of this run.
        rows: of metrics.jsonl.
        state: as the last step left it, on the devices; None where the run had ended before this process began.
        outcome: of the loop in this process; likewise.
    """

    folder: Path
    seed: int
    rows: list[dict[str, Any]]
    state: TrainState | None
    outcome: Outcome | None


@dataclasses.dataclass(frozen=True)
class Conclusion:
    """What a finished run says.

    Attributes:
        values: of eval.json; nothing is written where it is empty.
        panels: of report.png.
        title, subtitle: of report.png.
        notes: lines for a person.
    """

    values: Mapping[str, Any]
    panels: Sequence[Panel | Matrix]
    title: str
    subtitle: str
    notes: Sequence[str] = ()


class Task:
    """What a run trains. Subclass it: set the attributes in the constructor, and define the methods that raise.

    Attributes:
        name: of the model, for the first line that a run prints.
        cadence: how many steps, and when to log, evaluate and save.
        optimizer: an optax transformation; clipping belongs to it.
        schedule: the learning rate that the optimizer follows, for the metrics.
        trainable: patterns of the parameters that train.
        buffers: see `make_step`.
        unit: what `size` counts, "tokens" or "images".
        shown: {label: metric} in the progress bar.
        facts: what a resumed run must find again (digests of the data), each mapping checked before the next.
        sources: {fact: the file that it comes from}.
        best: which model is kept; None: the last.
        keep: how many checkpoints are kept.
        keeps_checkpoints: whether they stay when the run has finished.
        seeds: the seeds of a run that is repeated; each has a folder of its own.
    """

    name: str
    cadence: Cadence
    optimizer: optax.GradientTransformation
    schedule: optax.Schedule | None = None
    trainable: tree.Patterns = "**"
    buffers: Literal["synced", "averaged"] = "synced"
    unit: str = "examples"
    shown: Mapping[str, str] = {"loss": "loss"}
    facts: Sequence[Mapping[str, Any]] = ()
    sources: Mapping[str, str] = {}
    best: Best | None = None
    keep: int = 2
    keeps_checkpoints: bool = True
    seeds: Sequence[int] = ()

    def init(self, seed: int) -> tuple[tree.Tree, tree.Tree]:
        """(params, state) before the first step."""
        raise NotImplementedError

    def objective(self, params: Any, state: Any, batch: Any, *, training: bool, rng: Any) -> tuple[Sums, Any]:
        """See `funcnet.train.step`."""
        raise NotImplementedError

    def counts(self, batch: Any) -> dict[str, jax.Array]:
        """See `funcnet.train.step`."""
        raise NotImplementedError

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        """`batches(start_step)`: the host batches from that step on, a function of seed and step alone."""
        raise NotImplementedError

    def size(self, batch: Any) -> int:
        """How many tokens, images, … a host batch holds, for the throughput."""
        raise NotImplementedError

    def evaluator(self) -> Callable[[TrainState], dict[str, float]] | None:
        """The evaluation on held-out data; None where there are none. Made once, called with placed states."""
        return None

    def save(self, folder: Path, params: tree.Tree, state: tree.Tree) -> None:
        """Writes the model, `model.safetensors` among its files, from whole numpy arrays."""
        raise NotImplementedError

    def conclude(self, ended: Ended) -> Conclusion | None:
        """Looks at the finished model. None: a signal came first; the run is concluded when it is resumed."""
        raise NotImplementedError
