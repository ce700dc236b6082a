"""Multi-head attention, including the input and output projections and all of torch's masks.

Letters: `B batch, H heads, L queries, S keys, E width of a head, D = H·E width, Dk, Dv widths of key and value`. As in
torch, the first dimension of the inputs and the output is the sequence, and the second is the batch. Internally,
queries are split into heads (B, H, L, E), and keys and values into heads (B, H, S, E).
"""

import functools
import math
from collections.abc import Callable, Hashable
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.attention import (
    added_mask,
    in_projection,
    in_projection_packed,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from funcnet.functional.attention_core import attend
from funcnet.functional.context_parallel import How
from funcnet.functional.dropout import dropout
from funcnet.functional.linear import linear
from funcnet.functional.sharding import placed
from funcnet.random import Rate

__all__ = ["multi_head_attention_forward"]

_WHERE = "F.multi_head_attention_forward"


def multi_head_attention_forward(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: jax.Array | None,
    in_proj_bias: jax.Array | None,
    bias_k: jax.Array | None,
    bias_v: jax.Array | None,
    add_zero_attn: bool,
    dropout_p: Rate,
    out_proj_weight: jax.Array,
    out_proj_bias: jax.Array | None,
    training: bool = True,
    key_padding_mask: jax.Array | None = None,
    need_weights: bool = True,
    attn_mask: jax.Array | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: jax.Array | None = None,
    k_proj_weight: jax.Array | None = None,
    v_proj_weight: jax.Array | None = None,
    static_k: jax.Array | None = None,
    static_v: jax.Array | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    *,
    rng: jax.Array | None = None,
    axis_name: Hashable | None = None,
    context_parallel: Literal["ring", "gather"] = "ring",
    block_size: int | None = None,
) -> tuple[jax.Array, jax.Array | None]:
    """Project query, key and value, attend in each head separately, and project the concatenated heads.

    The result is `y = concat(head_1, …, head_H) W_outᵀ + b_out` with `head_h = softmax(q_h k_hᵀ / √E + masks) v_h`.

    Args:
        query: floating-point array (L, B, D), or (L, D) without a batch.
        key, value: (S, B, Dk) and (S, B, Dv), or (S, Dk) and (S, Dv). Dk = Dv = D if `in_proj_weight` is used.
        embed_dim_to_check: D.
        num_heads: number of heads H, a divisor of D.
        in_proj_weight: (3D, D), the stacked projection matrices of query, key and value. `in_proj_weight` is None if
            the matrices are given separately.
        in_proj_bias: (3D,), or None.
        bias_k, bias_v: a key and a value that are appended to the sequence, each (1, 1, D) or (D,). Give both or
            neither.
        add_zero_attn: whether to append a key and a value of zeros.
        dropout_p: probability with which an attention weight is set to 0 in training.
        out_proj_weight, out_proj_bias: weight (D, D) and bias (D,) or None of the output projection.
        training: whether to apply dropout to the attention weights.
        key_padding_mask: (B, S), or (S,) without a batch. A boolean mask hides the keys whose entries are True. A
            floating-point mask is added to the scores.
        need_weights: whether to return the attention weights too.
        attn_mask: (L, S) or (B·H, L, S). If the inputs have no batch dimension, (L, S) or (H, L, S). In a boolean mask,
            each True entry hides one key from one query. A floating-point mask is added to the scores.
        use_separate_proj_weight: whether the projection matrices are given as `q_proj_weight`, `k_proj_weight` and
            `v_proj_weight`.
        q_proj_weight, k_proj_weight, v_proj_weight: (D, D), (D, Dk), (D, Dv).
        static_k, static_v: arrays (B·H, S, E) of heads that replace the projected key and the projected value.
        average_attn_weights: whether to average the returned weights over the heads.
        is_causal: whether `attn_mask` is the causal mask. With is_causal=True, need_weights=False and no
            `key_padding_mask`, `attn_mask` is not read, and query i attends only to keys 0 to i.
        rng: a random key, required in training if 0 < dropout_p < 1.
        axis_name: name of the mesh axis over which the sequences are split, for calls inside your own `jax.shard_map`.
            Each device then holds L queries and S keys. `attn_mask` has the rows of its queries and the columns of the
            keys on all devices, and `key_padding_mask` the columns of its own keys. Under `jit`, no argument is needed;
            see `scaled_dot_product_attention`.
        context_parallel: for a split sequence, "ring" sends keys and values from device to device, and "gather" gathers
            all of them on every device.
        block_size: number of queries and of keys whose scores are computed at a time. None means all of them.

    Returns:
        (y, weights). y is (L, B, D), or (L, D) without a batch, in the query's dtype. weights is None unless
        `need_weights` is True. The weights are returned as they are after dropout: an array (B, L, S) if they are
        averaged over the heads, otherwise (B, H, L, S). If the inputs have no batch dimension, the weights have none
        either. In these shapes, S includes the appended keys. If all keys of a query are hidden, the attention output
        of this query (before the output projection) is NaN with `need_weights`, and 0 otherwise, as in torch.

    Raises:
        ValueError: if the shapes do not match, a matrix is missing, `is_causal` is given without `attn_mask`, `rng` is
            required but None, or `axis_name` or `block_size` is combined with `need_weights`. With `axis_name`, keys
            cannot be appended.
        TypeError: if an array is not floating-point, a mask is of an integer dtype, or the dtypes differ. With
            `need_weights`, floating-point masks must also have the query's dtype.

    Differs from torch: there is no warning if one of the two masks is boolean and the other is floating-point.

    Example:
        >>> x, w = jnp.ones((3, 1, 2)), jnp.ones((6, 2))
        >>> hidden = jnp.array([[False, False, True]])
        >>> fixed = (2, 1, w, None, None, None, False, 0.0, jnp.eye(2), None)
        >>> y, weights = multi_head_attention_forward(x, x, x, *fixed, key_padding_mask=hidden)
        >>> y.shape, weights[0, 0]
        ((3, 1, 2), Array([0.5, 0.5, 0. ], dtype=float32))

    Reference: torch.nn.functional.multi_head_attention_forward; Vaswani et al. 2017, section 3.2.2.
    """
    where = "F.multi_head_attention_forward"
    checks.probability(where, "dropout_p", dropout_p)
    for name, x in (("query", query), ("key", key), ("value", value)):
        checks.floating(where, name, x)
    batched = _check(query, key, value, embed_dim_to_check, num_heads, key_padding_mask, attn_mask, is_causal)
    if not batched:
        query, key, value = map_arrays(lambda x: x[:, None], query, key, value)
        key_padding_mask = None if key_padding_mask is None else jnp.asarray(key_padding_mask)[None]
    if use_separate_proj_weight:
        weights = {"q_proj_weight": q_proj_weight, "k_proj_weight": k_proj_weight, "v_proj_weight": v_proj_weight}
        biases = (None, None, None) if in_proj_bias is None else jnp.split(in_proj_bias, 3)
        q, k, v = in_projection(query, key, value, *(_given(n, w) for n, w in weights.items()), *biases)
    else:
        q, k, v = in_projection_packed(query, key, value, _given("in_proj_weight", in_proj_weight), in_proj_bias)
    q, k, v = (split_heads(x.swapaxes(0, 1), num_heads) for x in (q, k, v))  # (B, H, L or S, E)
    k, v = (_static(f"static_{n}", s, x, q) for n, s, x in (("k", static_k, k), ("v", static_v, v)))
    how = _checked(How(axis_name, context_parallel, block_size), need_weights, bias_k is not None or add_zero_attn)
    present = k.shape[-2]
    k, v = _more_keys(k, v, bias_k, bias_v, add_zero_attn, static_k is not None or static_v is not None)
    causal = is_causal and key_padding_mask is None and not need_weights  # otherwise, attn_mask is used, as in torch
    bias = _merged(None if causal else attn_mask, key_padding_mask, q, (present, k.shape[-2] - present), how)
    p = dropout_p if training else 0.0
    if checks.draws(p):
        checks.key(_WHERE, rng)
    if need_weights:
        attended, shares = _with_weights(q, k, v, bias, functools.partial(dropout, p=p, rng=rng), average_attn_weights)
    else:
        attended, shares = scaled_dot_product_attention(q, k, v, bias, p, causal, rng=rng, **how._asdict()), None
    y = linear(merge_heads(attended).swapaxes(0, 1), out_proj_weight, out_proj_bias)
    if batched:
        return y, shares
    return y[:, 0], None if shares is None else shares[0]


def _with_weights(
    q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array | None, drop: Callable[[jax.Array], jax.Array], mean: bool
) -> tuple[jax.Array, jax.Array]:
    """Return the attended values (B, H, L, E), and the weights after dropout, (B, H, L, S) or their mean (B, L, S)."""
    checks.one_dtype(_WHERE, query=q, masks=bias)
    attended, shares = attend(q, k, v, bias, hidden_row=math.nan, dropout=drop)
    return attended, (shares.mean(axis=1) if mean else shares).astype(q.dtype)


def map_arrays(function: Callable[[jax.Array], jax.Array], *arrays: jax.Array) -> list[jax.Array]:
    """Apply `function` to each array. If the same array is passed twice, the two results are the same array too, so
    that `in_projection_packed` multiplies this array only once.
    """
    images = {i: function(a) for i, a in {id(a): a for a in arrays}.items()}
    return [images[id(a)] for a in arrays]


def _check(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    width: int,
    num_heads: int,
    key_padding_mask: jax.Array | None,
    attn_mask: jax.Array | None,
    is_causal: bool,
) -> bool:
    """Return whether query, key and value have a batch dimension. Raise a ValueError if their ranks or sizes do not
    match.
    """
    given = [jnp.ndim(x) for x in (query, key, value)]
    if given not in ([3, 3, 3], [2, 2, 2]):
        raise ValueError(
            f"{_WHERE}: the ranks do not match; expected query, key and value of 3 dimensions each (length, batch, "
            f"width), or of 2 without the batch, got {given}."
        )
    batched = given[0] == 3
    if key_padding_mask is not None and jnp.ndim(key_padding_mask) != given[0] - 1:
        raise ValueError(
            f"{_WHERE}: key_padding_mask has the wrong rank; expected {'(batch, keys)' if batched else '(keys,)'}, "
            f"got {jnp.shape(key_padding_mask)}. The mask marks each key as hidden or visible."
        )
    if attn_mask is not None and jnp.ndim(attn_mask) not in (2, 3):
        raise ValueError(
            f"{_WHERE}: attn_mask has the wrong rank; expected (queries, keys) or (batch · heads, queries, keys), got "
            f"{jnp.shape(attn_mask)}."
        )
    if query.shape[-1] != width or num_heads < 1 or width % num_heads:
        raise ValueError(
            f"{_WHERE}: the width of query does not match; expected {width}, a multiple of num_heads={num_heads}, got "
            f"a query of shape {query.shape}. Correct the query, embed_dim or num_heads."
        )
    if key.shape[:-1] != value.shape[:-1] or key.shape[1:-1] != query.shape[1:-1]:
        raise ValueError(
            f"{_WHERE}: query, key and value do not match; expected equal batch sizes, and key and value of equal "
            f"length, got {query.shape}, {key.shape} and {value.shape}. If the batch comes first, set batch_first=True "
            "in the module."
        )
    if is_causal and attn_mask is None:
        raise ValueError(
            f"{_WHERE}: is_causal=True requires attn_mask; expected the causal mask, got None. Create the mask with "
            "nn.Transformer.generate_square_subsequent_mask(L)."
        )
    return batched


def _checked(how: How, need_weights: bool, has_more_keys: bool) -> How:
    """Return `how`. Raise a ValueError if the scores are computed in parts although the weights are needed, or if keys
    are appended to a part of a sequence.
    """
    how.check(_WHERE)
    if need_weights and (how.axis_name is not None or how.block_size is not None):
        raise ValueError(
            f"{_WHERE}: axis_name and block_size give no attention weights, because the scores are never stored "
            f"together; expected need_weights=False, got need_weights=True with axis_name={how.axis_name!r} and "
            f"block_size={how.block_size!r}."
        )
    if has_more_keys and how.axis_name is not None:
        raise ValueError(
            f"{_WHERE}: keys cannot be appended to a part of a sequence; expected bias_k=None and add_zero_attn=False, "
            f"got one of them with axis_name={how.axis_name!r}."
        )
    return how


def _given(name: str, weight: jax.Array | None) -> jax.Array:
    if weight is None:
        raise ValueError(
            f"{_WHERE}: {name} is missing; expected an array, got None. Pass in_proj_weight, which holds all three "
            "matrices, or set use_separate_proj_weight=True and pass q_proj_weight, k_proj_weight and v_proj_weight."
        )
    return weight


def _static(name: str, static: jax.Array | None, projected: jax.Array, query: jax.Array) -> jax.Array:
    """Return the heads (B, H, S, E) of the keys or of the values: `static` if it is given, otherwise `projected`."""
    if static is None:
        return projected
    batch, heads, _, width = query.shape
    if static.ndim != 3 or static.shape[0] != batch * heads or static.shape[2] != width:
        raise ValueError(
            f"{_WHERE}: {name} has the wrong shape; expected {(batch * heads, 'S', width)}, got {static.shape}. The "
            "expected shape is (batch · heads, keys, width of a head)."
        )
    return static.reshape(batch, heads, *static.shape[1:])


def _more_keys(
    k: jax.Array,
    v: jax.Array,
    bias_k: jax.Array | None,
    bias_v: jax.Array | None,
    add_zero_attn: bool,
    static: bool,
) -> tuple[jax.Array, jax.Array]:
    """Append the learned key `bias_k` and value `bias_v` and, with `add_zero_attn`, a key and a value of zeros."""
    if (bias_k is None) != (bias_v is None) or (bias_k is not None and static):
        raise ValueError(
            f"{_WHERE}: bias_k and bias_v must be passed together, and not with static_k or static_v; expected both or "
            f"neither, got bias_k {'None' if bias_k is None else bias_k.shape}, bias_v "
            f"{'None' if bias_v is None else bias_v.shape}{' with static keys or values' if static else ''}."
        )
    batch, heads, _, width = k.shape
    ks, vs = [k], [v]
    if bias_k is not None and bias_v is not None:
        for rows, row in ((ks, bias_k), (vs, bias_v)):
            added = jnp.broadcast_to(row.reshape(1, heads, 1, width), (batch, heads, 1, width))
            rows.append(placed(added, k, (0, 1, None, 3)))
    if add_zero_attn:
        for rows in (ks, vs):
            rows.append(placed(jnp.zeros((batch, heads, 1, width), k.dtype), k, (0, 1, None, 3)))
    return jnp.concatenate(ks, axis=-2), jnp.concatenate(vs, axis=-2)


def _merged(
    attn_mask: jax.Array | None, key_padding_mask: jax.Array | None, query: jax.Array, keys: tuple[int, int], how: How
) -> jax.Array | None:
    """Return the sum of `attn_mask` and `key_padding_mask` as an array (B or 1, H or 1, L or 1, S), which is added to
    the attention scores. `keys` is a pair: the number of given keys of this device, and the number of appended keys.
    For appended keys, the sum is 0. With `axis_name`, S counts the keys of all devices.
    """
    (batch, heads, length, _), (present, more) = query.shape, keys
    every = present * how.devices(_WHERE)  # keys of all devices, without the appended keys
    bias = None
    if attn_mask is not None:
        bias = added_mask(_WHERE, "attn_mask", attn_mask, query.dtype)
        shape = (length, every) if bias.ndim == 2 else (batch * heads, length, every)
        checks.shape_of(
            _WHERE, "attn_mask", bias, shape, "The mask has shape (queries, keys) or (batch · heads, queries, keys)."
        )
        # (L, S) -> (1, 1, L, S), or (B · H, L, S) -> (B, H, L, S)
        bias = bias.reshape(*((1, 1) if bias.ndim == 2 else (batch, heads)), length, every)
    if key_padding_mask is not None:
        padding = added_mask(_WHERE, "key_padding_mask", key_padding_mask, query.dtype)
        checks.shape_of(_WHERE, "key_padding_mask", padding, (batch, present), "The mask has shape (batch, keys).")
        if how.axis_name is not None:
            padding = lax.all_gather(padding, how.axis_name, axis=1, tiled=True)  # (B, S)
        padding = padding[:, None, None]  # (B, S) -> (B, 1, 1, S)
        if bias is not None:
            wider = jnp.promote_types(bias.dtype, padding.dtype)  # explicit, for callers with strict dtype promotion
            padding = bias.astype(wider) + padding.astype(wider)
        bias = padding
    if bias is None or not more:
        return bias
    return jnp.pad(bias, ((0, 0), (0, 0), (0, 0), (0, more)))  # every query attends to the appended keys
