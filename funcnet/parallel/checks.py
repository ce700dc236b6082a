"""Check before a step that the batch divides evenly, and after a step that replicas are equal."""

from typing import Any

import jax
import numpy as np

from funcnet.arguments import integer
from funcnet.parallel.mesh import AXIS
from funcnet.random import is_key

__all__ = ["check_batch_size", "check_length", "check_replicated"]


def check_batch_size(rows: int, devices: int, accumulate: int = 1, *, where: str = "parallel.check_batch_size") -> None:
    """Check that a batch divides evenly over devices and micro-batches.

    Args:
        rows: number of rows of the batch, over all devices.
        devices: number of devices over which the batch is sharded.
        accumulate: number of micro-batches per update.
        where: prefix for error messages, such as the name of the caller or the flag.

    Raises:
        TypeError: if an argument is not an integer.
        ValueError: if `rows` is not a positive multiple of `devices * accumulate`, or if `devices` or `accumulate` is
            below 1.

    Example:
        >>> check_batch_size(32, devices=8, accumulate=2)
    """
    rows = integer(where, "rows", rows)
    devices, accumulate = integer(where, "devices", devices, 1), integer(where, "accumulate", accumulate, 1)
    multiple = devices * accumulate
    if rows > 0 and rows % multiple == 0:
        return
    over = f"{devices} device{'s' * (devices != 1)}" + (f" x {accumulate} micro-batches" if accumulate > 1 else "")
    near = [m for m in (rows // multiple * multiple, (rows // multiple + 1) * multiple) if m > 0] or [multiple]
    raise ValueError(
        f"{where}: the batch does not divide evenly over {over}; expected a multiple of {multiple}, got {rows}. "
        f"Use a batch size of {' or '.join(map(str, near))}, or a different number of devices."
    )


def check_length(length: int, parts: int, *, where: str) -> None:
    """Check that sequences divide evenly over the mesh axis `context`.

    Args:
        length: length of the sequences.
        parts: size of the mesh axis `context`.
        where: prefix for error messages.

    Raises:
        ValueError: if `length` is not a multiple of `parts`.

    Example:
        >>> check_length(512, parts=4, where="pretrain")
    """
    if integer(where, "length", length) % integer(where, "parts", parts, 1):
        near = [m for m in (length // parts * parts, (length // parts + 1) * parts) if m > 0]
        raise ValueError(
            f"{where}: the mesh axis context={parts} does not divide the length of the sequences; expected a multiple "
            f"of {parts}, got {length}. Use a length of {' or '.join(map(str, near))}, or another size for the axis."
        )


def check_replicated(tree: Any, *, where: str = "parallel.check_replicated") -> None:
    """Check that the replicas of each leaf are equal on all devices. Replicas can differ if a step did not synchronise
    them.

    Args:
        tree: pytree of arrays on the devices. The check copies every replica to the host, so use it for buffers rather
            than for parameters. For a sharded leaf, the replicas of each shard are compared.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        ValueError: if replicas differ. The message names the leaves whose replicas differ.

    Example:
        >>> import jax.numpy as jnp
        >>> check_replicated({"running_mean": jnp.zeros(3)})
    """
    differing = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        parts: dict[str, set[bytes]] = {}
        for shard in (jax.random.key_data(leaf) if is_key(leaf) else leaf).addressable_shards:
            parts.setdefault(str(shard.index), set()).add(np.asarray(shard.data).tobytes())
        if any(len(replicas) > 1 for replicas in parts.values()):
            differing.append(jax.tree_util.keystr(path, simple=True, separator="."))
    if differing:
        raise ValueError(
            f"{where}: the replicas of {', '.join(differing[:4])} differ; expected equal replicas on all devices, got "
            f"different ones. Synchronise them (SyncBatchNorm, or axis_name={AXIS!r}), or train with "
            "buffers='averaged' or 'first'."
        )
