"""Gradient clipping, as in torch/nn/utils/clip_grad.py. The functions of this file return new gradients, and do not
change the given ones.

`optim.clip_by_global_norm(max_norm, eps=1e-6)` does the same as `clip_grad_norm`, for use in an optax chain.
"""

from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.optim.clipping import scale_to_norm, total_norm
from funcnet.tree import PyTree

__all__ = ["clip_grad_norm", "clip_grad_value", "clip_grads_with_norm", "get_total_norm"]


def clip_grad_norm(
    grads: PyTree, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> tuple[Any, jax.Array]:
    """Return `(g · min(1, max_norm / (‖g‖ + 1e-6)), ‖g‖)`. All gradients are multiplied by the same factor, which
    limits the total norm ‖g‖.

    Args:
        grads: a tree of floating arrays, or an array.
        max_norm: maximum total norm. If the total norm of the gradients is smaller, the gradients are not changed.
        norm_type: order p of the norm. With inf, the norm is the largest absolute entry.
        error_if_nonfinite: if True, a norm that is not finite raises an error. Use False under `jit`.

    Returns:
        (clipped gradients, norm). The clipped gradients have the structure and dtypes of `grads`. The returned norm is
        the total norm before clipping.

    Raises:
        ValueError: if `error_if_nonfinite` is True and the norm is not finite, or not known under `jit`.

    Differs from torch: torch's function is `clip_grad_norm_`, which takes the parameters and changes their gradients.
    In torch, `clip_grad_norm` is the old name of `clip_grad_norm_`.

    Example:
        >>> grads, norm = clip_grad_norm({"weight": jnp.array([3.0, 4.0])}, 1.0)
        >>> grads["weight"].round(3).tolist() == jnp.array([0.6, 0.8]).tolist(), float(norm)
        (True, 5.0)

    Reference: Pascanu et al., 2013, "On the difficulty of training recurrent neural networks".
    """
    norm = get_total_norm(grads, norm_type, error_if_nonfinite)
    return clip_grads_with_norm(grads, max_norm, norm), norm


def get_total_norm(tensors: PyTree, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> jax.Array:
    """Return `‖(‖g₁‖, ‖g₂‖, …)‖`. The total norm is the norm of all arrays together, computed from the norm of each
    array.

    Args:
        tensors: a tree of floating arrays, or an array.
        norm_type: order p of the norm, any number including ±inf, or 'inf'.
        error_if_nonfinite: if True, a norm that is not finite raises an error. Use False under `jit`.

    Returns:
        the total norm, a scalar in the widest dtype of the arrays. The total norm of an empty tree is 0.

    Raises:
        ValueError: if `error_if_nonfinite` is True and the norm is not finite, or not known under `jit`.

    Differs from torch: the norm of float16 and bfloat16 arrays is float32. An empty array has norm 0 for every p.

    Example:
        >>> float(get_total_norm([jnp.array([3.0]), jnp.array([-4.0])], norm_type=float("inf")))
        4.0

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.get_total_norm.html
    """
    norm = total_norm(tensors, float(norm_type))
    if error_if_nonfinite and not checks.known(norm):
        raise ValueError(
            "utils.get_total_norm: the value of the norm is not known under jit; expected "
            "error_if_nonfinite=False, got True. Check the returned norm instead."
        )
    if error_if_nonfinite and not bool(jnp.isfinite(norm)):
        raise ValueError(
            f"utils.get_total_norm: the total norm of the gradients is not finite; expected a finite norm of "
            f"order {float(norm_type)}, got {norm}. Set error_if_nonfinite=False to clip anyway."
        )
    return norm


def clip_grads_with_norm(grads: PyTree, max_norm: float, total_norm: jax.Array) -> Any:
    """Return `g · min(1, max_norm / (total_norm + 1e-6))`. The total norm is an argument of this function, and is not
    computed from the gradients.

    Args:
        grads: a tree of floating arrays, or an array.
        max_norm: maximum total norm. If `total_norm` is smaller than `max_norm`, the gradients are not changed.
        total_norm: total norm, as returned by `get_total_norm`.

    Returns:
        the clipped gradients, in the structure and dtypes of `grads`.

    Differs from torch: torch's function is `clip_grads_with_norm_`, which takes the parameters.

    Example:
        >>> clip_grads_with_norm(jnp.array([3.0, 4.0]), 10.0, jnp.array(5.0))
        Array([3., 4.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grads_with_norm_.html
    """
    return scale_to_norm(grads, max_norm, jnp.asarray(total_norm), 1e-6)


def clip_grad_value(grads: PyTree, clip_value: float) -> Any:
    """Return `min(max(g, -clip_value), clip_value)`. The function clips each entry of the gradients.

    Args:
        grads: a tree of floating arrays, or an array.
        clip_value: maximum absolute value of an entry.

    Returns:
        the clipped gradients, in the structure of `grads`.

    Differs from torch: torch's function is `clip_grad_value_`, which takes the parameters.

    Example:
        >>> clip_grad_value(jnp.array([-3.0, 0.5]), 1.0)
        Array([-1. ,  0.5], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html
    """
    bound = float(clip_value)
    return jax.tree.map(lambda g: jnp.minimum(jnp.maximum(g, -bound), bound), grads)
