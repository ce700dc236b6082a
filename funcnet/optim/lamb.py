"""LAMB as in NVIDIA's training of BERT: Adam's direction, scaled for each tensor to the norm of its weights."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from funcnet import tree
from funcnet.optim.adamw import NO_DECAY, scale_by_bert_adam
from funcnet.optim.clipping import clip_by_global_norm

__all__ = ["lamb", "scale_by_layer_norms"]


def lamb(
    learning_rate: float | optax.Schedule,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    no_decay: tree.Patterns = NO_DECAY,
    max_norm: float | None = 1.0,
    bias_correction: bool = True,
    use_nvlamb: bool = False,
) -> optax.GradientTransformation:
    """The optimizer for batches of tens of thousands: each tensor moves by a fraction of its own norm.

    g ← g · min(1, max_norm / ‖g of all tensors‖)
    m ← b1·m + (1 − b1)·g,   v ← b2·v + (1 − b2)·g²,   m̂ = m / (1 − b1ᵗ),   v̂ = v / (1 − b2ᵗ)
    u = m̂ / (√v̂ + eps) + weight_decay · p              the last term not for names in `no_decay`
    p ← p − rate · ratio · u,   ratio = ‖p‖ / ‖u‖       for each tensor; 1 where either norm is 0

    A tensor without decay keeps ratio 1, unless `use_nvlamb`: biases and LayerNorms start at 0 and 1, and their norm
    says little. So with `weight_decay=0` all tensors keep it, as in apex. A stacked leaf (`nn.Repeat(scan=True)`, the
    segment `*` in its name) holds the tensors of many layers and has a ratio for each of them, so that both forms train
    equally.

    Args:
        learning_rate: a number or a schedule (`lamb_schedule`).
        b1, b2: the decay rates of the two averages.
        eps: added outside the square root.
        weight_decay: decoupled from the gradient; it counts in ‖u‖.
        no_decay: patterns of `funcnet.tree`; `()` decays everything.
        max_norm: the limit for the norm of all gradients together, applied first; None does not clip.
        bias_correction: divide m and v by 1 − bᵗ.
        use_nvlamb: the ratio for all tensors.

    Returns:
        An `optax.GradientTransformation`; `update` needs the params.

    Raises:
        ValueError: a pattern of `no_decay` matches no parameter (shows the nearest); `max_norm` is not above 0.

    Differs from `optax.lamb`: that clips nothing, and neither it nor the paper excludes tensors from the ratio; with
    `max_norm=None, use_nvlamb=True, no_decay=()` both are the same. From the paper: the ratio is not clipped there
    either (φ is the identity). From apex's FusedLAMB: only names; NVIDIA's text divides g by its norm always,
    its code, which this follows, only where the norm is above `max_norm`.

    Example:
        >>> params = {"fc": {"weight": jnp.array([3.0, 4.0]), "bias": jnp.ones(2)}}
        >>> optimizer = lamb(0.1, no_decay="**.bias")
        >>> grads = jax.tree.map(jnp.ones_like, params)
        >>> updates, _ = optimizer.update(grads, optimizer.init(params), params)
        >>> moved = float(jnp.linalg.norm(updates["fc"]["weight"]))  # a tenth of the weight's length, 5
        >>> f"{moved:.4f}"
        '0.5000'

    Reference:
        You et al., 2020, "Large batch optimization for deep learning: training BERT in 76 minutes"; NVIDIA/apex,
        `FusedLAMB` (`csrc/multi_tensor_lamb.cu`).
    """
    undecayed = no_decay if weight_decay else "**"
    exempt = () if use_nvlamb else undecayed
    return optax.chain(
        optax.identity() if max_norm is None else clip_by_global_norm(max_norm),
        scale_by_bert_adam(b1, b2, eps, bias_correction=bias_correction),
        optax.add_decayed_weights(weight_decay, mask=lambda params: _outside(params, no_decay, "optim.lamb: no_decay")),
        scale_by_layer_norms(exempt),
        optax.scale_by_learning_rate(learning_rate),
    )


def scale_by_layer_norms(exempt: tree.Patterns = ()) -> optax.GradientTransformation:
    """u ← u · ‖p‖ / ‖u‖ for each tensor, of a stacked leaf for each layer; where either norm is 0, u stays.

    Args:
        exempt: patterns of the names whose u stays.

    Returns:
        An `optax.GradientTransformation` without state; `update` needs the params.

    Raises:
        ValueError: a pattern matches no parameter; `update` is called without params.

    Differs from `optax.scale_by_trust_ratio`: it knows stacked leaves and exemptions, and neither least norm nor
    coefficient.

    Example:
        >>> scale = scale_by_layer_norms()
        >>> params = {"layer": {"*": {"weight": jnp.array([[2.0, 0.0], [0.0, 8.0]])}}}  # two layers
        >>> updates, _ = scale.update(jax.tree.map(jnp.ones_like, params), scale.init(params), params)
        >>> (updates["layer"]["*"]["weight"] / jnp.sqrt(2)).round(3)
        Array([[1., 1.],
               [4., 4.]], dtype=float32)
    """

    def update(updates: tree.Tree, state: optax.OptState, params: tree.Tree | None = None) -> Any:
        if params is None:
            raise ValueError(
                "optim.scale_by_layer_norms: params; expected those that are trained, got none. Call update(updates, "
                "state, params)."
            )
        scaled = _outside(params, exempt, "optim.scale_by_layer_norms: exempt")
        return tree.map_with_name(_scaled, updates, params, scaled), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _outside(params: tree.Tree, patterns: tree.Patterns, where: str) -> tree.Tree:
    """True for every leaf that no pattern matches."""
    return jax.tree.map(lambda inside: not inside, tree.mask(params, patterns, where=where))


def _scaled(name: str, update: jax.Array, param: jax.Array, is_scaled: bool) -> jax.Array:
    if not is_scaled:
        return update
    layers = name.split(".").count(tree.STACKED)
    long, short = _norm(param, layers), _norm(update, layers)
    usable = (long > 0) & (short > 0)
    ratio = jnp.where(usable, long / jnp.where(usable, short, 1), 1)
    return update * ratio.astype(update.dtype)


def _norm(x: jax.Array, layers: int) -> jax.Array:
    """Over all but the first `layers` axes, which stay; in float32 at least."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return jnp.sqrt(jnp.sum(wide * wide, axis=tuple(range(layers, x.ndim)), keepdims=True))
