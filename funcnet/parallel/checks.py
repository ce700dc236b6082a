"""Check before a step that arrays fit the mesh and that the batch divides evenly, and after a step that replicas are
equal.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from funcnet.arguments import expect, integer
from funcnet.functional.context_mesh import check_length
from funcnet.parallel.mesh import AXIS, CONTEXT, FSDP, TENSOR
from funcnet.parallel.rules import axes_of
from funcnet.random import is_key
from funcnet.tree import PyTree

__all__ = ["as_arrays", "check_axes", "check_batch_size", "check_length", "check_replicated"]


def check_axes(sizes: Mapping[str, int], rules: Mapping[str, PartitionSpec]) -> None:
    """Check that arrays can be sharded along each axis of a mesh. This check does not start JAX.

    Args:
        sizes: {axis: size}.
        rules: {name pattern: PartitionSpec}.

    Raises:
        ValueError: if an axis has more than one device, but no array would be sharded along it.

    Example:
        >>> check_axes({"data": 2, "model": 2}, {})
        Traceback (most recent call last):
        ValueError: parallel.make_layout: no array is sharded along the axis 'model'; expected the axes data, fsdp, ...
    """
    used = {axis for spec in rules.values() for axis in axes_of(*spec)}
    for axis, size in sizes.items():
        if axis not in used | {AXIS, FSDP, TENSOR, CONTEXT} and size != 1:
            raise ValueError(
                f"parallel.make_layout: no array is sharded along the axis {axis!r}; expected the axes data, fsdp, "
                f"tensor and context, or an axis that a rule names, got {dict(sizes)}."
            )


def as_arrays(tree: PyTree, where: str) -> Any:
    """Return a tree of arrays and numbers in the native byte order, which is the only one that JAX has.

    Raises:
        TypeError: if a leaf is not an array of numbers. The message has the name of the leaf.

    Example:
        >>> as_arrays({"x": np.ones(2, ">f4")}, "here")["x"].dtype
        dtype('float32')
    """

    def one(path: tuple[Any, ...], leaf: Any) -> Any:
        if isinstance(leaf, jax.Array | bool | int | float | complex):
            return leaf
        dtype = getattr(leaf, "dtype", None)
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        is_torch = type(leaf).__module__.startswith("torch")
        advice = "Convert it with numpy()." if is_torch else ""
        is_right = getattr(dtype, "kind", "O") not in "OSUMm" and getattr(dtype, "names", None) is None
        expected = "an array of numbers" if name else "params, a batch or another tree of arrays"
        expect(is_right, where, repr(name) if name else "the tree", expected, leaf, advice)
        return leaf if leaf.dtype.isnative else np.asarray(leaf, leaf.dtype.newbyteorder("="))

    return jax.tree_util.tree_map_with_path(one, tree)


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


def check_replicated(tree: PyTree, *, where: str = "parallel.check_replicated") -> None:
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
