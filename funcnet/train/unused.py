"""The parameters on which a loss does not depend, found while its gradient is traced.

In torch, their `grad` is None, and an optimizer skips them. In JAX, their gradient is an array of zeros, so weight
decay would move them.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from funcnet import tree

__all__ = ["restore_unused", "watch"]


def watch(params: tree.Tree, unused: set[str]) -> tree.Tree:
    """Return `params`, and find out which of them a loss uses when the loss of the result is differentiated.

    JAX gives a `custom_vjp` with `symbolic_zeros` a `SymbolicZero` in place of a gradient that is zero for every value
    of the inputs. The identity below looks for these. It adds nothing to the compiled program.

    Args:
        params: parameters, nested dicts.
        unused: set with the names of all parameters. The backward pass removes the names of those that the loss uses.

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
    """Return the parameters after an update, where the unused ones have their values from before.

    Args:
        moved: parameters after the update.
        before: parameters before the update.
        unused: names from `watch`.
    """
    return tree.map_with_name(lambda name, after, own: own if name in unused else after, moved, before)


def _is_zero(leaf: Any) -> bool:
    return isinstance(leaf, SymbolicZero)
