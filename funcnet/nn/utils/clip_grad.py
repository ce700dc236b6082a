"""Clipping of gradients, as in torch/nn/utils/clip_grad.py: these functions return what torch changes in place.

`optim.clip_by_global_norm(max_norm, eps=1e-6)` is `clip_grad_norm` as a link in a chain of optax.
"""

from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.optim.clipping import scale_to_norm, total_norm

__all__ = ["clip_grad_norm", "clip_grad_value", "clip_grads_with_norm", "get_total_norm"]


def clip_grad_norm(
    grads: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> tuple[Any, jax.Array]:
    """(g · min(1, max_norm / (‖g‖ + 1e-6)), ‖g‖): one factor for all gradients.

    Args:
        grads: a tree of floating arrays, or an array.
        max_norm: the largest norm that is not clipped.
        norm_type: the p of the norm; inf for the largest entry.
        error_if_nonfinite: whether a norm that is not finite is an error; not under `jit`.

    Returns:
        (grads of the same structure and dtypes, the norm before clipping as in `get_total_norm`).

    Raises:
        ValueError: see `get_total_norm`.

    Differs from torch: named `clip_grad_norm_` there, and takes the parameters; this old name of it is pure here.

    Example:
        >>> grads, norm = clip_grad_norm({"weight": jnp.array([3.0, 4.0])}, 1.0)
        >>> grads["weight"].round(3).tolist() == jnp.array([0.6, 0.8]).tolist(), float(norm)
        (True, 5.0)

    Reference: Pascanu et al., 2013, "On the difficulty of training recurrent neural networks".
    """
    norm = get_total_norm(grads, norm_type, error_if_nonfinite)
    return clip_grads_with_norm(grads, max_norm, norm), norm


def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> jax.Array:
    """‖(‖g₁‖, ‖g₂‖, …)‖: the norm of all arrays together, computed from the norm of each.

    Args:
        tensors: a tree of floating arrays, or an array.
        norm_type: the p of the norm: any number, inf, -inf or 'inf'.
        error_if_nonfinite: whether a norm that is not finite is an error; not under `jit`.

    Returns:
        A scalar in the widest dtype given; 0 for an empty tree.

    Raises:
        ValueError: the norm is not finite, or not known and `error_if_nonfinite`.

    Differs from torch: of float16 and bfloat16 the norm is float32; an empty array has norm 0 for every p.

    Example:
        >>> float(get_total_norm([jnp.array([3.0]), jnp.array([-4.0])], norm_type=float("inf")))
        4.0

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.get_total_norm.html
    """
    norm = total_norm(tensors, float(norm_type))
    if error_if_nonfinite and not checks.known(norm):
        raise ValueError(
            "utils.get_total_norm: whether the norm is finite is not known under jit; expected "
            "error_if_nonfinite=False there, got True. Check the returned norm instead."
        )
    if error_if_nonfinite and not bool(jnp.isfinite(norm)):
        raise ValueError(
            f"utils.get_total_norm: no gradient can be clipped by a norm that is not finite; expected a finite norm of "
            f"order {float(norm_type)}, got {norm}. Set error_if_nonfinite=False to clip anyway."
        )
    return norm


def clip_grads_with_norm(grads: Any, max_norm: float, total_norm: jax.Array) -> Any:
    """g · min(1, max_norm / (total_norm + 1e-6)), for a given norm.

    Args:
        grads: a tree of floating arrays, or an array.
        max_norm: the largest norm that is not clipped.
        total_norm: as `get_total_norm` returns it.

    Returns:
        As `grads`.

    Differs from torch: named `clip_grads_with_norm_` there, and takes the parameters.

    Example:
        >>> clip_grads_with_norm(jnp.array([3.0, 4.0]), 10.0, jnp.array(5.0))
        Array([3., 4.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grads_with_norm_.html
    """
    return scale_to_norm(grads, max_norm, jnp.asarray(total_norm), 1e-6)


def clip_grad_value(grads: Any, clip_value: float) -> Any:
    """min(max(g, -clip_value), clip_value), entry by entry.

    Args:
        grads: a tree of floating arrays, or an array.
        clip_value: the largest size of an entry.

    Returns:
        As `grads`.

    Differs from torch: named `clip_grad_value_` there, and takes the parameters.

    Example:
        >>> clip_grad_value(jnp.array([-3.0, 0.5]), 1.0)
        Array([-1. ,  0.5], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html
    """
    bound = float(clip_value)
    return jax.tree.map(lambda g: jnp.minimum(jnp.maximum(g, -bound), bound), grads)
