"""How the parameters of a module are sharded on a mesh. A class states it in `sharding_rules` and `sharding_sizes`.

Two mesh axes shard parameters. Along "tensor", each device computes a part of a layer: a part of its heads, hidden
units or words (Megatron's tensor parallelism). Along "fsdp", each device stores a part of a parameter, and the part is
gathered when the layer runs. `funcnet.parallel.sharding_rules` reads the rules of all modules of a net.
"""

import types
from collections.abc import Mapping
from typing import Any

from jax.sharding import PartitionSpec

__all__ = ["Rules", "Sharded", "rules"]

Rules = Mapping[str, PartitionSpec]


def rules(axes: Mapping[str, Any]) -> Rules:
    """Return {name pattern: PartitionSpec} from {name pattern: mesh axes of the dimensions}.

    >>> tuple(rules({"weight": ("tensor", "fsdp")})["weight"])
    ('tensor', 'fsdp')
    """
    return types.MappingProxyType({pattern: PartitionSpec(*entries) for pattern, entries in axes.items()})


class Sharded:
    """What `Module` says about its sharding.

    Attributes:
        sharding_rules: {name pattern: PartitionSpec} for the parameters beneath this module. The rules of an outer
            module override those of an inner one. `funcnet.parallel.sharding_rules` leaves out axes that the mesh does
            not have, and axes that do not divide a dimension.
    """

    sharding_rules: Rules = rules({})

    def sharding_sizes(self) -> dict[str, tuple[str, int]]:
        """Return {what: (mesh axis, size)} for the sizes that the axis must divide, such as the number of heads."""
        return {}
