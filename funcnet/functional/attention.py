"""Scaled dot-product attention, and the projections from vectors to heads and back.

Letters: `B batch, H heads, L queries, S keys, E width of a head, D = H·E width`.

As in torch, True in a boolean mask means *attend* in `scaled_dot_product_attention` but *hide* in
`multi_head_attention_forward`. Every attention function adds floating-point masks to the scores. Internally, True means
*hide* everywhere; see `attention_core.masked`.
"""

import functools
from collections.abc import Hashable
from typing import Literal

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.attention_core import attend, default_scale
from funcnet.functional.context_mesh import attend_on_mesh, context_parts
from funcnet.functional.context_parallel import Drop, How, attend_in_parts, segments_of
from funcnet.functional.dropout import dropout
from funcnet.functional.linear import linear
from funcnet.random import Rate

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
    dropout_p: Rate = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    rng: jax.Array | None = None,
    segment_ids: jax.Array | tuple[jax.Array, jax.Array] | None = None,
    axis_name: Hashable | None = None,
    context_parallel: Literal["ring", "gather"] = "ring",
    block_size: int | None = None,
) -> jax.Array:
    """Compute `softmax(q kᵀ · scale + mask) v`, an average of the values, weighted by how well each key matches.

    Args:
        query: floating-point array of shape (*, L, E).
        key: array of shape (*, S, E) and of the query's dtype. The leading dimensions of query, key and value broadcast
            against each other.
        value: array of shape (*, S, V) and of the query's dtype.
        attn_mask: mask of at least two dimensions, whose shape broadcasts to (*, L, S). In a boolean mask, True marks
            the positions to attend to. A floating-point mask (float32 or the query's dtype) is added to the scores.
        dropout_p: dropout probability of the attention weights. The function applies dropout in evaluation too, so pass
            0 outside training.
        is_causal: if True, query i attends only to keys 0 to i.
        scale: factor that multiplies the scores; None means `1 / √E`.
        enable_gqa: if True, `key` (*, H', S, E) and `value` (*, H', S, V) may have fewer heads than the query. Each
            head of `key` and `value` is then used for several consecutive heads of the query.
        rng: random key for the dropout; required if 0 < dropout_p < 1. In a module's forward, pass
            `rng=self.make_rng()`, in evaluation too.
        segment_ids: integer array (B, L), or a pair of arrays (B, L) and (B, S), where B is the first of the leading
            dimensions. Segment ids of shape (L,) or (S,) apply to every example of the batch. A query attends only to
            keys with the same segment id. Segment ids separate the sequences that are packed into one row.
        axis_name: name of the mesh axis over which the sequence is split, for calls inside your own `jax.shard_map`.
            Device i holds the i-th part, which has L queries and S keys. A mask has the shape (*, L, number of keys on
            all devices), or (*, 1, S) for the keys of this device. If all devices pass the same `rng`, the dropout mask
            is the same as if one device had the entire sequence. Under `jit`, no axis name is needed: the function
            splits the sequences along the axis `context` of the surrounding mesh, if there is one.
        context_parallel: if the sequence is split, "ring" sends keys and values from device to device, and "gather"
            gathers all of them on every device.
        block_size: number of queries and of keys in a block. With a block size, the scores are computed one block at a
            time, and again in the backward pass. The required memory then grows with L + S instead of L · S. None means
            that all scores on this device are computed at once.

    Returns:
        An array of shape (*, L, V) in the query's dtype. The scores and weights are computed in at least float32. If
        all scores of a query are -inf, or if there are no keys, the output and the gradients of this query are 0.

    Raises:
        ValueError: if the shapes do not match, a mask is given together with `is_causal`, `dropout_p` is outside
            [0, 1], `rng` is missing, `axis_name` is not the name of a bound axis, `context_parallel` or `block_size` is
            invalid, or L = S and the surrounding mesh has an axis `context` that does not divide it.
        TypeError: if the inputs are not floating-point, their dtypes differ, or the dtype of the mask is not bool,
            float32 or the query's dtype.

    Differs from torch: a mask together with `is_causal` is always an error, whereas torch on CPU accepts this
        combination for some shapes. A query with a NaN score has a NaN result. With `axis_name`, `block_size` or a mesh
        axis `context`, only reverse-mode differentiation works.

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
            f"{where}: the inputs have too few dimensions; expected (*, queries, width), (*, keys, width) and "
            f"(*, keys, width), got {query.shape}, {key.shape} and {value.shape}."
        )
    if enable_gqa:
        key, value = (_repeated(where, name, x, query) for name, x in (("key", key), ("value", value)))
    shape = _scores_shape(where, query, key, value)
    if is_causal and attn_mask is not None:
        raise ValueError(
            f"{where}: is_causal=True cannot be combined with attn_mask; expected attn_mask=None, got a mask of shape "
            f"{jnp.shape(attn_mask)}. Include the causal mask in attn_mask, or leave attn_mask out."
        )
    segments, how = segments_of(where, segment_ids, query, key), How(axis_name, context_parallel, block_size)
    how.check(where)
    if checks.draws(checks.probability(where, "dropout_p", dropout_p)):
        checks.key(where, rng)
    hidden = None if attn_mask is None else _hidden(where, jnp.asarray(attn_mask), query)
    # With `axis_name`, the sequences are split already, and `attend_in_parts` checks the mask against the parts.
    parts = 1 if axis_name is not None else context_parts(where, *shape[-2:])
    if parts > 1 or (axis_name is None and block_size is None):
        _check_mask(where, hidden, shape)
    if parts > 1 or axis_name is not None or block_size is not None:
        run = attend_on_mesh if parts > 1 else attend_in_parts
        scale = default_scale(query) if scale is None else scale
        return run(where, query, key, value, hidden, segments, how, scale, is_causal, Drop(dropout_p, rng))
    if is_causal:
        hidden = ~jnp.tril(jnp.ones(shape[-2:], bool))  # (L, S); also if L ≠ S, query i attends to keys 0 to i
    others = None
    if segments is not None:
        others = segments[0][..., None] != segments[1][..., None, :]  # (B, 1, …, L, S)
    drop = functools.partial(dropout, p=dropout_p, rng=rng)
    return attend(query, key, value, hidden, others, scale=scale, hidden_row=0.0, dropout=drop)[0]


def added_mask(where: str, name: str, mask: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Convert an attention mask to an array that is added to the attention scores.

    For a boolean mask, the array is -inf where the mask is True, and 0 elsewhere, in `dtype`. A floating-point mask is
    returned unchanged. A mask of any other dtype raises a TypeError.
    """
    mask = jnp.asarray(mask)
    if mask.dtype == bool:
        return jnp.where(mask, -jnp.inf, 0.0).astype(dtype)
    if not jnp.issubdtype(mask.dtype, jnp.floating):
        raise TypeError(
            f"{where}: {name} must hold booleans or floating-point numbers; expected bool or {dtype}, got "
            f"{mask.dtype}. Convert it with {name}.astype(bool)."
        )
    return mask


def _hidden(where: str, attn_mask: jax.Array, query: jax.Array) -> jax.Array:
    """Invert a boolean attention mask, so that True marks the hidden positions. A floating-point mask is returned
    unchanged.
    """
    if attn_mask.dtype == bool:
        return ~attn_mask
    mask = added_mask(where, "attn_mask", attn_mask, query.dtype)
    if mask.dtype not in (jnp.float32, query.dtype):
        checks.one_dtype(where, query=query, attn_mask=mask)
    return mask


def _check_mask(where: str, mask: jax.Array | None, shape: tuple[int, ...]) -> None:
    """Raise a ValueError if a mask does not broadcast to the shape of the scores."""
    if mask is not None and (mask.ndim < 2 or not _broadcasts(mask.shape, shape)):
        raise ValueError(
            f"{where}: attn_mask has the wrong shape; expected at least two dimensions and a shape that broadcasts "
            f"to {shape}, got {mask.shape}. The last two dimensions are queries and keys."
        )


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))


def _scores_shape(where: str, query: jax.Array, key: jax.Array, value: jax.Array) -> tuple[int, ...]:
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"{where}: query and key differ in width; expected (*, S, {query.shape[-1]}), got key {key.shape}. "
            "The last dimensions of query and key must be equal."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"{where}: key and value differ in length; expected (*, {key.shape[-2]}, V), got value {value.shape}. Each "
            "key requires one value."
        )
    try:
        leading = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{where}: the leading dimensions do not broadcast; expected sizes that are equal or 1, got query "
            f"{query.shape}, key {key.shape} and value {value.shape}. If key and value have fewer heads, set "
            "enable_gqa=True."
        ) from None
    return (*leading, query.shape[-2], key.shape[-2])


def _repeated(where: str, name: str, array: jax.Array, query: jax.Array) -> jax.Array:
    """Repeat each head of `array` (the keys or the values), so that the result has as many heads as the query."""
    if min(query.ndim, array.ndim) < 3 or not array.shape[-3] or query.shape[-3] % array.shape[-3]:
        raise ValueError(
            f"{where}: with enable_gqa, the query's number of heads must be a multiple of the number of heads of "
            f"{name}; expected (*, heads, length, width) for both, got query {query.shape} and {name} {array.shape}."
        )
    return jnp.repeat(array, query.shape[-3] // array.shape[-3], axis=-3)


# ------------------------------------------------------------------------------------- from vectors to heads and back


def in_projection_packed(
    q: jax.Array, k: jax.Array, v: jax.Array, w: jax.Array, b: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Project queries, keys and values with one stacked matrix W: `q W[:D]ᵀ`, `k W[D:2D]ᵀ`, `v W[2D:]ᵀ`.

    If q, k and v are the same array (self-attention), one product with W computes all three results. If only k and v
    are the same array, one product with the last two thirds of W computes the results for k and v.

    Args:
        q, k, v: floating-point arrays of shape (*, D).
        w: array of shape (3D, D), with the rows for q, k and v in this order.
        b: array of shape (3D,), or None.

    Returns:
        Three arrays of shape (*, D).

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> x = jnp.ones((5, 2))
        >>> [a.shape for a in in_projection_packed(x, x, x, jnp.ones((6, 2)))]
        [(5, 2), (5, 2), (5, 2)]

    Reference: torch.nn.functional._in_projection_packed.
    """
    where, width = "F.in_projection_packed", q.shape[-1]
    _check_dtypes(where, q, k, v, w=w, b=b)
    checks.shape_of(where, "w", w, (3 * width, width), "Stack the matrices of query, key and value.")
    checks.shape_of(where, "b", b, (3 * width,), "Concatenate the biases of query, key and value.")
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
    """Project queries, keys and values with separate matrices: `q W_qᵀ + b_q`, `k W_kᵀ + b_k`, `v W_vᵀ + b_v`.

    Args:
        q: floating-point array of shape (*, D).
        k, v: floating-point arrays of shapes (*, Dk) and (*, Dv).
        w_q, w_k, w_v: arrays of shapes (D, D), (D, Dk) and (D, Dv).
        b_q, b_k, b_v: arrays of shape (D,), or None.

    Returns:
        Three arrays of shape (*, D).

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> matrices = jnp.ones((2, 2)), jnp.ones((2, 3)), jnp.ones((2, 4))
        >>> [a.shape for a in in_projection(jnp.ones((5, 2)), jnp.ones((6, 3)), jnp.ones((6, 4)), *matrices)]
        [(5, 2), (6, 2), (6, 2)]

    Reference: torch.nn.functional._in_projection.
    """
    where, width = "F.in_projection", q.shape[-1]
    _check_dtypes(where, q, k, v, w_q=w_q, w_k=w_k, w_v=w_v, b_q=b_q, b_k=b_k, b_v=b_v)
    for name, x, w, b in (("q", q, w_q, b_q), ("k", k, w_k, b_k), ("v", v, w_v, b_v)):
        checks.shape_of(where, f"w_{name}", w, (width, x.shape[-1]), f"The matrix maps {name} to the width of q.")
        checks.shape_of(where, f"b_{name}", b, (width,), "The bias has the width of q.")
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _check_dtypes(where: str, q: jax.Array, k: jax.Array, v: jax.Array, **others: jax.Array | None) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        checks.floating(where, name, x)
    checks.one_dtype(where, q=q, k=k, v=v, **others)


def split_heads(input: jax.Array, num_heads: int) -> jax.Array:
    """Split every vector of width D into H heads, and move the head dimension before the sequence dimension.

    Args:
        input: array of shape (*, L, D).
        num_heads: number of heads, H, which must divide D.

    Returns:
        An array of shape (*, H, L, E), with `E = D / H`.

    Raises:
        ValueError: if the input has fewer than two dimensions, or H does not divide D.

    Example:
        >>> split_heads(jnp.arange(8).reshape(2, 4), 2)[0]
        Array([[0, 1],
               [4, 5]], dtype=int32)
    """
    if input.ndim < 2 or num_heads < 1 or input.shape[-1] % num_heads:
        raise ValueError(
            f"F.split_heads: the width must be a multiple of num_heads; expected (*, length, {num_heads}·E), got "
            f"{input.shape}."
        )
    return input.reshape(*input.shape[:-1], num_heads, input.shape[-1] // num_heads).swapaxes(-2, -3)


def merge_heads(input: jax.Array) -> jax.Array:
    """Concatenate the vectors of all heads at each position of the sequence. This is the inverse of `split_heads`.

    Args:
        input: array of shape (*, H, L, E).

    Returns:
        An array of shape (*, L, H·E).

    Raises:
        ValueError: if the input has fewer than three dimensions.

    Example:
        >>> merge_heads(split_heads(jnp.arange(8).reshape(2, 4), 2))
        Array([[0, 1, 2, 3],
               [4, 5, 6, 7]], dtype=int32)
    """
    if input.ndim < 3:
        raise ValueError(
            f"F.merge_heads: input has too few dimensions; expected (*, heads, length, width), got {input.shape}. "
            "Pass an array in the layout that split_heads returns."
        )
    heads, length, width = input.shape[-3:]
    return input.swapaxes(-2, -3).reshape(*input.shape[:-3], length, heads * width)
