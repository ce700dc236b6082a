"""Initialisation of params and state. Each leaf is drawn with its init function and its random key. After the leaves,
the computed attributes are initialised.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import random, tree
from funcnet.nn.core import binding, stale_traces
from funcnet.nn.core.module_tree import LeafPlace, Node, build, computed_of, frame_of, join, values, walk
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.init.composed import NamedKey
from funcnet.nn.module.computed_attributes import each_layer, layers_of
from funcnet.nn.state_dict.state_dict import indexed
from funcnet.tree import Tree

__all__ = ["restart", "start"]


def start(net: Node, rng: jax.Array, shapes: dict[str, tuple[int, ...]], given: dict[str, Any]) -> tuple[Tree, Tree]:
    """Return the initial (params, state) of a net.

    Args:
        net: the description.
        rng: a key. The key of each leaf is derived from `rng` and the leaf's dotted name.
        shapes: {dotted name: shape} of the lazy leaves.
        given: {name: array} for leaves whose initial arrays are given and not drawn. The names are those that the
            method `key_name` of the leaves returns.
    """

    stale_traces.STARTED.add(place.leaf for place in walk(net))
    sources = _Sources(net, rng)

    def one(place: LeafPlace) -> jax.Array:
        def draw(index: tuple[int, ...]) -> jax.Array:
            leaf, path = place.leaf, indexed(place.path, index)
            key = random.key_for_name(rng, leaf.key_name(path))
            return leaf.start(key, path, shapes.get(place.path), sources.of(path, index))

        name = place.leaf.key_name(place.path)
        if name in given:
            return given[name]
        if not place.stacks:
            return draw(())
        layers = [draw(index) for index in np.ndindex(*place.stacks)]
        return jnp.stack(layers).reshape(*place.stacks, *layers[0].shape)

    return _start_computed(net, build(net, Parameter, one), build(net, Buffer, one), sources, given)


def restart(net: Node, rng: jax.Array, values: Tree, patterns: tree.Patterns) -> Tree:
    """Return a copy of `values` with new initial values for the matching leaves. See `Module.reinit`."""
    flat = tree.flatten(values)
    chosen = tree.select(patterns, list(flat), where=f"{type(net).__name__}.reinit")
    shapes = {name: array.shape for name, array in flat.items()}
    fresh: dict[str, Any] = {}
    for started in start(net, rng, shapes, {name: array for name, array in flat.items() if name not in chosen}):
        fresh |= tree.flatten(started)
    return tree.unflatten({**flat, **{name: fresh[name] for name in chosen}})


class _Sources:
    """Finds the name and the random key of a leaf whose initial value another leaf copies."""

    def __init__(self, net: Node, rng: jax.Array):
        self.net, self.rng = net, rng

    @functools.cached_property
    def homes(self) -> dict[int, tuple[str, tuple[int, ...]]]:
        """A dict from `id(leaf)` to the name from which the random key of the leaf is derived, and the number of layers
        of each stack that contains the leaf.
        """
        found = {id(place.leaf): (place.leaf.key_name(place.path), place.stacks) for place in walk(self.net)}
        for path, module in self.net.named_modules():
            for one in computed_of(module).values():
                found.setdefault(id(one.source), (join(path, one.name), layers_of(self.net, path)))
        return found

    @functools.cached_property
    def computed(self) -> dict[int, str]:
        """A dict from `id(leaf)` to the name, for leaves whose initial values are computed from the source of a
        computed attribute.
        """
        found = [one for module in self.net.modules() for one in computed_of(module).values()]
        leaves = {id(leaf) for one in found for leaf in one.leaves if leaf is not one.source}
        return {id(place.leaf): place.path for place in walk(self.net) if id(place.leaf) in leaves}

    def of(self, name: str, index: tuple[int, ...]) -> Callable[[Any], NamedKey | None]:
        """Return a function that maps the source of a copy to its name and random key, or to None if the net lacks the
        source.

        `name` is the name of the leaf that is a copy of the source, and `index` is its layer in each stack that
        contains it.
        """

        def known(source: Parameter | Buffer) -> NamedKey | None:
            if id(source) in self.computed:
                raise ValueError(
                    f"init: {name!r} is a copy of {self.computed[id(source)]!r}, whose initial value is computed from "
                    "other leaves. Copy the weight itself before the computation is added."
                )
            if id(source) not in self.homes:
                return None
            path, stacks = self.homes[id(source)]
            layer = index[: len(stacks)]
            if len(layer) < len(stacks) or any(i >= n for i, n in zip(layer, stacks, strict=True)):
                raise ValueError(
                    f"init: {name!r} is a copy of {path!r}, which has {stacks} layers; expected a copy in a stack of "
                    "these layers."
                )
            path = indexed(path, layer)
            return NamedKey(path, random.key_for_name(self.rng, path))

        return known


def _start_computed(net: Node, params: Tree, state: Tree, sources: _Sources, given: Tree) -> tuple[Tree, Tree]:
    """Return (params, state) in which every computed attribute starts with the initial value of its source.

    `given` maps dotted names of computed attributes to arrays, which replace the values that would be drawn.
    """
    places = [(path, one) for path, module in net.named_modules() for one in computed_of(module).values()]
    if not places:
        return params, state
    rng = sources.rng
    whole = binding.bind(net, params, state)
    homes = {id(place.leaf): place for place in walk(whole)}
    drawn: dict[tuple[int, tuple[int, ...]], jax.Array] = {}  # tied attributes start equal, however they are computed

    def known(leaf: Parameter | Buffer, index: tuple[int, ...]) -> Any:
        """Return the initial value that a leaf of the net already has, or None for a leaf of a different stack."""
        if id(leaf) not in homes:
            return None
        array = homes[id(leaf)].value
        return array[index] if array.shape[len(index) :] == leaf.shape else None

    for path, one in places:
        name = join(path, one.name)

        def begin(bound: Node, index: tuple[int, ...], one: Computed = one, name: str = name) -> None:
            single = indexed(name, index)

            def draw(leaf: Any) -> jax.Array:
                if (id(leaf), index) not in drawn:
                    value = given[name][index] if name in given else known(leaf, index)
                    if value is None:
                        known_sources = sources.of(single, index)
                        value = leaf.start(random.key_for_name(rng, single), single, known=known_sources)
                    drawn[id(leaf), index] = value
                return drawn[id(leaf), index]

            frame_of(bound).call.rng = random.key_for_name(rng, f"{single}.right_inverse")
            one.begin(bound, draw)

        each_layer(whole, path, begin)
    return values(whole)
