"""The one place where scores become weights and weights become values.

`scaled_dot_product_attention`, `multi_head_attention_forward` and BERT's self-attention all end here. They differ in
what they do with masks and with a query that may attend to nothing, which is why those are arguments.

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
    """`dropout(softmax(query·keyᵀ·scale + added))·value`, head by head. Nothing is checked.

    Args:
        query: (*, L, E).
        key: (*, S, E).
        value: (*, S, V).
        *added: masks and relative scores, each of which broadcasts to (*, L, S), added in this order; None adds
            nothing.
        scale: of the scores; None is `1 / √E`.
        hidden_row: the weights of a query whose scores are all -inf: 0, with derivatives of 0, or NaN. None where
            masks are finite, so that there is no such query.
        dropout: applied to the weights, which are not scaled to sum to one again; None leaves them.
        dtype: of the scores and weights; None is float32, or the query's dtype if that is wider. The softmax itself is
            computed in at least float32.
        heads_last: whether query, key, value and the result are (*, L or S, H, E or V), as a projection gives them,
            rather than (*, H, L or S, E or V). The weights are (*, H, L, S) in both cases.

    Returns:
        ((*, L, V) in the dtype of `value`, the weights (*, L, S) after dropout).

    Example:
        >>> one = jnp.ones((2, 4))
        >>> attend(one, one, one)[1]
        Array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)

    Reference: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
    """
    dtype = checks.wide_dtype(query) if dtype is None else dtype
    scale = max(query.shape[-1], 1) ** -0.5 if scale is None else scale
    query = query * scale  # before the product: fewer numbers to scale, and larger ones before they overflow
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
    """The softmax over the last dimension. A row of -inf alone gives `hidden_row`: 0, with derivatives of 0, or NaN.

    With the lowest finite number as the peak, the exponentials of such a row are zeros and sum to 0; every other sum is
    1 or more. Choosing with jnp.where instead cost a fifth of the attention's time on CPU.

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
    """In this order the transpose is torch's `w · (g - Σ w g)`, which loses less where one weight is nearly 1."""
    weights = masked_softmax(*primals, hidden_row)
    change = weights * tangents[0]
    return weights, change - weights * change.sum(-1, keepdims=True)
