"""Clip gradients by their global norm. One factor multiplies all gradients, so their direction is unchanged."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from funcnet.arguments import number
from funcnet.tree import PyTree

__all__ = ["clip_by_global_norm", "scale_to_norm", "total_norm"]


def clip_by_global_norm(max_norm: float, eps: float = 0.0) -> optax.GradientTransformation:
    """Return a transformation that limits the norm of all gradients together (the global norm) to `max_norm`.

    g ← g · min(1, max_norm / (‖g‖ + eps)),  ‖g‖ = sqrt(sum of the squares of all entries of all leaves)

    All gradients g are multiplied by the same factor. With `eps=0`, the formula is that of TensorFlow's
    `clip_by_global_norm`, which BERT was trained with. With `eps=1e-6`, the formula is that of torch's
    `clip_grad_norm_`, which makes a clipped gradient slightly smaller. `nn.utils.clip_grad_norm` applies the same
    formula as a function.

    Args:
        max_norm: maximum global norm, above 0.
        eps: number that is added to the norm before dividing.

    Returns:
        An `optax.GradientTransformation` without state.

    Raises:
        TypeError: if an argument is not a number.
        ValueError: if `max_norm` is not above 0, or `eps` is negative.

    Example:
        >>> clip = clip_by_global_norm(1.0)
        >>> grads, _ = clip.update({"weight": jnp.array([3.0, 4.0])}, clip.init(None))
        >>> grads["weight"]
        Array([0.6, 0.8], dtype=float32)

    Reference:
        Pascanu et al., 2013, "On the difficulty of training recurrent neural networks".
    """
    where, advice = "optim.clip_by_global_norm", "Omit this transformation to train without clipping."
    number(where, "max_norm", max_norm, 0, above=True, advice=advice)
    number(where, "eps", eps, 0)

    def update(grads, state, params=None):
        del params
        return scale_to_norm(grads, max_norm, total_norm(grads), eps), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def total_norm(tree: PyTree, norm_type: float = 2.0) -> jax.Array:
    """Return the p-norm of the p-norms of all leaves, where p is `norm_type`.

    If p is positive, the result is the p-norm of all entries together. If there are no leaves, the result is 0. The
    result has the widest dtype of the leaves, but at least float32. A leaf that is not an array raises a TypeError.

    >>> float(total_norm({"weight": jnp.array([3.0]), "bias": jnp.array([-4.0])}))
    5.0
    """
    leaves = jax.tree.leaves(tree)
    if not all(hasattr(leaf, "dtype") and hasattr(leaf, "ndim") for leaf in leaves):
        raise TypeError(
            f"optim: the norm needs gradients; expected a tree of arrays, as jax.grad returns it, got "
            f"{type(tree).__name__}. Pass the gradients, not the net or its parameters()."
        )
    leaves = [_at_least_float32(leaf) for leaf in leaves]
    if not leaves:
        return jnp.zeros(())
    norms = [_norm(leaf, norm_type) for leaf in leaves]
    dtype = max((norm.dtype for norm in norms), key=lambda d: d.itemsize)
    return _norm(jnp.stack([norm.astype(dtype) for norm in norms]), norm_type)


def scale_to_norm(tree: PyTree, max_norm: ArrayLike, norm: jax.Array, eps: float) -> Any:
    """Multiply every leaf by min(1, max_norm / (norm + eps)). The factor is cast to the dtype of the leaf."""
    scale = jnp.minimum(1.0, max_norm / (norm + eps))
    return jax.tree.map(lambda leaf: leaf * scale.astype(leaf.dtype), tree)


def _norm(x: jax.Array, p: float) -> jax.Array:
    size = jnp.abs(x)
    if math.isinf(p):
        extreme = jnp.max(size, initial=0) if p > 0 else jnp.min(size, initial=jnp.inf)
        return jnp.where(jnp.isnan(size).any(), jnp.nan, extreme)  # XLA's maximum drops NaN on CPU
    if p == 0:
        return jnp.sum(x != 0).astype(size.dtype)
    if p == 2:
        return jnp.sqrt(jnp.sum(size * size))
    return jnp.sum(size) if p == 1 else jnp.sum(size**p) ** (1 / p)


def _at_least_float32(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
