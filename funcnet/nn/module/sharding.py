"""The shardings of a net on a mesh: those that a class declares for its parameters, in `sharding_rules` and
`sharding_sizes`, and those of the outputs of modules.

Two mesh axes shard parameters. Along "tensor", each device computes a part of a layer: a part of its heads, hidden
units or words (Megatron's tensor parallelism). Along "fsdp", each device stores a part of a parameter, and the parts
are gathered when the layer runs. `funcnet.parallel.sharding_rules` reads the rules of all modules of a net.

If the compiler may choose all other shardings, it may split the features of a hidden state and exchange them between
layers. If the hidden state must stay sharded by rows, the compiler instead gathers each parameter when a layer needs
it. Inside a mesh (`jax.sharding.use_abstract_mesh`), `apply` therefore fixes the rows of all outputs.
"""

import types
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from funcnet.functional.context_mesh import CONTEXT
from funcnet.nn.inspection.hooks import Hooks
from funcnet.tree import PyTree

__all__ = ["CONTEXT", "DATA", "FSDP", "TENSOR", "Rules", "Sharded", "anchored", "rules"]

DATA = "data"
"""The mesh axis along which batches are sharded; the `axis_name` of collectives."""

FSDP = "fsdp"
"""The mesh axis along which batches, parameters and optimizer state are sharded. Parameters are gathered when a layer
runs.
"""

TENSOR = "tensor"
"""The mesh axis along which layers are sharded: their heads, hidden units and words."""

# along CONTEXT, sequences are sharded; attention exchanges keys and values (`funcnet.functional.context_mesh`)
FREE = PartitionSpec.UNCONSTRAINED

Rules = Mapping[str, PartitionSpec]


def rules(axes: Mapping[str, Any]) -> Rules:
    """Convert {name pattern: mesh axes, one per dimension of the parameter} to {name pattern: `PartitionSpec`}.

    >>> tuple(rules({"weight": ("tensor", "fsdp")})["weight"])
    ('tensor', 'fsdp')
    """
    return types.MappingProxyType({pattern: PartitionSpec(*entries) for pattern, entries in axes.items()})


def anchored(hooks: Hooks | None, inputs: PyTree) -> Hooks | None:
    """Return the hooks of a call, and on a mesh a hook that fixes the sharding of the outputs of all modules.

    The mesh is the surrounding one. If it has no axis but `data` that the compiler shards (type Auto), the hooks are
    returned unchanged. The first array among the inputs determines the number of rows, and the first one with at least
    two dimensions the length of the sequences. An output with this number of rows and at least two dimensions is
    sharded along the batch axes in dimension 0. If the mesh has the axis `context`, an output (rows, length of the
    sequences, …) is also sharded along it in dimension 1. The compiler chooses the sharding of the other dimensions.
    The values of the outputs do not change.
    """
    mesh = jax.sharding.get_abstract_mesh()
    shared = [axis for axis in mesh.auto_axes if mesh.shape[axis] > 1]
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(inputs) if np.ndim(leaf)]
    if set(shared) <= {DATA} or not shapes:
        return hooks
    count, length = shapes[0][0], next((shape[1] for shape in shapes if len(shape) > 1), None)
    rows = tuple(axis for axis in (FSDP, DATA) if axis in mesh.auto_axes)
    parts = CONTEXT if CONTEXT in mesh.auto_axes else None

    def anchor(leaf: object) -> Any:
        if not isinstance(leaf, jax.core.Tracer) or leaf.ndim < 2 or leaf.shape[0] != count:
            return leaf
        is_sequence = parts is not None and leaf.ndim > 2 and leaf.shape[1] == length
        spec = PartitionSpec(rows, parts if is_sequence else FREE, *(FREE,) * (leaf.ndim - 2))
        return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh, spec))

    found = Hooks()
    found.registered = () if hooks is None else hooks.registered
    found.register_module_forward_hook(lambda module, args, output: jax.tree.map(anchor, output))
    return found


class Sharded:
    """A base class of `Module` with the declarations of how the parameters of a class are sharded.

    Attributes:
        sharding_rules: {name pattern: PartitionSpec} for the parameters beneath this module. The rules of an outer
            module override those of a module inside it. `funcnet.parallel.sharding_rules` leaves out axes that the mesh
            does not have, and axes whose size does not divide the dimension.
        shards_sequences: whether this module calls `F.scaled_dot_product_attention`, which splits sequences along the
            mesh axis `context`. A net needs at least one such module for a mesh with this axis.
    """

    sharding_rules: Rules = rules({})
    shards_sequences: bool = False

    def sharding_sizes(self) -> dict[str, tuple[str, int]]:
        """Return {name of a size: (mesh axis, size)}, for example the number of heads. The number of devices along the
        mesh axis must divide the size.
        """
        return {}
