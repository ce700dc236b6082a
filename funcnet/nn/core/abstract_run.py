"""Abstract runs of a net, which compute only shapes. They infer the shapes of lazy leaves. They also compute the shape
of an output, for constructors that run a layer to find a size.

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
import numpy as np
from jax.typing import DTypeLike

from funcnet import tree
from funcnet.nn.core import binding
from funcnet.nn.core.call import Call
from funcnet.nn.core.module_tree import LeafPlace, Node, build, description_of, frame_of, join, leaves, walk
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.init.composed import dtype_in_jax
from funcnet.tree import PyTree

__all__ = ["BiasShape", "abstract_run", "dry_run", "infer", "init_bias", "output_shape"]


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


def output_shape(module: Node, *inputs: PyTree, method: str | None = None, **kwargs: object) -> Any:
    """Return the shape that the module's output has in eval mode. The function computes only shapes and makes no
    arrays.

    Args:
        module: a description, which may be a part of the module whose constructor is running.
        *inputs: arguments of `forward`: arrays, `jax.ShapeDtypeStruct`s, or shapes of float32 arrays as tuples of ints.
            The arguments may be nested in lists, tuples and dicts.
        method: name of the method to run in place of `forward`.
        **kwargs: further arguments of `forward`, as in `apply`. A tuple of ints in `kwargs` is passed on as it is, not
            as a shape.

    Returns:
        the shape of the output, a tuple of ints. If the module has several outputs, the result has their nesting of
        tuples, lists or dicts, with a shape in place of each array.

    Raises:
        TypeError: if `module` is not a module.
        ValueError: if the inputs do not fit the module.

    Example:
        >>> from funcnet import nn
        >>> features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.Flatten())
        >>> nn.output_shape(features, (1, 3, 32, 32))
        (1, 1800)
        >>> nn.output_shape(nn.LSTM(4, 6), (5, 2, 4))
        ((5, 2, 6), ((1, 2, 6), (1, 2, 6)))
    """
    _check(module, "nn.output_shape")
    _, output = abstract_run(description_of(module), tuple(map(_abstract, inputs)), kwargs, method)
    return jax.tree.map(lambda leaf: tuple(np.shape(leaf)), output)


def dry_run(module: Node, *inputs: PyTree, method: str | None = None, **kwargs: object) -> Any:
    """Run a module inside a constructor, before its arrays exist. Return the output with zeros in place of arrays.

    The zeros have the shapes and dtypes that the output has in eval mode if the parameters have the inputs' dtype. The
    constructor can compute with these zeros as with the output itself. If the module has no parameters and buffers, the
    result is its actual output. Inside `forward`, the module is called as usual, so the same helper function can be
    called in the constructor and in `forward`.

    Args:
        module: a description, which may be the module whose constructor is running, or a part of this module.
        *inputs, **kwargs: arguments of `forward`: arrays or `jax.ShapeDtypeStruct`s, and any other values. The output
            for a `jax.ShapeDtypeStruct` is always zeros.
        method: name of the method to run in place of `forward`.

    Returns:
        the output, with zeros in place of arrays. Numbers, shapes and other values in the output do not change.

    Raises:
        TypeError: if `module` is not a module.
        ValueError: if the inputs do not fit the module.

    Differs from torch:
        In torch, a constructor runs the layers in training mode with their random initial weights. The run in training
        mode also changes the initial statistics of BatchNorm.

    Example:
        >>> from funcnet import nn
        >>> features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU())
        >>> y = nn.dry_run(features, jnp.zeros((1, 3, 32, 32)))
        >>> y.shape, y.reshape(1, -1).shape
        ((1, 8, 15, 15), (1, 1800))
    """
    _check(module, "nn.dry_run")
    if frame_of(module) is not None:
        return (module if method is None else getattr(module, method))(*inputs, **kwargs)
    arrays, _ = tree.arrays_of((inputs, kwargs))
    if next(walk(module), None) is None and not any(isinstance(one, jax.ShapeDtypeStruct) for one in arrays):
        params, state = (build(module, kind, lambda place: None) for kind in (Parameter, Buffer))
        return module.apply(params, state, *inputs, method=method, rng=jax.random.key(0), **kwargs)[0]
    floats = [array.dtype for array in arrays if jnp.issubdtype(array.dtype, jnp.floating)]
    dtype = jnp.result_type(*floats) if floats else None
    _, output = abstract_run(module, inputs, kwargs, method, dtype)
    blank = lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    return jax.tree.map(blank, output)


def _check(module: Node, where: str) -> None:
    if not isinstance(module, Node):
        got = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
        raise TypeError(f"{where}: expected a module, such as nn.Linear(2, 2), got {got}.")


def _abstract(value: PyTree) -> Any:
    """Return an input with a `jax.ShapeDtypeStruct` in place of each shape."""
    if type(value) is tuple and all(type(size) is int for size in value):
        return jax.ShapeDtypeStruct(value, jnp.float32)
    if type(value) in (list, tuple):
        return type(value)(map(_abstract, value))
    return {name: _abstract(item) for name, item in value.items()} if type(value) is dict else value
