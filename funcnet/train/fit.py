"""Train a user's own model with one function call. `fit` builds a `Task` from its arguments, and `run_task` runs it."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import optax

from funcnet import nn, tree, weights
from funcnet.settings import check_ranges
from funcnet.train.errors import RunError
from funcnet.train.fit_checks import check_arguments, hidden_names, in_python, rows_per_step
from funcnet.train.fit_task import FitSettings, FitTask, Plan
from funcnet.train.metrics import read_metrics
from funcnet.train.recovery import read_bundle
from funcnet.train.replay import replay_step
from funcnet.train.run import run_task
from funcnet.train.run_directory import RUN_FILE, configuration
from funcnet.train.settings import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings
from funcnet.train.step import UpdateExtra
from funcnet.train.task import Best
from funcnet.train.trials import EMA, MODEL

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
    data: Any,
    optimizer: optax.GradientTransformation,
    *,
    out: str | Path,
    steps: int,
    batch_size: int = 32,
    validation: Any = None,
    weight: Callable[[Any], Any] | None = None,
    schedule: optax.Schedule | None = None,
    start: tuple[tree.Tree, tree.Tree] | None = None,
    ema: float | None = None,
    evaluate_ema: bool = False,
    extra: Any = None,
    update_extra: UpdateExtra | None = None,
    best: Best | None = None,
    resume: bool = False,
    seed: int = 0,
    accumulate: int = 1,
    log_every: int = 20,
    evaluate_every: int = 250,
    save_every: int = 250,
    keep: int = 2,
    devices: int | None = None,
    mesh: str | None = None,
    shard: Sequence[str] = (),
    parallel: Literal["jit", "shard_map", "pmap"] = "jit",
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
            A batch must depend only on its step, so that a resumed run sees the same batches.
        optimizer: an optax transformation, which includes gradient clipping, if any. Use `optim.param_groups` for
            groups of parameters with different learning rates.
        out: run directory. The run writes `model.safetensors`, `metrics.jsonl`, `eval.json`, `report.png`,
            `checkpoints/`, TensorBoard events and, with `ema`, `ema/model.safetensors` into it.
        steps: number of updates. To train longer, call `fit` again with `resume=True` and more steps, even if the run
            has finished. `schedule` and the learning rate schedule of the optimizer must cover all of these steps.
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
        best: how to choose the best evaluation, whose model is kept, and when to stop early. None keeps the last model.
        resume: whether to continue the run in `out`. If `out` contains no run, a new run starts.
        seed: seed of the initialisation, of the order of the data, and of dropout.
        accumulate: number of micro-batches per update.
        log_every: number of steps between two lines of the log. A line contains the means since the previous line.
        evaluate_every: number of steps between two evaluations. 0 evaluates only at the end.
        save_every: number of steps between two checkpoints. 0 saves a checkpoint only at the end.
        keep: number of newest checkpoints to keep. Without `best`, the checkpoint with the lowest validation loss is
            kept too.
        devices, mesh, shard, parallel, precision: see `DeviceSettings`.
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
    folder = Path(out)
    is_begun = (folder / RUN_FILE).exists()
    if is_begun and not resume and replay is None:
        raise RunError(
            f"train.fit: {folder} already contains a run; expected a new or empty folder, got one with {RUN_FILE}. "
            "Pass resume=True to continue the run, or a different out."
        )
    check_arguments(net, loss, data, optimizer, validation, schedule)
    if validation is None and (best is not None or evaluate_ema):
        raise ValueError("train.fit: best and evaluate_ema need validation data; expected validation=DATA, got None.")
    if evaluate_ema and ema is None:
        raise ValueError("train.fit: evaluate_ema needs averaged weights; expected a decay rate as ema, got None.")
    settings = FitSettings(
        RunSettings(folder, resume and is_begun, seed),
        steps,
        LoopSettings(batch_size, accumulate, log_every, nan_trace),
        CheckpointSettings(evaluate_every, save_every, keep, rewind_above),
        DeviceSettings(devices, mesh, tuple(shard), parallel=parallel, precision=precision),
        ema,
    )
    check_ranges(settings, "train.fit", str)
    loop = dataclasses.replace(settings.loop, batch_size=rows_per_step(data, batch_size))
    settings = dataclasses.replace(settings, loop=loop)
    plan = Plan(
        net, loss, data, optimizer, validation, weight, schedule, start, evaluate_ema, extra, update_extra, best
    )
    if replay is not None:
        is_same = replay_step(lambda *given: FitTask(plan, *given), settings, read_bundle(replay))
        raise SystemExit(0 if is_same else 1)
    try:
        before = (configuration(folder) or {}).get("steps", steps) if is_begun else steps
        free = ("log_every", "steps") if before <= steps else ("log_every",)
        code = run_task(lambda *given: FitTask(plan, *given), settings, where="train.fit", free=free)
    except (TypeError, ValueError) as error:  # or a RunError
        message = str(error)
        if message.startswith("optim.param_groups: pattern"):
            error.args = (message + hidden_names(net),)
        elif message.startswith("train."):
            error.args = (in_python(message),)
        raise
    if code:
        raise SystemExit(code)
    into = jax.jit(net.init)(jax.random.key(seed)) if start is None else start
    try:
        params, state = net.load_state_dict(weights.load(folder / MODEL), into=into)
    except ValueError as error:
        raise RunError(
            f"train.fit: {folder} contains the run of another net; expected the parameters of this "
            f"{type(net).__name__}, got others. Use another out. ({error})"
        ) from error
    average = None
    if ema is not None:
        average, _ = net.load_state_dict(weights.load(folder / EMA / MODEL), into=into)
    params, state, average = jax.tree.map(jnp.array, (params, state, average))
    return Fitted(params, state, average, read_metrics(folder / "metrics.jsonl"))
