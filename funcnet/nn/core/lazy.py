"""Inference of lazy shapes, with an abstract run on an example input.

A lazy module has leaves of shape None and a method ``lazy_shapes(*inputs) -> {name: shape}``. The leaves of the
description keep the shape None after `init`. Only the arrays that `init` returns have the inferred shapes. If the
initial value of a bias depends on the fan-in of the weight, the bias has the shape `BiasShape` and the init
`init_bias`.

If the parts of a module depend on the example input (`bridges.FromLinen`), the module has one leaf of shape None in
place of the parts. After the abstract run, the method ``settle()`` of the module puts the parts into the description.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet import tree
from funcnet.nn.core import binding
from funcnet.nn.core.call import Call
from funcnet.nn.core.inits import dtype_in_jax
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.core.parts import LeafPlace, Node, build, join, leaves, walk

__all__ = ["BiasShape", "abstract_run", "infer", "init_bias"]


class BiasShape(tuple[int, ...]):
    """The shape of a lazy bias, together with the fan-in of the weight in the same layer.

    >>> BiasShape((5,), fan_in=3).fan_in
    3
    """

    fan_in: int

    def __new__(cls, shape: tuple[int, ...], fan_in: int) -> "BiasShape":
        new = super().__new__(cls, shape)
        new.fan_in = fan_in
        return new


def init_bias(key: jax.Array, shape: Any, dtype: DTypeLike) -> jax.Array:
    """Initialise a lazy bias from U(±1/√fan_in), as torch does for Linear and convolutions."""
    bound = 1 / math.sqrt(shape.fan_in) if shape.fan_in > 0 else 0.0
    return jax.random.uniform(key, tuple(shape), dtype, -bound, bound)


class _Watch:
    """An object that is passed to an abstract run in place of hooks. Before a lazy module runs, its leaves get the
    shapes that its method `lazy_shapes` returns.
    """

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}

    def run(
        self, module: Node, name: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        unknown = {leaf_name: leaf for leaf_name, leaf in leaves(module) if leaf.shape is None}
        if unknown and vars(module)[next(iter(unknown))].size == 0:
            for leaf_name, shape in module.lazy_shapes(*args, **kwargs).items():
                if leaf_name in unknown:
                    vars(module)[leaf_name] = jnp.zeros(shape, unknown[leaf_name].dtype)
                    self.shapes[join(name, leaf_name)] = shape
        return forward(*args, **kwargs)


def infer(module: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Infer the shapes of the lazy leaves of a net in one abstract run in eval mode, and return {dotted name: shape}.
    After the run, call the method `settle()` of each module that has this method. If no leaf is lazy, return {} without
    a run.
    """
    if all(place.leaf.shape is not None for place in walk(module)):
        return {}
    shapes, _ = abstract_run(module, args, kwargs)
    for inner in list(module.modules()):
        if hasattr(inner, "settle"):
            inner.settle()
    return shapes


def abstract_run(
    module: Node,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    method: str | None = None,
    dtype: DTypeLike | None = None,
) -> tuple[dict[str, tuple[int, ...]], Any]:
    """Run a net in eval mode on shapes and dtypes, without computing arrays.

    Args:
        module: the description.
        args, kwargs: the inputs.
        method: name of the method to run in place of `forward`.
        dtype: dtype of the floating-point parameters and buffers. By default, each leaf keeps its dtype.

    Returns:
        ({dotted name: shape} of the lazy leaves, the output with `jax.ShapeDtypeStruct`s in place of arrays). NumPy
        arrays of integers remain in the output, and so do values that are not arrays.
    """

    def blank(place: LeafPlace) -> jax.Array:
        own = dtype_in_jax(place.leaf.dtype)  # counters are int64, which JAX has only with x64
        given = own if dtype is None or not jnp.issubdtype(own, jnp.floating) else dtype
        return jnp.zeros((*place.stacks, *(place.leaf.shape if place.leaf.shape is not None else (0,))), given)

    watch = _Watch()
    joins: list[Callable[[list[Any]], Any]] = []
    arrays, with_arrays = tree.arrays_of((args, kwargs), numpy_integers=False)

    def run(arrays: list[Any]) -> Any:
        args, kwargs = with_arrays(arrays)
        params, state = build(module, Parameter, blank), build(module, Buffer, blank)
        call = Call(rng=jax.random.key(0), hooks=watch)
        found, join = tree.arrays_of(binding.run(module, params, state, args, kwargs, call, method)[0], False)
        joins.append(join)
        return found

    found = jax.eval_shape(run, arrays)
    return watch.shapes, joins[-1](found)
