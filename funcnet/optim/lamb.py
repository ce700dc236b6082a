"""LAMB as in NVIDIA's training of BERT. Adam's update of each tensor is scaled in proportion to the tensor's norm."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from funcnet import tree
from funcnet.arguments import boolean, patterns
from funcnet.optim.adamw import NO_DECAY, scale_by_bert_adam
from funcnet.optim.clipping import clip_by_global_norm
from funcnet.optim.hyperparameters import check_adam, check_decay, check_rate

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
    """Return the LAMB optimizer, for batches of tens of thousands of rows.

    Each update changes a tensor by a fraction of the tensor's norm:

    g ← g · min(1, max_norm / ‖g of all tensors‖)
    m ← b1·m + (1 − b1)·g,   v ← b2·v + (1 − b2)·g²,   m̂ = m / (1 − b1ᵗ),   v̂ = v / (1 − b2ᵗ)
    u = m̂ / (√v̂ + eps) + weight_decay · p              (without weight_decay · p if p is in `no_decay`)
    p ← p − rate · ratio · u,   ratio = ‖p‖ / ‖u‖       (for each tensor; 1 if either norm is 0)

    The factor `ratio` is called the trust ratio. If `use_nvlamb` is False, the trust ratio of a tensor without weight
    decay is 1. Tensors without weight decay are usually biases and LayerNorm weights, which start at 0 and 1, so their
    norms are not meaningful. With `weight_decay=0`, the ratio of all tensors is therefore 1, as in apex. A stacked leaf
    (`nn.Repeat(scan=True)`, with the segment `*` in its name) contains the tensors of many layers. A stacked leaf has
    one ratio per layer, so that stacked and unstacked layers train equally.

    Args:
        learning_rate: a number or a schedule, such as `lamb_schedule`.
        b1, b2: decay rates of the moving averages m and v.
        eps: number that is added to the denominator, outside the square root.
        weight_decay: coefficient of the decoupled weight decay, which is part of u and of its norm.
        no_decay: name patterns of the parameters without weight decay (see `funcnet.tree`). With `()`, all parameters
            have weight decay.
        max_norm: maximum norm of all gradients together. Gradients are clipped before the moving averages are updated.
            None disables clipping.
        bias_correction: if True, compute m̂ and v̂ with the formulas above. If False, use m and v in place of m̂ and
            v̂.
        use_nvlamb: if True, use the trust ratio for all tensors, including those without weight decay.

    Returns:
        An `optax.GradientTransformation`, whose `update` requires the params.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a number is out of range, or if a pattern of `no_decay` matches no parameter (the message shows
            the closest names).

    Differs from `optax.lamb`: gradients are clipped, and tensors without weight decay are excluded from the trust
    ratio. The paper, like `optax.lamb`, does not exclude tensors without weight decay.
    With `max_norm=None, use_nvlamb=True, no_decay=()`, both optimizers are the same. As in `optax.lamb`, the trust
    ratio is not clipped, so the paper's φ is the identity. Apex's FusedLAMB differs only in names. In NVIDIA's
    description, the gradient g is always divided by its norm. In NVIDIA's code, g is divided only if the norm is above
    `max_norm`. The function `lamb` follows NVIDIA's code.

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
    where = "optim.lamb"
    check_rate(where, learning_rate)
    check_adam(where, b1, b2, eps, bias_correction)
    check_decay(where, weight_decay, no_decay)
    boolean(where, "use_nvlamb", use_nvlamb)
    is_known = not isinstance(weight_decay, jax.Array)  # an array inside optax.inject_hyperparams
    scale = scale_by_layer_norms(() if use_nvlamb else "**" if is_known and not weight_decay else no_decay)
    if not is_known and not use_nvlamb:
        scale = _only_if(jnp.asarray(weight_decay != 0), scale)
    return optax.chain(
        optax.identity() if max_norm is None else clip_by_global_norm(max_norm),
        scale_by_bert_adam(b1, b2, eps, bias_correction=bias_correction),
        optax.add_decayed_weights(weight_decay, mask=lambda params: _outside(params, no_decay, "optim.lamb: no_decay")),
        scale,
        optax.scale_by_learning_rate(learning_rate),
    )


def scale_by_layer_norms(exempt: tree.Patterns = ()) -> optax.GradientTransformation:
    """Return a transformation that multiplies the update u of each parameter p by the trust ratio ‖p‖ / ‖u‖.

    A stacked leaf has one ratio per layer. The ratio is 1 if either norm is 0.

    Args:
        exempt: name patterns of the parameters whose updates are not scaled.

    Returns:
        An `optax.GradientTransformation` without state, whose `update` requires the params.

    Raises:
        ValueError: if a pattern matches no parameter, or `update` is called without params.

    Differs from `optax.scale_by_trust_ratio`: this function supports stacked leaves and exemptions, but has no minimum
    norm and no trust coefficient.

    Example:
        >>> scale = scale_by_layer_norms()
        >>> params = {"layer": {"*": {"weight": jnp.array([[2.0, 0.0], [0.0, 8.0]])}}}  # two layers
        >>> updates, _ = scale.update(jax.tree.map(jnp.ones_like, params), scale.init(params), params)
        >>> (updates["layer"]["*"]["weight"] / jnp.sqrt(2)).round(3)
        Array([[1., 1.],
               [4., 4.]], dtype=float32)
    """

    patterns("optim.scale_by_layer_norms", "exempt", exempt)

    def update(updates: tree.Tree, state: optax.OptState, params: tree.Tree | None = None) -> Any:
        if params is None:
            raise ValueError(
                "optim.scale_by_layer_norms: params are missing; expected the trained params, got None. Call "
                "update(updates, state, params)."
            )
        scaled = _outside(params, exempt, "optim.scale_by_layer_norms: exempt")
        return tree.map_with_name(_scaled, updates, params, scaled), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _only_if(condition: jax.Array, transformation: optax.GradientTransformation) -> optax.GradientTransformation:
    """Return a transformation without state that leaves the updates as they are where `condition` is false."""

    def update(updates: tree.Tree, state: optax.OptState, params: tree.Tree | None = None) -> Any:
        changed, state = transformation.update(updates, state, params)
        return jax.tree.map(lambda new, old: jnp.where(condition, new, old), changed, updates), state

    return optax.GradientTransformation(transformation.init, update)


def _outside(params: tree.Tree, patterns: tree.Patterns, where: str) -> tree.Tree:
    """Return a tree of bools: True for each leaf that no pattern matches, and False for the others."""
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
    """Return the norm of an array over all axes except the first `layers` axes, computed in at least float32. All axes
    are kept.
    """
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return jnp.sqrt(jnp.sum(wide * wide, axis=tuple(range(layers, x.ndim)), keepdims=True))
