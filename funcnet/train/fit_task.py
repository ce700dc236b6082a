"""The `Task` that `fit` makes from its arguments."""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax

from funcnet import nn, tree, weights
from funcnet.data import DataLoader
from funcnet.parallel import parallelize
from funcnet.settings import Range
from funcnet.train.batches import LoaderBatches, OpenedBatches
from funcnet.train.best_evaluation import goodness
from funcnet.train.errors import RunError
from funcnet.train.fit_data import divides_rows, epoch_length, length_of, make_loader, what_is_read
from funcnet.train.fit_evaluation import Evaluated, FitEvaluator, validation_batches
from funcnet.train.fit_loss import Bound, checked_losses, checked_outputs
from funcnet.train.loop import Cadence
from funcnet.train.nan_trace import lift, lower
from funcnet.train.precision import FLOAT32, at_least_float32
from funcnet.train.report_picture import Matrix, Panel
from funcnet.train.setting_groups import DeviceSettings, LoopSettings, RunSettings
from funcnet.train.step import Buffers, UpdateExtra, make_eval_step
from funcnet.train.task_interface import Best, Conclusion, Context, Ended, Task
from funcnet.train.user_functions import calling
from funcnet.tree import Params, PyTree, State

__all__ = ["FitCheckpointSettings", "FitSettings", "FitTask", "Plan", "trainable_names"]

LOGGED = ("step", "loss", "grad_norm", "learning_rate", "data_wait_share", "skipped_steps", "nonfinite_steps")


@dataclasses.dataclass(frozen=True)
class Plan:
    """The arguments of `fit` that are not written to the record of the run, run.json. See `fit`."""

    net: nn.Module
    loss: Callable[..., Any]
    data: Any
    optimizer: optax.GradientTransformation
    validation: Any = None
    weight: Callable[[Any], Any] | None = None
    schedule: optax.Schedule | None = None
    start: tuple[tree.Tree, tree.Tree] | None = None
    evaluate_ema: bool = False
    extra: Any = None
    update_extra: UpdateExtra | None = None
    predict: Callable[..., Any] | None = None
    metrics: Callable[..., Mapping[str, Any]] | None = None
    after_evaluation: Callable[[Evaluated], Any] | None = None
    best: Best | None = None


@dataclasses.dataclass(frozen=True)
class FitCheckpointSettings:
    """When `fit` evaluates and saves checkpoints; see `CheckpointSettings`."""

    evaluate_every: Annotated[int, Range(0, note="0: only at the end")] | Literal["epoch"] = 250
    """Number of steps between two evaluations, or "epoch"."""
    save_every: Annotated[int, Range(0, note="0: only at the end")] | Literal["epoch"] = 250
    """Number of steps between two checkpoints, or "epoch"."""
    keep: Annotated[int, Range(1)] = 2
    """Number of recent checkpoints to keep, in addition to the best one."""
    rewind_above: Annotated[float, Range(0, note="0: never")] = 0.0
    """A loss above this multiple of its moving average is a spike."""


@dataclasses.dataclass(frozen=True)
class FitSettings:
    """The arguments of `fit` that are written to the record of the run, run.json."""

    run: RunSettings
    steps: Annotated[int, Range(1)] | None
    """Number of updates. None if `epochs` is given."""
    epochs: Annotated[int, Range(1)] | None
    """Number of epochs. None if `steps` is given."""
    loop: LoopSettings
    checkpoint: FitCheckpointSettings
    device: DeviceSettings
    ema: Annotated[float, Range(0, 1, below=True)] | None = None
    """Decay rate of the moving average of the weights."""
    buffers: Buffers = "synced"
    """How the buffers of the devices become equal; see `make_step`."""


class FitTask(Task):
    """The task that trains the user's net with the user's loss function, as `fit` requests.

    Args:
        plan: the net, the loss, the data and the optimizer.
        settings: the settings of `fit`, already checked. The task reads all fields except `device`.
        context: the context of the run.

    Raises:
        ValueError: if no parameter is trainable, or the data are smaller than a batch.
        TypeError: if a `DataLoader` cannot read the data.
    """

    def __init__(self, plan: Plan, settings: FitSettings, context: Context):
        self.plan, self.settings, self.context = plan, settings, context
        self.name = type(plan.net).__name__
        axis_name, net = context.layout.axis_name, plan.net
        if axis_name is not None and settings.buffers == "synced":
            net = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(net), axis_name)
        self.net = net
        self._losses = Bound(net, "loss", plan.loss, checked_losses)
        self._outputs = None if plan.predict is None else Bound(net, "predict", plan.predict, checked_outputs)
        self._hooks = None
        if context.precision != FLOAT32:
            self._hooks = nn.Hooks()
            self._hooks.register_forward_pre_hook(
                "net", lambda module, args, kwargs: context.precision.cast((args, kwargs)), with_kwargs=True
            )
        loop, checkpoint = settings.loop, settings.checkpoint
        self._loader = make_loader(plan.data, loop.batch_size, settings.run.seed)
        if context.own_rows is not None and divides_rows(self._loader):
            self._loader = copy.copy(self._loader)  # the user's loader reads all rows
            self._loader.read_rows(context.own_rows)
            self.reads_own_rows = True
        self.cadence = self._cadence()
        self.optimizer, self.schedule, self.best = plan.optimizer, plan.schedule, plan.best
        self.evaluated = "averaged weights, held-out" if plan.evaluate_ema else "held-out"
        self.keep, self.rewind_above = checkpoint.keep, checkpoint.rewind_above
        self.ema, self.update_extra = settings.ema, plan.update_extra
        self.buffers = settings.buffers
        self.trainable = trainable_names(plan.net)
        if plan.best is not None:
            self.shown = {"loss": "loss", plan.best.metric: plan.best.metric}
        examples = length_of(self._loader)
        self.facts = [] if examples is None else [{"examples": examples}]
        self._shapes: dict[Any, tuple[int, ...]] = {}
        self._evaluator: FitEvaluator | None = None

    def _cadence(self) -> Cadence:
        """Return the cadence in steps. If the number of batches of an epoch is not known, it is in epochs."""
        settings, checkpoint, length = self.settings, self.settings.checkpoint, epoch_length(self._loader)
        total = settings.steps
        if settings.epochs is not None and length is not None:
            total = settings.epochs * length
        if total is None and checkpoint.rewind_above:
            raise ValueError(
                "train.fit: a run over the epochs of a stream cannot go back after a spike of the loss, because the "
                "data do not go back; expected steps instead of epochs, or rewind_above=0, got "
                f"epochs={settings.epochs} and rewind_above={checkpoint.rewind_above:g}."
            )
        steps = lambda every: length if every == "epoch" and length is not None else every
        evaluate_every, save_every = steps(checkpoint.evaluate_every), steps(checkpoint.save_every)
        return Cadence(total, settings.loop.log_every, evaluate_every, save_every)

    def init(self, seed: int) -> tuple[Any, Any]:
        return super().init(seed) if self.plan.start is None else self.plan.start

    def initializer(self) -> Callable[[jax.Array], Any] | None:
        return self.net.init if self.plan.start is None else None

    def shapes(self) -> tuple[Any, Any] | None:
        return self.plan.start

    def extra(self, seed: int) -> Any:
        return self.plan.extra

    # -------------------------------------------------------------------------------------------------------- the loss

    def objective(
        self,
        params: Params,
        state: State,
        batch: PyTree,
        *,
        training: bool,
        rng: jax.Array | None,
        extra: PyTree = None,
    ) -> tuple[dict[str, dict[str, jax.Array]], Any]:
        """Return the weighted sums of the values that the user's loss function returns, and the new buffers of the
        net.
        """
        values, state = self._values(params, state, batch, extra, training=training, rng=rng)
        values = jax.tree.map(at_least_float32, values)
        if self.plan.weight is not None:
            weight = self._weight(batch, values["loss"].shape)
            values = {name: value * weight for name, value in values.items()}
        return {"": {name: value.sum() for name, value in values.items()}}, state

    def counts(self, batch: PyTree) -> dict[str, jax.Array]:
        """Return the number of losses in a batch, or the sum of their weights if `weight` was given."""
        key = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(batch))
        if key not in self._shapes:
            params, state = jax.eval_shape(lambda: self.init(0))
            params = jax.eval_shape(self.context.precision.cast, params)
            run = lambda *arrays: self._values(*arrays, training=True, rng=jax.random.key(0))[0]["loss"]
            self._shapes[key] = jax.eval_shape(run, params, state, batch, self.plan.extra).shape
        shape = self._shapes[key]
        if self.plan.weight is None:
            return {"": jnp.asarray(math.prod(shape), jnp.int32)}
        return {"": self._weight(batch, shape).sum()}

    def _values(
        self, params: Params, state: State, batch: PyTree, extra: PyTree, *, training: bool, rng: jax.Array | None
    ) -> tuple[Any, Any]:
        """Call the user's loss function. Return ({name: array with one value per element}, new buffers)."""
        return self._call(self._losses, params, state, batch, extra, training=training, rng=rng)

    def _call(
        self, bound: Bound, params: Params, state: State, batch: PyTree, extra: PyTree, **options: Any
    ) -> tuple[Any, Any]:
        own = () if extra is None else (extra,)
        value, state = bound.apply(*lift(params, state, "net"), batch, *own, hooks=self._hooks, **options)
        return value, lower(state, "net")

    def _weight(self, batch: PyTree, shape: tuple[int, ...]) -> jax.Array:
        assert self.plan.weight is not None
        with calling("train.fit", "weight"):
            weight = at_least_float32(self.plan.weight(batch))
        try:
            return jnp.broadcast_to(weight, shape)
        except ValueError:
            raise ValueError(
                f"train.fit: weight(batch) does not fit the losses; expected a shape that broadcasts to {shape}, got "
                f"{weight.shape}."
            ) from None

    # -------------------------------------------------------------------------------------------------------- the data

    def batches(self, seed: int) -> Callable[..., Iterable[Any]]:
        if not isinstance(self._loader, DataLoader):
            return self._loader
        cadence = self.cadence
        by_epoch = "epoch" in (cadence.evaluate_every, cadence.save_every)
        epochs = self.settings.epochs if cadence.total_steps is None else None
        return LoaderBatches(self._loader, epochs, by_epoch=by_epoch)

    def what_is_read(self, seed: int) -> Mapping[str, Any]:
        return what_is_read(self._loader)

    def size(self, batch: PyTree) -> int:
        return len(jax.tree.leaves(batch)[0])

    def evaluator(self) -> FitEvaluator | None:
        self._evaluator = None if self.plan.validation is None else self._make_evaluator()
        return self._evaluator

    def check_evaluation(self, model: tuple[Any, ...]) -> None:
        if self._evaluator is not None:
            self._evaluator.check(model, self.best)

    def _make_evaluator(self) -> FitEvaluator:
        plan = self.plan
        layout = dataclasses.replace(self.layout, kind="jit")  # one program sees the rows of all devices
        measured = make_eval_step(self.objective, self.counts, precision=self.context.precision)

        def step(
            model: tuple[Any, ...], batch: PyTree, key: jax.Array | None, *, axis_name: str | None = None
        ) -> dict[str, Any]:
            found: dict[str, Any] = measured(model, batch, key, axis_name=axis_name)
            if self._outputs is not None:
                params, state, extra = (*model, None)[:3]
                params = self.context.precision.cast(params)
                found["outputs"], _ = self._call(self._outputs, params, state, batch, extra, training=False, rng=key)
            return found

        loader = make_loader(plan.validation, self.settings.loop.batch_size, 0, training=False, name="validation")
        own = (plan.metrics, plan.after_evaluation, plan.evaluate_ema)
        epoch = validation_batches(loader, layout, self.context.own_rows)
        return FitEvaluator(parallelize(step, layout), OpenedBatches(epoch), self.context.stop, *own)

    # ------------------------------------------------------------------------------------------------------ at the end

    def save(self, folder: Path, params: Params, state: State) -> None:
        weights.save(folder / "model.safetensors", self.plan.net.state_dict(params, state))

    def conclude(self, ended: Ended) -> Conclusion:
        row = next((row for row in reversed(ended.rows) if "loss" in row), None)  # not if all steps of a line failed
        if row is None:
            raise RunError("train.fit: no step has a finite loss; expected at least one, got none. Look at the data.")
        evaluated = [row for row in ended.rows if "eval_loss" in row]
        if evaluated:
            best = self.best
            row = evaluated[-1] if best is None else max(evaluated, key=lambda row: goodness(best, row, "eval_"))
        prefix = "eval_" if evaluated else ""
        names = [name.removeprefix(prefix) for name in row if name.startswith(prefix) and name not in LOGGED]
        names = ["loss", *(name for name in names if name != "loss" and not name.endswith("_per_second"))]
        values = {"step": row["step"], **{name: row[f"{prefix}{name}"] for name in names}}
        if self.plan.evaluate_ema:
            values["weights"] = "averaged"
        rows = f"{self.settings.loop.batch_size} {self.unit}"
        subtitle = f"{ended.rows[-1]['step']:,} steps of {rows}, {self.layout}, seed {ended.seed}"
        return Conclusion(values, self._panels(values, names), self.name, subtitle)

    def _panels(self, values: Mapping[str, Any], names: list[str]) -> list[Panel | Matrix]:
        label = "validation of the averaged weights" if self.plan.evaluate_ema else "validation"
        panels: list[Panel | Matrix] = []
        for name in names:
            table = np.asarray(values[name])
            if not table.ndim:
                panels.append(Panel(name, "", {"training": name, label: f"eval_{name}"}))
            elif table.ndim == 2 and table.shape[0] == table.shape[1] and np.issubdtype(table.dtype, np.integer):
                panels.append(Matrix(name, list(map(str, range(len(table)))), table))
        if self.schedule is not None:
            panels.append(Panel("learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True))
        panels.append(Panel("throughput", f"{self.unit}/s", {self.unit: f"{self.unit}_per_second"}, from_zero=True))
        return panels


def trainable_names(net: nn.Module) -> tree.Patterns:
    """Return name patterns that match the trainable parameters of a net, which are those with `requires_grad=True`.

    Raises:
        ValueError: if there is no trainable parameter.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
        >>> _ = net[0].requires_grad_(False)
        >>> trainable_names(net)
        ('1.weight',)
    """
    leaves = dict(net.named_parameters())
    trained = tuple(name for name, leaf in leaves.items() if leaf.requires_grad)
    if not trained:
        raise ValueError(
            f"train.fit: {type(net).__name__} has no trainable parameter; expected at least one with "
            f"requires_grad=True, got {len(leaves)} frozen ones."
        )
    return "**" if len(trained) == len(leaves) else trained
