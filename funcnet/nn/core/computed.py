"""How computed attributes (`parameter.Computed`) are added to a net and removed from it.

Leaves get new names in this process, so their values are looked up by leaf. A copy of the net is changed, and its
params and state are built from `{id(leaf): array}`. The given net is not changed.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.nn.core import binding, state_dict
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.core.parts import LeafPlace, build, computed_of, description_of, join, values, walk

Tree = dict[str, Any]
Result = tuple[Any, Tree, Tree]

__all__ = ["each_layer", "place", "put_in", "take_out"]


def place(module: Any, one: Computed) -> None:
    """Put a computed attribute into a description, under a name that is not yet used for a part."""
    vars(module)[one.name] = one


def each_layer(whole: Any, path: str, run: Callable[[Any, tuple[int, ...]], Any]) -> Any:
    """Call `run(bound module, index)` on the module at `path`, once per layer of the stacks that contain it.

    The argument `whole` is a bound net. It receives the values that `run` writes to the leaves of the bound module. The
    results of `run` are stacked.
    """
    module = whole.get_submodule(path)
    description = description_of(module)
    segments = path.split(".")
    outer = [".".join(segments[:i]) for i, segment in enumerate(segments) if segment == tree.STACKED]
    stacks = tuple(whole.get_submodule(name).n for name in outer)
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


def _copied(whole: Any) -> tuple[Any, dict[int, Any]]:
    """Return (a copy of the bound net's description, {id of a leaf of the copy: array})."""
    memo: dict[int, Any] = {}
    net = copy.deepcopy(description_of(whole), memo)
    return net, {id(memo[id(place.leaf)]): place.value for place in walk(whole)}


def _trees(net: Any, arrays: dict[int, Any]) -> Result:
    def pick(place: LeafPlace) -> jax.Array:
        return arrays[id(place.leaf)] if id(place.leaf) in arrays else state_dict.fresh(place)

    return net, build(net, Parameter, pick), build(net, Buffer, pick)


def put_in(net: Any, name: str, params: Tree, state: Tree, change: Callable[[Any, str], None]) -> Result:
    """Apply `change(module, attribute)` to a copy, initialise its new leaves, and return (net, params, state)."""
    changed, arrays = _copied(binding.bind(net, params, state))
    path, _, attribute = name.rpartition(".")
    change(changed.get_submodule(path), attribute)
    return _trees(changed, arrays)


def take_out(
    net: Any,
    name: str,
    params: Tree,
    state: Tree,
    kind: type[Computed],
    where: str,
    value: Callable[[Computed, Any], Any] = lambda one, bound: one.value(bound),
) -> Result:
    """Return (net, params, state) with a leaf in place of the computed attribute `name`.

    The leaf has the value `value(one, bound)`, by default the attribute's value in eval mode.

    Raises:
        ValueError: if there is no attribute of that kind.
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
