"""What surrounds computed attributes (`parameter.Computed`): how they start, and how they are put in and taken out.

Leaves change places here, so values are looked up by leaf: a copy of the net is changed, and its params and state are
built anew from `{id(leaf): array}`. The net that was given stays as it is.
"""

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import random, tree
from funcnet.nn.core import binding, state_dict
from funcnet.nn.core.parameter import Buffer, Computed, Parameter

Tree = dict[str, Any]
Result = tuple[Any, Tree, Tree]

__all__ = ["begin", "each_layer", "of", "put_in", "take_out"]


def of(module: Any) -> dict[str, Computed]:
    """{name: what is computed} of a description's own attributes."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Computed)}


def begin(net: Any, params: Tree, state: Tree, rng: jax.Array, given: Tree) -> tuple[Tree, Tree]:
    """(params, state) in which the leaves beneath every computed attribute let it start as its source does.

    `given` holds arrays of computed attributes by their dotted names; they take the place of what would be drawn.
    """
    places = [(path, one) for path, module in net.named_modules() for one in of(module).values()]
    if not places:
        return params, state
    whole = binding.bind(net, params, state, binding.Call())
    drawn: dict[tuple[int, tuple[int, ...]], jax.Array] = {}  # what is tied starts equal, whatever it is computed from

    def held(leaf: Any, index: tuple[int, ...]) -> Any:
        """The start that a leaf of the net has already; None of another stack's."""
        for owner, attribute in whole._frame.call.places.get(id(leaf), [])[:1]:
            array = vars(owner)[attribute]
            return array[index] if array.shape[len(index) :] == leaf.shape else None

    for path, one in places:
        name = binding.join(path, one.name)

        def start(bound: Any, index: tuple[int, ...], one: Computed = one, name: str = name) -> None:
            single = state_dict.indexed(name, index)

            def draw(leaf: Any) -> jax.Array:
                if (id(leaf), index) not in drawn:
                    value = given[name][index] if name in given else held(leaf, index)
                    value = leaf.start(random.key_for_name(rng, single), single) if value is None else value
                    drawn[id(leaf), index] = value
                return drawn[id(leaf), index]

            bound._frame.call.rng = random.key_for_name(rng, f"{single}.right_inverse")
            one.begin(bound, draw)

        each_layer(whole, path, start)
    return whole._values(Parameter), whole._values(Buffer)


def each_layer(whole: Any, path: str, run: Callable[[Any, tuple[int, ...]], Any]) -> Any:
    """`run(bound module, index)` on the module at `path`, once for each layer of the stacks that it is in.

    What `run` puts into the leaves of the bound module goes into `whole`, a bound net; what it returns comes stacked.
    """
    module = whole.get_submodule(path)
    description = module._description()
    segments = path.split(".")
    outer = [".".join(segments[:i]) for i, segment in enumerate(segments) if segment == tree.STACKED]
    stacks = tuple(whole.get_submodule(name)._description().n for name in outer)
    values = module._values(Parameter), module._values(Buffer)
    results, leaves = [], []
    for index in np.ndindex(*stacks):
        params, state = jax.tree.map(lambda a, i=index: a[i], values) if stacks else values
        bound = binding.bind(description, params, state, binding.Call())
        results.append(run(bound, index))
        leaves.append([vars(inner)[name] for inner, name in _places(bound)])

    def whole_of(arrays: tuple[Any, ...]) -> Any:
        return jnp.stack(arrays).reshape(*stacks, *arrays[0].shape) if stacks else arrays[0]

    for (inner, name), arrays in zip(_places(module), zip(*leaves, strict=True), strict=True):
        binding.put(inner, name, whole_of(arrays))
    return None if results[0] is None else whole_of(tuple(results))


def _places(bound: Any) -> list[tuple[Any, str]]:
    """(bound module, name) of every leaf beneath."""
    kinds = (Parameter, Buffer)
    return [(inner, name) for inner in bound.modules() for kind in kinds for name, _ in inner._leaves(kind)]


def _copied(whole: Any) -> tuple[Any, dict[int, Any]]:
    """(a copy of the bound net's description, {id of a leaf of the copy: array})."""
    memo: dict[int, Any] = {}
    net = copy.deepcopy(whole._description(), memo)
    places = whole._frame.call.places
    return net, {id(memo[leaf]): vars(holders[0][0])[holders[0][1]] for leaf, holders in places.items()}


def _trees(net: Any, values: dict[int, Any]) -> Result:
    def pick(module: Any, name: str, path: str, leaf: Any, stacks: tuple[int, ...]) -> jax.Array:
        return values[id(leaf)] if id(leaf) in values else state_dict.fresh(leaf, path, stacks)

    return net, net._build(Parameter, pick), net._build(Buffer, pick)


def put_in(net: Any, name: str, params: Tree, state: Tree, change: Callable[[Any, str], None]) -> Result:
    """(net, params, state) after `change(module, attribute)` on a copy of the net; new leaves have their start."""
    changed, values = _copied(binding.bind(net, params, state, binding.Call()))
    path, _, attribute = name.rpartition(".")
    change(changed.get_submodule(path), attribute)
    return _trees(changed, values)


def take_out(
    net: Any,
    name: str,
    params: Tree,
    state: Tree,
    kind: type[Computed],
    where: str,
    value: Callable[[Computed, Any], Any] = lambda one, bound: one.value(bound),
) -> Result:
    """(net, params, state) with a leaf in place of the computed attribute `name`: what it is in eval, or `value`.

    Raises:
        ValueError: there is no attribute of that kind.
    """
    path, _, attribute = name.rpartition(".")
    one = vars(net.get_submodule(path)).get(attribute)
    if not isinstance(one, kind):
        found = [binding.join(p, n) for p, m in net.named_modules() for n, c in of(m).items() if isinstance(c, kind)]
        raise ValueError(
            f"{where}: {name!r} is not computed so; expected one of {found or 'none: there are none'}, got "
            f"{'nothing' if one is None else type(one).__name__}. Name one of those."
        )
    whole = binding.bind(net, params, state, binding.Call())
    array = each_layer(whole, path, lambda bound, index: value(vars(bound._description())[attribute], bound))
    changed, values = _copied(whole)
    host = changed.get_submodule(path)
    leaf = vars(host)[attribute].take_out(host)
    leaf.shape = tuple(array.shape[path.split(".").count(tree.STACKED) :])
    values[id(leaf)] = array
    return _trees(changed, values)
