"""The `Task` that `fit` makes from its arguments."""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from funcnet import nn, tree, weights
from funcnet.data import ArrayDataset, DataLoader, IterableDataset, Prefetcher
from funcnet.parallel import parallelize
from funcnet.settings import Range
from funcnet.train.batches import LoaderBatches
from funcnet.train.best import goodness
from funcnet.train.errors import RunError
from funcnet.train.fit_checks import is_function
from funcnet.train.loop import Cadence
from funcnet.train.nan_trace import lift, lower
from funcnet.train.precision import FLOAT32, at_least_float32
from funcnet.train.report import Panel
from funcnet.train.settings import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings
from funcnet.train.state import TrainState
from funcnet.train.step import UpdateExtra, evaluate, make_eval_step
from funcnet.train.task import Best, Conclusion, Context, Ended, Task

__all__ = ["FitSettings", "FitTask", "Plan", "make_loader", "trainable_names"]

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
    best: Best | None = None


@dataclasses.dataclass(frozen=True)
class FitSettings:
    """The arguments of `fit` that are written to the record of the run, run.json."""

    run: RunSettings
    steps: Annotated[int, Range(1)]
    """Number of updates."""
    loop: LoopSettings
    checkpoint: CheckpointSettings
    device: DeviceSettings
    ema: Annotated[float, Range(0, 1, below=True)] | None = None
    """Decay rate of the moving average of the weights."""


class _Losses(nn.Module):
    """A module that contains the net and calls the loss. Inside `forward`, the net is bound to its arrays and can be
    called.
    """

    def __init__(self, net: nn.Module, loss: Callable[..., Any]):
        super().__init__()
        self.net = net
        self.loss = (loss,)  # in a tuple, so that a loss that is a module does not become a submodule

    def forward(self, *arguments: Any) -> dict[str, Any]:
        return _checked(self.loss[0](self.net, *arguments))


class FitTask(Task):
    """The task that trains the user's net with the user's loss function, as `fit` requests.

    Args:
        plan: the net, the loss, the data and the optimizer.
        settings: the settings of `fit`, already checked. The task reads the fields `run`, `loop`, `checkpoint`, `steps`
            and `ema`.
        context: the context of the run.

    Raises:
        ValueError: if no parameter is trainable, or the data are smaller than a batch.
        TypeError: if a `DataLoader` cannot read the data.
    """

    def __init__(self, plan: Plan, settings: FitSettings, context: Context):
        self.plan, self.settings, self.context = plan, settings, context
        self.name = type(plan.net).__name__
        axis_name, net = context.layout.axis_name, plan.net
        if axis_name is not None:
            net = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(net), axis_name)
        self.layout = context.layout.for_net(net, start=plan.start)
        self._losses, self._hooks = _Losses(net, plan.loss), None
        if context.precision != FLOAT32:
            self._hooks = nn.Hooks()
            self._hooks.register_forward_pre_hook(
                "net", lambda module, args, kwargs: context.precision.cast((args, kwargs)), with_kwargs=True
            )
        loop, checkpoint = settings.loop, settings.checkpoint
        self._loader = make_loader(plan.data, loop.batch_size, settings.run.seed)
        self.cadence = Cadence(settings.steps, loop.log_every, checkpoint.evaluate_every, checkpoint.save_every)
        self.optimizer, self.schedule, self.best = plan.optimizer, plan.schedule, plan.best
        self.evaluated = "averaged weights, held-out" if plan.evaluate_ema else "held-out"
        self.keep, self.rewind_above = checkpoint.keep, checkpoint.rewind_above
        self.ema, self.update_extra = settings.ema, plan.update_extra
        self.trainable = trainable_names(plan.net)
        self.facts = [{"examples": len(self._loader.dataset)}] if isinstance(self._loader, DataLoader) else []
        self._shapes: dict[Any, tuple[int, ...]] = {}

    def init(self, seed: int) -> tuple[Any, Any]:
        if self.plan.start is not None:
            return self.plan.start
        return jax.jit(self.plan.net.init)(jax.random.key(seed))

    def extra(self, seed: int) -> Any:
        return self.plan.extra

    # -------------------------------------------------------------------------------------------------------- the loss

    def objective(
        self, params: Any, state: Any, batch: Any, *, training: bool, rng: Any, extra: Any = None
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

    def counts(self, batch: Any) -> dict[str, jax.Array]:
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

    def _values(self, params: Any, state: Any, batch: Any, extra: Any, *, training: bool, rng: Any) -> tuple[Any, Any]:
        """Call the user's loss function. Return ({name: array with one value per element}, new buffers)."""
        own = () if extra is None else (extra,)
        values, around = self.layout.anchored(self._losses).apply(
            *lift(params, state, "net"), batch, *own, training=training, rng=rng, hooks=self._hooks
        )
        return values, lower(around, "net")

    def _weight(self, batch: Any, shape: tuple[int, ...]) -> jax.Array:
        assert self.plan.weight is not None
        weight = at_least_float32(self.plan.weight(batch))
        try:
            return jnp.broadcast_to(weight, shape)
        except ValueError:
            raise ValueError(
                f"train.fit: weight(batch) does not fit the losses; expected a shape that broadcasts to {shape}, got "
                f"{weight.shape}."
            ) from None

    # -------------------------------------------------------------------------------------------------------- the data

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        return LoaderBatches(self._loader) if isinstance(self._loader, DataLoader) else self._loader

    def size(self, batch: Any) -> int:
        return len(jax.tree.leaves(batch)[0])

    def evaluator(self) -> Callable[[TrainState], dict[str, float]] | None:
        plan, stop = self.plan, self.context.stop
        if plan.validation is None:
            return None
        layout = dataclasses.replace(self.layout, kind="jit")  # one program sees the rows of all devices
        step = make_eval_step(self.objective, self.counts, precision=self.context.precision)
        compiled = parallelize(step, layout)
        loader = make_loader(plan.validation, self.settings.loop.batch_size, 0, training=False)
        epoch = plan.validation
        if isinstance(loader, DataLoader):
            epoch = loader.__iter__ if loader.is_iterable else loader.epoch

        def place(batch: Any) -> Any:  # the last batch may be too small to be sharded
            return layout.replicate(batch) if self.size(batch) % layout.batch_parts else layout.shard(batch)

        def on_validation(state: TrainState) -> dict[str, float]:
            params = state.ema.params if plan.evaluate_ema else state.params
            model = (params, state.state) if state.extra is None else (params, state.state, state.extra)
            with Prefetcher(epoch(), transfer=place) as batches:
                return evaluate(compiled, model, batches, should_stop=lambda: stop.requested)

        return on_validation

    # ------------------------------------------------------------------------------------------------------ at the end

    def save(self, folder: Path, params: Any, state: Any) -> None:
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
        names = [name for name in row if name not in LOGGED and not name.endswith("_per_second")]
        metrics = ["loss", *(name for name in names if not name.startswith("eval_"))]
        label = "validation of the averaged weights" if self.plan.evaluate_ema else "validation"
        panels: list[Any] = [Panel(name, "", {"training": name, label: f"eval_{name}"}) for name in metrics]
        if self.schedule is not None:
            panels.append(Panel("learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True))
        panels.append(Panel("throughput", f"{self.unit}/s", {self.unit: f"{self.unit}_per_second"}, from_zero=True))
        rows = f"{self.settings.loop.batch_size} {self.unit}"
        subtitle = f"{self.settings.steps:,} steps of {rows}, {self.layout}, seed {ended.seed}"
        values = {"step": row["step"], **{name: row[f"{prefix}{name}"] for name in metrics}}
        if self.plan.evaluate_ema:
            values["weights"] = "averaged"
        return Conclusion(values, panels, self.name, subtitle)


def make_loader(data: Any, batch_size: int, seed: int, *, training: bool = True) -> Any:
    """Return a loader of the data, or `data` itself if it is a loader or a function that returns batches.

    Args:
        data: see `fit`.
        batch_size: number of rows per batch.
        seed: seed for the order of the rows.
        training: whether to shuffle the rows, and to omit the last batch of an epoch if it has fewer rows.

    Example:
        >>> [len(batch["x"]) for batch in make_loader({"x": np.arange(5)}, 2, 0, training=False).epoch()]
        [2, 2, 1]
    """
    if isinstance(data, DataLoader):
        loader = data
    elif is_function(data):
        return data
    else:
        rows = ArrayDataset(data) if isinstance(data, Mapping) else data
        shuffle = training and not isinstance(rows, IterableDataset)
        loader = DataLoader(rows, batch_size, shuffle=shuffle, seed=seed, drop_last=training)
    loader.require_batches()
    return loader


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


_ADVICE = {
    True: 'Use reduction="none", as in F.cross_entropy(logits, labels, reduction="none").',
    False: "The log shows the mean of the values. If a metric is not a mean, compute it from the logged ones: for "
    "example, the perplexity is the exponential of the loss in Fitted.rows.",
}


def _checked(value: Any) -> dict[str, Any]:
    """Return the values of a loss by name. Raise a ValueError if the loss function does not return one value per
    element.
    """
    arrays = dict(value) if isinstance(value, Mapping) else {"loss": value}
    if "loss" not in arrays:
        raise ValueError(
            f"train.fit: loss(model, batch) returned no 'loss'; expected it in the dict, got {sorted(arrays)}."
        )
    for name, array in arrays.items():
        is_loss = name == "loss"
        if not hasattr(array, "shape") or array.shape == ():
            raise ValueError(
                f"train.fit: {name!r} of loss(model, batch) is not an array of values; expected a value for each "
                "element (row, token, …) of the batch, because fit computes the mean over all devices and "
                f"micro-batches, got {'a scalar' if np.ndim(array) == 0 else type(array).__name__}. {_ADVICE[is_loss]}"
            )
        if array.shape != arrays["loss"].shape:
            raise ValueError(
                f"train.fit: {name!r} of loss(model, batch) has a different shape from the losses; expected "
                f"{arrays['loss'].shape}, got {array.shape}."
            )
    return arrays
