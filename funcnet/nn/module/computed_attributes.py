"""Add computed attributes (`parameter.Computed`) to a net, and remove them.

Adding or removing a computed attribute renames leaves, so the functions of this file find the array of a leaf by the
leaf itself, not by its name. These functions change a copy of the net, and build the params and state of this copy from
a dict `{id(leaf): array}`. The net that a caller passes to these functions is not changed.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.nn.core import binding
from funcnet.nn.core.module_tree import LeafPlace, Node, build, computed_of, description_of, join, values, walk
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.state_dict import state_dict
from funcnet.tree import Tree

Result = tuple[Any, Tree, Tree]

__all__ = ["each_layer", "layers_of", "place", "put_in", "take_out"]


def place(module: Node, one: Computed) -> None:
    """Add a computed attribute to a module that has no parameter, buffer or child with the name of the attribute."""
    vars(module)[one.name] = one


def layers_of(net: Node, path: str) -> tuple[int, ...]:
    """Return the number of layers of each stack that contains the module at `path`, the outermost stack first."""
    segments = path.split(".")
    outer = [".".join(segments[:i]) for i, segment in enumerate(segments) if segment == tree.STACKED]
    return tuple(net.get_submodule(name).n for name in outer)


def each_layer(whole: Node, path: str, run: Callable[[Any, tuple[int, ...]], Any]) -> Any:
    """Call `run(bound module, index)` for the module with the dotted name `path`, once per layer if it is in a stack.

    The argument `whole` is the bound copy of the entire net, and `index` is the index of the layer in each stack.
    Arrays that `run` writes to the leaves of the bound module are written to `whole` too. The results of `run` for all
    layers are stacked and returned.
    """
    module = whole.get_submodule(path)
    description = description_of(module)
    stacks = layers_of(whole, path)
    arrays = values(module)
    results, leaves = [], []
    for index in np.ndindex(*stacks):
        params, state = jax.tree.map(lambda a, i=index: a[i], arrays) if stacks else arrays
        bound = binding.bind(description, params, state)
        results.append(run(bound, index))
        leaves.append([place.value for place in walk(bound)])

    def whole_of(arrays: tuple[Any, ...]) -> Any:
        return jnp.stack(arrays).reshape(*stacks, *arrays[0].shape) if stacks else arrays[0]

    for place, layers in zip(walk(module), zip(*leaves, strict=True), strict=True):
        binding.put(place.module, place.name, whole_of(layers))
    return None if results[0] is None else whole_of(tuple(results))


def _copied(whole: Node) -> tuple[Any, dict[int, Any]]:
    """Return a copy of the description of a bound net, and a dict {id of a leaf of this copy: its array}."""
    memo: dict[int, Any] = {}
    net = copy.deepcopy(description_of(whole), memo)
    return net, {id(memo[id(place.leaf)]): place.value for place in walk(whole)}


def _trees(net: Node, arrays: dict[int, Any]) -> Result:
    def pick(place: LeafPlace) -> jax.Array:
        return arrays[id(place.leaf)] if id(place.leaf) in arrays else state_dict.fresh(place)

    return net, build(net, Parameter, pick), build(net, Buffer, pick)


def put_in(net: Node, name: str, params: Tree, state: Tree, change: Callable[[Any, str], None]) -> Result:
    """Copy the net, call `change(module, attribute)` on the copy, and initialise the leaves that `change` has added.

    Args:
        net, params, state: a net and its arrays, which are not changed.
        name: dotted name of the attribute.
        change: function that changes a module in place. Its arguments are the module that has the attribute, and the
            name of the attribute in this module.

    Returns:
        (net, params, state) of the changed copy.
    """
    changed, arrays = _copied(binding.bind(net, params, state))
    path, _, attribute = name.rpartition(".")
    change(changed.get_submodule(path), attribute)
    return _trees(changed, arrays)


def take_out(
    net: Node,
    name: str,
    params: Tree,
    state: Tree,
    kind: type[Computed],
    where: str,
    value: Callable[[Computed, Any], Any] = lambda one, bound: one.value(bound),
) -> Result:
    """Return a copy (net, params, state) in which an ordinary parameter or buffer replaces the computed attribute
    `name`.

    The new parameter or buffer gets the array `value(attribute, bound module)`. By default, this array is the value of
    the computed attribute in eval mode.

    Raises:
        ValueError: if `name` is not a computed attribute of the class `kind`.
    """
    path, _, attribute = name.rpartition(".")
    one = getattr(net.get_submodule(path), attribute, None)
    if not isinstance(one, kind):
        found = [
            join(outer, name)
            for outer, module in net.named_modules()
            for name, other in computed_of(module).items()
            if isinstance(other, kind)
        ]
        raise ValueError(
            f"{where}: {name!r} is not a computed attribute of this kind; expected one of "
            f"{found or '[] (there are none)'}, got {'nothing' if one is None else type(one).__name__}."
        )
    whole = binding.bind(net, params, state)
    array = each_layer(whole, path, lambda bound, index: value(computed_of(bound)[attribute], bound))
    changed, arrays = _copied(whole)
    host = changed.get_submodule(path)
    leaf = computed_of(host)[attribute].take_out(host)
    leaf.shape = tuple(array.shape[path.split(".").count(tree.STACKED) :])
    arrays[id(leaf)] = array
    return _trees(changed, arrays)
