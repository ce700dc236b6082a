"""A table of what each device stores."""

import math
import re
from typing import Any

from jax.sharding import NamedSharding

from funcnet import table
from funcnet import tree as names_of

__all__ = ["sharding_report"]


def sharding_report(params: names_of.Tree, shardings: names_of.Tree) -> str:
    """Return a table of the parameters: shape, sharding, and bytes per device.

    Layers of a stack whose parameters have equal shapes and shardings share a line, in which `*` replaces the number of
    the layer.

    Args:
        params: parameters, or their `jax.ShapeDtypeStruct`s.
        shardings: the `NamedSharding`s of the parameters, from `Layout.shardings`.

    Example:
        >>> import jax
        >>> from funcnet.parallel import make_layout
        >>> layout = make_layout("data=4,fsdp=2", rules={"fc.weight": jax.sharding.PartitionSpec("fsdp")})
        >>> import numpy as np
        >>> params = {"fc": {"weight": np.ones((6, 3), np.float32), "bias": np.ones(6, np.float32)}}
        >>> print(sharding_report(params, layout.shardings(params)))
        parameter  number   shape  sharding  bytes per device
        -----------------------------------------------------
        fc.weight       1  (6, 3)   fsdp, -                36
        fc.bias         1    (6,)         -                24
        -----------------------------------------------------
        all             2      24                          60
    """
    lines: dict[tuple[str, ...], list[int]] = {}
    total = entries = 0
    places = names_of.flatten(shardings)
    for name, leaf in names_of.flatten(params).items():
        here = math.prod(places[name].shard_shape(leaf.shape)) * leaf.dtype.itemsize
        family = re.sub(r"(?<=\.)\d+(?=\.)", "*", name)
        line = lines.setdefault((family, str(leaf.shape), _shown(places[name], len(leaf.shape))), [0, 0])
        line[0] += 1
        line[1] += here
        total, entries = total + here, entries + math.prod(leaf.shape)
    cells = [[*key[:1], f"{count:,}", *key[1:], f"{size:,}"] for key, (count, size) in lines.items()]
    head = ["parameter", "number", "shape", "sharding", "bytes per device"]
    numbers = sum(count for count, _ in lines.values())
    return table.text([head, *cells, ["all", f"{numbers:,}", f"{entries:,}", "", f"{total:,}"]], left=1, total=True)


def _shown(sharding: NamedSharding, ndim: int) -> str:
    if not any(sharding.spec):
        return "-"
    entries: list[Any] = [*sharding.spec, *(None,) * (ndim - len(sharding.spec))]
    return ", ".join("-" if one is None else one if isinstance(one, str) else "+".join(one) for one in entries)
