"""The core of attention, which turns scores into weights and takes the weighted mean of the values.

`scaled_dot_product_attention`, `multi_head_attention_forward` and BERT's self-attention all call `attend`. The callers
of `attend` use different masks, and they need different results for a query whose scores are all -inf. The argument
`masks` of `attend` contains the masks, and `hidden_row` selects the weights of a query whose scores are all -inf.

Here and in `attention_blocks`, a mask means the same: True in a boolean mask hides a position, and a floating-point
mask is added to the scores (`masked`).

Letters: `H heads, L queries, S keys, E width of a head, V width of a value`. An asterisk stands for the leading
dimensions. They include the heads, unless the heads are last.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.softmax import softmax
from funcnet.operators.graph.recording import recorded

__all__ = ["attend", "default_scale", "masked", "masked_softmax"]


@recorded
def attend(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *masks: jax.Array | None,
    scale: float | None = None,
    hidden_row: float | None = None,
    dropout: Callable[[jax.Array], jax.Array] | None = None,
    dtype: jnp.dtype | None = None,
    heads_last: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Compute `dropout(softmax(query·keyᵀ·scale + masks))·value` for each head, without checking the arguments.

    Args:
        query: array of shape (*, L, E).
        key: array of shape (*, S, E).
        value: array of shape (*, S, V).
        *masks: masks, and scores of relative positions, which are applied to the scores in the given order; see
            `masked`. Each mask must broadcast to (*, L, S). A mask of None is skipped.
        scale: factor that multiplies the scores; None means `1 / √E`.
        hidden_row: value of the weights of a query whose scores are all -inf. This value is 0 or NaN. If the value is
            0, the derivatives of these weights are 0 too. Pass None if all masks are finite, because a query then has
            at least one finite score.
        dropout: function that is applied to the weights. `attend` does not rescale the weights after dropout. None
            means no dropout.
        dtype: dtype of the scores and weights; None means float32, or the query's dtype if it is wider. The softmax
            itself uses at least float32.
        heads_last: if True, the heads come after the sequence in query, key, value and output, as in (*, L, H, E),
            which is the layout after a projection. If `heads_last` is False, the heads come before the sequence, as in
            (*, H, L, E). For both values of `heads_last`, the weights have the shape (*, H, L, S).

    Returns:
        A pair (output, weights). The output has the shape (*, L, V) and the dtype of `value`. The weights are returned
        as they are after dropout, and have the shape (*, L, S).

    Example:
        >>> one = jnp.ones((2, 4))
        >>> attend(one, one, one)[1]
        Array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)

    Reference: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """
    dtype = checks.wide_dtype(query) if dtype is None else dtype
    scale = default_scale(query) if scale is None else scale
    query = query * scale  # before the product: the query has fewer entries than the scores, which then overflow later
    if heads_last:
        scores = jnp.einsum("...qhe,...khe->...hqk", query, key, preferred_element_type=dtype)  # (*, H, L, S)
    else:
        scores = jnp.matmul(query, key.swapaxes(-1, -2), preferred_element_type=dtype)  # (*, L, S)
    for mask in masks:
        scores = scores if mask is None else masked(scores, mask)
    weights = softmax(scores, dim=-1) if hidden_row is None else masked_softmax(scores, hidden_row)
    weights = weights if dropout is None else dropout(weights)
    given = weights.astype(value.dtype)  # the product adds in `dtype`, but multiplies numbers of the values' dtype
    if heads_last:
        out = jnp.einsum("...hqk,...khe->...qhe", given, value, preferred_element_type=dtype)  # (*, L, H, V)
    else:
        out = jnp.matmul(given, value, preferred_element_type=dtype)  # (*, L, V)
    return out.astype(value.dtype), weights


def default_scale(query: jax.Array) -> float:
    """Return the factor of the scores, 1 / √E. If the heads have no width, all scores are 0, and the factor is 1."""
    return float(max(query.shape[-1], 1) ** -0.5)


def masked(scores: jax.Array, mask: jax.Array) -> jax.Array:
    """Apply a mask to attention scores: True in a boolean mask hides a position, and numbers are added.

    A score of a hidden position is added to -inf and not replaced by it, so that NaN stays NaN, as in torch.

    Example:
        >>> print(masked(jnp.ones(2), jnp.array([True, False])), masked(jnp.ones(2), jnp.array([-0.5, 0.0])))
        [-inf   1.] [0.5 1. ]
    """
    added = jnp.where(mask, -jnp.inf, 0.0) if mask.dtype == bool else mask
    return scores + added.astype(scores.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def masked_softmax(scores: jax.Array, hidden_row: float) -> jax.Array:
    """Compute the softmax over the last dimension. A row of scores that are all -inf becomes 0 or NaN, as `hidden_row`
    specifies.

    If `hidden_row` is 0, the derivatives of a row of -inf are 0 too. Before the exponential, the row's maximum is
    subtracted, or the lowest finite number if the maximum is -inf. The exponentials of a row of -inf are therefore 0,
    not NaN, and sum to 0. The exponentials of every other row sum to at least 1, so the divisor can be limited to at
    least 1. Replacing the rows of -inf with jnp.where instead would take a fifth of the time of attention on CPU.

    Example:
        >>> print(masked_softmax(jnp.array([[0.0, -jnp.inf], [-jnp.inf, -jnp.inf]]), 0.0))
        [[1. 0.]
         [0. 0.]]
    """
    exponentials = jnp.exp(scores - scores.max(-1, keepdims=True, initial=jnp.finfo(scores.dtype).min))
    total = exponentials.sum(-1, keepdims=True)  # (*, L, 1)
    return exponentials / (jnp.maximum(total, 1) if hidden_row == 0 else total)


@masked_softmax.defjvp
def _masked_softmax_jvp(hidden_row: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple:
    """Compute the tangent of the softmax in a form whose transpose is torch's gradient `w · (g - Σ w g)`, for weights w
    and cotangents g. If a weight is nearly 1, this form of the gradient is more accurate than other forms.
    """
    weights = masked_softmax(*primals, hidden_row)  # (*, L, S)
    change = weights * tangents[0]
    return weights, change - weights * change.sum(-1, keepdims=True)
