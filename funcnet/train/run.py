"""The lifecycle of every training run, from its settings to its exit code.

    layout -> run directory, lock -> task -> start or restore -> loop (metrics, evaluation, checkpoints) -> conclusion

A run can be killed at any moment. When it is resumed, its results have the same bits as those of a run that was not
killed.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from funcnet.arguments import boolean, expect, function, patterns, strings, transformation
from funcnet.operators import native
from funcnet.parallel import check_batch_size, check_equal, first_decides, is_first, watch_processes
from funcnet.settings import as_json, defaults, recorded
from funcnet.train import compilation_cache
from funcnet.train.interruption import Stopped, interruption
from funcnet.train.loop import Cadence
from funcnet.train.recovery import FAULTS, REPLAY
from funcnet.train.run_directory import (
    cancel_run,
    configuration,
    extend_run,
    finish,
    is_finished,
    lock_run,
    open_run,
    record_facts,
)
from funcnet.train.setting_groups import DeviceSettings, LoopSettings, RunSettings, open_layout
from funcnet.train.setting_types import check_types
from funcnet.train.task_interface import Best, Context, Task
from funcnet.train.trials import EMA, MODEL, TrainingSettings, Trials
from funcnet.train.versions import versions

__all__ = ["NOT_RECORDED", "run_task"]

WRITES = (MODEL, EMA, "metrics.jsonl", "checkpoints", "eval.json", "config.json", "tokenizer.json", FAULTS, REPLAY)
# settings that a resumed run may change
FREE = ("save_every", "keep", "devices", "mesh", "shard", "parallel", "rewind_above", "nan_trace")
LENGTHS = ("steps", "epochs")
PROCESSES = ("coordinator", "num_processes", "process_id")
NOT_RECORDED = ("out", "resume", *PROCESSES)  # settings that are not part of the run record


Settings = TypeVar("Settings", bound=TrainingSettings)


def run_task(
    open_task: Callable[[Settings, Context], Task], settings: Settings, *, where: str, free: Sequence[str] = ()
) -> int:
    """Run a task, or resume its run.

    Args:
        open_task: function `open_task(settings, context)`, which reads the data and returns the task. A slow function
            should raise `Stopped` after a signal.
        settings: the settings of the command, already checked.
        where: the name of the command, for error messages.
        free: names of further settings that a resumed run may change. If `steps` or `epochs` is one of these names and
            its value has changed, a finished run continues from its last checkpoint.

    Returns:
        The exit code: 0 when the run is finished; 130 or 143 when SIGINT or SIGTERM stopped it. A stopped run has
        saved a checkpoint, unless it stopped before its first step.

    Raises:
        TypeError: if an argument has the wrong type, or `open_task` does not return a task with all attributes.
        ValueError: if the settings or the data are wrong.
        RunError: if the run directory cannot be used. `RunError` is a `ValueError`.
        OSError: if a file cannot be read or written.

    Example:
        >>> import dataclasses, io, itertools, tempfile
        >>> from pathlib import Path
        >>> import numpy as np, optax
        >>> from funcnet.train import Cadence, Conclusion, DeviceSettings, LoopSettings, Panel, RunSettings
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     run: RunSettings
        ...     loop: LoopSettings = LoopSettings(batch_size=2)
        ...     device: DeviceSettings = DeviceSettings()
        >>> class Mean(Task):  # learns the mean of its data, which is 2
        ...     name, cadence, optimizer = "mean", Cadence(10), optax.sgd(0.25)
        ...     def __init__(self, settings, context): ...
        ...     def init(self, seed):
        ...         return {"mean": np.zeros(1, np.float32)}, {}
        ...     def counts(self, batch):
        ...         return {"fit": batch.shape[0]}
        ...     def objective(self, params, state, batch, *, training, rng):
        ...         return {"fit": {"loss": ((batch - params["mean"]) ** 2).sum()}}, state
        ...     def batches(self, seed):
        ...         return lambda start: itertools.repeat(np.array([1, 3], np.float32))
        ...     def size(self, batch):
        ...         return len(batch)
        ...     def save(self, folder, params, state):
        ...         np.save(folder / "mean.npy", params["mean"])
        ...     def conclude(self, ended):
        ...         return Conclusion({"loss": ended.rows[-1]["loss"]}, [Panel("Loss", "", {"x": "loss"})], "Mean", "")
        >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        ...     out = Path(folder) / "run"
        ...     code = run_task(Mean, Command(RunSettings(out)), where="mean")
        ...     mean = np.load(out / "mean.npy").round(2)
        >>> code, mean
        (0, array([2.], dtype=float32))
    """
    _check_arguments(open_task, settings, where, free)
    layout = open_layout(settings.device, where)
    with interruption() as stop, contextlib.ExitStack() as stack:
        if not is_first():
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        stack.enter_context(watch_processes())
        rows, parts = settings.loop.batch_size, settings.loop.accumulate
        check_batch_size(rows, layout.batch_parts, parts, where=f"{where}: --batch-size")
        config = recorded(settings, leave_out=NOT_RECORDED)
        usual = {name: as_json(value) for name, value in defaults(type(settings)).items()}
        found = versions()
        kernels = [native.is_on(one) for one in ("kernels", "convolution")]
        same = {"funcnet": found["funcnet"], "jax": found["jax"], "kernels in C++": kernels}
        check_equal({**config, **same}, where=where)
        folder = settings.run.out

        def open_folder() -> bool:
            """Open the run directory, and return whether the run in this directory has already finished."""
            options = {"resume": settings.run.resume, "writes": WRITES, "free": (*FREE, *free), "defaults": usual}
            stack.enter_context(lock_run(open_run(folder, config, **options)))  # type: ignore[arg-type]
            before = configuration(folder) or config
            if any(name in free and before.get(name) != config.get(name) for name in LENGTHS):
                extend_run(folder, config)
            return is_finished(folder) and (folder / MODEL).exists()

        if first_decides(open_folder):
            print(f"The run in {folder} has finished; there is nothing left to do.")
            return 0
        compilation_cache.enable()
        context = Context(layout, settings.device.policy, stop)
        with _cancelling(settings):
            try:
                task = _opened(open_task, settings, context, where)
                trials = Trials(task, settings, config, context, where)
                if task.checks_objective and not settings.run.resume:
                    trials.check_objective()
            except Stopped:
                print("Stopped before the first step. Continue with --resume (in Python: resume=True).")
                return stop.exit_code
            for facts in task.facts:
                check_equal(facts, where=where)
                first_decides(functools.partial(record_facts, folder, facts, task.sources))
            if not trials.all(folder):
                return stop.exit_code
        first_decides(functools.partial(finish, folder))
        print(f"Written: {folder}")
        return 0


def _check_arguments(open_task: object, settings: object, where: Any, free: object) -> None:
    """Raise a TypeError if an argument of `run_task` has the wrong type."""
    own = "train.run_task"
    expect(isinstance(where, str), own, "where", "the name of the command", where)
    function(own, "open_task", open_task, "open_task(settings, context)", 2)
    groups = {"run": RunSettings, "loop": LoopSettings, "device": DeviceSettings}
    text = ", ".join(f"{name}: {kind.__name__}" for name, kind in groups.items())
    is_right = all(isinstance(getattr(settings, name, None), kind) for name, kind in groups.items())
    is_right = is_right and dataclasses.is_dataclass(settings)
    expect(is_right, own, "settings", f"a dataclass with the fields {text}", settings)
    strings(own, "free", free, "a list of names of settings")
    check_types(settings, where)


def _opened(open_task: Callable[..., Task], settings: object, context: Context, where: str) -> Task:
    """Open the task, first in process 0, which may build data that the others then find.

    Raises:
        Stopped: if a signal came first.
        Exception: the error of `open_task`. If it is raised in process 0, the others raise a ProcessError.
    """
    tasks: list[Task] = []

    def opens() -> bool:
        try:
            tasks.append(_checked(open_task(settings, context), where))
        except Stopped:
            return False
        return True

    if not first_decides(opens, timeout=24 * 3600) or not (is_first() or opens()):
        raise Stopped
    return tasks[0]


@contextlib.contextmanager
def _cancelling(settings: Any) -> Iterator[None]:
    """Undo `open_run` if a new run fails before it has logged or saved anything."""
    try:
        yield
    except Exception:
        if not settings.run.resume and is_first():
            cancel_run(settings.run.out, WRITES)
        raise


def _checked(task: Any, where: str) -> Any:
    """Return a task. Raise a TypeError if it is none, or one of its attributes is missing or has the wrong type."""
    expect(isinstance(task, Task), where, "the result of open_task", "a train.Task", task)
    kinds = {"name": str, "cadence": Cadence}
    for name, kind in kinds.items():
        value = getattr(task, name, None)
        expect(isinstance(value, kind), where, f"{name} of the task", f"a {kind.__name__}", value)
    transformation(where, "optimizer of the task", getattr(task, "optimizer", None))
    expect(task.best is None or isinstance(task.best, Best), where, "best of the task", "a Best or None", task.best)
    patterns(where, "trainable of the task", task.trainable)
    boolean(where, "checks_objective of the task", task.checks_objective)
    return task
