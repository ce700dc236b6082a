"""Losses on distances between embeddings. Letters: `B batch, D embedding dimension`.

Sums are computed in at least float32. The docstring of loss.py describes the arguments `reduction`, `size_average` and
`reduce`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.distance import pairwise_distance
from funcnet.functional.reduction import EPSILON, broadcast, clamp_at_zero, reduced

__all__ = ["cosine_embedding_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss"]


def cosine_embedding_loss(
    input1: jax.Array,
    input2: jax.Array,
    target: jax.Array,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `1 - cos(x1, x2)` for similar pairs, and `max(0, cos(x1, x2) - margin)` for dissimilar pairs.

    The cosine is `cos(x1, x2) = x1·x2 / √((x1·x1 + 1e-12) (x2·x2 + 1e-12))`.

    Args:
        input1, input2: floating-point arrays, both of shape (B, D) or both of shape (D,).
        target: integer or floating-point array of shape (B,), or () without a batch. 1 marks a similar pair and -1 a
            dissimilar pair. The loss of any other target is 0.
        margin: largest cosine at which the loss of a dissimilar pair is 0.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array (B,) for 'none', in the inputs' dtype.

    Raises:
        ValueError: if the ranks or shapes do not match, or `reduction` is unknown.
        TypeError: if an input is not floating-point, or the dtypes of the inputs differ.

    Example:
        >>> cosine_embedding_loss(jnp.eye(2), jnp.ones((2, 2)), jnp.array([1, -1]), reduction="none").round(4)
        Array([0.2929, 0.7071], dtype=float32)

    Reference: torch.nn.functional.cosine_embedding_loss.
    """
    where = "F.cosine_embedding_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    input1, input2 = checks.floating(where, "input1", input1), checks.floating(where, "input2", input2)
    checks.one_dtype(where, input1=input1, input2=input2)
    target = jnp.asarray(target)
    if target.ndim > 1 or not input1.ndim == input2.ndim == target.ndim + 1:
        raise ValueError(
            f"{where}: the ranks do not match; expected inputs (batch, width) with a target (batch,), or inputs "
            f"(width,) with a target (), got {input1.shape}, {input2.shape} and {target.shape}. Squeeze or add a "
            "dimension."
        )
    x1, x2 = _wide(input1), _wide(input2)
    broadcast(where, input1=x1, input2=x2)
    cosine = (x1 * x2).sum(-1) / (_length(x1) * _length(x2))
    broadcast(where, inputs=cosine, target=target)
    near, far = 1 - cosine, clamp_at_zero(cosine - margin)
    losses = jnp.where(target == 1, near, 0) + jnp.where(target == -1, far, 0)
    return reduced(losses, reduction).astype(input1.dtype)


def triplet_margin_loss(
    anchor: jax.Array,
    positive: jax.Array,
    negative: jax.Array,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `max(0, d(a, p) - d(a, n) + margin)` for anchor a, positive p and negative n.

    The distance is `d(x, y) = ‖x - y + eps‖_p`, where the subscript p is the order of the norm, not the positive.

    Args:
        anchor, positive, negative: floating-point arrays of shape (*, D), of the same rank, whose shapes broadcast.
        margin: smallest difference `d(a, n) - d(a, p)` at which the loss is 0. It must be positive.
        p: order of the norm.
        eps: number added to every difference.
        swap: if True, the smaller of `d(anchor, negative)` and `d(positive, negative)` replaces `d(anchor, negative)`.
        size_average, reduce: deprecated; see the docstring of loss.py.
        reduction: 'mean', 'sum' or 'none'.

    Returns:
        A scalar, or an array (*) for 'none', in the inputs' dtype.

    Raises:
        ValueError: if the ranks differ, the shapes do not broadcast, `reduction` is unknown, or the margin is not
            positive.
        TypeError: if an array is not floating-point, or the dtypes differ.

    Example:
        >>> triplet_margin_loss(jnp.zeros((1, 2)), jnp.ones((1, 2)), -jnp.ones((1, 2))).round(4)
        Array(1., dtype=float32)

    Reference: torch.nn.functional.triplet_margin_loss; Balntas et al. 2016 for `swap`.
    """
    where = "F.triplet_margin_loss"
    reduction = checks.reduction_name(where, reduction, size_average, reduce)
    distance = lambda x, y: pairwise_distance(_wide(x), _wide(y), p, eps)
    return _triplet(where, anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: jax.Array,
    positive: jax.Array,
    negative: jax.Array,
    *,
    distance_function: Callable[[jax.Array, jax.Array], jax.Array] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> jax.Array:
    """Compute `max(0, d(a, p) - d(a, n) + margin)`, as `triplet_margin_loss` does, with a custom distance d.

    Args:
        anchor, positive, negative: floating-point arrays of the same rank, which are passed to the distance function.
        distance_function: function d of two arrays; None means `pairwise_distance`. The distance function receives the
            arrays unchanged, and its result is cast to at least float32.
        margin, swap, reduction: as in `triplet_margin_loss`.

    Returns:
        A scalar, or an array of the distance's shape for 'none', in the inputs' dtype.

    Raises:
        ValueError, TypeError: as in `triplet_margin_loss`.

    Example:
        >>> city = lambda x, y: jnp.abs(x - y).sum(-1)
        >>> triplet_margin_with_distance_loss(
        ...     jnp.zeros((1, 2)), jnp.ones((1, 2)), 2 * jnp.ones((1, 2)), distance_function=city, margin=3.0
        ... )
        Array(1., dtype=float32)

    Reference: torch.nn.functional.triplet_margin_with_distance_loss.
    """
    where = "F.triplet_margin_with_distance_loss"
    reduction = checks.reduction_name(where, reduction)
    distance = distance_function or (lambda x, y: pairwise_distance(_wide(x), _wide(y)))
    return _triplet(where, anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    where: str,
    anchor: jax.Array,
    positive: jax.Array,
    negative: jax.Array,
    distance: Callable[[jax.Array, jax.Array], jax.Array],
    margin: float,
    swap: bool,
    reduction: str,
) -> jax.Array:
    anchor, positive, negative = (
        checks.floating(where, name, array)
        for name, array in (("anchor", anchor), ("positive", positive), ("negative", negative))
    )
    checks.one_dtype(where, anchor=anchor, positive=positive, negative=negative)
    if margin <= 0:
        raise ValueError(f"{where}: margin is not positive; expected more than 0, got {margin}.")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ValueError(
            f"{where}: the arguments differ in rank; expected equal numbers of dimensions, got anchor {anchor.shape}, "
            f"positive {positive.shape}, negative {negative.shape}."
        )
    broadcast(where, anchor=anchor, positive=positive, negative=negative)
    apart = lambda x, y: _wide(distance(x, y))
    far = apart(anchor, negative)
    if swap:
        far = jnp.minimum(far, apart(positive, negative))
    return reduced(clamp_at_zero(margin + apart(anchor, positive) - far), reduction).astype(anchor.dtype)


def _wide(x: jax.Array) -> jax.Array:
    return x.astype(checks.wide_dtype(x))


def _length(x: jax.Array) -> jax.Array:
    # Two roots instead of the root of a product, because the product overflows where neither length does.
    return jnp.sqrt((x * x).sum(-1) + jnp.asarray(EPSILON, x.dtype))
