"""Fix the sharding of the outputs of modules, so that the compiler gathers parameters and not activations.

If parameters are sharded along `fsdp`, and the compiler may choose all other shardings, it may split the features of a
hidden state and exchange them between layers. If the hidden state must stay sharded by rows, the compiler instead
gathers each parameter when a layer needs it.
"""

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from funcnet import nn
from funcnet.parallel.mesh import CONTEXT

__all__ = ["Anchored"]

FREE = PartitionSpec.UNCONSTRAINED


class Anchored:
    """A net whose `apply` fixes the sharding of all module outputs that have as many rows as the batch.

    The first array among the inputs determines the number of rows and the length of the sequences. An output with this
    number of rows and at least two dimensions is sharded along the batch axes in dimension 0. If the mesh has the axis
    `context`, an output (rows, length of the sequences, …) is also sharded along `context` in dimension 1. The compiler
    chooses the sharding of the other dimensions. The values of the outputs are those of `net.apply`.

    Args:
        net: the description.
        mesh: the mesh.
        batch_axes: mesh axes along which the rows of a batch are sharded.
    """

    def __init__(self, net: nn.Module, mesh: jax.sharding.Mesh, batch_axes: tuple[str, ...]):
        self.net, self.mesh, self.batch_axes = net, mesh, batch_axes

    def apply(self, params: Any, state: Any, *inputs: Any, hooks: nn.Hooks | None = None, **kwargs: Any) -> Any:
        """Return the result of `net.apply`."""
        first = next(leaf for leaf in jax.tree.leaves((inputs, kwargs)) if np.ndim(leaf))
        shape = np.shape(first)

        def anchor(module: nn.Module, args: Any, output: Any) -> Any:
            return jax.tree.map(lambda leaf: self._anchored(leaf, shape) if hasattr(leaf, "ndim") else leaf, output)

        all_hooks = nn.Hooks()
        all_hooks.registered = () if hooks is None else hooks.registered
        all_hooks.register_module_forward_hook(anchor)
        return self.net.apply(params, state, *inputs, hooks=all_hooks, **kwargs)

    def _anchored(self, array: jax.Array, first: tuple[int, ...]) -> jax.Array:
        if array.ndim < 2 or array.shape[0] != first[0]:
            return array
        entries: list[Any] = [self.batch_axes, *(FREE,) * (array.ndim - 1)]
        if array.ndim > 2 and CONTEXT in self.mesh.shape and array.shape[1] == first[1]:
            entries[1] = CONTEXT
        return jax.lax.with_sharding_constraint(array, NamedSharding(self.mesh, PartitionSpec(*entries)))
