"""The arrays of a checkpoint in the files of orbax, written and read by all processes of a run."""

import contextlib
import itertools
import logging
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np

from funcnet.parallel import process_count
from funcnet.train.storable import array_kind, named_leaves, restored_form, stored_shape
from funcnet.tree import PyTree

__all__ = ["read_arrays", "stored_kinds", "write_arrays"]

_uses = itertools.count()  # number of each use of orbax, which makes the names of its barriers unique


def stored_kinds(path: Path) -> dict[str, str]:
    """Return the `array_kind` of every array in a folder that `write_arrays` has written."""
    if not any(path.iterdir()):
        return {}
    with _checkpointer() as reader:
        stored = reader.metadata(path)
    stored = getattr(stored, "item_metadata", stored)
    return {name: array_kind(about) for name, about in getattr(stored, "tree", stored).items()}


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a new folder. Each process writes the parts that its devices have."""
    stored = {name: array for name, array in arrays.items() if array.size}  # orbax refuses empty arrays
    if not stored:
        path.mkdir(exist_ok=True)
        return
    with _one_message(), _checkpointer() as writer:
        writer.save(path, args=_orbax().args.PyTreeSave(stored))


def read_arrays(path: Path, template: PyTree, shardings: PyTree, stored: Iterable[str]) -> Any:
    """Return a pytree like `template` with the arrays of a folder, and zeros for those that are not in `stored`.

    Args:
        path: a folder that `write_arrays` has written.
        template: a pytree of arrays, numbers or `jax.ShapeDtypeStruct`.
        shardings: a pytree of the layouts to load the arrays into, or None for NumPy arrays.
        stored: the names of the arrays that are in the folder.
    """
    leaves = named_leaves(template)
    targets = dict.fromkeys(leaves) if shardings is None else named_leaves(shardings)
    shapes = {name: stored_shape(leaf) for name, leaf in leaves.items()}
    wanted = {name: shape for name, shape in shapes.items() if name in stored}
    found: dict[str, Any] = {}
    if wanted:
        ocp = _orbax()
        how = {
            name: ocp.RestoreArgs(restore_type=np.ndarray)
            if targets[name] is None
            else ocp.ArrayRestoreArgs(sharding=targets[name])
            for name in wanted
        }
        largest = max(math.prod(shape.shape) * shape.dtype.itemsize for shape in wanted.values())
        with _checkpointer(read_at_once=max(2 * largest, 64 * 10**6)) as reader:
            found = reader.restore(path, args=ocp.args.PyTreeRestore(item=wanted, restore_args=how))
    arrays = []
    for name, leaf in leaves.items():
        array = found[name] if name in wanted else np.zeros(shapes[name].shape, shapes[name].dtype)
        arrays.append(restored_form(array if targets[name] is None else _placed(array, targets[name]), leaf))
    return jax.tree.unflatten(jax.tree.structure(template), arrays)


def _placed(array: Any, sharding: Any) -> jax.Array:
    if isinstance(array, jax.Array) and array.sharding == sharding:
        return array
    return jax.make_array_from_callback(array.shape, sharding, lambda index: np.asarray(array)[index])


def _orbax() -> ModuleType:
    """Import orbax when the first checkpoint is written or read, because this takes a quarter of a second."""
    import orbax.checkpoint

    return orbax.checkpoint


def _checkpointer(read_at_once: int | None = None) -> Any:
    """Return an orbax checkpointer that synchronises processes through the coordinator. By default, orbax uses a
    collective operation on the devices, which a thread must not start while a training step runs.

    Args:
        read_at_once: largest number of bytes that the host reads before they are on the devices. By default, orbax
            reads all arrays at once. An array that is larger than this limit would be an error.
    """
    ocp = _orbax()
    gigabytes: Any = None if read_at_once is None else read_at_once / 10**9  # orbax multiplies; a fraction is no error
    if process_count() == 1:
        return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(restore_concurrent_gb=gigabytes))
    options = ocp.options.MultiprocessingOptions(
        active_processes=set(range(process_count())), barrier_sync_key_prefix=f"funcnet-{next(_uses)}"
    )
    handler = ocp.PyTreeCheckpointHandler(restore_concurrent_gb=gigabytes, multiprocessing_options=options)
    return ocp.Checkpointer(handler, multiprocessing_options=options)


@contextlib.contextmanager
def _one_message() -> Iterator[None]:
    """If a write fails, drop the tracebacks that orbax and tensorstore print for each array; the error says enough."""
    before, loggers = sys.unraisablehook, (logging.getLogger("absl"), logging.getLogger("asyncio"))

    def hook(event: Any) -> None:
        if str(event.exc_value) != "Event loop is closed":
            before(event)

    def says_more(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        of_task = "Task exception was never retrieved" in text and "orbax" in text
        return not of_task and "_SignalingThread.run() raised" not in text

    sys.unraisablehook = hook
    for logger in loggers:
        logger.addFilter(says_more)
    yield
    sys.unraisablehook = before  # not after a failure: tensorstore's threads and asyncio's tasks print later
    for logger in loggers:
        logger.removeFilter(says_more)
