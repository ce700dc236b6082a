"""Sharding rules, which the modules of a net declare, or the user gives on the command line."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from jax.sharding import Mesh, PartitionSpec

from funcnet import nn
from funcnet import tree as names_of
from funcnet.arguments import strings
from funcnet.parallel.mesh import FSDP

__all__ = ["axes_of", "leaf_specs", "parse_rules", "sharding_rules"]

SMALLEST = 1024  # entries; a smaller parameter without a rule is replicated


def sharding_rules(net: nn.Module, params: names_of.Tree, sizes: Mapping[str, int]) -> dict[str, PartitionSpec]:
    """Return the sharding of every parameter that is sharded on the mesh.

    A module class declares sharding rules in its attribute `sharding_rules`. The rules apply to the parameters of the
    module and of its submodules. If a module and one of its submodules both have a rule for a parameter, the rule of
    the outer module applies. Layers of `nn` shard their output features along `tensor` and their input features along
    `fsdp`. A model may override the rules of its layers, so that the devices exchange data only once for two
    consecutive layers (Megatron's column and row split). A parameter without a rule is sharded along `fsdp` only, or
    replicated if it has fewer than 1,024 entries. A dimension is not sharded along an axis whose size does not divide
    it.

    Args:
        net: the description.
        params: parameters of the net, or their `jax.ShapeDtypeStruct`s.
        sizes: {mesh axis: size}.

    Returns:
        {name of a parameter: PartitionSpec}, without the replicated parameters.

    Raises:
        ValueError: if the size of the axis `tensor` does not divide a size that must not be split unevenly (see
            `Module.sharding_sizes`), such as the number of heads. The message lists the sizes of `tensor` that are
            possible.

    Example:
        >>> import jax
        >>> net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        >>> params, _ = net.init(jax.random.key(0))
        >>> rules = sharding_rules(net, params, {"data": 2, "tensor": 2})
        >>> tuple(rules["0.weight"]), "2.weight" in rules  # 3 is odd
        (('tensor', None), False)

    Reference: Shoeybi et al. 2019, Megatron-LM, arXiv:1909.08053, section 3; Zhao et al. 2023, PyTorch FSDP,
        arXiv:2304.11277
    """
    check_sizes(net, sizes)
    shapes = {name: tuple(leaf.shape) for name, leaf in names_of.flatten(params).items()}
    found: dict[str, PartitionSpec] = {}
    modules = sorted(net.named_modules(), key=lambda item: len(item[0].split(".")) if item[0] else 0, reverse=True)
    for prefix, module in modules:
        inner = {
            name.removeprefix(f"{prefix}."): name for name in shapes if not prefix or name.startswith(f"{prefix}.")
        }
        for pattern, spec in module.sharding_rules.items():
            for name in _matching(pattern, inner):
                found[inner[name]] = spec
    fitted = {}
    for name, shape in shapes.items():
        stacks = name.split(".").count(names_of.STACKED)  # the layers of `nn.Repeat(scan=True)` are the first dimension
        wanted = found.get(name) or (_fully_sharded(shape[stacks:], sizes) if name not in found else ())
        spec = PartitionSpec(*(None,) * stacks, *_fitting(wanted, shape[stacks:], sizes))
        if any(spec):
            fitted[name] = spec
    return fitted


def check_sizes(net: nn.Module, sizes: Mapping[str, int]) -> None:
    """Raise a ValueError if a mesh axis does not divide a size that `Module.sharding_sizes` lists for this axis."""
    for name, module in net.named_modules():
        for what, (axis, size) in module.sharding_sizes().items():
            parts = sizes.get(axis, 1)
            if size % parts:
                divisors = ", ".join(str(n) for n in range(1, min(size, 256) + 1) if size % n == 0)
                raise ValueError(
                    f"parallel: {axis}={parts} does not divide the {size} {what} of {name or type(module).__name__!r}; "
                    f"expected a divisor of {size} ({divisors}), got {parts}."
                )


def parse_rules(texts: Iterable[str]) -> dict[str, PartitionSpec]:
    """Parse sharding rules, written as on the command line.

    Args:
        texts: rules such as "**.dense.weight=tensor,-". A comma separates the dimensions, "-" means that a dimension is
            not sharded, and "+" joins several axes.

    Returns:
        {name pattern: PartitionSpec}.

    Raises:
        TypeError: if `texts` is not a list of strings.
        ValueError: if a text is not of this form, or a pattern occurs twice.

    Example:
        >>> tuple(parse_rules(["fc.weight=data+fsdp,-"])["fc.weight"])
        (('data', 'fsdp'), None)
    """
    expected = "a list of rules, such as ['**.dense.weight=tensor,-']"
    given = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else texts
    strings("parallel.parse_rules", "texts", given, expected)
    rules: dict[str, PartitionSpec] = {}
    for text in given:
        pattern, equals, entries = (part.strip() for part in text.partition("="))
        axes = [tuple(axis.strip() for axis in entry.split("+")) for entry in entries.split(",")]
        valid = all(axis.isidentifier() or group == ("-",) for group in axes for axis in group)
        if not pattern or not equals or not valid or pattern in rules:
            raise ValueError(
                f"parallel.parse_rules: {text!r} is not a sharding rule; expected PATTERN=AXES, with an axis or - for "
                "each dimension, such as **.dense.weight=tensor,- (each pattern once)."
            )
        rules[pattern] = PartitionSpec(*(None if group == ("-",) else _entry(group) for group in axes))
    return rules


def leaf_specs(
    rules: Mapping[str, PartitionSpec], shapes: Mapping[str, tuple[int, ...]], mesh: Mesh
) -> dict[str, PartitionSpec]:
    """Return {name of a leaf: `PartitionSpec`} for leaves with some shapes.

    Raises:
        ValueError: see `Layout.shardings`.

    Example:
        >>> from funcnet.parallel import make_mesh
        >>> specs = leaf_specs({"fc": PartitionSpec("data")}, {"fc.bias": (8,), "norm": (3,)}, make_mesh({"data": 2}))
        >>> tuple(specs["fc.bias"]), tuple(specs["norm"])
        (('data',), ())
    """
    where = "parallel.Layout: rules"
    specs = dict.fromkeys(shapes, PartitionSpec())
    ruled: dict[str, str] = {}
    named = [name for name in shapes if name]
    for pattern, spec in rules.items() if named else ():
        if unknown := [axis for axis in axes_of(*spec) if axis not in mesh.axis_names]:
            raise ValueError(
                f"{where}: {pattern!r} names the unknown axis {unknown[0]!r}; expected an axis of the mesh "
                f"({', '.join(mesh.axis_names)}), got {spec}."
            )
        for name in names_of.select(pattern, named, where=where):
            if name in ruled and specs[name] != spec:
                raise ValueError(
                    f"{where}: two rules match {name!r}; expected one rule, got {ruled[name]!r} and {pattern!r}. "
                    "Make one of the patterns more specific."
                )
            _check_spec(name, shapes[name], pattern, spec, mesh)
            ruled[name], specs[name] = pattern, spec
    return specs


def _check_spec(name: str, shape: tuple[int, ...], pattern: str, spec: PartitionSpec, mesh: Mesh) -> None:
    """Raise a ValueError if a `PartitionSpec` does not fit the shape of a leaf."""
    if len(spec) > len(shape):
        raise ValueError(
            f"parallel.Layout: rules: {pattern!r} does not fit {name!r}; expected at most {len(shape)} entries for "
            f"its shape {shape}, got {spec}."
        )
    for size, entry in zip(shape, spec, strict=False):
        parts = math.prod(mesh.shape[axis] for axis in axes_of(entry))
        if size % parts:
            raise ValueError(
                f"parallel.Layout: rules: {pattern!r} splits {name!r} of shape {shape} into {parts} parts along "
                f"{entry!r}; expected a dimension that is divisible by {parts}, got {size}. Use a divisor of "
                f"{size}, or leave this dimension unsharded."
            )


def axes_of(*entries: str | tuple[str, ...] | None) -> list[str]:
    """Return the names of the mesh axes that occur in some entries of a `PartitionSpec`.

    >>> axes_of("data", None, ("fsdp", "tensor"))
    ['data', 'fsdp', 'tensor']
    """
    return [axis for entry in entries for axis in ((entry,) if isinstance(entry, str) else entry or ())]


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    names = list(names)
    try:
        return names_of.select(pattern, names)
    except ValueError:  # the module has no such parameter, or shares it with a module that owns it
        return []


def _fully_sharded(shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Return the entries of the spec for a parameter without a rule, which is sharded along `fsdp` only. The sharded
    dimension is the first one that the size of `fsdp` divides.
    """
    parts = sizes.get(FSDP, 1)
    if math.prod(shape) < SMALLEST:
        return ()
    first = next((i for i, size in enumerate(shape) if size % parts == 0), None)
    return () if first is None else (*(None,) * first, FSDP)


def _fitting(spec: Iterable[Any], shape: tuple[int, ...], sizes: Mapping[str, int]) -> list[Any]:
    """Return the entries of a `PartitionSpec`, without mesh axes that do not exist or whose size does not divide the
    dimension.
    """
    entries = []
    for entry, size in zip(spec, shape, strict=False):
        axes = [axis for axis in ((entry,) if isinstance(entry, str) else entry or ()) if sizes.get(axis, 1) > 1]
        while size % math.prod(sizes[axis] for axis in axes):
            axes.pop()
        entries.append(_entry(tuple(axes)))
    return entries


def _entry(axes: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return axes if len(axes) > 1 else axes[0] if axes else None
