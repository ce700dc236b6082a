"""Clipping by the global norm: one scale for all gradients together, so that their direction stays."""

import jax
import jax.numpy as jnp
import optax

__all__ = ["clip_by_global_norm"]


def clip_by_global_norm(max_norm: float, eps: float = 0.0) -> optax.GradientTransformation:
    """Scale all gradients by one factor, so that their common norm is at most `max_norm`.

    g ← g · min(1, max_norm / (‖g‖ + eps)),  ‖g‖ = sqrt(sum of the squares of all entries of all leaves)

    With `eps=0` this is TensorFlow's `clip_by_global_norm`, what BERT was trained with; with `eps=1e-6` it is torch's
    `clip_grad_norm_`, which shrinks a clipped gradient a little further.

    Args:
        max_norm: the largest norm that stays as it is, above 0.
        eps: added to the norm before dividing.

    Returns:
        An `optax.GradientTransformation` without state.

    Raises:
        ValueError: `max_norm` is not above 0.

    Example:
        >>> clip = clip_by_global_norm(1.0)
        >>> grads, _ = clip.update({"weight": jnp.array([3.0, 4.0])}, clip.init(None))
        >>> grads["weight"]
        Array([0.6, 0.8], dtype=float32)

    Reference:
        Pascanu et al., 2013, "On the difficulty of training recurrent neural networks".
    """
    if not max_norm > 0:
        raise ValueError(
            f"optim.clip_by_global_norm: max_norm; expected a number above 0, got {max_norm}. "
            "Leave the transformation out to train without clipping."
        )

    def update(grads, state, params=None):
        del params
        norm = optax.tree.norm(jax.tree.map(_at_least_float32, grads))
        scale = jnp.minimum(1.0, max_norm / (norm + eps))
        return jax.tree.map(lambda g: g * scale.astype(g.dtype), grads), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _at_least_float32(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
