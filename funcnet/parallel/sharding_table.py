"""A table of what each device stores."""

import math
from collections.abc import Mapping
from typing import Any

from jax.sharding import NamedSharding

from funcnet import table
from funcnet import tree as names_of
from funcnet.arguments import expect, mapping
from funcnet.tree import PyTree

__all__ = ["sharding_report"]


def sharding_report(params: names_of.Tree, shardings: names_of.Tree) -> str:
    """Return a table of the parameters: shape, sharding, and bytes per device.

    Consecutive layers of a stack share their lines if all their parameters have equal names, shapes and shardings. `*`
    replaces the numbers of all layers of a stack, and `0-5` those of some of them.

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
    _check(params, shardings)
    lines: dict[tuple[str, ...], list[int]] = {}
    total = entries = 0
    places, leaves = names_of.flatten(shardings), names_of.flatten(params)
    facts = {name: (str(leaf.shape), _shown(places[name], len(leaf.shape))) for name, leaf in leaves.items()}
    families = _families(facts)
    for name, leaf in leaves.items():
        here = math.prod(places[name].shard_shape(leaf.shape)) * leaf.dtype.itemsize
        line = lines.setdefault((families[name], *facts[name]), [0, 0])
        line[0] += 1
        line[1] += here
        total, entries = total + here, entries + math.prod(leaf.shape)
    cells = [[*key[:1], f"{count:,}", *key[1:], f"{size:,}"] for key, (count, size) in lines.items()]
    head = ["parameter", "number", "shape", "sharding", "bytes per device"]
    numbers = sum(count for count, _ in lines.values())
    return table.text([head, *cells, ["all", f"{numbers:,}", f"{entries:,}", "", f"{total:,}"]], left=1, total=True)


def _check(params: PyTree, shardings: PyTree) -> None:
    where = "parallel.sharding_report"
    for name, value in {"params": params, "shardings": shardings}.items():
        mapping(where, name, value, "a nested dict, as net.init and Layout.shardings return it")
    places = names_of.flatten(shardings)
    for name in names_of.flatten(params):
        found = places.get(name)
        expect(isinstance(found, NamedSharding), where, f"shardings of {name!r}", "a NamedSharding", found)


def _families(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return {name of a parameter: the name that it shares with the same parameter of other layers}.

    `facts` maps the names to what must be equal for layers that share their names.

    >>> list(_families(dict.fromkeys(["h.0.w", "h.1.w", "mlp.0.w", "mlp.3.w"], "(8, 8)")).values())
    ['h.*.w', 'h.*.w', 'mlp.0.w', 'mlp.3.w']
    """
    children: dict[str, dict[str, Any]] = {}
    for name, fact in facts.items():
        first, _, rest = name.partition(".")
        children.setdefault(first, {})[rest] = fact
    inner = {first: _families(parts) if "" not in parts else {"": ""} for first, parts in children.items()}
    shown = _runs(children)
    return {
        f"{first}.{rest}" if rest else first: f"{shown[first]}.{name}" if name else shown[first]
        for first, names in inner.items()
        for rest, name in names.items()
    }


def _runs(children: Mapping[str, Any]) -> dict[str, str]:
    """Return {segment: the segment that replaces it}. Consecutive numbers whose children are equal get one segment."""
    numbers = sorted(int(first) for first, parts in children.items() if first.isdecimal() and "" not in parts)
    runs: list[list[int]] = []
    for number in numbers:
        follows = bool(runs) and runs[-1][-1] == number - 1 and children[str(number)] == children[str(number - 1)]
        if follows:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = {first: first for first in children}
    for run in runs:
        if len(run) > 1:
            text = names_of.STACKED if len(runs) == 1 else f"{run[0]}-{run[-1]}"
            shown |= {str(number): text for number in run}
    return shown


def _shown(sharding: NamedSharding, ndim: int) -> str:
    if not any(sharding.spec):
        return "-"
    entries: list[Any] = [*sharding.spec, *(None,) * (ndim - len(sharding.spec))]
    return ", ".join("-" if one is None else one if isinstance(one, str) else "+".join(one) for one in entries)
