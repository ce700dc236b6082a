"""Run one step function on a mesh with `jit`, `shard_map` or `pmap`. A step without random numbers has the same results
in all three cases.

A step is a function `step(state, batch, key, *, axis_name)`:

- Under `pmap` and `shard_map`, the step is the program of *one* device. The step sees the rows of this device,
  `axis_name` is the mesh axis, and sums over all rows need a collective along that axis (`sum_over`).
- Under `jit`, the step is the program of *all* devices. The step sees the complete batch, `axis_name` is None, and the
  compiler partitions the program and inserts the collectives. The program is the same as on a single device, so dropout
  is the same on 1, 2 or 8 devices.

Under pmap and shard_map, differentiate the sum over the device's own rows, and then sum the gradients (`sum_over`). Do
not differentiate a loss that is already summed over devices. The transpose of this sum is another sum over devices, so
the gradients would be N times too large on N devices. `shard_map` runs with `check_vma=False`, so that it behaves like
pmap. With the default `check_vma=True`, the gradient of a replicated parameter is already summed. In JAX, pmap is in
maintenance mode and is built on shard_map. This package supports pmap for existing code.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from funcnet.arguments import boolean, expect, function
from funcnet.parallel.layout import Layout
from funcnet.parallel.mesh import AXIS
from funcnet.random import is_key, wrap_keys
from funcnet.tree import PyTree

__all__ = ["average_over", "compile_whole", "first_over", "fold_in_device", "parallelize", "sum_over"]

Step = Callable[..., Any]
AxisName = str | tuple[str, ...] | None


def parallelize(
    step: Step, layout: Layout, *, state: Any = None, donate: bool = False
) -> Callable[[Any, Any, Any], Any]:
    """Compile a step for the devices of a layout.

    Args:
        step: a pure function `step(state, batch, key, *, axis_name)`. Under pmap and shard_map, all outputs must be
            equal on all devices.
        layout: layout from `make_layout`.
        state: initial state from `layout.place`, if the step returns (next state, other outputs). The next state then
            has the same shardings as `state`, so that the next call is not compiled again. If `state` is None, all
            outputs are replicated.
        donate: if True, reuse the memory of the state for the outputs. After the call, the arrays of a donated `state`
            are deleted.

    Returns:
        A function `call(state, batch, key)`. `state` must be from `layout.place`, `batch` must be from `layout.shard`,
        and `key` must be None or from `layout.place`.

    Raises:
        TypeError: if `step` is not a function, or `layout` is not a `Layout`.

    Example:
        >>> import numpy as np
        >>> from funcnet.parallel import make_layout
        >>> layout = make_layout(kind="shard_map")
        >>> def step(total, batch, key, *, axis_name):
        ...     return total + sum_over(batch.sum(), axis_name)
        >>> parallelize(step, layout)(layout.place(np.float32(1)), layout.shard(np.ones((16, 2), np.float32)), None)
        Array(33., dtype=float32)
    """
    expect(isinstance(layout, Layout), "parallel.parallelize", "layout", "a Layout, from make_layout", layout)
    function("parallel.parallelize", "step", step, "step(state, batch, key, *, axis_name)", 3, "axis_name")
    boolean("parallel.parallelize", "donate", donate)
    run: Step = functools.partial(step, axis_name=layout.axis_name)
    donated = (0,) if donate else ()
    if layout.kind == "pmap":
        return jax.pmap(
            run,
            layout.axis_name,
            in_axes=(None, 0, None),  # the batch has an axis of devices: (devices, rows of a device, …)
            out_axes=None,
            devices=list(layout.mesh.devices.flat),
            donate_argnums=donated,
        )
    if layout.kind == "shard_map":
        everywhere, by_rows = PartitionSpec(), PartitionSpec(layout.batch_axes)
        specs = (everywhere, by_rows, everywhere)
        run = jax.shard_map(run, mesh=layout.mesh, in_specs=specs, out_specs=everywhere, check_vma=False)
    else:
        run = _on_mesh(layout, run)
    out = layout.whole if state is None else (jax.tree.map(lambda leaf: leaf.sharding, state), layout.whole)
    return jax.jit(_named(run, step), out_shardings=out, donate_argnums=donated)


def compile_whole(function: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    """Compile a function for the devices of a layout, as one program for all of them, whose outputs are replicated.

    Args:
        function: a pure function of arrays that are placed on the devices.
        layout: layout from `make_layout`, of any kind.

    Example:
        >>> from funcnet.parallel import make_layout
        >>> layout = make_layout({"data": 8})
        >>> compile_whole(jnp.sum, layout)(layout.shard(jnp.ones((16, 2)))).sharding.is_fully_replicated
        True
    """
    return jax.jit(_named(_on_mesh(layout, function), function), out_shardings=layout.whole)


def _on_mesh(layout: Layout, step: Step) -> Step:
    """Return a function that runs a step inside the context of the mesh, unless the mesh shards only batches. Nets need
    this context to fix the shardings of their outputs, and to exchange parts of a sequence between devices.
    """
    if all(size == 1 for axis, size in layout.mesh.shape.items() if axis != AXIS):
        return step

    def run(*arguments: PyTree) -> Any:
        with jax.sharding.use_abstract_mesh(layout.mesh.abstract_mesh):
            return step(*arguments)

    return run


def _named(run: Step, step: Step) -> Step:
    """Return a copy of `run` with the name of `step`. Profiles and dumps show this name for the compiled program."""

    def named(*arguments: PyTree) -> Any:
        return run(*arguments)

    named.__name__ = getattr(step, "__name__", type(step).__name__)
    return named


def sum_over(tree: PyTree, axis_name: AxisName) -> Any:
    """Sum every leaf over the devices, in one collective for all leaves.

    Args:
        tree: pytree of arrays.
        axis_name: the step's argument `axis_name`. If `axis_name` is None (under jit), the tree is returned unchanged.

    Example:
        >>> jax.vmap(lambda x: sum_over(x, "data"), axis_name="data")(jnp.array([1, 2]))
        Array([3, 3], dtype=int32)
    """
    return tree if axis_name is None else lax.psum(tree, axis_name)


def average_over(tree: PyTree, axis_name: AxisName) -> Any:
    """Average floating-point leaves over the devices, and take the maximum of other leaves (counters, flags). Random
    keys are those of the first device.

    Args:
        tree: pytree of arrays.
        axis_name: the step's argument `axis_name`. If `axis_name` is None (under jit), the tree is returned unchanged.

    Example:
        >>> tree = {"mean": jnp.array([1.0, 2.0]), "count": jnp.array([3, 4])}
        >>> jax.vmap(lambda tree: average_over(tree, "data"), axis_name="data")(tree)
        {'count': Array([4, 4], dtype=int32), 'mean': Array([1.5, 1.5], dtype=float32)}
    """
    if axis_name is None:
        return tree

    def one(x: jax.Array) -> jax.Array:
        if is_key(x):
            return first_over(x, axis_name)
        return lax.pmean(x, axis_name) if jnp.issubdtype(x.dtype, jnp.inexact) else lax.pmax(x, axis_name)

    return jax.tree.map(one, tree)


def first_over(tree: PyTree, axis_name: AxisName) -> Any:
    """Replace every leaf with the leaf of the first device, in one collective for all leaves.

    The values on other devices do not matter, even if they are NaN.

    Args:
        tree: pytree of arrays of numbers, booleans or random keys.
        axis_name: the step's argument `axis_name`. If `axis_name` is None (under jit), the tree is returned unchanged.

    Returns:
        The tree of the device with index 0 along `axis_name`, on all devices. In the result, a negative zero is
        replaced by zero.

    Example:
        >>> ranks = jnp.arange(8)
        >>> jax.vmap(lambda rank: first_over(rank + 5, "data"), axis_name="data")(ranks)
        Array([5, 5, 5, 5, 5, 5, 5, 5], dtype=int32)

    Reference: `broadcast_buffers` of `torch.nn.parallel.DistributedDataParallel`.
    """
    if axis_name is None:
        return tree
    is_first = lax.axis_index(axis_name) == 0

    def number(x: jax.Array) -> jax.Array:  # there is no sum of booleans and of keys
        return jax.random.key_data(x) if is_key(x) else x.astype(jnp.int32) if x.dtype == bool else x

    numbers = jax.tree.map(number, tree)
    # `where` and not a product, because NaN · 0 is NaN
    summed = lax.psum(jax.tree.map(lambda x: jnp.where(is_first, x, jnp.zeros_like(x)), numbers), axis_name)
    back = lambda x, before: wrap_keys(x, before.dtype) if is_key(before) else x.astype(before.dtype)
    return jax.tree.map(back, summed, tree)


def fold_in_device(key: jax.Array, axis_name: AxisName) -> jax.Array:
    """Make a different key for each device. With equal keys, dropout would drop the same units on every device.

    Args:
        key: random key, equal on all devices.
        axis_name: the step's argument `axis_name`. If `axis_name` is None (under jit), the key is returned unchanged.

    Example:
        >>> draw = lambda _: jax.random.uniform(fold_in_device(jax.random.key(0), "data"))
        >>> first, second = jax.vmap(draw, axis_name="data")(jnp.arange(2))
        >>> bool(first == second)
        False
    """
    return key if axis_name is None else jax.random.fold_in(key, lax.axis_index(axis_name))
