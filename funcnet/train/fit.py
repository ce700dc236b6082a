"""Train a user's own model with one function call. `fit` builds a `Task` from its arguments, and `run_task` runs it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax

from funcnet import nn, tree, weights
from funcnet.arguments import boolean, path, strings
from funcnet.parallel.checks import as_arrays
from funcnet.train.errors import RunError
from funcnet.train.fit_checks import check_plan, check_settings, hidden_names, in_python
from funcnet.train.fit_data import TrainingData, is_function, open_function, rows_per_step
from funcnet.train.fit_evaluation import Evaluated
from funcnet.train.fit_task import FitCheckpointSettings, FitSettings, FitTask, Plan
from funcnet.train.loop import Every
from funcnet.train.metrics_files import read_metrics
from funcnet.train.recovery import read_bundle
from funcnet.train.replay import replay_step
from funcnet.train.run import run_task
from funcnet.train.run_directory import RUN_FILE, configuration
from funcnet.train.setting_groups import DeviceSettings, LoopSettings, RunSettings
from funcnet.train.setting_types import plain
from funcnet.train.step import Buffers, UpdateExtra
from funcnet.train.task_interface import Best
from funcnet.train.trials import EMA, MODEL
from funcnet.tree import PyTree

__all__ = ["Fitted", "fit"]


@dataclasses.dataclass(frozen=True)
class Fitted:
    """The result of `fit`.

    Attributes:
        params: trained parameters. If `best` was given, they are the parameters at the best evaluation, otherwise those
            after the last step.
        state: the buffers.
        ema: averaged parameters, or None.
        rows: the rows of metrics.jsonl: one dict per logged step.
    """

    params: tree.Tree
    state: tree.Tree
    ema: tree.Tree | None
    rows: list[dict[str, Any]]


def fit(
    net: nn.Module,
    loss: Callable[..., Any],
    data: TrainingData,
    optimizer: optax.GradientTransformation,
    *,
    out: str | Path,
    steps: int | None = None,
    epochs: int | None = None,
    batch_size: int = 32,
    validation: TrainingData | None = None,
    weight: Callable[[Any], Any] | None = None,
    schedule: optax.Schedule | None = None,
    start: tuple[tree.Tree, tree.Tree] | None = None,
    ema: float | None = None,
    evaluate_ema: bool = False,
    extra: PyTree = None,
    update_extra: UpdateExtra | None = None,
    predict: Callable[..., Any] | None = None,
    metrics: Callable[..., Mapping[str, Any]] | None = None,
    after_evaluation: Callable[[Evaluated], Any] | None = None,
    best: Best | None = None,
    resume: bool = False,
    seed: int = 0,
    accumulate: int = 1,
    log_every: int = 20,
    evaluate_every: Every = 250,
    save_every: Every = 250,
    keep: int = 2,
    devices: int | None = None,
    mesh: str | None = None,
    shard: Sequence[str] = (),
    parallel: Literal["jit", "shard_map", "pmap"] = "jit",
    buffers: Buffers = "synced",
    precision: Literal["float32", "bfloat16"] = "float32",
    rewind_above: float = 0.0,
    nan_trace: bool = False,
    replay: str | Path | None = None,
) -> Fitted:
    """Train a net, with checkpoints, evaluation, logs and a report.

    Args:
        net: the description. Parameters with `requires_grad=False` are frozen.
        loss: function `loss(model, batch)`. `model` is the net with its arrays; you can call it and its submodules. The
            function returns an array with one loss per element (`reduction="none"`), or a dict with this array as
            "loss" and other metrics as arrays of the same shape. The mean over all elements is minimised. In
            evaluation, `model.training` is False.
        data: training data: a dict of arrays with equal first dimensions, a dataset or a `DataLoader` of
            `funcnet.data`, or a function `data(start_step)` that returns an iterable of the batches from that step on.
            A batch must depend only on its step, so that a resumed run sees the same batches. A dataset may be a stream
            without a length; its epochs end when it ends. `fit` begins with epoch 0 of a loader.
        optimizer: an optax transformation, which includes gradient clipping, if any. Use `optim.param_groups` for
            groups of parameters with different learning rates.
        out: run directory. The run writes `model.safetensors`, `metrics.jsonl`, `eval.json`, `report.png`,
            `checkpoints/`, TensorBoard events and, with `ema`, `ema/model.safetensors` into it.
        steps: number of updates. To train longer, call `fit` again with `resume=True` and more steps, even if the run
            has finished. `schedule` and the learning rate schedule of the optimizer must cover all of these steps.
        epochs: number of passes over the data, instead of `steps`. Exactly one of them is given. An epoch has
            `len(loader)` steps, without the last rows if they are fewer than `batch_size`.
        batch_size: number of rows per update, over all devices and micro-batches. If `data` is a `DataLoader` or a
            function, the batch size of the loader or of the first batch is used instead.
        validation: data for the evaluation: a dict of arrays, a dataset, a `DataLoader`, or a function without
            arguments that returns an iterable of batches.
        weight: function `weight(batch)` that returns the weights of the elements, which broadcast to the losses. For
            example, `lambda batch: batch["labels"] >= 0` does not count padding.
        schedule: learning rate schedule of the optimizer (a function of the step), for the log.
        start: initial (params, state), such as those of a checkpoint. The default is `net.init(key)`. A net with lazy
            modules needs `net.init(key, example)` here.
        ema: decay rate of a moving average of the weights, from 0 to below 1. The average covers about the last
            `1 / (1 - ema)` steps, which should be far fewer than `steps`: 0.999 for 10,000 steps, 0.98 for 400.
        evaluate_ema: whether to evaluate the averaged weights instead of the last ones.
        extra: a pytree of arrays, random keys and numbers with the user's own values, which become `jax.Array`s. These
            values are saved in the checkpoints. The loss is then called as `loss(model, batch, extra)`.
        update_extra: function `update_extra(train_state, metrics)` that returns the new `extra` after each update.
        predict: function `predict(model, batch)` that returns what `metrics` compares, such as (logits, labels): an
            array or a tuple of arrays with one row per example. It is called like `loss`, and only in evaluations.
        metrics: function `metrics(outputs, labels)` of all outputs of an evaluation, for metrics that are not means
            over the rows, such as F1 or AUC. Its arguments are the parts of the tuple or list that `predict` returns,
            as NumPy arrays with the rows of all batches and devices. It returns {name: number or array of numbers}. The
            values are in the log as `eval_{name}`. The report draws a square array of integers as a confusion matrix.
        after_evaluation: function `after_evaluation(evaluation)` that receives an `Evaluated` after each one. In a run
            of several processes, it is called in process 0. It is called again if a resumed run repeats an evaluation.
        best: how to choose the best evaluation, whose model is kept, and when to stop early. None keeps the last model.
        resume: whether to continue the run in `out`. If `out` contains no run, a new run starts.
        seed: seed of the initialisation, of the order of the data, and of dropout.
        accumulate: number of micro-batches per update.
        log_every: number of steps between two lines of the log. A line contains the means since the previous line.
        evaluate_every: number of steps between two evaluations, or "epoch" for one after each epoch. 0 evaluates only
            at the end.
        save_every: number of steps between two checkpoints, or "epoch". 0 saves a checkpoint only at the end.
        keep: number of newest checkpoints to keep. Without `best`, the checkpoint with the lowest validation loss is
            kept too.
        devices, mesh, shard, parallel, precision: see `DeviceSettings`. If the mesh has an axis `context`, the run
            shards all arrays of a batch along it whose dimension 1 is a multiple of the size of the axis; see `Layout`.
        buffers: "synced" computes the running statistics of BatchNorm from the rows of all devices. With "averaged" or
            "first", each device normalises its own rows, and after a step, all devices continue with the means of the
            buffers, or with those of the first device; see `make_step`. Both need `parallel="shard_map"` or "pmap".
        rewind_above: see `CheckpointSettings`.
        nan_trace: see `LoopSettings`.
        replay: folder of a failed step, `replay/step-…` in a run directory. `fit` then repeats this step and prints the
            first layer that broke, as `funcnet replay` does. The other arguments must be those of the run.

    Returns:
        A `Fitted`.

    Raises:
        TypeError: if an argument has the wrong type, or a checkpoint cannot store a value of `start`, `extra` or the
            optimizer's state.
        ValueError: if an argument is wrong, or `loss` does not return one value per element.
        RunError: if the run directory cannot be used, or `train` cannot continue, for example because the loss of many
            steps is not finite, or the data end early.
        SystemExit: if SIGINT or SIGTERM stopped the run. Unless it stopped before its first step, the run has saved a
            checkpoint. Call `fit` again with `resume=True` to continue. The result then has the same bits as that of a
            run without interruption. A call with `replay` always raises SystemExit. The exit code is 0 if the step gave
            the same bits as in the run, and 1 otherwise.

    Example:
        >>> import contextlib, io, tempfile
        >>> import numpy as np
        >>> from funcnet import functional as F
        >>> x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
        >>> def loss(model, batch):
        ...     return F.mse_loss(model(batch["x"]), batch["y"], reduction="none")
        >>> with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(io.StringIO()):
        ...     fitted = fit(nn.Linear(1, 1), loss, {"x": x, "y": 2 * x}, optax.sgd(0.5), out=out, steps=150)
        >>> print(f"{fitted.params['weight'].item():.2f}")
        2.00
    """
    folder = path("train.fit", "out", out)
    plan = Plan(
        net, loss, data, optimizer, validation, weight, schedule, start, evaluate_ema, extra, update_extra, predict,
        metrics, after_evaluation, best,
    )  # fmt: skip
    check_plan(plan)
    native = {name: as_arrays(getattr(plan, name), "train.fit") for name in ("start", "extra")}
    plan = dataclasses.replace(plan, **native)
    boolean("train.fit", "resume", resume)
    strings("train.fit", "shard", shard, "a list of rules, such as ['**.weight=fsdp,-']")
    is_begun = (folder / RUN_FILE).exists()
    if is_begun and not resume and replay is None:
        raise RunError(
            f"train.fit: {folder} already contains a run; expected a new or empty folder, got one with {RUN_FILE}. "
            "Pass resume=True to continue the run, or a different out."
        )
    settings = FitSettings(
        RunSettings(folder, resume and is_begun, seed),
        steps,
        epochs,
        LoopSettings(batch_size, accumulate, log_every, nan_trace),
        FitCheckpointSettings(evaluate_every, save_every, keep, rewind_above),
        DeviceSettings(devices, mesh, tuple(shard), parallel=parallel, precision=precision),
        ema,
        buffers,
    )
    settings = plain(settings)
    check_settings(settings, plan)
    if is_function(data):
        plan = dataclasses.replace(plan, data=open_function(data))
    loop = dataclasses.replace(settings.loop, batch_size=rows_per_step(plan.data, settings.loop.batch_size))
    settings = dataclasses.replace(settings, loop=loop)
    if replay is not None:
        bundle = read_bundle(path("train.fit", "replay", replay))
        raise SystemExit(0 if replay_step(lambda *given: FitTask(plan, *given), settings, bundle) else 1)
    _run(plan, settings)
    return _fitted(plan, settings)


def _run(plan: Plan, settings: FitSettings) -> None:
    """Run the task, or raise SystemExit if a signal stopped it."""
    try:
        before = configuration(settings.run.out) or {}
        lengths = {"steps": settings.steps, "epochs": settings.epochs}
        longer = [name for name, value in lengths.items() if value is not None and value >= (before.get(name) or value)]
        free = ("log_every", *longer)
        code = run_task(lambda *given: FitTask(plan, *given), settings, where="train.fit", free=free)
    except (TypeError, ValueError) as error:  # or a RunError
        message = str(error)
        if message.startswith("optim.param_groups: pattern"):
            error.args = (message + hidden_names(plan.net),)
        elif message.startswith("train."):
            error.args = (in_python(message),)
        raise
    if code:
        raise SystemExit(code)


def _fitted(plan: Plan, settings: FitSettings) -> Fitted:
    """Read the result of a finished run from its files."""
    net, folder = plan.net, settings.run.out
    into = jax.jit(net.init)(jax.random.key(settings.run.seed)) if plan.start is None else plan.start
    try:
        params, state = net.load_state_dict(weights.load(folder / MODEL), into=into)
    except ValueError as error:
        raise RunError(
            f"train.fit: {folder} contains the run of another net; expected the parameters of this "
            f"{type(net).__name__}, got others. Use another out. ({error})"
        ) from error
    average = None
    if settings.ema is not None:
        average, _ = net.load_state_dict(weights.load(folder / EMA / MODEL), into=into)
    params, state, average = jax.tree.map(jnp.array, (params, state, average))
    return Fitted(params, state, average, read_metrics(folder / "metrics.jsonl"))
