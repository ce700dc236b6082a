"""Inference of lazy shapes, by an abstract run on an example input.

A lazy module has leaves of shape None and a method ``lazy_shapes(*inputs) -> {name: shape}``. The description is not
changed: `init` returns arrays of the inferred shapes, and `forward` uses them. If the initial value of a bias depends
on the fan-in of the weight, the bias has the shape `BiasShape` and the init `init_bias`.

If the parts of a module depend on the example input (`bridges.FromLinen`), the module has one leaf of shape None in
their place. Its method ``settle()`` is called after the run and puts the parts into the description.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import tree
from funcnet.nn.core import binding
from funcnet.nn.core.call import Call
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.core.parts import LeafPlace, build, join, leaves, walk

__all__ = ["BiasShape", "infer", "init_bias"]


class BiasShape(tuple[int, ...]):
    """The shape of a bias, with the fan-in of its weight.

    >>> BiasShape((5,), fan_in=3).fan_in
    3
    """

    fan_in: int

    def __new__(cls, shape: tuple[int, ...], fan_in: int) -> "BiasShape":
        new = super().__new__(cls, shape)
        new.fan_in = fan_in
        return new


def init_bias(key: jax.Array, shape: Any, dtype: Any) -> jax.Array:
    """Initialise a lazy bias from U(±1/√fan_in), as torch does for Linear and convolutions."""
    bound = 1 / math.sqrt(shape.fan_in) if shape.fan_in > 0 else 0.0
    return jax.random.uniform(key, tuple(shape), dtype, -bound, bound)


class _Watch:
    """Acts as the hooks of a call, and sets the shapes of the leaves of each lazy module before the module runs."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}

    def run(self, module: Any, name: str, forward: Any, args: Any, kwargs: Any) -> Any:
        unknown = {leaf_name: leaf for leaf_name, leaf in leaves(module) if leaf.shape is None}
        if unknown and vars(module)[next(iter(unknown))].size == 0:
            for leaf_name, shape in module.lazy_shapes(*args, **kwargs).items():
                if leaf_name in unknown:
                    vars(module)[leaf_name] = jnp.zeros(shape, unknown[leaf_name].dtype)
                    self.shapes[join(name, leaf_name)] = shape
        return forward(*args, **kwargs)


def infer(module: Any, args: Any, kwargs: Any) -> dict[str, tuple[int, ...]]:
    """Return {dotted name: shape} of the lazy leaves, from one abstract run in eval mode. The result is {} if no leaf
    is lazy.
    """
    if all(place.leaf.shape is not None for place in walk(module)):
        return {}

    def blank(place: LeafPlace) -> jax.Array:
        dtype = jax.dtypes.canonicalize_dtype(place.leaf.dtype)  # counters are int64, which JAX has only with x64
        return jnp.zeros((*place.stacks, *(place.leaf.shape if place.leaf.shape is not None else (0,))), dtype)

    watch = _Watch()
    arrays, with_arrays = tree.arrays_of((args, kwargs), numpy_integers=False)

    def run(arrays: list[Any]) -> Any:
        args, kwargs = with_arrays(arrays)
        params, state = build(module, Parameter, blank), build(module, Buffer, blank)
        call = Call(rng=jax.random.key(0), hooks=watch)
        return binding.run(module, params, state, args, kwargs, call)[0]

    jax.eval_shape(run, arrays)
    for inner in list(module.modules()):
        if hasattr(inner, "settle"):
            inner.settle()
    return watch.shapes
