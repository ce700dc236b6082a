"""The nets of many candidates and folds, trained together.

A *lane* is one candidate on one fold. Lanes whose nets have the same shapes form a group. `vmap` trains all lanes of a
group in one program. Several devices divide the lanes.
"""

import contextlib
import dataclasses
import functools
import math
import pickle
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import joblib
import numpy as np

from funcnet.sklearn.traced_parameters import Traces
from funcnet.sklearn.training import Batches, Recipe, TrainingRows, batches_of, compiled, run_epoch, start
from funcnet.train import Interruption
from funcnet.tree import PyTree

__all__ = ["Lane", "TrainedNets", "digest", "train_together"]

SHARE = 0.5  # of the free memory
Say = Callable[[str], None]


@dataclasses.dataclass
class TrainedNets:
    """The nets that a search has trained.

    Attributes:
        x, y, weights: the data of the search, as the user gave them.
        splits: [(numbers of the rows to train on, numbers of the rows to score)].
        nets: {`digest` of a lane: attributes of a fitted estimator}.
        read: {dtype: all rows, as an estimator has read them}.
        folds: {(dtype, number of a fold): (its rows, attributes of an estimator that has read them)}.
        traces: what has been traced for the candidates; see `Blueprint.of`.
        interrupted: what Ctrl-C has left out, or "".
        seconds: {`digest` of a lane: its share of the time that its group was trained}.
        fit_seconds: the mean of these times over the folds, for each candidate to score.
    """

    x: Any
    y: Any
    weights: Any
    splits: Sequence[tuple[np.ndarray, np.ndarray]]
    nets: dict[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    read: dict[str, TrainingRows] = dataclasses.field(default_factory=dict)
    folds: dict[tuple[str, int], tuple[TrainingRows, Mapping[str, Any]]] = dataclasses.field(default_factory=dict)
    traces: Traces = dataclasses.field(default_factory=dict)
    interrupted: str = ""
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    fit_seconds: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Lane:
    """One candidate on one fold.

    Attributes:
        name: the `digest` of its parameters and rows.
        recipe: the part that it has in common with other lanes.
        epochs: number of epochs.
        seed: seed of its random key.
        values: the values that the program reads.
        rows: all rows of the data. The weights of rows outside the fold are 0.
        train: the numbers of the rows of the fold.
    """

    name: str
    recipe: Recipe
    epochs: int
    seed: int
    values: Mapping[str, float]
    rows: TrainingRows
    train: np.ndarray


def digest(estimator: Any, rows: TrainingRows) -> str:
    """Return a digest of the parameters of an estimator, and of the rows that it trains on."""
    params = {name: _digest_of(value) for name, value in estimator.get_params().items()}
    return str(joblib.hash((type(estimator).__name__, sorted(params.items()), *map(np.ascontiguousarray, rows))))


def _digest_of(value: object) -> str:
    """Return a digest of a parameter. It is the digest of the value, or of the identity if the value cannot be pickled,
    such as a lambda.
    """
    try:
        return str(joblib.hash(value))
    except (pickle.PicklingError, AttributeError, TypeError):
        return f"{id(value)}"


def train_together(
    estimator: Any, candidates: Sequence[Mapping[str, Any]], trained: TrainedNets, say: Say | None = None
) -> Sequence[Mapping[str, Any]]:
    """Train the nets of all candidates on all folds, and add them to `trained`.

    Candidates that cannot be trained together, for example because they have callbacks, are left out. scikit-learn's
    search then trains them one after the other.

    Args:
        estimator: a `Classifier` or a `Regressor`.
        candidates: the parameters of each candidate.
        trained: the data and the folds.
        say: function that shows a line of progress.

    Returns:
        The candidates to score. After Ctrl-C, these are the candidates that were trained, perhaps for fewer epochs.

    Raises:
        KeyboardInterrupt: if Ctrl-C came before the first epoch had ended, or came twice.
        SystemExit: after SIGTERM.
    """
    folds = range(len(trained.splits))
    lanes = [[estimator.lane(candidate, trained, fold) for fold in folds] for candidate in candidates]
    groups: dict[Any, list[Lane]] = {}
    for lane in (lane for row in lanes for lane in row if lane is not None):
        groups.setdefault((lane.recipe, lane.epochs), []).append(lane)
    with Interruption() as stop:
        for group in groups.values():
            _train_group(group, trained, stop, say)
    if stop.signal == signal.SIGTERM:
        raise SystemExit(stop.exit_code)
    is_done = lambda row: all(lane is not None and lane.name in trained.nets for lane in row)
    done = [(one, row) for one, row in zip(candidates, lanes, strict=True) if not stop.requested or is_done(row)]
    if not done:
        raise KeyboardInterrupt
    if len(done) < len(candidates):
        trained.interrupted += f"; {len(done)} of {len(candidates)} candidates are scored"
    known = lambda lane: 0.0 if lane is None else trained.seconds.get(lane.name, 0.0)
    trained.fit_seconds += [float(np.mean([known(lane) for lane in row])) for _, row in done]
    return [candidate for candidate, _ in done]


def _train_group(lanes: list[Lane], trained: TrainedNets, stop: Interruption, say: Say | None) -> None:
    """Train the lanes of a group by one program, or by several if one needs too much memory."""
    if len(lanes) == 1 or stop.requested:
        return
    begin, free = time.perf_counter(), _free_memory()
    with jax.enable_x64(lanes[0].recipe.dtype == "float64"):
        program = _Program(lanes)
        parts = min(math.ceil(program.memory / (SHARE * free)), len(lanes))
        if parts > 1:
            most = math.ceil(len(lanes) / parts)
            if say is not None:
                say(f"{len(lanes)} fits need too much memory; training {most} at a time")
            del program
            for first in range(0, len(lanes), most):
                _train_group(lanes[first : first + most], trained, stop, say)
            return
        trained.nets |= program.run(trained, stop, say)
    seconds = (time.perf_counter() - begin) / len(lanes)
    trained.seconds |= dict.fromkeys((lane.name for lane in lanes), seconds)


def _free_memory() -> float:
    """Return the free memory of all devices in bytes, or 4 GB if it is not known."""
    stats = [device.memory_stats() for device in jax.local_devices()]
    if all(stats):
        return float(sum(one.get("bytes_limit", 4e9) - one.get("bytes_in_use", 0) for one in stats))
    with contextlib.suppress(OSError):
        found = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"))
        return 1024.0 * int(found[1]) if found else 4e9
    return 4e9


class _Program:
    """The program that trains some lanes for an epoch, with the arrays that all epochs read.

    Args:
        lanes: lanes with the same recipe and number of epochs.

    Attributes:
        memory: the memory in bytes that an epoch needs, on all devices together.
    """

    def __init__(self, lanes: list[Lane]):
        recipe, rows = lanes[0].recipe, lanes[0].rows
        devices = jax.local_devices()[: len(lanes)]
        self.lanes, self.padded = lanes, [*lanes, *lanes[-1:] * (-len(lanes) % len(devices))]
        steps = [-(-len(lane.train) // recipe.batch_size) for lane in self.padded]
        self.recipe, self.steps = dataclasses.replace(recipe, is_padded=min(steps) < max(steps)), max(steps)
        self.mesh = jax.sharding.Mesh(np.array(devices), ("lanes",))
        names, keys = lanes[0].values, np.array([lane.seed for lane in self.padded], np.int32)
        values = {name: np.array([lane.values[name] for lane in self.padded], recipe.dtype) for name in names}
        weights = np.stack([lane.rows.weights for lane in self.padded])
        self.values, self.keys, weights = self._place((values, jax.vmap(jax.random.key)(keys), weights), "lanes")
        inputs, targets = self._place((jnp.asarray(rows.inputs), jnp.asarray(rows.targets)))
        self.rows = TrainingRows(inputs, targets, weights)
        axes = (0, 0, TrainingRows(None, None, 0), 0, 0, None)
        run = jax.jit(jax.vmap(functools.partial(run_epoch, self.recipe), in_axes=axes), donate_argnums=1)
        shapes = jax.eval_shape(lambda: start(recipe, lanes[0].values, jax.random.key(0)))
        sharding = jax.NamedSharding(self.mesh, jax.P("lanes"))
        stacked = lambda leaf: jax.ShapeDtypeStruct((len(self.padded), *leaf.shape), leaf.dtype, sharding=sharding)
        fitting = jax.tree.map(stacked, shapes)
        number = np.int32(0)
        self._epoch = run.lower(self.values, fitting, self.rows, self._batches(0), self.keys, number).compile()
        self.memory = _needed(self._epoch.memory_analysis()) * len(devices)

    def run(self, trained: TrainedNets, stop: Interruption, say: Say | None) -> dict[str, Mapping[str, Any]]:
        """Train, and return the attributes of a fitted estimator for each lane, by its name."""
        # `vmap` would not make this faster, but its program takes several times as long to compile.
        begin, epochs = compiled(start, self.lanes[0].recipe), self.lanes[0].epochs
        each = [begin(dict(lane.values), jax.random.key(lane.seed)) for lane in self.padded]
        fitting = self._place(jax.tree.map(lambda *leaves: np.stack(leaves), *each), "lanes")
        losses: list[jax.Array] = []
        for epoch in range(epochs):
            jax.block_until_ready(losses[-2:-1])  # otherwise all epochs would be queued at once
            if stop.requested and losses:
                trained.interrupted = f"the candidates were trained for {epoch} of {epochs} epochs"
                break
            batches, number = self._batches(epoch), np.int32(epoch)
            fitting, loss = self._epoch(self.values, fitting, self.rows, batches, self.keys, number)
            losses.append(loss)
            if say is not None and (epoch + 1) % max(1, epochs // 10) == 0:
                say(f"epoch {epoch + 1}/{epochs} of {len(self.lanes)} fits, loss {float(loss.mean()):.4f}")
        fitting, history = jax.device_get(fitting), np.stack(jax.device_get(losses), 1)  # (lanes, epochs)
        found: dict[str, Mapping[str, Any]] = {}
        for index, lane in enumerate(self.lanes):
            rows = [{"epoch": i + 1, "train_loss": float(loss)} for i, loss in enumerate(history[index])]
            one = jax.tree.map(functools.partial(_taken, index), fitting)
            found[lane.name] = {"fitting_": one, "logged_": rows, "n_iter_": len(losses), "seed_": lane.seed}
        return found

    def _batches(self, epoch: int) -> Batches:
        """Return the batches of all lanes: (lanes, S, B)."""
        found = [batches_of(self.recipe, lane.train, lane.seed, epoch, self.steps) for lane in self.padded]
        batches: Batches = self._place(Batches(*map(np.stack, zip(*found, strict=True))), "lanes")
        return batches

    def _place(self, tree: PyTree, *axes: str) -> Any:
        return jax.device_put(tree, jax.NamedSharding(self.mesh, jax.P(*axes)))


def _needed(found: Any) -> float:
    """Return the bytes that a program needs on a device, according to XLA's analysis, or 1 if the platform has no
    analysis.
    """
    if found is None:
        return 1.0
    kept = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return float(kept + found.temp_size_in_bytes)


def _taken(index: int, leaf: np.ndarray) -> np.ndarray:
    return np.asarray(leaf[index])
