"""The arrays of a checkpoint in the files of orbax, written and read by all processes of a run."""

import contextlib
import itertools
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from funcnet.parallel import process_count

__all__ = ["array_kind", "named_leaves", "read_arrays", "stored_kinds", "write_arrays"]

_uses = itertools.count()  # number of each use of orbax, which makes the names of its barriers unique


def named_leaves(tree: Any) -> dict[str, Any]:
    """Return the leaves of a pytree by their paths, such as "params.fc.weight"."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def array_kind(array: Any) -> str:
    """Return the dtype and the shape of an array, such as "float32[2, 3]"."""
    return f"{np.dtype(array.dtype)}{list(array.shape)}"


def stored_kinds(path: Path) -> dict[str, str]:
    """Return the `array_kind` of every array in a folder that `write_arrays` has written."""
    with _checkpointer() as reader:
        stored = reader.metadata(path)
    stored = getattr(stored, "item_metadata", stored)
    return {name: array_kind(about) for name, about in getattr(stored, "tree", stored).items()}


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a new folder. Each process writes the parts that its devices have."""
    stored = {name: array for name, array in arrays.items() if array.size}  # orbax refuses empty arrays
    with _one_message(), _checkpointer() as writer:
        writer.save(path, args=ocp.args.PyTreeSave(stored))


def read_arrays(path: Path, template: Any, shardings: Any, stored: Iterable[str]) -> Any:
    """Return a pytree like `template` with the arrays of a folder, and zeros for those that are not in `stored`.

    Args:
        path: a folder that `write_arrays` has written.
        template: a pytree of arrays or `jax.ShapeDtypeStruct`.
        shardings: a pytree of the layouts to load the arrays into, or None for NumPy arrays.
        stored: the names of the arrays that are in the folder.
    """
    leaves = named_leaves(template)
    wanted = {name: leaf for name, leaf in leaves.items() if name in stored}
    if shardings is None:
        how = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in wanted}
    else:
        how = {
            name: ocp.ArrayRestoreArgs(sharding=to) for name, to in named_leaves(shardings).items() if name in wanted
        }
    with _checkpointer() as reader:
        found = reader.restore(path, args=ocp.args.PyTreeRestore(item=wanted, restore_args=how))
    arrays = {
        name: found[name] if name in wanted else np.zeros(leaf.shape, leaf.dtype) for name, leaf in leaves.items()
    }
    state = jax.tree.unflatten(jax.tree.structure(template), list(arrays.values()))
    return state if shardings is None else jax.tree.map(_placed, state, shardings)


def _placed(array: Any, sharding: Any) -> jax.Array:
    if isinstance(array, jax.Array) and array.sharding == sharding:
        return array
    return jax.make_array_from_callback(array.shape, sharding, lambda index: np.asarray(array)[index])


def _checkpointer() -> ocp.Checkpointer:
    """Return an orbax checkpointer that synchronises processes through the coordinator. By default, orbax uses a
    collective operation on the devices, which a thread must not start while a training step runs.
    """
    if process_count() == 1:
        return ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
    options = ocp.options.MultiprocessingOptions(
        active_processes=set(range(process_count())), barrier_sync_key_prefix=f"funcnet-{next(_uses)}"
    )
    handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=options)
    return ocp.Checkpointer(handler, multiprocessing_options=options)


@contextlib.contextmanager
def _one_message() -> Iterator[None]:
    """If a write fails, drop the tracebacks that orbax and tensorstore print for each array; the error says enough."""
    before, logger = sys.unraisablehook, logging.getLogger("absl")

    def hook(event: Any) -> None:
        if str(event.exc_value) != "Event loop is closed":
            before(event)

    def says_more(record: logging.LogRecord) -> bool:
        return "_SignalingThread.run() raised" not in record.getMessage()

    sys.unraisablehook = hook
    logger.addFilter(says_more)
    try:
        yield
    finally:
        logger.removeFilter(says_more)
    sys.unraisablehook = before  # not after a failure: tensorstore's threads print later
