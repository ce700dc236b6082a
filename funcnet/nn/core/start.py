"""Initialisation of params and state: every leaf from its own init and key, and then the computed attributes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import random, tree
from funcnet.nn.core import binding, notes
from funcnet.nn.core.computed import each_layer
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.core.parts import LeafPlace, build, computed_of, frame_of, join, values, walk
from funcnet.nn.core.state_dict import indexed

Tree = dict[str, Any]

__all__ = ["restart", "start"]


def start(net: Any, rng: jax.Array, shapes: dict[str, tuple[int, ...]], given: dict[str, Any]) -> tuple[Tree, Tree]:
    """Return the initial (params, state).

    Args:
        net: the description.
        rng: a key. The key of each leaf is folded from its dotted name.
        shapes: {dotted name: shape} of the lazy leaves.
        given: {name: initial array}. The names are those from which the keys are folded.
    """

    notes.STARTED.add(place.leaf for place in walk(net))

    def one(place: LeafPlace) -> jax.Array:
        def draw(path: str) -> jax.Array:
            leaf: Any = place.leaf
            return leaf.start(random.key_for_name(rng, leaf.key_name(path)), path, shapes.get(place.path))

        name = place.leaf.key_name(place.path)
        if name in given:
            return given[name]
        if not place.stacks:
            return draw(place.path)
        layers = [draw(indexed(place.path, index)) for index in np.ndindex(*place.stacks)]
        return jnp.stack(layers).reshape(*place.stacks, *layers[0].shape)

    return _start_computed(net, build(net, Parameter, one), build(net, Buffer, one), rng, given)


def restart(net: Any, rng: jax.Array, values: Tree, patterns: tree.Patterns) -> Tree:
    """Return a tree of values in which the leaves that match have new initial values. See `Module.reinit`."""
    flat = tree.flatten(values)
    chosen = tree.select(patterns, list(flat), where=f"{type(net).__name__}.reinit")
    shapes = {name: array.shape for name, array in flat.items()}
    fresh: dict[str, Any] = {}
    for started in start(net, rng, shapes, {name: array for name, array in flat.items() if name not in chosen}):
        fresh |= tree.flatten(started)
    return tree.unflatten({**flat, **{name: fresh[name] for name in chosen}})


def _start_computed(net: Any, params: Tree, state: Tree, rng: jax.Array, given: Tree) -> tuple[Tree, Tree]:
    """Return (params, state) in which every computed attribute starts with the initial value of its source.

    `given` maps dotted names of computed attributes to arrays, which replace the values that would be drawn.
    """
    places = [(path, one) for path, module in net.named_modules() for one in computed_of(module).values()]
    if not places:
        return params, state
    whole = binding.bind(net, params, state)
    homes = {id(place.leaf): place for place in walk(whole)}
    drawn: dict[tuple[int, tuple[int, ...]], jax.Array] = {}  # tied attributes start equal, with any computation

    def known(leaf: Any, index: tuple[int, ...]) -> Any:
        """Return the initial value that a leaf of the net already has, or None for a leaf of another stack."""
        if id(leaf) not in homes:
            return None
        array = homes[id(leaf)].value
        return array[index] if array.shape[len(index) :] == leaf.shape else None

    for path, one in places:
        name = join(path, one.name)

        def begin(bound: Any, index: tuple[int, ...], one: Computed = one, name: str = name) -> None:
            single = indexed(name, index)

            def draw(leaf: Any) -> jax.Array:
                if (id(leaf), index) not in drawn:
                    value = given[name][index] if name in given else known(leaf, index)
                    value = leaf.start(random.key_for_name(rng, single), single) if value is None else value
                    drawn[id(leaf), index] = value
                return drawn[id(leaf), index]

            frame_of(bound).call.rng = random.key_for_name(rng, f"{single}.right_inverse")
            one.begin(bound, draw)

        each_layer(whole, path, begin)
    return values(whole)
