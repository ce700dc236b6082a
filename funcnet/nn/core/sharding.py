"""The sharding that a class declares for its parameters on a mesh, in `sharding_rules` and `sharding_sizes`.

Two mesh axes shard parameters. Along "tensor", each device computes a part of a layer: a part of its heads, hidden
units or words (Megatron's tensor parallelism). Along "fsdp", each device stores a part of a parameter, and the parts
are gathered when the layer runs. `funcnet.parallel.sharding_rules` reads the rules of all modules of a net.
"""

import types
from collections.abc import Mapping
from typing import Any

from jax.sharding import PartitionSpec

__all__ = ["Rules", "Sharded", "rules"]

Rules = Mapping[str, PartitionSpec]


def rules(axes: Mapping[str, Any]) -> Rules:
    """Convert {name pattern: mesh axes, one per dimension of the parameter} to {name pattern: `PartitionSpec`}.

    >>> tuple(rules({"weight": ("tensor", "fsdp")})["weight"])
    ('tensor', 'fsdp')
    """
    return types.MappingProxyType({pattern: PartitionSpec(*entries) for pattern, entries in axes.items()})


class Sharded:
    """A base class of `Module` with the declarations of how the parameters of a class are sharded.

    Attributes:
        sharding_rules: {name pattern: PartitionSpec} for the parameters beneath this module. The rules of an outer
            module override those of a module inside it. `funcnet.parallel.sharding_rules` leaves out axes that the mesh
            does not have, and axes whose size does not divide the dimension.
    """

    sharding_rules: Rules = rules({})

    def sharding_sizes(self) -> dict[str, tuple[str, int]]:
        """Return {name of a size: (mesh axis, size)}, for example the number of heads. The number of devices along the
        mesh axis must divide the size.
        """
        return {}
