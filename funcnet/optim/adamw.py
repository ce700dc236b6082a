"""BERT's AdamW: Adam without bias correction, and with decoupled weight decay except for biases and LayerNorms."""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from funcnet import tree
from funcnet.optim.clipping import clip_by_global_norm
from funcnet.optim.hyperparameters import check_adam, check_decay, check_rate, check_rates

__all__ = ["NO_DECAY", "BertAdamState", "bert_adamw", "scale_by_bert_adam"]

NO_DECAY = ("**.bias", "**.LayerNorm")
"""The parameters without weight decay by BERT's rule, under Hugging Face's names of BERT's parameters."""


class BertAdamState(NamedTuple):
    """The state of `scale_by_bert_adam`.

    Attributes:
        count: number of updates so far, int32.
        mu, nu: moving averages of the gradient and of its square, with the structure of params.
    """

    count: jax.Array  # type: ignore[assignment]  # optax's name for this field, but tuples have a method `count`
    mu: Any
    nu: Any


def bert_adamw(
    learning_rate: float | optax.Schedule,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    no_decay: tree.Patterns = NO_DECAY,
    max_norm: float | None = 1.0,
    bias_correction: bool = False,
    rates: Mapping[str, float] | None = None,
) -> optax.GradientTransformation:
    """Return the optimizer that BERT was pretrained with.

    g ← g · min(1, max_norm / ‖g‖)
    m ← b1·m + (1 − b1)·g,   v ← b2·v + (1 − b2)·g²
    p ← p − rate · (m / (√v + eps) + weight_decay · p)     (without weight_decay · p if p is in `no_decay`)

    Args:
        learning_rate: a number or a schedule, such as `warmup_linear_decay`.
        b1, b2: decay rates of the moving averages m and v.
        eps: number that is added to the denominator, outside the square root.
        weight_decay: coefficient of the decoupled weight decay, which is multiplied by the learning rate.
        no_decay: name patterns of the parameters without weight decay (see `funcnet.tree`). With `()`, all parameters
            have weight decay.
        max_norm: maximum norm of all gradients together. Gradients with a larger norm are clipped with TensorFlow's
            formula. None disables clipping.
        bias_correction: if True, divide m by 1 − b1ᵗ and v by 1 − b2ᵗ, where t is the number of updates. With
            `bias_correction=True` and `max_norm=None`, the update rule is that of `torch.optim.AdamW`.
        rates: {name pattern: multiplier of the learning rate}, like torch's parameter groups. If several patterns match
            a parameter, the last one is used. If no pattern matches a parameter, its multiplier is 1.

    Returns:
        An `optax.GradientTransformation`, whose `update` requires the params.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if a number is out of range, or if a pattern of `no_decay` or `rates` matches no parameter (the
            message shows the closest names).

    Example:
        >>> params = {"fc": {"weight": jnp.ones(2), "bias": jnp.ones(2)}}
        >>> optimizer = bert_adamw(0.1, no_decay="**.bias", max_norm=None)
        >>> grads = jax.tree.map(jnp.zeros_like, params)
        >>> updates, _ = optimizer.update(grads, optimizer.init(params), params)
        >>> optax.apply_updates(params, updates)["fc"]
        {'bias': Array([1., 1.], dtype=float32), 'weight': Array([0.999, 0.999], dtype=float32)}

    Reference:
        google-research/bert, `optimization.py`, `AdamWeightDecayOptimizer`; Loshchilov and Hutter, 2019, "Decoupled
        weight decay regularization".
    """
    where = "optim.bert_adamw"
    check_rate(where, learning_rate)
    check_adam(where, b1, b2, eps, bias_correction)
    check_decay(where, weight_decay, no_decay)
    check_rates(where, rates)
    return optax.chain(
        optax.identity() if max_norm is None else clip_by_global_norm(max_norm),
        scale_by_bert_adam(b1, b2, eps, bias_correction=bias_correction),
        optax.add_decayed_weights(weight_decay, mask=lambda params: _decayed(params, no_decay)),
        optax.scale_by_learning_rate(learning_rate),
        optax.identity() if rates is None else optax.stateless(functools.partial(_scaled, rates=rates)),
    )


def scale_by_bert_adam(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-6, *, bias_correction: bool = False
) -> optax.GradientTransformation:
    """Return a transformation of gradients to Adam's update m / (√v + eps), by default without bias correction.

    `optax.scale_by_adam` always corrects the bias, and with `nesterov=True` it uses a different formula. Without bias
    correction, the first updates are about three times as large, because (1 − b1) / √(1 − b2) = 3.2. Warm-up hides this
    effect.

    See `bert_adamw` for the arguments and the reference.

    Example:
        >>> adam = scale_by_bert_adam()
        >>> updates, _ = adam.update({"weight": jnp.ones(1)}, adam.init({"weight": jnp.ones(1)}))
        >>> print(f"{updates['weight'][0]:.4f}")
        3.1622
    """

    check_adam("optim.scale_by_bert_adam", b1, b2, eps, bias_correction)

    def init(params):
        return BertAdamState(
            count=jnp.zeros((), jnp.int32),
            mu=jax.tree.map(jnp.zeros_like, params),
            nu=jax.tree.map(jnp.zeros_like, params),
        )

    def update(grads, state, params=None):
        del params
        count = optax.safe_increment(state.count)
        mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
        nu = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.nu, grads)
        m_scale, v_scale = (_power_missing(b1, count), _power_missing(b2, count)) if bias_correction else (1.0, 1.0)
        updates = jax.tree.map(lambda m, v: (m / _like(m_scale, m)) / (jnp.sqrt(v / _like(v_scale, v)) + eps), mu, nu)
        return updates, BertAdamState(count, mu, nu)

    return optax.GradientTransformation(init, update)


def _power_missing(base: float | jax.Array, count: jax.Array) -> float | jax.Array:
    """Return 1 - base**count. In float32, this formula would lose four digits at base 0.999, so `expm1` is used
    instead. `base` is an array inside `optax.inject_hyperparams`.
    """
    if not isinstance(base, jax.Array) and base == 0:
        return 1.0
    log = jnp.log(base) if isinstance(base, jax.Array) else math.log(base)
    return -jnp.expm1(count.astype(jnp.result_type(float)) * log)


def _like(scale: float | jax.Array, x: jax.Array) -> float | jax.Array:
    return scale if isinstance(scale, float) else scale.astype(x.dtype)


def _scaled(updates: tree.Tree, params: tree.Tree | None, *, rates: Mapping[str, float]) -> tree.Tree:
    del params
    factors = tree.assign(rates, tree.flatten(updates), 1.0, where="optim.bert_adamw: rates")
    # an update is an array, or an optax.MaskedNode if another optimizer updates the parameter
    return tree.map_with_name(lambda name, update: jax.tree.map(lambda u: factors[name] * u, update), updates)


def _decayed(params: tree.Tree, no_decay: tree.Patterns) -> tree.Tree:
    exempt = tree.mask(params, no_decay, where="optim.bert_adamw: no_decay")
    return jax.tree.map(lambda is_exempt: not is_exempt, exempt)
