"""The layout of a run, which determines the part of each array that each device stores.

A *mesh* is an array of devices with named axes. *Rules* map name patterns to `PartitionSpec`s, which assign mesh axes
to the dimensions of a parameter or buffer. A leaf without a rule is replicated, which means that every device has a
complete copy. Only the mesh and the rules determine the shardings of parameters, buffers, optimizer state and batches.
A data-parallel run has no rules, and shards its batches along the axis `data`. `Layout.for_net` adds the sharding
rules of a net's modules, which use the mesh axes `fsdp` and `tensor`.

`kind` selects how a step runs on the mesh. See `funcnet.parallel.step`.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike
from numpy.typing import NDArray

from funcnet import nn
from funcnet import tree as names_of
from funcnet.arguments import choice, expect, integer, mapping, shown
from funcnet.parallel.checks import as_arrays, check_axes, check_batch_size, check_length
from funcnet.parallel.mesh import AXIS, CONTEXT, FSDP, make_mesh, parse_mesh
from funcnet.parallel.processes import process_count
from funcnet.parallel.rules import axes_of, leaf_specs, sharding_rules
from funcnet.random import is_key, wrap_keys
from funcnet.tree import PyTree

__all__ = ["Kind", "Layout", "make_layout"]

Kind = Literal["pmap", "shard_map", "jit"]
"""The way in which a step runs on several devices."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """The placement of arrays on devices, and the way in which steps run. Use `make_layout` to make a layout.

    Attributes:
        kind: transformation that runs steps, "jit", "shard_map" or "pmap".
        mesh: mesh of the devices.
        rules: {name pattern: PartitionSpec} for parameters and buffers.
        sequences: names of the leaves of a batch whose dimension 1, the sequence, is sharded along the axis `context`.
            None, the default, shards all leaves whose dimension 1 is a multiple of the size of the axis. The sharding
            of a batch never changes the results of a step under jit, so a leaf of this size that is not a sequence does
            no harm.

    Example:
        >>> layout = make_layout("data=4,model=2", rules={"fc.weight": PartitionSpec("model", None)})
        >>> print(layout)
        8 devices (data=4, model=2) by jit
        >>> tuple(layout.shardings({"fc": {"weight": np.ones((6, 3)), "bias": np.ones(6)}})["fc"]["weight"].spec)
        ('model', None)
    """

    kind: Kind
    mesh: Mesh
    rules: Mapping[str, PartitionSpec] = dataclasses.field(default_factory=dict)
    sequences: tuple[str, ...] | None = None

    @property
    def batch_axes(self) -> tuple[str, ...]:
        """The mesh axes along which the rows of a batch are sharded: `fsdp` and `data`, if the mesh has them.

        The order matters: with data first, XLA computes wrong gradients of layers whose inputs are sharded along data
        and fsdp, and whose outputs along tensor (JAX 0.10.0 and 0.10.2; tests/parallel/test_gradients.py).
        """
        return tuple(axis for axis in (FSDP, AXIS) if axis in self.mesh.shape)

    @property
    def axis_name(self) -> str | None:
        """The axis name for collectives in a step: `data` under pmap and shard_map, or None under jit."""
        return None if self.kind == "jit" else AXIS

    @property
    def batch_parts(self) -> int:
        """The number of shards into which a batch is divided along its rows."""
        return math.prod(self.mesh.shape[axis] for axis in self.batch_axes)

    @property
    def whole(self) -> NamedSharding:
        """The sharding of a replicated array."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def by_rows(self) -> NamedSharding:
        """The sharding of the leaves of a batch that are sharded by rows only."""
        return NamedSharding(self.mesh, PartitionSpec(self.batch_axes))

    @property
    def is_data_parallel(self) -> bool:
        """Whether every device stores all parameters and complete sequences."""
        return not self.rules and self.mesh.shape.get(CONTEXT, 1) == 1

    def for_net(
        self, net: nn.Module, sequences: tuple[str, ...] | None = None, *, start: tuple[Any, Any] | None = None
    ) -> "Layout":
        """Return a copy of this layout that also has the sharding rules of a net's modules. The rules of this layout
        override those of the modules.

        Args:
            net: the description.
            sequences: names of the leaves of a batch that contain sequences, (rows, length, …). None, the default,
                shards all leaves whose dimension 1 is a multiple of the size of `context`; see `Layout`.
            start: initial (params, state) of a net with lazy modules.

        Raises:
            ValueError: if a rule does not fit the net (see `shardings`), an axis does not divide the number of heads or
                words, or no parameter is sharded along an axis. Along `context`, no module of the net splits sequences
                (`shards_sequences`), or `sequences` is ().
        """
        expect(isinstance(net, nn.Module), "parallel.Layout.for_net", "net", "a module, such as nn.Linear(2, 1)", net)
        axes = {axis for axis, size in self.mesh.shape.items() if size > 1}
        if axes <= {AXIS} and not self.rules:
            return self
        params, state = jax.eval_shape(net.init, jax.random.key(0)) if start is None else start
        names = names_of.flatten(params) | names_of.flatten(state)
        where = "parallel.Layout: rules"
        own = {name for pattern in self.rules for name in names_of.select(pattern, names, where=where)}
        found = sharding_rules(net, params, dict(self.mesh.shape))
        rules = {name: spec for name, spec in found.items() if name not in own} | dict(self.rules)
        layout = dataclasses.replace(self, rules=rules, sequences=sequences)
        layout.shardings((params, state))
        splits = sequences is None and any(module.shards_sequences for module in net.modules())
        used = {
            AXIS,
            *([CONTEXT] if splits or sequences else []),
            *(axis for spec in rules.values() for axis in axes_of(*spec)),
        }
        for axis in sorted(axes - used):
            what, advice = "parameter", "add sharding rules"
            if axis == CONTEXT:
                what, advice = "sequence", "name the sequences of the batch"
                if sequences is None:
                    advice = "set shards_sequences = True in the class that calls F.scaled_dot_product_attention"
            raise ValueError(
                f"parallel: no {what} of {type(net).__name__} is sharded along the mesh axis {axis!r}; expected only "
                f"axes that the net uses, got {axis}={self.mesh.shape[axis]}. Use {AXIS} in its place, or {advice}."
            )
        return layout

    def __str__(self) -> str:
        axes = ", ".join(f"{axis}={size}" for axis, size in self.mesh.shape.items())
        return f"{self.mesh.size} device{'s' * (self.mesh.size != 1)} ({axes}) by {self.kind}"

    def shardings(self, tree: PyTree) -> Any:
        """Return the sharding of every leaf of a tree according to the rules of this layout.

        Args:
            tree: a train state, parameters, buffers, or any pytree of these, with arrays or `jax.ShapeDtypeStruct`s as
                leaves. The name of a leaf is the dotted path of its innermost nested dicts. The moments in an optimizer
                state therefore have the names of their parameters. A moment also has the sharding of its parameter if
                their shapes are equal. A leaf outside any dict, such as the step, has no name and is replicated.

        Returns:
            A pytree of `NamedSharding` with the same structure.

        Raises:
            ValueError: if a rule matches no leaf, names an unknown mesh axis, has more entries than the leaf has
                dimensions, or shards a dimension that does not divide evenly, or if two rules with different specs
                match the same leaf.
        """
        leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
        if wrong := [leaf for _, leaf in leaves if not hasattr(leaf, "shape") and not np.isscalar(leaf)]:
            raise TypeError(
                "parallel.Layout: a tree has a leaf of a wrong type; expected params, state or other trees of arrays, "
                f"got {shown(wrong[0])}."
            )
        names = [_name(path) for path, _ in leaves]
        shapes: dict[str, tuple[int, ...]] = {}
        for name, (_, leaf) in zip(names, leaves, strict=True):
            shapes.setdefault(name, np.shape(leaf))
        specs = leaf_specs(self.rules, shapes, self.mesh)
        found = [
            specs[name] if np.shape(leaf) == shapes[name] else PartitionSpec()
            for name, (_, leaf) in zip(names, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, [NamedSharding(self.mesh, spec) for spec in found])

    def place(self, tree: PyTree, shardings: PyTree = None) -> Any:
        """Copy a tree to the devices, leaf by leaf. Each device receives only its part of a leaf.

        Args:
            tree: pytree as for `shardings`, with arrays as leaves.
            shardings: a pytree of the shardings of the leaves. The default is `self.shardings(tree)`.

        Returns:
            The tree as `jax.Array`s, which never share memory with `tree`. A step may therefore donate the memory of
            the result.

        Raises:
            TypeError: if a leaf is not an array of numbers.
        """
        tree = as_arrays(tree, "parallel.Layout.place")
        put = _put if process_count() > 1 else _put_copy
        return jax.tree.map(put, tree, self.shardings(tree) if shardings is None else shardings)

    def replicate(self, tree: PyTree) -> Any:
        """Copy a tree of host arrays, such as a batch that does not divide evenly, to every device."""
        return jax.tree.map(lambda x: _put(x, self.whole), as_arrays(tree, "parallel.Layout.replicate"))

    def shard(self, batch: PyTree) -> Any:
        """Shard a batch by rows along the batch axes.

        Args:
            batch: pytree of arrays (B, …).

        Returns:
            A pytree of arrays (B, …) on the devices. Under pmap, the shape is (N, B/N, …) for N devices.

        Raises:
            TypeError: if a leaf is not an array of numbers.
            ValueError: if a leaf has no rows, B is not a multiple of `batch_parts`, or `context` does not divide the
                length of sequences.
        """
        batch = as_arrays(batch, where := "parallel.Layout.shard")
        for leaf in jax.tree.leaves(batch):
            if not np.ndim(leaf):
                raise ValueError(f"{where}: a leaf has no rows; expected arrays (B, …), got {shown(leaf)}.")
            check_batch_size(np.shape(leaf)[0], self.batch_parts, where=where)
        if self.kind == "pmap":
            batch = jax.tree.map(lambda x: np.reshape(x, (self.batch_parts, -1, *np.shape(x)[1:])), batch)
        shardings = jax.tree_util.tree_map_with_path(self._batch_sharding, batch)
        return jax.tree.map(_put, batch, shardings) if process_count() > 1 else jax.device_put(batch, shardings)

    def own_rows(self, rows: int) -> NDArray[np.int64]:
        """Return the indices of the rows of a batch that the devices of this process store.

        Args:
            rows: number of rows of the batch, B.

        Raises:
            ValueError: if B is not a multiple of `batch_parts`.

        Example:
            >>> make_layout({"data": 2}).own_rows(4)  # one process has all rows
            array([0, 1, 2, 3])
        """
        integer("parallel.Layout.own_rows", "rows", rows, 0)
        check_batch_size(rows, self.batch_parts, where="parallel.Layout.own_rows")
        size = rows // self.batch_parts
        return (np.asarray(self.own_parts)[:, None] * size + np.arange(size)).reshape(-1)

    @functools.cached_property
    def own_parts(self) -> list[int]:
        """The indices of the shards of a batch that the devices of this process store."""
        places = self.by_rows.addressable_devices_indices_map((self.batch_parts,))
        return sorted({index[0].start or 0 for index in places.values() if index is not None})

    def shard_own(self, batch: PyTree) -> Any:
        """Shard a batch of which this process has read only its own rows.

        Args:
            batch: pytree of arrays with the rows `own_rows(B)` of a batch of B rows.

        Returns:
            The batch of all processes, as `shard` returns it.
        """
        batch = as_arrays(batch, "parallel.Layout.shard_own")
        if self.kind == "pmap":
            parts = len(self.own_parts)
            batch = jax.tree.map(lambda x: np.reshape(x, (parts, -1, *np.shape(x)[1:])), batch)
        return jax.tree.map(self._put_own, batch, jax.tree_util.tree_map_with_path(self._batch_sharding, batch))

    def _put_own(self, own: Any, sharding: NamedSharding) -> jax.Array:
        size = len(own) // len(self.own_parts)  # rows of a shard

        def part(index: Any) -> Any:
            at = self.own_parts.index((index[0].start or 0) // size) * size
            return own[(slice(at, at + size), *index[1:])]

        return jax.make_array_from_callback((size * self.batch_parts, *np.shape(own)[1:]), sharding, part)

    def _batch_sharding(self, path: tuple[Any, ...], leaf: ArrayLike) -> NamedSharding:
        parts, name, shape = self.mesh.shape.get(CONTEXT, 1), _name(path), np.shape(leaf)
        if parts == 1 or (self.sequences is not None and name not in self.sequences):
            return self.by_rows
        if self.sequences is None and (len(shape) < 2 or not shape[1] or shape[1] % parts):
            return self.by_rows
        where = "parallel.Layout.shard"
        if len(shape) < 2:
            raise ValueError(f"{where}: {name!r} is no sequence; expected (rows, length, …), got {shown(leaf)}.")
        check_length(shape[1], parts, where=where)
        return NamedSharding(self.mesh, PartitionSpec(self.batch_axes, CONTEXT))

    def gather(self, tree: PyTree) -> Any:
        """Copy a tree to the host.

        Args:
            tree: pytree of arrays on the devices.

        Returns:
            The tree as unsharded numpy arrays, which do not share memory with `tree`: no later step can change them.
            Typed random keys stay `jax.Array`s, because numpy has no such dtype.
        """
        return jax.tree.map(_on_host, tree)


def make_layout(
    mesh: str | Mapping[str, int] | None = None,
    *,
    kind: Kind = "jit",
    rules: Mapping[str, PartitionSpec] | None = None,
) -> Layout:
    """Make the layout of a run.

    Args:
        mesh: sizes of the mesh axes, such as `{"data": 8}`, or "data=4,model=2" as on the command line. A size of -1
            means all remaining devices. None puts all devices on the axis `data`. A net has its own rules for the
            axes `data`, `fsdp`, `tensor` and `context`; see `Layout.for_net`.
        kind: transformation that runs steps. "pmap" and "shard_map" do not accept rules, because their steps see
            complete parameters.
        rules: {name pattern: PartitionSpec} for parameters and buffers. See `funcnet.tree` for patterns.

    Returns:
        A `Layout`.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `kind` is unknown, if the mesh needs more devices than exist, if an axis of the mesh is used
            neither by a rule nor by the batch, or if pmap or shard_map gets `rules` or an axis other than `data`.

    Example:
        >>> layout = make_layout("data=4,model=2", rules={"fc.weight": PartitionSpec("model", None)})
        >>> params = layout.place({"fc": {"weight": np.ones((6, 3), np.float32), "bias": np.ones(6, np.float32)}})
        >>> [params["fc"][name].addressable_shards[0].data.shape for name in ("weight", "bias")]
        [(3, 3), (6,)]
        >>> layout.shard(np.ones((8, 3), np.float32)).addressable_shards[0].data.shape
        (2, 3)
    """
    where = "parallel.make_layout"
    choice(where, "kind", kind, get_args(Kind))
    _check_rules(where, {} if rules is None else rules)
    made = make_mesh(parse_mesh(mesh) if isinstance(mesh, str) else mesh)
    check_axes(made.shape, rules or {})
    others = [axis for axis, size in made.shape.items() if size > 1 and axis != AXIS]
    if kind != "jit" and (others or rules or AXIS not in made.shape):
        raise ValueError(
            f"{where}: kind {kind!r} shards only batches, along {AXIS}; expected no rules, and a mesh with this axis "
            f"alone, got {dict(made.shape)}{' and rules' if rules else ''}. Use kind='jit', which is the default."
        )
    return Layout(kind, made, dict(rules or {}))


def _check_rules(where: str, rules: Mapping[str, Any]) -> None:
    expected = "a dict {name pattern: PartitionSpec}"
    advice = "Parse texts with parallel.parse_rules." if isinstance(rules, str | list | tuple) else ""
    mapping(where, "rules", rules, expected, advice)
    for pattern, spec in rules.items():
        expect(isinstance(spec, PartitionSpec), where, f"rules[{pattern!r}]", "a jax.sharding.PartitionSpec", spec)


def _put(array: jax.Array | np.ndarray, sharding: NamedSharding) -> jax.Array:
    """Place an array on the devices. Every process has the entire array, and each device receives its part."""
    if is_key(array):
        return wrap_keys(_put(jax.random.key_data(array), sharding), array.dtype)
    host = np.asarray(array)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


def _put_copy(array: jax.Array | np.ndarray, sharding: NamedSharding) -> jax.Array:
    """Place a copy of an array on the devices of this process, which are all devices of the run."""
    # Without this copy, device_put reuses an array that is already on the device, even with may_alias=False.
    return jax.device_put(array.copy() if isinstance(array, jax.Array) else array, sharding)


def _on_host(array: Any) -> Any:
    """Return a copy of an array on the host, whose shards may be on the devices of several processes."""
    if is_key(array):
        return wrap_keys(_on_host(jax.random.key_data(array)), array.dtype)
    if not getattr(array, "is_fully_addressable", True) and not array.is_fully_replicated:
        array = jax.jit(lambda x: x, out_shardings=NamedSharding(array.sharding.mesh, PartitionSpec()))(array)
    return np.array(array, copy=True)


def _name(path: tuple[Any, ...]) -> str:
    """Return a leaf's name, the path of its innermost dicts: fc.weight for the leaf opt_state[0].mu["fc"]["weight"]."""
    segments: list[str] = []
    for key in reversed(path):
        if not isinstance(key, jax.tree_util.DictKey):
            break
        segments.append(str(key.key))
    return ".".join(reversed(segments))
