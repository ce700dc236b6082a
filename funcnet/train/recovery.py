"""Stores what is needed to repeat a failed step, and restores an earlier checkpoint after a spike of the loss.

    faults.jsonl                       one object per fault: kind, step, batch, loss, …
    replay/step-00000042-batch-00000041/
        bundle.json                    the command, its configuration, the seed, the fault, the step to start from
        batch.safetensors              the batch of the step
        checkpoints/step-00000040/     hard links to the newest checkpoint before the step, if there is one

`funcnet replay` repeats the step from such a folder; see `replay`.
"""

import dataclasses
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from funcnet import nn, tree, weights
from funcnet.arguments import path as as_path
from funcnet.files import read_json, replacing, write_json
from funcnet.parallel import Layout, is_first
from funcnet.train.checkpoints import Checkpoints, Restored
from funcnet.train.errors import RunError, cannot_write
from funcnet.train.faults import Fault
from funcnet.train.state import TrainState
from funcnet.train.versions import versions
from funcnet.tree import PyTree

__all__ = ["FAULTS", "REPLAY", "Bundle", "RunRecovery", "batch_arrays", "describe_net", "read_bundle"]

FAULTS = "faults.jsonl"
REPLAY = "replay"
BUNDLE = "bundle.json"
BATCH = "batch.safetensors"
CHECKPOINTS = "checkpoints"
MARGIN = 10  # steps from a checkpoint to a spike; a later checkpoint may already contain the cause of the spike
MOST = 20  # bundles per run; the checkpoint in a bundle takes up disk space after the run has removed the original


@dataclasses.dataclass(frozen=True)
class Bundle:
    """Everything that is needed to repeat a failed training step.

    Attributes:
        folder: the folder of the bundle.
        where: name of the command, such as "pretrain".
        config: settings of the command, as `settings.recorded` returns them.
        seed: seed of the training.
        fault: the fault.
        start: the step of the checkpoint from which the repetition starts, or 0.
        first_batch: index of the batch of step `start + 1`.
        began_in: working directory of the run, to which relative paths in `config` refer.
        batch: the batch of the step that failed, as {name: array}.
        net: the net, as `describe_net` returns it. None in a bundle of an older release.
        versions: the versions of Python and of the packages, as `versions()` returns them.
    """

    folder: Path
    where: str
    config: Mapping[str, Any]
    seed: int
    fault: Fault
    start: int
    first_batch: int
    began_in: str
    batch: Mapping[str, np.ndarray]
    net: list[str] | None = None
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoint from which the failed step is repeated. If the repetition starts at step 0, this
        folder does not exist.
        """
        return self.folder / CHECKPOINTS


@dataclasses.dataclass
class RunRecovery:
    """The `Recovery` of a run, which stores failed steps and restores checkpoints.

    Attributes:
        out: directory of the training.
        where: name of the command.
        config: settings of the command, as JSON.
        seed: seed of the training.
        layout: layout of the run.
        checkpoints: checkpoints of the training.
        first: the train state before step 0, as `jax.ShapeDtypeStruct`s.
        restart: function that returns the placed train state before step 0.
        say: function that prints a line.
        net: the net, or None if the task has none.
    """

    out: Path
    where: str
    config: Mapping[str, Any]
    seed: int
    layout: Layout
    checkpoints: Checkpoints
    first: TrainState
    restart: Callable[[], TrainState]
    say: Callable[[str], None]
    net: nn.Module | None

    def keep(self, fault: Fault, batch: PyTree) -> dict[str, Any]:
        name = f"{REPLAY}/step-{fault.step:08d}-batch-{fault.batch:08d}"
        arrays = batch_arrays(self.layout, batch)  # called in all processes, because each has only a part
        newest = self.checkpoints.newest()
        values = {"loss": fault.loss, "grad_norm": fault.grad_norm, "usual": fault.usual, "layer": fault.layer}
        event = {name: _as_json(value) for name, value in values.items()}
        if len(list((self.out / REPLAY).glob(f"*/{BUNDLE}"))) >= MOST and not (self.out / name).exists():
            self.say(f"{fault} (It has no replay bundle, because there are already {MOST}.)")
            return event
        if is_first():
            try:
                self._write(self.out / name, fault, arrays, newest)
            except OSError as error:
                raise cannot_write("train.run", self.out / name, error) from error
        folder = self.out / name
        is_python = self.where.startswith("train.")
        self.say(f"{fault} Repeat it with {f'replay={str(folder)!r}' if is_python else f'funcnet replay {folder}'}")
        return {**event, "bundle": name}

    def rewind(self, fault: Fault) -> Restored:
        restored = self.checkpoints.rewind(fault.step - MARGIN, self.first, self.layout.shardings(self.first))
        if restored is None:
            restored = Restored(self.restart(), 0, {})
        self.say(
            f"Going back to step {restored.step:,}; the run continues with the batches after the batch of step "
            f"{fault.step:,}."
        )
        return restored

    def changed(self, events: list[Mapping[str, Any]]) -> None:
        path = self.out / FAULTS
        if is_first() and (events or path.exists()):
            with replacing(path) as part:
                part.write_text("".join(json.dumps(event) + "\n" for event in events))

    def _write(self, folder: Path, fault: Fault, arrays: dict[str, np.ndarray], newest: Path | None) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # a bundle of this step from before the run was resumed
        folder.mkdir(parents=True)
        weights.save(folder / BATCH, arrays)
        start = 0
        if newest is not None:
            start = int(newest.name.removeprefix("step-"))
            shutil.copytree(newest, folder / CHECKPOINTS / newest.name, copy_function=_link)
        values = {name: _as_json(value) for name, value in dataclasses.asdict(fault).items()}
        record = {"command": self.where, "config": dict(self.config), "seed": self.seed, "fault": values}
        record["began_in"] = os.getcwd()
        first_batch = fault.batch - (fault.step - start - 1)
        record |= {"start": start, "first_batch": first_batch, "versions": versions()}
        write_json(folder / BUNDLE, {**record, "net": describe_net(self.net, self.first)})


def describe_net(net: nn.Module | None, state: TrainState) -> list[str]:
    """Return lines that describe a net: those of its `repr`, and the dtypes and shapes of its parameters and buffers.

    Args:
        net: the net, or None if the task has none.
        state: the train state, with arrays or `jax.ShapeDtypeStruct`s as leaves.

    Example:
        >>> import optax
        >>> from funcnet.train.state import create
        >>> net = nn.Linear(2, 1, bias=False)
        >>> describe_net(net, create(*net.init(jax.random.key(0)), optax.sgd(0.1)))
        ['Linear(in_features=2, out_features=1, bias=False)', 'weight: float32 (1, 2)']
    """
    lines = [] if net is None else re.sub(r" at 0x[0-9a-f]+", "", repr(net)).splitlines()
    leaves = {**tree.flatten(state.params), **tree.flatten(state.state)}
    return [*lines, *(f"{name}: {leaf.dtype} {tuple(leaf.shape)}" for name, leaf in leaves.items())]


def batch_arrays(layout: Layout, batch: PyTree) -> dict[str, np.ndarray]:
    """Copy a batch of B rows from the devices to the host, and return {name: array (B, …)}. The batch is from
    `layout.shard`.

    Example:
        >>> from funcnet.parallel import make_layout
        >>> layout = make_layout({"data": 2}, kind="pmap")
        >>> batch_arrays(layout, layout.shard({"x": np.arange(4)}))["x"].tolist()
        [0, 1, 2, 3]
    """
    leaves = jax.tree_util.tree_leaves_with_path(layout.gather(batch))
    named = {jax.tree_util.keystr(path, simple=True, separator=".") or "batch": leaf for path, leaf in leaves}
    if layout.kind == "pmap":
        named = {name: leaf.reshape(-1, *leaf.shape[2:]) for name, leaf in named.items()}
    return named


def read_bundle(folder: str | Path) -> Bundle:
    """Read the `Bundle` of a failed step from a folder that a run has written under `replay/`.

    Args:
        folder: the folder of the bundle, such as `RUN/replay/step-00000042-batch-00000041`.

    Raises:
        RunError: if the folder does not contain the files of a bundle.

    Example:
        >>> import optax, tempfile
        >>> from funcnet.parallel import make_layout
        >>> from funcnet.train.state import create
        >>> layout, state = make_layout({"data": 1}), create({"bias": np.zeros(1)}, {}, optax.sgd(0.1))
        >>> say = restart = lambda *line: None
        >>> with tempfile.TemporaryDirectory() as out, Checkpoints(f"{out}/checkpoints") as saved:  # as a run does
        ...     recovery = RunRecovery(Path(out), "pretrain", {}, 0, layout, saved, state, restart, say, None)
        ...     _ = recovery.keep(Fault("skipped", 1, 0, math.nan, math.nan), layout.shard({"x": np.full(2, math.nan)}))
        ...     bundle = read_bundle(f"{out}/replay/step-00000001-batch-00000000")
        >>> str(bundle.fault), bundle.batch["x"].tolist()
        ('Step 1 was skipped: loss nan, gradient norm nan.', [nan, nan])
    """
    folder = as_path("train.read_bundle", "folder", folder)
    record = read_json(folder / BUNDLE)
    if not isinstance(record, dict) or "fault" not in record:
        got = "a damaged one" if (folder / BUNDLE).exists() else "a folder without it" if folder.is_dir() else "none"
        raise RunError(
            f"replay: {folder} is not a replay bundle; expected a folder with {BUNDLE}, such as "
            f"RUN/{REPLAY}/step-00000042-batch-00000041, got {got}."
        )
    values = record["fault"]
    numbers = {name: float(values[name]) for name in ("loss", "grad_norm")}
    fault = Fault(**{**values, **numbers})
    batch = {name: np.asarray(array) for name, array in weights.load(folder / BATCH).items()}
    about = (record["command"], record["config"], record["seed"])
    place = (record["start"], record["first_batch"], record["began_in"])
    return Bundle(folder, *about, fault, *place, batch, record.get("net"), record.get("versions", {}))


def _as_json(value: object) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copy2(source, target)
