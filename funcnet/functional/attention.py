"""Attention of one head (`scaled_dot_product_attention`), and the projections from vectors to heads and back.

Letters: `B batch, H heads, L queries, S keys, E width of a head, D = H·E width`.

As in torch, boolean masks have two meanings: True is *attend* in `scaled_dot_product_attention` and *hidden* in
`multi_head_attention_forward`. Floating masks are added to the scores in both. Internally every mask is added: -inf
hides.
"""

import functools

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.attention_core import attend
from funcnet.functional.dropout import dropout
from funcnet.functional.linear import linear

__all__ = [
    "in_projection",
    "in_projection_packed",
    "merge_heads",
    "scaled_dot_product_attention",
    "split_heads",
]


def scaled_dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    attn_mask: jax.Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    rng: jax.Array | None = None,
) -> jax.Array:
    """Each query's mean of the values, weighted by how well the keys match: `softmax(q kᵀ · scale + mask) v`.

    Args:
        query: (*, L, E), floating.
        key: (*, S, E), of the query's dtype; leading dimensions broadcast.
        value: (*, S, V), of the query's dtype.
        attn_mask: broadcasts to (*, L, S) and has two dimensions or more. Booleans: True is attended to, False is not.
            Floats (float32 or the query's dtype) are added to the scores.
        dropout_p: the probability with which a weight is zeroed; always in force, so give 0 where not training.
        is_causal: whether query i attends only to keys 0 to i.
        scale: of the scores; None is `1 / √E`.
        enable_gqa: whether key and value, (*, H', S, E), may have fewer heads than the query. Each of them then serves
            several consecutive heads of the query.
        rng: a key; needed if 0 < dropout_p < 1.

    Returns:
        (*, L, V) in the query's dtype; scores and weights are float32 at least. A query that may attend to nothing,
        because all its scores are -inf or there are no keys, gives 0, with gradients of 0.

    Raises:
        ValueError: shapes that do not fit; a mask together with `is_causal`; `dropout_p` that is no probability, or
            without `rng`.
        TypeError: integers, dtypes that differ, a mask of integers or of another floating dtype.

    Differs from torch: a mask together with `is_causal` is always refused (on CPU torch takes it in some shapes);
        NaN scores are NaN in the result.

    Example:
        >>> query, key, value = jnp.ones((1, 2)), jnp.ones((3, 2)), jnp.arange(6.0).reshape(3, 2)
        >>> scaled_dot_product_attention(query, key, value, jnp.array([[True, True, False]]))
        Array([[1., 2.]], dtype=float32)

    Reference: torch.nn.functional.scaled_dot_product_attention; Vaswani et al. 2017, equation 1.
    """
    where = "F.scaled_dot_product_attention"
    query, key, value = (
        checks.floating(where, name, x) for name, x in (("query", query), ("key", key), ("value", value))
    )
    checks.one_dtype(where, query=query, key=key, value=value)
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(
            f"{where}: too few dimensions; expected (*, queries, width), (*, keys, width) and (*, keys, width), got "
            f"{query.shape}, {key.shape} and {value.shape}."
        )
    if enable_gqa:
        key, value = (_repeated(where, name, x, query) for name, x in (("key", key), ("value", value)))
    shape = _scores_shape(where, query, key, value)
    if is_causal and attn_mask is not None:
        raise ValueError(
            f"{where}: is_causal makes the mask; expected no attn_mask beside it, got one of "
            f"{jnp.shape(attn_mask)}. Put the causal part into the mask, or leave the mask out."
        )
    bias = None
    if is_causal:
        bias = _minus_infinity(~jnp.tril(jnp.ones(shape[-2:], bool)), query.dtype)
    elif attn_mask is not None:
        attn_mask = jnp.asarray(attn_mask)
        hidden = ~attn_mask if attn_mask.dtype == bool else attn_mask
        bias = added_mask(where, "attn_mask", hidden, query.dtype)
        if bias.dtype not in (jnp.float32, query.dtype):
            checks.one_dtype(where, query=query, attn_mask=bias)
        if bias.ndim < 2 or not _broadcasts(bias.shape, shape):
            raise ValueError(
                f"{where}: attn_mask does not fit; expected two dimensions or more that broadcast to {shape}, "
                f"got {bias.shape}. The last two are queries and keys."
            )
    drop = functools.partial(dropout, p=dropout_p, rng=rng)
    return attend(query, key, value, bias, scale=scale, hidden_row=0.0, dropout=drop)[0]


def added_mask(where: str, name: str, mask: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """What a mask adds to the scores: -inf in `dtype` where a boolean mask hides, a floating mask as it is; else
    TypeError."""
    mask = jnp.asarray(mask)
    if mask.dtype == bool:
        return _minus_infinity(mask, dtype)
    if not jnp.issubdtype(mask.dtype, jnp.floating):
        raise TypeError(
            f"{where}: {name} must hold booleans or floating-point numbers; expected bool or {dtype}, got "
            f"{mask.dtype}. Convert it, as in {name}.astype(bool)."
        )
    return mask


def _minus_infinity(hidden: jax.Array, dtype: jnp.dtype) -> jax.Array:
    return jnp.where(hidden, -jnp.inf, 0.0).astype(dtype)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))


def _scores_shape(where: str, query: jax.Array, key: jax.Array, value: jax.Array) -> tuple[int, ...]:
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{where}: query and key differ in width; expected (*, S, {query.shape[-1]}), got key {key.shape}. "
            "Their last dimensions are multiplied."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"{where}: key and value differ in length; expected (*, {key.shape[-2]}, V), got value {value.shape}. "
            "There is one value a key."
        )
    try:
        leading = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{where}: the leading dimensions do not broadcast; expected equal ones or 1, got query {query.shape}, "
            f"key {key.shape} and value {value.shape}. With fewer heads in key and value, set enable_gqa=True."
        ) from None
    return (*leading, query.shape[-2], key.shape[-2])


def _repeated(where: str, name: str, array: jax.Array, query: jax.Array) -> jax.Array:
    """Every head, repeated once for each head of the query that it serves."""
    if min(query.ndim, array.ndim) < 3 or not array.shape[-3] or query.shape[-3] % array.shape[-3]:
        raise ValueError(
            f"{where}: enable_gqa shares the heads of {name} among the query's; expected (*, heads, length, width) "
            f"with heads that divide the query's, got query {query.shape} and {name} {array.shape}."
        )
    return jnp.repeat(array, query.shape[-3] // array.shape[-3], axis=-3)


# ------------------------------------------------------------------------------------- from vectors to heads and back


def in_projection_packed(
    q: jax.Array, k: jax.Array, v: jax.Array, w: jax.Array, b: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries, keys and values, projected by one matrix that holds all three: `q W[:D]ᵀ`, `k W[D:2D]ᵀ`, `v W[2D:]ᵀ`.

    If q, k and v are one array (self-attention), it is multiplied once by the whole of W; if only k and v are, they are
    multiplied once by two thirds of it.

    Args:
        q, k, v: (*, D), floating.
        w: (3D, D), the rows for q, for k, for v.
        b: (3D,), or None.

    Returns:
        Three arrays, (*, D) each.

    Raises:
        ValueError: shapes that do not fit.
        TypeError: integers, or dtypes that differ.

    Example:
        >>> x = jnp.ones((5, 2))
        >>> [a.shape for a in in_projection_packed(x, x, x, jnp.ones((6, 2)))]
        [(5, 2), (5, 2), (5, 2)]

    Reference: torch.nn.functional._in_projection_packed.
    """
    where, width = "F.in_projection_packed", q.shape[-1]
    checks.shape_of(where, "w", w, (3 * width, width), "It holds the matrices of query, key and value in a column.")
    checks.shape_of(where, "b", b, (3 * width,), "It holds the biases of query, key and value in a row.")
    if q is k and k is v:
        packed = linear(q, w, b)
        return packed[..., :width], packed[..., width : 2 * width], packed[..., 2 * width :]
    if k is v:
        packed = linear(k, w[width:], None if b is None else b[width:])
        query = linear(q, w[:width], None if b is None else b[:width])
        return query, packed[..., :width], packed[..., width:]
    biases = (None, None, None) if b is None else jnp.split(b, 3)
    return in_projection(q, k, v, *jnp.split(w, 3), *biases)


def in_projection(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    w_q: jax.Array,
    w_k: jax.Array,
    w_v: jax.Array,
    b_q: jax.Array | None = None,
    b_k: jax.Array | None = None,
    b_v: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries, keys and values, each projected by its own matrix: `q W_qᵀ + b_q`, `k W_kᵀ + b_k`, `v W_vᵀ + b_v`.

    Args:
        q: (*, D), floating.
        k, v: (*, Dk) and (*, Dv).
        w_q, w_k, w_v: (D, D), (D, Dk) and (D, Dv).
        b_q, b_k, b_v: (D,) each, or None.

    Returns:
        Three arrays, (*, D) each.

    Raises:
        ValueError: shapes that do not fit.
        TypeError: integers, or dtypes that differ.

    Example:
        >>> matrices = jnp.ones((2, 2)), jnp.ones((2, 3)), jnp.ones((2, 4))
        >>> [a.shape for a in in_projection(jnp.ones((5, 2)), jnp.ones((6, 3)), jnp.ones((6, 4)), *matrices)]
        [(5, 2), (6, 2), (6, 2)]

    Reference: torch.nn.functional._in_projection.
    """
    where, width = "F.in_projection", q.shape[-1]
    for name, x, w, b in (("q", q, w_q, b_q), ("k", k, w_k, b_k), ("v", v, w_v, b_v)):
        checks.shape_of(where, f"w_{name}", w, (width, x.shape[-1]), f"It maps {name} to the width of q.")
        checks.shape_of(where, f"b_{name}", b, (width,), "It has the width of q.")
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def split_heads(input: jax.Array, num_heads: int) -> jax.Array:
    """Splits every vector into heads and moves them before the sequence, as the attention functions expect.

    Args:
        input: (*, L, D).
        num_heads: H, which divides D.

    Returns:
        (*, H, L, E), with `E = D / H`.

    Raises:
        ValueError: fewer than two dimensions, or heads that do not divide the width.

    Example:
        >>> split_heads(jnp.arange(8).reshape(2, 4), 2)[0]
        Array([[0, 1],
               [4, 5]], dtype=int32)
    """
    if input.ndim < 2 or num_heads < 1 or input.shape[-1] % num_heads:
        raise ValueError(
            f"F.split_heads: the width must be a multiple of the heads; expected (*, length, {num_heads}·E), got "
            f"{input.shape}."
        )
    return input.reshape(*input.shape[:-1], num_heads, input.shape[-1] // num_heads).swapaxes(-2, -3)


def merge_heads(input: jax.Array) -> jax.Array:
    """Concatenates the heads' vectors; undoes `split_heads`.

    Args:
        input: (*, H, L, E).

    Returns:
        (*, L, H·E).

    Raises:
        ValueError: fewer than three dimensions.

    Example:
        >>> merge_heads(split_heads(jnp.arange(8).reshape(2, 4), 2))
        Array([[0, 1, 2, 3],
               [4, 5, 6, 7]], dtype=int32)
    """
    if input.ndim < 3:
        raise ValueError(
            f"F.merge_heads: input has too few dimensions; expected (*, heads, length, width), got {input.shape}. "
            "Give what split_heads gives."
        )
    heads, length, width = input.shape[-3:]
    return input.swapaxes(-2, -3).reshape(*input.shape[:-3], length, heads * width)
