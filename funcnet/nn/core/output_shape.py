"""The shape of a module's output, and zeros of that shape, for constructors that run a layer to learn a size."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.nn.core.lazy import abstract_run
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.core.parts import Node, build, description_of, frame_of, walk
from funcnet.tree import PyTree

__all__ = ["dry_run", "output_shape"]


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
