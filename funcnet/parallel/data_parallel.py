"""One training step, run over many devices in three ways that agree.

The step is written once, as `step(state, batch, key, *, axis_name)`, where every device holds all of `state` and a part
of `batch`. `axis_name` says who the program is:

- `pmap`, `shard_map`: the program of *one* device. It sees its own rows, `axis_name` is the mesh axis, and what
  concerns all rows goes through a collective along it (`sum_over`).
- `jit`: the program of *all* devices. It sees the whole batch, `axis_name` is None, the compiler cuts it up and puts
  collectives in. It is the program of a single device, so dropout too is the same on 1, 2 or 8.

Under the first two a gradient is taken of the device's own sum, and then summed (`sum_over`); never of a summed loss:
the transpose of a sum over devices is again a sum over devices, and the gradients would come out N times too large.
`shard_map` runs with `check_vma=False`, where this holds as under pmap; with its default the gradient of a replicated
parameter is summed already and summing again would be the mistake. (pmap is in maintenance in JAX and is built on
shard_map there; it is kept for code and habits that want it.)

Letters: N devices, B rows of the whole batch.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from funcnet.parallel.mesh import AXIS, data_mesh, select_devices

__all__ = [
    "DataParallel",
    "Kind",
    "check_batch_size",
    "check_replicated",
    "data_parallel",
    "parallelize",
    "sum_over",
    "to_host",
]

Kind = Literal["pmap", "shard_map", "jit"]
Step = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class DataParallel:
    """How a step runs: `kind`, and the mesh with its one axis. Made by `data_parallel`."""

    kind: Kind
    mesh: Mesh

    @property
    def axis(self) -> str:
        """The name of the mesh axis."""
        return self.mesh.axis_names[0]

    @property
    def axis_name(self) -> str | None:
        """What collectives in the step are given: the axis under pmap and shard_map, None under jit."""
        return None if self.kind == "jit" else self.axis

    @property
    def count(self) -> int:
        """How many devices."""
        return self.mesh.size

    def place(self, tree: Any) -> Any:
        """A whole copy of every leaf on every device. Always a copy: a donated one leaves the original alone."""
        # device_put alone, told may_alias=False too, makes no copy on the device where the array already lies.
        own = jax.tree.map(lambda x: x.copy() if isinstance(x, jax.Array) else x, tree)
        return jax.device_put(own, NamedSharding(self.mesh, PartitionSpec()))

    def shard(self, batch: Any) -> Any:
        """The batch cut into N runs of rows, one a device; in pmap's layout (N, B/N, …) under pmap.

        Raises:
            ValueError: a leaf's leading axis does not divide by N.
        """
        for leaf in jax.tree.leaves(batch):
            rows = np.shape(leaf)[0] if np.ndim(leaf) else 0
            check_batch_size(rows, self.count, where="parallel.DataParallel.shard")
        if self.kind == "pmap":
            batch = jax.tree.map(lambda x: np.reshape(x, (self.count, -1, *np.shape(x)[1:])), batch)
        return jax.device_put(batch, NamedSharding(self.mesh, PartitionSpec(self.axis)))


def data_parallel(kind: Kind = "jit", devices: int | None = None) -> DataParallel:
    """The plan for running steps over the first `devices` devices.

    Args:
        kind: "pmap", "shard_map" or "jit".
        devices: how many; None takes all there are.

    Raises:
        ValueError: an unknown kind, or more devices than there are.

    Example:
        >>> plan = data_parallel("shard_map")
        >>> def step(total, batch, key, *, axis_name):
        ...     return total + sum_over(batch.sum(), axis_name)
        >>> parallelize(step, plan)(plan.place(np.float32(1)), plan.shard(np.ones((16, 2), np.float32)), None)
        Array(33., dtype=float32)
    """
    if kind not in get_args(Kind):
        raise ValueError(
            f"parallel.data_parallel: kind; expected {' or '.join(get_args(Kind))}, got {kind!r}. Take one of them."
        )
    return DataParallel(kind, data_mesh(select_devices(devices), AXIS))


def parallelize(step: Step, plan: DataParallel, *, donate: bool = False) -> Callable[[Any, Any, Any], Any]:
    """Compile `step` to run over the plan's devices.

    Args:
        step: `step(state, batch, key, *, axis_name)`, pure. What it returns must be equal on all devices.
        plan: of `data_parallel`.
        donate: the state's memory is reused for what comes out; the caller's `state` is gone then.

    Returns:
        `call(state, batch, key)`: `state` and `key` (or None) from `plan.place`, `batch` from `plan.shard`.
        All that comes out is whole on every device, placed as `plan.place` does: so the next call compiles nothing.
    """
    axis, mesh = plan.axis, plan.mesh
    run = functools.partial(step, axis_name=plan.axis_name)
    donated = (0,) if donate else ()
    if plan.kind == "pmap":
        return jax.pmap(
            run, axis, in_axes=(None, 0, None), out_axes=None, devices=list(mesh.devices.flat), donate_argnums=donated
        )
    everywhere, by_rows = PartitionSpec(), PartitionSpec(axis)
    if plan.kind == "shard_map":
        specs = (everywhere, by_rows, everywhere)
        run = jax.shard_map(run, mesh=mesh, in_specs=specs, out_specs=everywhere, check_vma=False)
    return jax.jit(run, out_shardings=NamedSharding(mesh, everywhere), donate_argnums=donated)


def sum_over(tree: Any, axis_name: str | None) -> Any:
    """The sum over the devices along `axis_name`, all leaves in one exchange; without an axis the tree itself."""
    return tree if axis_name is None else lax.psum(tree, axis_name)


def average_over(tree: Any, axis_name: str | None) -> Any:
    """The mean over the devices of floating leaves, the largest of the others (counters, flags)."""
    if axis_name is None:
        return tree
    return jax.tree.map(
        lambda x: lax.pmean(x, axis_name) if jnp.issubdtype(x.dtype, jnp.inexact) else lax.pmax(x, axis_name), tree
    )


def fold_in_device(key: jax.Array, axis_name: str | None) -> jax.Array:
    """A key of the device's own under pmap and shard_map: equal keys would drop the same units in every shard."""
    return key if axis_name is None else jax.random.fold_in(key, lax.axis_index(axis_name))


def to_host(tree: Any) -> Any:
    """The tree as numpy arrays of its own: no later step, donated or not, can change them."""
    return jax.tree.map(lambda x: np.array(x, copy=True), tree)


def check_batch_size(rows: int, devices: int, accumulate: int = 1, *, where: str = "parallel.check_batch_size") -> None:
    """Refuse a batch that does not divide over devices and micro-batches.

    Args:
        rows: of the whole batch.
        devices: over which it is cut.
        accumulate: micro-batches a device makes of its part.

    Raises:
        ValueError: `rows` is not a positive multiple of `devices * accumulate`.

    Example:
        >>> check_batch_size(32, devices=8, accumulate=2)
    """
    if accumulate < 1:
        raise ValueError(f"{where}: accumulate; expected at least 1, got {accumulate}. Take one micro-batch or more.")
    multiple = devices * accumulate
    if rows > 0 and rows % multiple == 0:
        return
    over = f"{devices} device{'s' * (devices != 1)}" + (f" x {accumulate} micro-batches" if accumulate > 1 else "")
    near = [m for m in (rows // multiple * multiple, (rows // multiple + 1) * multiple) if m > 0] or [multiple]
    raise ValueError(
        f"{where}: a batch that does not divide over {over}; expected a multiple of {multiple}, got {rows}. "
        f"Take a batch size of {' or '.join(map(str, near))}, or other devices."
    )


def check_replicated(tree: Any, *, where: str = "parallel.check_replicated") -> None:
    """Refuse leaves whose copies differ from device to device: they were never synchronised.

    Args:
        tree: placed arrays, small ones (every copy is read): buffers, not parameters.

    Raises:
        ValueError: copies differ; names the leaves.
    """
    differing = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        first, *others = (np.asarray(shard.data) for shard in leaf.addressable_shards)
        if any(first.tobytes() != other.tobytes() for other in others):
            differing.append(jax.tree_util.keystr(path, simple=True, separator="."))
    if differing:
        raise ValueError(
            f"{where}: {', '.join(differing[:4])}; expected equal copies on all devices, got different ones. "
            f"Synchronise them (SyncBatchNorm, or axis_name={AXIS!r}), or train with buffers='averaged'."
        )
