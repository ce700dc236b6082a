"""The core of attention, which turns scores into weights and takes the weighted mean of the values.

`scaled_dot_product_attention`, `multi_head_attention_forward` and BERT's self-attention all call `attend`. These
callers treat masks, and queries with nothing to attend to, in different ways, so arguments control both.

Letters: `H heads, L queries, S keys, E width of a head, V width of a value`.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.softmax import softmax

__all__ = ["attend", "masked_softmax"]


def attend(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *added: jax.Array | None,
    scale: float | None = None,
    hidden_row: float | None = None,
    dropout: Callable[[jax.Array], jax.Array] | None = None,
    dtype: jnp.dtype | None = None,
    heads_last: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Compute `dropout(softmax(query·keyᵀ·scale + added))·value` for each head, without checking the arguments.

    Args:
        query: (*, L, E).
        key: (*, S, E).
        value: (*, S, V).
        *added: masks and relative scores, which are added in this order. Each array broadcasts to (*, L, S), and None
            adds nothing.
        scale: factor that multiplies the scores; None means `1 / √E`.
        hidden_row: weights of a query whose scores are all -inf, either 0 (with derivatives of 0) or NaN. Pass None if
            all masks are finite, so that no such query exists.
        dropout: function applied to the weights, which are not rescaled to sum to 1 afterwards; None for no dropout.
        dtype: dtype of the scores and weights; None means float32, or the query's dtype if it is wider. The softmax
            itself uses at least float32.
        heads_last: if True, query, key, value and the result are (*, L or S, H, E or V), as a projection returns them;
            otherwise (*, H, L or S, E or V). The weights are (*, H, L, S) in both cases.

    Returns:
        A pair of the output, (*, L, V) in the dtype of `value`, and the weights after dropout, (*, L, S).

    Example:
        >>> one = jnp.ones((2, 4))
        >>> attend(one, one, one)[1]
        Array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)

    Reference: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """
    dtype = checks.wide_dtype(query) if dtype is None else dtype
    scale = max(query.shape[-1], 1) ** -0.5 if scale is None else scale
    query = query * scale  # before the product, where there are fewer numbers and the scores overflow later
    if heads_last:
        scores = jnp.einsum("...qhe,...khe->...hqk", query, key, preferred_element_type=dtype)
    else:
        scores = jnp.matmul(query, key.swapaxes(-1, -2), preferred_element_type=dtype)
    for one in added:
        scores = scores if one is None else scores + one.astype(dtype)
    weights = softmax(scores, dim=-1) if hidden_row is None else masked_softmax(scores, hidden_row)
    weights = weights if dropout is None else dropout(weights)
    given = weights.astype(value.dtype)
    if heads_last:
        out = jnp.einsum("...hqk,...khe->...qhe", given, value, preferred_element_type=dtype)
    else:
        out = jnp.matmul(given, value, preferred_element_type=dtype)
    return out.astype(value.dtype), weights


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def masked_softmax(scores: jax.Array, hidden_row: float) -> jax.Array:
    """Compute the softmax over the last dimension. A row with only -inf becomes `hidden_row`, either 0 or NaN.

    The derivatives of a row of 0 are 0. The peak of such a row is the lowest finite number, so its exponentials are 0
    and sum to 0. Every other row sums to at least 1. A selection with jnp.where instead took a fifth of the time of
    attention on CPU.

    Example:
        >>> print(masked_softmax(jnp.array([[0.0, -jnp.inf], [-jnp.inf, -jnp.inf]]), 0.0))
        [[1. 0.]
         [0. 0.]]
    """
    exponentials = jnp.exp(scores - scores.max(-1, keepdims=True, initial=jnp.finfo(scores.dtype).min))
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / (jnp.maximum(total, 1) if hidden_row == 0 else total)


@masked_softmax.defjvp
def _masked_softmax_jvp(hidden_row: float, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple:
    """This order makes the transpose torch's `w · (g - Σ w g)`, which is more accurate where a weight is nearly 1."""
    weights = masked_softmax(*primals, hidden_row)
    change = weights * tangents[0]
    return weights, change - weights * change.sum(-1, keepdims=True)
