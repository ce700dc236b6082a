"""One step, written once, run over a mesh in three ways that agree.

A step is `step(state, batch, key, *, axis_name)`. `axis_name` says who the program is:

- `pmap`, `shard_map`: the program of *one* device. It sees its own rows, `axis_name` is the mesh axis, and what
  concerns all rows goes through a collective along it (`sum_over`).
- `jit`: the program of *all* devices. It sees the whole batch, `axis_name` is None, the compiler cuts it up and puts
  collectives in. It is the program of a single device, so dropout too is the same on 1, 2 or 8.

Under the first two a gradient is taken of the device's own sum, and then summed (`sum_over`); never of a summed loss:
the transpose of a sum over devices is again a sum over devices, and the gradients would come out N times too large.
`shard_map` runs with `check_vma=False`, where this holds as under pmap; with its default the gradient of a replicated
parameter is summed already and summing again would be the mistake. (pmap is in maintenance in JAX and is built on
shard_map there; it is kept for code and habits that want it.)
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from funcnet.parallel.layout import Layout

__all__ = ["average_over", "fold_in_device", "parallelize", "sum_over"]

Step = Callable[..., Any]
AxisName = str | tuple[str, ...] | None


def parallelize(
    step: Step, layout: Layout, *, state: Any = None, donate: bool = False
) -> Callable[[Any, Any, Any], Any]:
    """Compile `step` to run over the layout's devices.

    Args:
        step: `step(state, batch, key, *, axis_name)`, pure. Under pmap and shard_map all that it returns must be equal
            on all devices.
        layout: of `make_layout`.
        state: the first state, from `layout.place`, of a step that returns (the next state, anything else): the next
            state lies as this one, so the next call compiles nothing. None: all that comes out is whole everywhere.
        donate: the state's memory is reused for what comes out; the caller's `state` is gone then.

    Returns:
        `call(state, batch, key)`: `state` and `key` (or None) from `layout.place`, `batch` from `layout.shard`.

    Example:
        >>> import numpy as np
        >>> from funcnet.parallel import make_layout
        >>> layout = make_layout(kind="shard_map")
        >>> def step(total, batch, key, *, axis_name):
        ...     return total + sum_over(batch.sum(), axis_name)
        >>> parallelize(step, layout)(layout.place(np.float32(1)), layout.shard(np.ones((16, 2), np.float32)), None)
        Array(33., dtype=float32)
    """
    run = functools.partial(step, axis_name=layout.axis_name)
    donated = (0,) if donate else ()
    if layout.kind == "pmap":
        return jax.pmap(
            run,
            layout.batch_axes[0],
            in_axes=(None, 0, None),
            out_axes=None,
            devices=list(layout.mesh.devices.flat),
            donate_argnums=donated,
        )
    if layout.kind == "shard_map":
        everywhere, by_rows = PartitionSpec(), PartitionSpec(layout.batch_axes)
        specs = (everywhere, by_rows, everywhere)
        run = jax.shard_map(run, mesh=layout.mesh, in_specs=specs, out_specs=everywhere, check_vma=False)
    out = layout.whole if state is None else (jax.tree.map(lambda leaf: leaf.sharding, state), layout.whole)
    return jax.jit(run, out_shardings=out, donate_argnums=donated)


def sum_over(tree: Any, axis_name: AxisName) -> Any:
    """The sum over the devices along `axis_name`, all leaves in one exchange; without an axis the tree itself."""
    return tree if axis_name is None else lax.psum(tree, axis_name)


def average_over(tree: Any, axis_name: AxisName) -> Any:
    """The mean over the devices of floating leaves, the largest of the others (counters, flags)."""
    if axis_name is None:
        return tree
    return jax.tree.map(
        lambda x: lax.pmean(x, axis_name) if jnp.issubdtype(x.dtype, jnp.inexact) else lax.pmax(x, axis_name), tree
    )


def fold_in_device(key: jax.Array, axis_name: AxisName) -> jax.Array:
    """A key of the device's own under pmap and shard_map: equal keys would drop the same units in every shard."""
    return key if axis_name is None else jax.random.fold_in(key, lax.axis_index(axis_name))
