"""Checkpoints of a run. Even if a run is killed, a checkpoint is either complete or absent. Damage to a checkpoint is
detected.

    checkpoints/step-00000100/arrays/        written by orbax: params, buffers, optimizer state, step
                              run.json       step, seed, data position, configuration, versions, metrics
                              digests.json   {file: SHA-256}, written last and atomically; it completes the checkpoint

`save` copies the arrays on their devices and returns. A thread then writes the arrays and the digests, and only then
removes old checkpoints. A folder without digests is incomplete, and is removed by the next write. Arrays are stored
independently of their layout. A checkpoint that was saved under one layout can be restored under any other.
"""

import contextlib
import dataclasses
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from funcnet.files import check_json, file_digest, read_json, sync, write_json
from funcnet.parallel import Layout, first_decides, is_first, process_count, wait_for_all
from funcnet.random import is_key
from funcnet.train.errors import RunError, cannot_write
from funcnet.train.storable import accepted_kinds, array_kind, named_leaves, storable_leaves, stored_form
from funcnet.train.stored_arrays import read_arrays, stored_kinds, write_arrays
from funcnet.train.versions import versions
from funcnet.tree import PyTree

__all__ = ["Checkpoints", "Restored", "resume"]

DIGESTS = "digests.json"
ABOUT = "run.json"
ARRAYS = "arrays"
ADDED = ("skipped",)  # leaves that older releases did not save; they are zero


@dataclasses.dataclass(frozen=True)
class Restored:
    """A restored checkpoint.

    Attributes:
        state: a pytree with the structure of the template.
        step: the number of steps made.
        about: the content of the checkpoint's run.json.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder, Checkpoints(folder) as checkpoints:
        ...     checkpoints.save({"weight": np.arange(2.0)}, 5, {"seed": 1})
        ...     checkpoints.wait()
        ...     checkpoints.restore({"weight": np.zeros(2)})
        Restored(state={'weight': array([0., 1.])}, step=5, about={...})
    """

    state: Any
    step: int
    about: dict[str, Any]


class Checkpoints:
    """Writes and reads the checkpoints in `folder`. The context manager waits for the last write on exit.

    Args:
        folder: folder of the checkpoints, which the first save creates.
        keep: the number of newest checkpoints to keep. Those saved only after a signal do not count.
        best_metric: name of an evaluation metric. The checkpoint with the best value of this metric is kept too. None
            keeps only the newest checkpoints.
        best: whether the smallest or the largest value is best.
        say: function that is called with each line for the user.

    Raises:
        ValueError: if `keep` is below 1.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> state = {"weight": np.arange(3.0)}
        >>> with tempfile.TemporaryDirectory() as folder, Checkpoints(folder) as checkpoints:
        ...     checkpoints.save(state, step=10, about={"seed": 0})
        ...     checkpoints.wait()
        ...     restored = checkpoints.restore(state)
        >>> restored.step, restored.about["seed"], restored.state["weight"]
        (10, 0, array([0., 1., 2.]))
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        keep: int = 3,
        best_metric: str | None = None,
        best: Literal["min", "max"] = "min",
        say: Callable[[str], None] = print,
    ):
        if keep < 1:
            raise ValueError(f"train.Checkpoints: keep is too small; expected at least 1, got {keep}.")
        self.folder = Path(folder).absolute()
        self.keep, self.best_metric, self.best, self.say = keep, best_metric, best, say
        self._writer: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._last_step: int | None = None

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if self._writer is not None:
            self._writer.join()
        if kind is None:
            self.check()

    # -------------------------------------------------------------------------------------------------- writing

    def save(
        self, state: PyTree, step: int, about: Mapping[str, Any], metrics: Mapping[str, float] | None = None
    ) -> None:
        """Copy `state`, and write the copy in the background. If an earlier checkpoint is still being written, wait for
        it first.

        Args:
            state: a pytree of arrays in any layout, typed random keys and numbers. The copies stay on the devices until
                they are written.
            step: the number of steps made, which is part of the checkpoint's name.
            about: other values that a resumed run needs (seed, data position, configuration), as JSON. Tuples are
                restored as lists.
            metrics: metrics of the evaluation at this step, to find the best checkpoint.

        Raises:
            RunError: if the previous write failed.
            TypeError: if a checkpoint cannot store a leaf of `state`, such as a string, or an entry of `about` is not a
                JSON value. Nothing is written. The message has the name of the leaf or entry.
            ValueError: if two leaves have the same name, such as "a.b" and "b" in "a". Nothing is written.
        """
        self.wait()
        if step == self._last_step:
            return
        where = "train.Checkpoints.save"
        leaves = storable_leaves(state, where)
        check_json(about, f"{where}: about")
        arrays = {name: stored_form(leaf) for name, leaf in leaves.items()}  # the next step may donate the state
        # orbax stores neither the kinds of keys nor empty arrays
        kinds = {name: array_kind(leaf) for name, leaf in leaves.items() if is_key(leaf) or not np.size(leaf)}
        record = {"step": step, **about, "metrics": dict(metrics or {}), "versions": versions(), "kinds": kinds}
        self._writer = threading.Thread(target=self._write, args=(arrays, step, record), name="checkpoint")
        self._writer.start()

    def wait(self) -> None:
        """Wait for the current write.

        Raises:
            RunError: if the write failed.
        """
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        self.check()

    def check(self) -> None:
        """Raise the error of a background write that has failed. The check is cheap enough for every step.

        Raises:
            RunError: if a write failed. The message names the folder and the reason.
        """
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise cannot_write("train.Checkpoints", self.folder, failure) from failure

    def _write(self, arrays: dict[str, Any], step: int, record: dict[str, Any]) -> None:
        target = self.folder / f"step-{step:08d}"
        try:
            if is_first():
                self.folder.mkdir(parents=True, exist_ok=True)
                self._remove_incomplete()
                _remove(target)  # a damaged checkpoint of this step that restore() skipped
                target.mkdir()
            wait_for_all(f"{target}, before the arrays")
            write_arrays(target / ARRAYS, arrays)  # each process writes the parts that its devices have
            wait_for_all(f"{target}, after the arrays")
            if is_first():
                write_json(target / ABOUT, record)
                write_json(target / DIGESTS, _digests(target))
                sync(self.folder)
                self._prune()
            self._last_step = step
            wait_for_all(f"{target}, complete")
        except BaseException as error:
            self._failure = error
            if process_count() == 1 and not (target / DIGESTS).exists():
                _free(target)

    def _remove_incomplete(self) -> None:
        for folder in self.folder.glob("step-*"):
            if not (folder / DIGESTS).exists():
                shutil.rmtree(folder, ignore_errors=True)

    def _prune(self) -> None:
        complete = self._complete()
        kept = {*complete[:1], *_scheduled(complete)[: self.keep]}
        scores = {path: (read_json(path / ABOUT) or {}).get("metrics", {}).get(self.best_metric) for path in complete}
        scored = {path: score for path, score in scores.items() if score is not None}
        if scored:
            kept.add((min if self.best == "min" else max)(scored, key=scored.__getitem__))
        for path in complete:
            if path not in kept:
                _remove(path)

    def _newest(self) -> str | None:
        """Return the newest undamaged checkpoint's name, or None. Rename damaged checkpoints to damaged-…."""
        for path in self._complete():
            damage = _damage(path)
            if damage is None:
                return path.name
            self.say(f"Checkpoint {path.name} is damaged ({damage}); using the previous one.")
            _set_aside(path)
        return None

    def _complete(self) -> list[Path]:
        """Return the folders of the complete checkpoints, newest first. The digests are not compared here."""
        found = [path for path in self.folder.glob("step-*") if (path / DIGESTS).exists()]
        return sorted(found, reverse=True)

    # -------------------------------------------------------------------------------------------------- reading

    def restore(self, template: PyTree, shardings: PyTree = None) -> Restored | None:
        """Restore the newest complete checkpoint whose digests match.

        Damaged checkpoints are reported, renamed to damaged-… for inspection, and not read again.

        Args:
            template: a pytree with the structure, shapes and dtypes of the checkpoint, such as the initial state.
            shardings: the shardings of the leaves (`Layout.shardings`). Each device reads only its part of an array.
                None restores numpy arrays, except for random keys, and for numbers in the template, which are restored
                as numbers of the same type.

        Returns:
            The checkpoint, or None if there is no complete and undamaged checkpoint.

        Raises:
            RunError: if the arrays belong to another model or optimizer. The message lists the differences.
        """
        name = first_decides(self._newest)
        if name is None:
            return None
        path = self.folder / name
        about: dict[str, Any] = read_json(path / ABOUT) or {}
        stored = stored_kinds(path / ARRAYS)
        _require_same(stored | about.get("kinds", {}), template, shardings is not None, path)
        return Restored(read_arrays(path / ARRAYS, template, shardings, stored), int(about["step"]), about)

    def newest(self) -> Path | None:
        """Wait for the current write, and return the folder of the newest complete checkpoint, or None."""
        self.wait()
        return next(iter(self._complete()), None)

    def rewind(self, step: int, template: PyTree, shardings: PyTree = None) -> Restored | None:
        """Restore the newest scheduled checkpoint up to `step` or, if there is none, the oldest scheduled checkpoint.

        A checkpoint is scheduled if the `Cadence` saves at its step. Other checkpoints were saved only because of a
        signal. Later checkpoints and those that were saved only because of a signal are removed, so that a signal does
        not change the run. `template`, `shardings` and the result are as for `restore`.
        """
        self.wait()
        self._last_step = None

        def remove() -> None:
            scheduled = _scheduled(self._complete())
            good = [path for path in scheduled if int(path.name.removeprefix("step-")) <= step] or scheduled[-1:]
            for path in self._complete():
                if path not in good:
                    _remove(path)

        first_decides(remove)
        return self.restore(template, shardings)


def resume(
    checkpoints: Checkpoints, template: PyTree, layout: Layout, start: Callable[[], Any] | None = None
) -> Restored:
    """Restore the newest undamaged checkpoint, or start again at step 0. Print the step from which the run continues.

    Args:
        checkpoints: the checkpoints of the run; its `say` prints the line.
        template: the initial state, or its `jax.ShapeDtypeStruct`s.
        layout: the layout of the resumed run. The checkpoint may have been saved under a different layout.
        start: function that returns the initial state, placed on the devices, for a run that was killed before its
            first checkpoint. None places `template`, which must then have arrays.

    Returns:
        A `Restored` with the state on the devices. If there is no checkpoint, `step` is 0 and `about` is empty.

    Raises:
        RunError: see `Checkpoints.restore`.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from funcnet.parallel import make_layout
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     resume(Checkpoints(folder), {"weight": np.zeros(1)}, make_layout({"data": 1})).step
        No complete checkpoint was found; starting again at step 0.
        0
    """
    restored = checkpoints.restore(template, layout.shardings(template))
    if restored is None:
        checkpoints.say("No complete checkpoint was found; starting again at step 0.")
        return Restored(layout.place(template) if start is None else start(), 0, {})
    checkpoints.say(f"Resuming from the checkpoint of step {restored.step:,}.")
    return restored


def _free(folder: Path) -> None:
    """Free the space of an incomplete checkpoint. After one array has failed, tensorstore still writes others for a
    moment, and makes their folders again. The next save removes files that remain.
    """
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)
        if not folder.exists():
            return


def _require_same(stored: dict[str, str], template: PyTree, on_device: bool, path: Path) -> None:
    """Refuse a checkpoint of another model or optimizer."""
    leaves = named_leaves(template)
    # older releases did not save these leaves
    absent = {name for name, leaf in leaves.items() if 0 in np.shape(leaf) or name in ADDED}
    differences = [f"{name} is missing" for name in leaves if name not in stored and name not in absent]
    differences += [f"{name} is not expected" for name in stored if name not in leaves]
    differences += [
        f"{name} is {stored[name]} instead of {array_kind(leaf)}"
        for name, leaf in leaves.items()
        if name in stored and stored[name] not in accepted_kinds(leaf, on_device)
    ]
    if differences:
        more = f", and {len(differences) - 6} more" if len(differences) > 6 else ""
        raise RunError(
            f"train.Checkpoints.restore: {path} belongs to another run; expected the arrays of this model and "
            f"optimizer, got others: {', '.join(differences[:6])}{more}. Resume with the original configuration."
        )


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS)
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def _damage(folder: Path) -> str | None:
    """Return what is damaged in a complete checkpoint, or None if all files are intact."""
    written = read_json(folder / DIGESTS)
    if not isinstance(written, dict) or not written:
        return f"{DIGESTS} cannot be read"
    try:
        found = _digests(folder)
    except OSError as error:
        return str(error)
    wrong = [name for name in written if found.get(name) != written[name]]
    return f"{wrong[0]} is {'changed' if wrong[0] in found else 'missing'}" if wrong else None


def _scheduled(folders: list[Path]) -> list[Path]:
    """Return the checkpoints at the steps of the `Cadence`, without those that were saved only because of a signal."""
    return [path for path in folders if (read_json(path / ABOUT) or {}).get("scheduled", True)]


def _set_aside(folder: Path) -> None:
    aside = folder.with_name(f"damaged-{folder.name}")
    with contextlib.suppress(OSError):  # on a read-only disk, the checkpoint is skipped again next time
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)


def _remove(folder: Path) -> None:
    """Remove a checkpoint. The digests are removed first, so that an interrupted removal leaves an incomplete
    checkpoint and not a damaged one.
    """
    (folder / DIGESTS).unlink(missing_ok=True)
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
