"""The interface between `run_task` and the task that it trains.

A *task* defines the initial parameters, the loss (objective and counts, see `funcnet.train.step`), the batches, the
evaluation and the files of the trained model. `run_task` handles devices, checkpoints and signals, and does not know
the model.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from numpy.typing import NDArray

from funcnet import nn, tree
from funcnet.arguments import boolean, expect, integer
from funcnet.parallel import AXIS, Layout, process_count
from funcnet.train.interruption import Interruption
from funcnet.train.loop import Cadence, Outcome
from funcnet.train.precision import Precision
from funcnet.train.report_picture import Matrix, Panel
from funcnet.train.state import TrainState
from funcnet.train.step import Buffers, UpdateExtra
from funcnet.tree import Params, PyTree, State

__all__ = ["Best", "Conclusion", "Context", "Ended", "Task", "layout_for"]

Sums = dict[str, dict[str, jax.Array]]


@dataclasses.dataclass(frozen=True)
class Context:
    """The devices, the precision and the interruption of a run, which the run passes to its task.

    Attributes:
        layout: the devices and the mesh of the run. This layout does not yet have the sharding rules of the net; see
            `Task.layout`.
        precision: precision policy of the step.
        stop: the interruption of the run. Slow code should check `stop.requested`, which is True after a signal.
        reads_all: whether each process must read all rows.
    """

    layout: Layout
    precision: Precision
    stop: Interruption
    reads_all: bool = False

    @property
    def own_rows(self) -> Callable[[int], NDArray[np.int64]] | None:
        """A function that returns which rows of a batch of B rows this process reads, or None if it reads all rows. The
        only process of a run reads all rows. A loader accepts it as `read_rows(own_rows)`.
        """
        return None if self.reads_all or process_count() == 1 else self.layout.own_rows


@dataclasses.dataclass(frozen=True)
class Best:
    """Keep the best model of all evaluations instead of the last one.

    Attributes:
        metric: name of the evaluation metric to compare. If two values are equal, the evaluation with the lower loss is
            better.
        largest: whether a larger value is better.
        patience: number of evaluations without improvement after which the run ends. With 0, the run does not end
            early.

    Raises:
        TypeError: if an attribute has the wrong type.
        ValueError: if `patience` is negative.
    """

    metric: str
    largest: bool = True
    patience: int = 0

    def __post_init__(self) -> None:
        where = "train.Best"
        expect(isinstance(self.metric, str), where, "metric", "the name of a metric, such as 'loss'", self.metric)
        boolean(where, "largest", self.largest)
        integer(where, "patience", self.patience, 0)


@dataclasses.dataclass(frozen=True)
class Ended:
    """The end of a training with one seed, from which `Task.conclude` computes the results.

    Attributes:
        folder: the run directory, or the directory of one seed in it.
        seed: the seed of the training.
        rows: the rows of metrics.jsonl.
        state: the last train state, on the devices, or None if the training ended in an earlier process.
        outcome: the result of the loop, or None if the training ended in an earlier process.
    """

    folder: Path
    seed: int
    rows: list[dict[str, Any]]
    state: TrainState | None
    outcome: Outcome | None


@dataclasses.dataclass(frozen=True)
class Conclusion:
    """The results of a finished training, which `Task.conclude` returns.

    Attributes:
        values: content of eval.json. If `values` is empty, eval.json is not written.
        panels: plots of report.png.
        title: title of report.png.
        subtitle: subtitle of report.png.
        notes: lines to print.
    """

    values: Mapping[str, Any]
    panels: Sequence[Panel | Matrix]
    title: str
    subtitle: str
    notes: Sequence[str] = ()


class Task:
    """The base class of tasks. A subclass sets the attributes in its constructor, and overrides the methods that raise
    NotImplementedError here.

    See `run_task` for a task that is complete.

    Attributes:
        name: name of the model, for the line that a run prints at its start.
        cadence: the number of steps, and when to log, evaluate and save.
        net: the description of the net. The run shards its parameters, buffers and outputs, and those of the
            optimizer state, on the mesh. A task without a net can use only the mesh axis `data`.
        sequences: names of the leaves of a batch that contain sequences, (rows, length, …), which the run shards along
            the mesh axis `context`. None shards all leaves whose dimension 1 is a multiple of the size of the axis. ()
            means that the task does not support the axis.
        layout: the layout of the arrays on the devices. The run sets it after the constructor of the task.
        optimizer: an optax transformation, which includes gradient clipping, if any.
        schedule: the learning rate of the optimizer, for the metrics.
        trainable: patterns for the names of the trainable parameters.
        buffers: see `make_step`.
        ema: decay rate of the moving average of the weights, `TrainState.ema`. The average is saved in the folder `ema`
            of the run, by `save`. None keeps no average.
        update_extra: see `make_step`.
        checks_objective: whether a new run first checks that the objective returns sums. The check compiles the
            objective for two small batches.
        reads_own_rows: if True, each process of a run reads only its share of the data. Of each batch of B rows,
            `batches` then yields only the rows `context.own_rows(B)`. A task that can do so sets this attribute to
            `context.own_rows is not None`.
        unit: the unit that `size` counts, such as "tokens" or "images".
        shown: {label: name of the metric} for the progress bar.
        evaluated: prefix that is added to the labels of `shown` for the metrics of an evaluation.
        facts: facts that a resumed run must find again, such as digests of the data. The mappings in this sequence are
            checked one after the other.
        sources: {name of a fact: the file that it describes}.
        best: how the best model is chosen. None keeps the last model.
        keep: the number of newest checkpoints to keep.
        rewind_above: a loss above this multiple of its moving average is a spike, and the run goes back to an earlier
            checkpoint. 0 finds no spikes. A task with `best` cannot go back.
        keeps_checkpoints: whether to keep the checkpoints after the run has finished.
        seeds: seeds to train with, one after the other. If there are several, each seed has a separate folder. If there
            are none, the seed of the settings is used.

    Example:
        >>> import numpy as np
        >>> class Mean(Task):  # learns the mean of its data
        ...     name, cadence, optimizer = "mean", Cadence(10), optax.sgd(0.25)
        ...     def counts(self, batch):
        ...         return {"fit": batch.shape[0]}
        ...     def objective(self, params, state, batch, *, training, rng):
        ...         return {"fit": {"loss": ((batch - params["mean"]) ** 2).sum()}}, state
        >>> task, batch = Mean(), np.array([1.0, 3.0])
        >>> sums, state = task.objective({"mean": 2.0}, {}, batch, training=True, rng=None)
        >>> float(sums["fit"]["loss"]), task.counts(batch)
        (2.0, {'fit': 2})
    """

    name: str
    cadence: Cadence
    net: nn.Module
    sequences: tuple[str, ...] | None = None
    layout: Layout
    optimizer: optax.GradientTransformation
    schedule: optax.Schedule | None = None
    trainable: tree.Patterns = "**"
    buffers: Buffers = "synced"
    ema: float | None = None
    update_extra: UpdateExtra | None = None
    checks_objective: bool = True
    reads_own_rows: bool = False
    unit: str = "examples"
    shown: Mapping[str, str] = {"loss": "loss"}
    evaluated: str = "held-out"
    facts: Sequence[Mapping[str, Any]] = ()
    sources: Mapping[str, str] = {}
    best: Best | None = None
    keep: int = 2
    rewind_above: float = 0.0
    keeps_checkpoints: bool = True
    seeds: Sequence[int] = ()

    def init(self, seed: int) -> tuple[tree.Tree, tree.Tree]:
        """Return the initial (params, state). By default, `net` initialises them.

        Args:
            seed: the seed of the training.
        """
        if not hasattr(self, "net"):
            raise NotImplementedError
        params, state = jax.jit(self.net.init)(jax.random.key(seed))
        return params, state

    def initializer(self) -> Callable[[jax.Array], tuple[tree.Tree, tree.Tree]] | None:
        """Return a pure function of a key whose result for `jax.random.key(seed)` is `init(seed)`, or None if there is
        no such function. The run compiles it, so that each device computes only its own part of each array. The result
        of `init` is on one device or on the host before it is sharded.

        By default, the function is `net.init`, or None if a subclass overrides `init`.
        """
        return self.net.init if hasattr(self, "net") and type(self).init is Task.init else None

    def shapes(self) -> tuple[tree.Tree, tree.Tree] | None:
        """Return (params, state) of `net` with shapes and dtypes. None, the default, means those that `net.init`
        returns. A task whose net has lazy modules must override this method.
        """
        return None

    def extra(self, seed: int) -> Any:
        """Return the initial `TrainState.extra`, a pytree of the task's own values, or None.

        Each step may change these values, and the checkpoints contain them. Unless this method returns None, the
        objective receives the values as the keyword argument `extra`.
        """
        return None

    def objective(
        self, params: Params, state: State, batch: PyTree, *, training: bool, rng: jax.Array | None
    ) -> tuple[Sums, Any]:
        """Return the loss and the metrics of a batch, as sums, and the new buffers; see `funcnet.train.step`."""
        raise NotImplementedError

    def counts(self, batch: PyTree) -> dict[str, jax.Array]:
        """Return the counts by which the sums of `objective` are divided; see `funcnet.train.step`."""
        raise NotImplementedError

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        """Return the training data: a function `batches(start_step)` that returns the host batches from that step on.

        A batch must depend only on the seed and its step, so that a resumed run sees the same data.
        """
        raise NotImplementedError

    def place(self, batch: PyTree) -> Any:
        """Place a batch on the devices, of which this process has read all rows or, with `reads_own_rows`, its own."""
        return self.layout.shard_own(batch) if self.reads_own_rows else self.layout.shard(batch)

    def what_is_read(self, seed: int) -> Mapping[str, Any]:
        """Return facts, by name, that must be equal in all processes if each reads only its own rows, for example the
        order of the rows. Facts and settings of a run are compared in any case.
        """
        return {}

    def size(self, batch: PyTree) -> int:
        """Return the number of tokens, images, … in a host batch, without padding, for the throughput."""
        raise NotImplementedError

    def evaluator(self) -> Callable[[TrainState], dict[str, float]] | None:
        """Return a function that evaluates a placed train state on held-out data, or None if there are no such data.
        This method is called once per run. The function returns {metric: value}.
        """
        return None

    def check_evaluation(self, model: tuple[Any, ...]) -> None:
        """Check, before a new run makes its first step, that the model can be evaluated. By default, nothing is
        checked. The method is called only if `checks_objective` is True.

        Args:
            model: (params, state) or (params, state, extra), placed on the devices.

        Raises:
            ValueError: if the evaluation fails, or lacks the metric of `best`.
        """

    def save(self, folder: Path, params: tree.Tree, state: tree.Tree) -> None:
        """Write the files of the model, including `model.safetensors`.

        Args:
            folder: the directory to write to.
            params: parameters as numpy arrays.
            state: buffers as numpy arrays.
        """
        raise NotImplementedError

    def conclude(self, ended: Ended) -> Conclusion | None:
        """Compute the results of a finished training.

        Returns:
            The results, or None if a signal arrived first. If a signal arrived, the resumed run calls this method
            again.
        """
        raise NotImplementedError


def layout_for(task: Task, layout: Layout) -> Layout:
    """Return the layout of a run with the sharding rules of the task's net.

    Args:
        task: the task.
        layout: the layout of the run, `Context.layout`.

    Raises:
        ValueError: as `Layout.for_net`, or if the task has no net, and the mesh has axes other than `data`.
    """
    if hasattr(task, "net"):
        return layout.for_net(task.net, task.sequences, start=task.shapes())
    others = [axis for axis, size in layout.mesh.shape.items() if axis != AXIS and size > 1]
    if others or layout.rules:
        raise ValueError(
            f"train.Task: the task {task.name!r} has no net whose parameters can be sharded; expected a mesh with the "
            f"axis {AXIS} alone, and no sharding rules, got {layout}. Set the attribute `net` of the task."
        )
    return layout
