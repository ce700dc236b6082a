"""Fix the sharding of the outputs of modules, so that the compiler gathers parameters and not activations.

With parameters that are sharded along `fsdp`, a compiler that chooses freely may split a hidden state by its features
and exchange it between layers. With its rows fixed, it gathers each parameter where a layer needs it.
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
    """A net whose `apply` fixes the sharding of all outputs that have the rows of the batch.

    Dimension 0 of such an output is sharded along the batch axes. If the mesh has the axis `context`, dimension 1 is
    sharded along it when it has the length of the sequence. The compiler chooses the other dimensions. The results are
    those of `net.apply`.

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
