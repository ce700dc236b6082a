"""Conversion of parameters to one vector and back, as in torch/nn/utils/convert_parameters.py.

The vector contains the parameters in the order of torch's `net.named_parameters()`, with the layers of a stack one
after another. A shared parameter appears once. The order comes from the net and not from the params, because JAX sorts
the keys of a dict whenever it rebuilds the dict.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import tree
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module
from funcnet.nn.state_dict.state_dict import entries_of
from funcnet.tree import Tree

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(net: Module, params: Tree) -> jax.Array:
    """Return all parameters of a net, flattened and concatenated to one vector.

    Args:
        net: the description.
        params: params of the net, or another tree of the same structure, such as gradients.

    Returns:
        a vector that contains all entries of all parameters, in the common dtype of the parameters.

    Raises:
        ValueError: if `params` lack a parameter of the net.

    Differs from torch: the arguments are params and the net, which gives the order. torch takes an iterable of tensors.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 1)
        >>> parameters_to_vector(net, {"bias": jnp.array([3.0]), "weight": jnp.array([[1.0, 2.0]])})
        Array([1., 2., 3.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parameters_to_vector.html
    """
    flat = tree.flatten(params)
    parts = [_of(flat, home, net)[layer].reshape(-1) for home, layer in _order(net)]
    if not parts:
        return jnp.zeros(0)
    with jax.numpy_dtype_promotion("standard"):
        dtype = functools.reduce(jnp.promote_types, [part.dtype for part in parts])
    return jnp.concatenate([part.astype(dtype) for part in parts])


def vector_to_parameters(net: Module, vec: jax.Array, params: Tree) -> Tree:
    """Return params with the values of a vector, in the order of `parameters_to_vector`.

    Args:
        net: the description.
        vec: vector with one entry for each entry of each parameter.
        params: tree that gives the structure, shapes and dtypes of the result. The values of the tree are not used.

    Returns:
        a tree like `params`.

    Raises:
        ValueError: if the vector has the wrong length, or `params` lack a parameter of the net.

    Differs from torch: the function returns new params, and does not change the given ones. The params keep their
    dtypes, while in torch the parameters take the dtype of the vector. A vector that is too long raises an error.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 1)
        >>> params, _ = net.init(jax.random.key(0))
        >>> vector_to_parameters(net, jnp.arange(3.0), params)["bias"]
        Array([2.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.vector_to_parameters.html
    """
    flat, order = tree.flatten(params), list(_order(net))
    shapes = [jnp.shape(_of(flat, home, net))[len(layer) :] for home, layer in order]
    sizes = [math.prod(shape) for shape in shapes]
    if jnp.shape(vec) != (sum(sizes),):
        raise ValueError(
            f"utils.vector_to_parameters: the vector has the wrong shape; expected {(sum(sizes),)}, got "
            f"{jnp.shape(vec)}. Pass one number per entry of the params."
        )
    layers: dict[str, list[jax.Array]] = {}
    start = 0
    for (home, _), size, shape in zip(order, sizes, shapes, strict=True):
        layers.setdefault(home, []).append(vec[start : start + size].reshape(shape))
        start += size

    def one(name: str, leaf: jax.Array) -> jax.Array:
        return jnp.stack(layers[name]).reshape(jnp.shape(leaf)).astype(leaf.dtype)

    return tree.map_with_name(one, params)


def _order(net: Module) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Return an iterator over the parameters of a net in torch's order, as (name in params, index of the layer in each
    stack). A shared parameter appears once.
    """
    places = ((one.home, one.layer) for one in entries_of(net) if isinstance(one.leaf, Parameter))
    return iter(dict.fromkeys(places))


def _of(flat: dict[str, Any], home: str, net: Module) -> Any:
    if home not in flat:
        raise ValueError(
            f"utils: params has no entry {home!r}; expected the params of {type(net).__name__}, got {list(flat)}. Pass "
            "all params of this net."
        )
    return flat[home]
