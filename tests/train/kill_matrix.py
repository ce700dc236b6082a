"""Kills a training command in a chosen phase of a step or of a save.

    python -m tests.train.kill_matrix PHASE STEP COMPLETE OUT -- pretrain --out OUT …

runs `funcnet pretrain …` (or `python -m tests.…`, or `python SCRIPT.py`, if that comes after the --) in a process that
sends itself SIGKILL in the phase with the number PHASE (see `PHASES`), at step STEP, as soon as the checkpoint of step
COMPLETE is on the disk. With PHASE -1, nothing is killed. The package has no hooks for this: functions are replaced
here, where they are looked up. A name that no longer exists is an AttributeError. A phase that is never reached is
noticed by the caller, because the process ends in another way.
"""

import dataclasses
import importlib
import json
import os
import runpy
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from tests import processes

__all__ = ["PHASES", "Phase", "killed", "reached"]

PATIENCE = 120  # seconds to wait for the checkpoint of step COMPLETE
HEARTBEAT = 8  # seconds; the other process notices a dead one earlier than in a real run


@dataclasses.dataclass(frozen=True)
class Phase:
    """A phase in which a process is killed.

    Attributes:
        name: the row of the table.
        arm: function that replaces the functions concerned.
        at: which steps have this phase: the first one of the run, one between two saves, a logged or an evaluated one,
            one that is saved, the first save that removes an older checkpoint, the start of a resumed process, or the
            end of the run.
        is_committed: whether the checkpoint of the step is complete when the process is killed.
        only_first: whether only process 0 has this phase.
    """

    name: str
    arm: Callable[["Killer"], None]
    at: Literal["first step", "step", "line", "evaluation", "save", "removal", "start", "end"]
    is_committed: bool = False
    only_first: bool = False


class Killer:
    """Ends this process in one phase.

    Args:
        step: the step in which the process is killed.
        complete: the step whose checkpoint must be complete before. 0 waits for none.
        out: the run directory.
    """

    def __init__(self, step: int, complete: int, out: Path):
        self.step, self.complete, self.out = step, complete, out
        self.current = 0  # the step that was given to the devices last
        self.pruning = False
        self.thread = threading.local()  # .step: the number of the batch that this thread reads or moves

    @property
    def target(self) -> Path:
        """The folder of the checkpoint of the step."""
        return self.checkpoint(self.step)

    def checkpoint(self, step: int) -> Path:
        return self.out / "checkpoints" / f"step-{step:08d}"

    def kill(self) -> None:
        end = time.monotonic() + PATIENCE
        while self.complete and not (self.checkpoint(self.complete) / "digests.json").exists():
            if time.monotonic() > end:
                self.fail(f"the checkpoint of step {self.complete} was not written")
            time.sleep(0.005)
        reached(self.out).write_text(str(self.step))
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # the signal may need a moment; nothing else must happen in this thread

    def fail(self, reason: str) -> None:
        print(f"kill_matrix: {reason}", flush=True)
        os._exit(70)


def reached(out: Path) -> Path:
    """Return the file that a process writes directly before it is killed."""
    return out.with_name(f"{out.name}.reached")


def replace(owner: str, name: str, make: Callable[[Any], Any]) -> None:
    """Replace `name` in a module, or in a class of it ("module:Class"), by `make(original)`."""
    module, _, attribute = owner.partition(":")
    where: Any = importlib.import_module(module)
    where = getattr(where, attribute) if attribute else where
    setattr(where, name, make(getattr(where, name)))


def before(owner: str, name: str, act: Callable[..., None]) -> None:
    """Call `act` with the arguments of a function directly before it."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            act(*args, **kwargs)
            return original(*args, **kwargs)

        return wrapped

    replace(owner, name, make)


def after(owner: str, name: str, act: Callable[..., None]) -> None:
    """Call `act` with the arguments of a function directly after it."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            act(*args, **kwargs)
            return result

        return wrapped

    replace(owner, name, make)


# ------------------------------------------------------------------------------------------------------------- a step


def compiling(killer: Killer) -> None:
    """XLA has been at work for a third of a second. The step is compiled anew, although it is in the cache on disk."""

    def make(parallelize: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Callable[..., Any]:
            import jax
            from jax.experimental.compilation_cache import compilation_cache

            step = parallelize(*args, **kwargs)
            has_ended = threading.Event()

            def soon(event: str, *_: Any, **__: Any) -> None:
                if event == "/jax/core/compile/jaxpr_to_mlir_module_duration":  # XLA's work begins
                    threading.Thread(target=lambda: has_ended.wait(0.35) or killer.kill(), daemon=True).start()

            def call(*inputs: Any) -> Any:
                compilation_cache.reset_cache()
                jax.config.update("jax_compilation_cache_dir", None)
                jax.monitoring.register_event_duration_secs_listener(soon)
                step(*inputs)
                has_ended.set()
                killer.fail("the step was compiled before the process was killed")

            return call

        return wrapped

    replace("funcnet.train.trials", "parallelize", make)


def number_batches(killer: Killer) -> None:
    def make(batches: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Any, start: int = 0) -> Any:
            killer.thread.step = start + 1
            for batch in batches(self, start):
                yield batch  # and move it
                killer.thread.step += 1

        return wrapped

    replace("funcnet.tasks.pretraining.phases:Phases", "batches", make)
    replace(
        "funcnet.train.batches:LoaderBatches", "__call__", lambda open_: lambda *args: Numbered(open_(*args), *args)
    )
    Numbered.killer = killer


class Numbered:
    """The batches of a loader, which note the number of the batch that the calling thread reads, and then moves."""

    killer: Killer

    def __init__(self, source: Any, batches: Any, start: int, position: Any = None):
        self.source, self.number = iter(source), start
        for name in ("state_dict", "close"):
            setattr(self, name, getattr(source, name))

    def __iter__(self) -> "Numbered":
        return self

    def __next__(self) -> Any:
        self.number += 1
        self.killer.thread.step = self.number
        return next(self.source)


def reading(killer: Killer) -> None:
    """Half of the rows have been read."""
    number_batches(killer)

    def make(read: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Any, indices: Any) -> Any:
            if getattr(killer.thread, "step", None) == killer.step:
                read(self, indices[: len(indices) // 2])
                killer.kill()
            return read(self, indices)

        return wrapped

    replace("funcnet.tasks.pretraining_data.dataset:PretrainingDataset", "__getitems__", make)


def moving(killer: Killer) -> None:
    """One array of the batch is on the devices."""
    number_batches(killer)

    def make(shard: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Any, batch: Any) -> Any:
            if getattr(killer.thread, "step", None) == killer.step:
                shard(self, next(iter(batch.values())) if isinstance(batch, dict) else batch[0])
                killer.kill()
            return shard(self, batch)

        return wrapped

    for name in ("shard", "shard_own"):  # by one process, and by one of several
        replace("funcnet.parallel.layout:Layout", name, make)


def computing(killer: Killer) -> None:
    after(
        "funcnet.train.pending_metrics:PendingMetrics",
        "add",
        lambda self, number, *_: number == killer.step and killer.kill(),
    )


def metrics_read(killer: Killer) -> None:
    after(
        "funcnet.train.pending_metrics:PendingMetrics", "read", lambda self: self.done == killer.step and killer.kill()
    )


def half_a_line(killer: Killer) -> None:
    def act(self: Any, step: int, values: Any) -> None:
        if step == killer.step:
            line = json.dumps({"step": step, **values}).encode()
            with open(self.path, "ab", buffering=0) as file:
                file.write(line[: len(line) // 2])
            killer.kill()

    before("funcnet.train.metrics_files:JsonLines", "write", act)


def between_logs(killer: Killer) -> None:
    before(
        "funcnet.train.metrics_files:TensorBoard", "write", lambda self, step, _: step == killer.step and killer.kill()
    )


def evaluating(killer: Killer) -> None:
    """The first held-out batch was given to the devices."""

    def note(self: Any, number: int, *_: Any) -> None:
        killer.current = number

    def make(evaluate: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(compiled: Any, model: Any, batches: Any, **kwargs: Any) -> Any:
            def first() -> Any:
                yield next(iter(batches))
                killer.kill()

            return evaluate(compiled, model, first() if killer.current == killer.step else batches, **kwargs)

        return wrapped

    after("funcnet.train.pending_metrics:PendingMetrics", "add", note)
    for name in ("tasks.pretraining.task", "train.fit_evaluation"):
        replace(f"funcnet.{name}", "evaluate", make)


# ------------------------------------------------------------------------------------------------------------- a save

CHECKPOINTS = "funcnet.train.checkpoints"


def before_the_first_byte(killer: Killer) -> None:
    def act(self: Any, arrays: Any, step: int, record: Any) -> None:
        if step == killer.step:
            killer.kill()

    before(f"{CHECKPOINTS}:Checkpoints", "_write", act)


def writing_arrays(killer: Killer) -> None:
    """The first file with content is there, and others are not."""

    def watch() -> None:
        while not any(path.is_file() and path.stat().st_size for path in list(killer.target.rglob("*"))):
            time.sleep(0.0005)
        killer.kill()

    def make(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Path, arrays: Any) -> None:
            if path.parent == killer.target:
                threading.Thread(target=watch, daemon=True).start()
                write(path, arrays)
                killer.fail("all arrays were written before the process was killed")
            write(path, arrays)

        return wrapped

    replace(CHECKPOINTS, "write_arrays", make)


def before_the_record(killer: Killer) -> None:
    before(CHECKPOINTS, "write_json", lambda path, _: path == killer.target / "run.json" and killer.kill())


def before_the_digests(killer: Killer) -> None:
    before(CHECKPOINTS, "_digests", lambda folder: folder == killer.target and killer.kill())


def while_replacing(killer: Killer, wanted: Path, *, half: bool = False) -> None:
    """A file is complete, or half of it, under its temporary name."""

    def act(part: Any, path: Any, **_: Any) -> None:
        if Path(path) == wanted:
            if half:
                os.truncate(part, os.path.getsize(part) // 2)
            killer.kill()

    before("os", "replace", act)


def writing_digests(killer: Killer) -> None:
    while_replacing(killer, killer.target / "digests.json")


def committed(killer: Killer) -> None:
    def note(self: Any) -> None:
        if (killer.target / "digests.json").exists():
            killer.kill()

    before(f"{CHECKPOINTS}:Checkpoints", "_prune", note)


def removing(killer: Killer, act: Callable[[Path], None]) -> None:
    def begin(self: Any) -> None:
        killer.pruning = (killer.target / "digests.json").exists()

    def kill(folder: Path, *_: Any, **__: Any) -> None:
        if killer.pruning:
            assert not (folder / "digests.json").exists()
            act(folder)
            killer.complete = 0  # it is the one that is being removed
            killer.kill()

    before(f"{CHECKPOINTS}:Checkpoints", "_prune", begin)
    before("shutil", "rmtree", kill)


def digests_removed(killer: Killer) -> None:
    removing(killer, lambda folder: None)


def half_removed(killer: Killer) -> None:
    def half(folder: Path) -> None:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for path in files[: len(files) // 2]:
            path.unlink()

    removing(killer, half)


# --------------------------------------------------------------------------------------- a resumed process, and the end


def restoring(killer: Killer) -> None:
    before(CHECKPOINTS, "read_arrays", lambda *_: killer.kill())


def cutting_the_log(killer: Killer) -> None:
    while_replacing(killer, killer.out / "metrics.jsonl")


def writing_the_model(killer: Killer) -> None:
    while_replacing(killer, killer.out / "model.safetensors", half=True)


def before_the_report(killer: Killer) -> None:
    before("funcnet.train.trials", "draw_report", lambda *_, **__: killer.kill())


def before_finishing(killer: Killer) -> None:
    before("funcnet.train.run", "finish", lambda _: killer.kill())


PHASES = [
    Phase("step: the first step is compiled", compiling, "first step"),
    Phase("step: a batch is read (half of its rows)", reading, "step"),
    Phase("step: a batch is moved to the devices (one of its arrays)", moving, "step"),
    Phase("step: given to the devices, metrics not read", computing, "step"),
    Phase("step: metrics read, line of the log not written", metrics_read, "line"),
    Phase("step: half of the line of the log is on the disk", half_a_line, "line", only_first=True),
    Phase("step: line of the log written, TensorBoard's event not", between_logs, "line", only_first=True),
    Phase("evaluation: the first batch was given to the devices", evaluating, "evaluation"),
    Phase("save: before the first byte", before_the_first_byte, "save"),
    Phase("save: some files of the arrays are written", writing_arrays, "save"),
    Phase("save: arrays written, `run.json` not", before_the_record, "save", only_first=True),
    Phase("save: `run.json` written, digests not computed", before_the_digests, "save", only_first=True),
    Phase("save: digests under their temporary name", writing_digests, "save", only_first=True),
    Phase("save: complete, the old checkpoint not yet deleted", committed, "removal", True, only_first=True),
    Phase("save: digests of the old checkpoint deleted", digests_removed, "removal", True, only_first=True),
    Phase("save: half of the old checkpoint deleted", half_removed, "removal", True, only_first=True),
    Phase("resumption: the checkpoint is read", restoring, "start"),
    Phase("resumption: the shortened log is under its temporary name", cutting_the_log, "start", only_first=True),
    Phase("end: half of the model file is written", writing_the_model, "end", only_first=True),
    Phase("end: model written, report and `eval.json` not", before_the_report, "end", only_first=True),
    Phase("end: all files written, the run not marked as finished", before_finishing, "end", only_first=True),
]


def killed(phase: str, step: int, out: Path, cache: Path, *command: Any, complete: int = 0) -> None:
    """Run a command in a process of its own, which is killed at `step` in the phase whose name begins with `phase`. The
    command is a module in `tests`, a script, or a subcommand of `funcnet`, with arguments. The process waits before the
    kill until the checkpoint of the step `complete` is on the disk.
    """
    (number,) = (number for number, known in enumerate(PHASES) if known.name.startswith(phase))
    launcher = [sys.executable, "-m", "tests.train.kill_matrix", number, step, complete, out, "--"]
    ((code, said),) = processes.ended(processes.start([*launcher, *command], cache))
    assert code == -signal.SIGKILL and reached(out).read_text() == str(step), said
    reached(out).unlink()


def cache_all() -> None:
    """Put small programs into the cache on disk too: a process that starts again is ready in half of the time."""
    import jax

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def run_script(arguments: tuple[str, ...]) -> None:
    """Run a script as the main module, from which the worker processes that it spawns can import its classes."""
    sys.argv = list(arguments)
    script = types.ModuleType("__main__")
    script.__file__ = arguments[0]
    sys.modules["__main__"] = script
    exec(compile(Path(arguments[0]).read_text("utf-8"), arguments[0], "exec"), script.__dict__)


def _main(phase: str, step: str, complete: str, out: str, separator: str, *arguments: str) -> None:
    assert separator == "--"
    replace("funcnet.parallel.processes", "HEARTBEAT", lambda _: HEARTBEAT)
    after("funcnet.train.compilation_cache", "enable", cache_all)
    if int(phase) >= 0:
        PHASES[int(phase)].arm(Killer(int(step), int(complete), Path(out)))
    if arguments[0].endswith(".py"):
        run_script(arguments)
    elif arguments[0].startswith("tests."):
        sys.argv = list(arguments)
        runpy.run_module(arguments[0], run_name="__main__")
    else:
        from funcnet.cli import main

        main(list(arguments))


if __name__ == "__main__":
    _main(*sys.argv[1:])
