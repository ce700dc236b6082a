"""Find the parameters on which a loss does not depend, while the gradient of the loss is traced.

In torch, the `grad` of such a parameter is None, and an optimizer skips the parameter. In JAX, its gradient is an array
of zeros, so weight decay would change the parameter.
"""

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from funcnet import tree

__all__ = ["restore_unused", "watch"]


def watch(params: tree.Tree, unused: set[str]) -> tree.Tree:
    """Return `params` unchanged. When a loss that is computed from the returned parameters is differentiated, record in
    `unused` which parameters the loss does not use.

    If a gradient is zero for every value of the inputs, JAX passes a `SymbolicZero` instead of an array to the backward
    pass of a `custom_vjp` with `symbolic_zeros`. The function `identity` below finds the unused parameters by looking
    for `SymbolicZero`s. `identity` adds nothing to the compiled program.

    Args:
        params: parameters, nested dicts.
        unused: set with the names of all parameters. The backward pass removes the names of the parameters that the
            loss uses.

    Example:
        >>> params = {"a": jnp.ones(2), "b": jnp.ones(2), "c": jnp.ones(2)}
        >>> def loss(params):
        ...     params = watch(params, unused)
        ...     return (params["a"] * jax.lax.stop_gradient(params["b"])).sum()
        >>> unused = {"a", "b", "c"}
        >>> grads = jax.grad(loss)(params)
        >>> sorted(unused)
        ['b', 'c']
    """

    @jax.custom_vjp
    def identity(params):
        return params

    def forward(params):
        return jax.tree.map(lambda leaf: leaf.value, params), None

    def backward(_, gradients):
        unused.difference_update(name for name, leaf in tree.flatten(gradients).items() if not _is_zero(leaf))
        zeros = lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if _is_zero(leaf) else leaf
        return (jax.tree.map(zeros, gradients, is_leaf=_is_zero),)

    identity.defvjp(forward, backward, symbolic_zeros=True)
    return identity(params)


def restore_unused(moved: tree.Tree, before: tree.Tree, unused: set[str]) -> tree.Tree:
    """Return the parameters after an update, except that parameters that the loss does not use keep their old values.

    Args:
        moved: parameters after the update.
        before: parameters before the update.
        unused: names from `watch`.
    """
    return tree.map_with_name(lambda name, after, own: own if name in unused else after, moved, before)


def _is_zero(leaf: object) -> bool:
    return isinstance(leaf, SymbolicZero)
