"""Attention computed in blocks, without storing all scores, for long sequences and for sequences split over devices.

The keys are processed one block at a time. For each query, three values are kept: the largest score m so far, the sum
of `exp(score - m)` over the keys, and the sum of the values with the weights `exp(score - m)`. Each block of keys
updates m and both sums. After the last block, the quotient of the two sums is the exact output. The backward pass
computes the scores of each block again, and turns them into weights with the stored `log Σ exp(score)` of each query.

If `axis_name` is given, the sequence is split over devices, and each device has a part of the queries. In a *ring*,
each device also has only a part of the keys and values. The parts of the keys and values are passed from device to
device, and each device attends to the part that it currently holds. In the backward pass, the gradients of the keys and
values are passed on together with the keys and values.

Letters: `L queries, S keys (of this device), n devices, E width of a head, V width of a value; l queries and s keys of
a block, N blocks of queries, M blocks of keys`. An asterisk stands for the leading dimensions.

Reference: Milakov and Gimelshein 2018, arXiv:1805.02867 (the softmax); Dao et al. 2022, arXiv:2205.14135 (the backward
pass); Liu et al. 2023, arXiv:2310.01889 (the ring)
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from funcnet import random
from funcnet.functional.attention_core import masked
from funcnet.operators.varying_axes import vary_like

__all__ = ["BlockPlan", "Masks", "attend_in_blocks"]

Parts = tuple[Any, ...]  # arrays that are passed on together, in the order in which the code unpacks them
Rng = jax.Array | None  # a random key, if there is dropout


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """Settings of attention that is computed in blocks.

    Attributes:
        scale: factor that multiplies the scores.
        queries: number of queries in a block, a divisor of L.
        keys: number of keys in a block, a divisor of S.
        is_causal: whether a query attends only to keys at the same and at earlier positions.
        dtype: dtype in which the scores and their sums are computed.
        rate: dropout rate of the weights, below 1.
        whole: shape of the scores of the entire sequence, (*, queries of all devices, keys of all devices). The dropout
            mask of a block is a part of a mask of this shape.
        is_padded: whether padding keys follow the last key of the sequence. Padding keys are hidden from all queries.
        axis_name: mesh axis along which the queries are split, or None on one device.
        is_ring: whether the keys are split along `axis_name` too. If False, each device has the keys of the entire
            sequence.
        is_zigzag: if True, the sequence is cut into 2n pieces, and device i holds pieces i and 2n - 1 - i. If False,
            the sequence is cut into n parts, and device i holds the i-th part.
    """

    scale: float
    queries: int
    keys: int
    is_causal: bool
    dtype: Any
    rate: float
    whole: tuple[int, ...]
    is_padded: bool = False
    axis_name: Any = None
    is_ring: bool = False
    is_zigzag: bool = False

    @property
    def devices(self) -> int:
        """The number of devices in the ring, or 1 if the keys are not passed around a ring."""
        return lax.axis_size(self.axis_name) if self.is_ring else 1

    def positions(self, device: int | jax.Array, length: int) -> jax.Array:
        """Return, for each of the `length` entries of a device's part, the position of this entry in the entire
        sequence.
        """
        place = jnp.arange(length)
        if not self.is_zigzag:
            return device * length + place
        half = length // 2
        # `- half`, because `place` continues from the first half in the second
        return jnp.where(place < half, device * half, (2 * self.devices - 1 - device) * half - half) + place


class Masks(NamedTuple):
    """The masks of attention that is computed in blocks. As in `attend`, a boolean mask is True at the positions that
    are hidden, and a floating-point mask is added to the scores.

    Attributes:
        rows: None, or the attention mask for this device's queries and all keys, (*, L or 1, keys of all devices).
        keys: None, or a mask (*, 1, S) of this device's keys. In a ring, this mask is passed from device to device with
            the keys.
        query_segments, key_segments: integer segment ids of the queries (*, L) and of the keys (*, S). A query attends
            only to keys with the same segment id.
    """

    rows: jax.Array | None = None
    keys: jax.Array | None = None
    query_segments: jax.Array | None = None
    key_segments: jax.Array | None = None


class _Keys(NamedTuple):
    """Keys with their values, their mask and their segment ids, which are passed together from device to device in a
    ring. The class is also used for queries, which have no values.
    """

    key: jax.Array
    value: jax.Array
    mask: jax.Array | None
    segments: jax.Array | None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def attend_in_blocks(
    plan: BlockPlan, query: jax.Array, key: jax.Array, value: jax.Array, masks: Masks, rng: jax.Array | None
) -> jax.Array:
    """Return the attention (*, L, V) of query (*, L, E) to key (*, S, E) and value (*, S, V). The leading dimensions of
    query, key and value are equal. See `scaled_dot_product_attention`. If all keys of a query are hidden, the output of
    this query is 0.

    Only reverse-mode differentiation of this function works.
    """
    return _forward(plan, query, key, value, masks, rng)[0]


def _forward(plan: BlockPlan, query: jax.Array, key: jax.Array, value: jax.Array, masks: Masks, rng: Rng) -> Parts:
    """Return the attention output (*, L, V), and `log Σ exp(score)` over all keys for each query, (*, L, 1)."""
    device = _device(plan)
    places = plan.positions(device, query.shape[-2]).reshape(-1, plan.queries)  # (L,) -> (N, l)
    queries = _Keys(_blocks(query * plan.scale, plan.queries), None, *_query_side(plan, masks, query.shape[-2]))  # type: ignore[arg-type]
    lead = (len(places), *query.shape[:-2], plan.queries)  # N, *, l
    start = (
        jnp.zeros((*lead, value.shape[-1]), plan.dtype),
        jnp.full((*lead, 1), jnp.finfo(plan.dtype).min, plan.dtype),  # not -inf, because -inf - (-inf) is NaN
        jnp.zeros((*lead, 1), plan.dtype),
    )
    start = jax.tree.map(lambda leaf: vary_like(leaf, query, key, value, *masks), start)

    def on_keys(sums: Parts, block: Parts) -> tuple[Any, None]:
        keys, at = block

        def on_queries(_: None, one: Parts) -> tuple[None, Any]:
            sums, queries, rows = one
            return None, _skipping(plan, rows, at, lambda s: _add(plan, s, queries, keys, rows, at, rng), sums)

        return lax.scan(on_queries, None, (sums, queries, places))[1], None  # the new sums of all N blocks

    def at_device(source: int | jax.Array, keys: _Keys, sums: Parts) -> Any:
        at = plan.positions(source, key.shape[-2]).reshape(-1, plan.keys)  # (S,) -> (M, s)
        return lax.scan(on_keys, sums, (_key_blocks(plan, keys), at))[0]

    going = _Keys(key, value, masks.keys, masks.key_segments)
    total, largest, divisor = _around(plan, going, start, at_device)
    divisor = jnp.maximum(divisor, 1)  # the sum is at least 1, unless all keys are hidden
    out = (_joined(total / divisor)).astype(value.dtype)  # (N, *, l, V) -> (*, L, V)
    return out, _joined(largest + jnp.log(divisor))  # (N, *, l, 1) -> (*, L, 1)


def _add(plan: BlockPlan, sums: Parts, queries: _Keys, keys: _Keys, rows: jax.Array, at: jax.Array, rng: Rng) -> Any:
    """Update the sums of a block of queries with a block of keys. `sums` is (weighted sum of the values, largest score,
    sum of the exponentials), of shapes (*, l, V), (*, l, 1) and (*, l, 1).
    """
    total, largest, divisor = sums
    scores = _scores(plan, queries, keys, rows, at)
    now = jnp.maximum(largest, scores.max(-1, keepdims=True))  # (*, l, 1)
    weights, before = jnp.exp(scores - now), jnp.exp(largest - now)  # `before` rescales the sums to the new maximum
    divisor = divisor * before + weights.sum(-1, keepdims=True)
    # Dropout follows the softmax, so the divisor is the sum of all exponentials, dropped or not.
    dropped = weights if rng is None else weights * _kept(plan, rng, rows, at)
    product = jnp.matmul(dropped.astype(keys.value.dtype), keys.value, preferred_element_type=plan.dtype)  # (*, l, V)
    return total * before + product, now, divisor


def _scores(plan: BlockPlan, queries: _Keys, keys: _Keys, rows: jax.Array, at: jax.Array) -> jax.Array:
    """Return the masked scores between a block of queries at positions `rows` and a block of keys at positions `at`."""
    scores = jnp.matmul(queries.key, keys.key.swapaxes(-1, -2), preferred_element_type=plan.dtype)  # (*, l, s)
    if queries.mask is not None:
        scores = masked(scores, _columns(queries.mask, at))  # (*, l or 1, s or 1)
    if keys.mask is not None:
        scores = masked(scores, keys.mask)  # (*, 1, s)
    if queries.segments is not None and keys.segments is not None:
        scores = masked(scores, queries.segments[..., :, None] != keys.segments[..., None, :])  # (*, l, s)
    if plan.is_causal:
        scores = masked(scores, rows[:, None] < at)  # (l, s)
    if plan.is_padded:
        scores = masked(scores, at >= plan.whole[-1])  # (s,)
    return scores


def _columns(mask: jax.Array, at: jax.Array) -> jax.Array:
    # "clip" matters only for padding keys, for which the mask has no column. `_scores` hides them.
    return mask if mask.shape[-1] == 1 else jnp.take(mask, at, axis=-1, mode="clip")


def _kept(plan: BlockPlan, rng: jax.Array, rows: jax.Array, at: jax.Array) -> jax.Array:
    """Return the dropout factors of a block of attention weights: 0 for a dropped weight, otherwise 1 / (1 - rate)."""
    part = (*(None,) * (len(plan.whole) - 2), rows, at)  # all leading entries, and these rows and columns: (*, l, s)
    return random.dropout_mask(rng, plan.whole, plan.rate, part=part).astype(plan.dtype) / (1 - plan.rate)


# ------------------------------------------------------------------------------------------------------ backward pass


def _start(plan: BlockPlan, *arrays: Any) -> tuple[jax.Array, Any]:
    out, logs = _forward(plan, *arrays)
    return out, (arrays, out, logs)


def _backward(plan: BlockPlan, kept: Parts, change: jax.Array) -> Parts:
    (query, key, value, masks, rng), out, logs = kept
    learned = tuple(mask is not None and mask.dtype != bool for mask in (masks.rows, masks.keys))
    places = plan.positions(_device(plan), query.shape[-2]).reshape(-1, plan.queries)  # (N, l)
    queries = _Keys(_blocks(query * plan.scale, plan.queries), None, *_query_side(plan, masks, query.shape[-2]))  # type: ignore[arg-type]
    # Σ weight · gradient of the weight, over all keys: equal to change · out, so it needs no pass over the keys.
    mean = (change.astype(plan.dtype) * out.astype(plan.dtype)).sum(-1, keepdims=True)  # (*, L, 1)
    given = tuple(_blocks(one, plan.queries) for one in (change, mean, logs))  # (N, *, l, V or 1)
    like = lambda array: vary_like(jnp.zeros(array.shape, plan.dtype), query, key, value, *masks)
    of_queries = (like(queries.key), like(queries.mask) if learned[0] else None)
    of_keys = (like(key), like(value), like(masks.keys) if learned[1] else None)

    def on_keys(of_queries: Parts, block: Parts) -> tuple[Any, Any]:
        keys, at, before = block

        def on_queries(of_keys: Parts, one: Parts) -> tuple[Any, Any]:
            of_queries, queries, rows, given = one
            both = (of_queries, of_keys)
            both = _skipping(
                plan, rows, at, lambda both: _add_gradients(plan, both, queries, keys, rows, at, given, rng), both
            )
            return both[1], both[0]  # the gradients of the keys are a running sum over the blocks of queries

        of_keys, of_queries = lax.scan(on_queries, before, (of_queries, queries, places, given))
        return of_queries, of_keys

    def at_device(source: int | jax.Array, going: Parts, of_queries: Parts) -> Any:
        keys, of_keys = going
        at = plan.positions(source, key.shape[-2]).reshape(-1, plan.keys)
        before = _blocks_of_keys(plan, of_keys)
        of_queries, of_keys = lax.scan(on_keys, of_queries, (_key_blocks(plan, keys), at, before))
        return of_queries, (keys, _joined_keys(of_keys))

    going = (_Keys(key, value, masks.keys, masks.key_segments), of_keys)
    of_queries, of_keys = _around_and_home(plan, going, of_queries, at_device)
    # The scores were computed from query · scale. The gradient of the key contains this factor already.
    d_query = (_joined(of_queries[0]) * plan.scale).astype(query.dtype)
    d_key, d_value = of_keys[0].astype(key.dtype), of_keys[1].astype(value.dtype)
    d_rows = None if not learned[0] else _joined_rows(of_queries[1], masks.rows).astype(masks.rows.dtype)
    d_keys = None if not learned[1] else of_keys[2].astype(masks.keys.dtype)
    return d_query, d_key, d_value, Masks(d_rows, d_keys, None, None), None


attend_in_blocks.defvjp(_start, _backward)


def _add_gradients(
    plan: BlockPlan,
    both: Parts,
    queries: _Keys,
    keys: _Keys,
    rows: jax.Array,
    at: jax.Array,
    given: Parts,
    rng: jax.Array | None,
) -> Any:
    """Add the contribution of one block of queries and one block of keys to the gradients of the attention's inputs."""
    (d_query, d_rows), (d_key, d_value, d_mask) = both
    change, mean, logs = given
    weights = jnp.exp(_scores(plan, queries, keys, rows, at) - logs)  # the softmax over the keys of all blocks
    of_weights = jnp.matmul(change, keys.value.swapaxes(-1, -2), preferred_element_type=plan.dtype)  # (*, l, s)
    dropped = weights
    if rng is not None:
        kept = _kept(plan, rng, rows, at)
        dropped, of_weights = weights * kept, of_weights * kept
    of_scores = weights * (of_weights - mean)  # the derivative of the softmax; `mean` includes dropout, as `out` does
    dot = functools.partial(jnp.matmul, preferred_element_type=plan.dtype)
    narrow = of_scores.astype(keys.key.dtype)
    d_query = d_query + dot(narrow, keys.key)  # (*, l, E)
    d_key = d_key + dot(narrow.swapaxes(-1, -2), queries.key)  # (*, s, E)
    d_value = d_value + dot(dropped.astype(change.dtype).swapaxes(-1, -2), change)  # (*, s, V)
    if d_mask is not None:
        d_mask = d_mask + _summed_to(of_scores, keys.mask.shape)  # type: ignore[union-attr]
    if d_rows is not None:
        block = _summed_to(of_scores, (*d_rows.shape[:-1], 1 if d_rows.shape[-1] == 1 else len(at)))
        # "drop" drops padding keys, for which the mask has no column
        d_rows = d_rows + block if d_rows.shape[-1] == 1 else d_rows.at[..., at].add(block, mode="drop")
    return (d_query, d_rows), (d_key, d_value, d_mask)


# -------------------------------------------------------------------------------------------------- blocks and the ring


def _skipping(plan: BlockPlan, rows: jax.Array, at: jax.Array, add: Callable[[Any], Any], sums: Parts) -> Any:
    """Return `add(sums)`, or `sums` if the causal mask hides every key of the block from every query of the block."""
    return lax.cond(rows.max() >= at.min(), add, lambda sums: sums, sums) if plan.is_causal else add(sums)


def _around(plan: BlockPlan, going: Parts, sums: Parts, at_device: Callable[..., Any]) -> Any:
    """Pass the keys around the ring, and return this device's sums over the keys of all devices. Each device sends the
    keys that it holds to the next device while it computes with them.
    """
    count, device = plan.devices, _device(plan) if plan.is_ring else 0

    def step(carry: Parts, number: jax.Array) -> tuple[Any, None]:
        going, sums = carry  # keys that have moved on `number` times since they left their own device
        return (_next(plan, going), at_device((device - number) % count, going, sums)), None

    if count > 1:
        (going, sums), _ = lax.scan(step, (going, sums), jnp.arange(count - 1))
    return at_device((device - count + 1) % count, going, sums)


def _around_and_home(plan: BlockPlan, going: tuple[Any, Any], sums: Parts, at_device: Callable[..., Any]) -> Any:
    """Pass the keys and their gradients, the pair `going`, around the ring. Return (sums, gradients of this device's
    keys). Each device adds its contribution to the gradients that it receives. After the last device, only the
    gradients are sent back to the device that owns their keys.
    """
    count, device = plan.devices, _device(plan) if plan.is_ring else 0

    def step(carry: Parts, number: jax.Array) -> tuple[Any, None]:
        going, sums = carry
        sums, going = at_device((device - number) % count, going, sums)
        return (_next(plan, going), sums), None

    if count > 1:
        (going, sums), _ = lax.scan(step, (going, sums), jnp.arange(count - 1))
    sums, (_, of_keys) = at_device((device - count + 1) % count, going, sums)
    return sums, _next(plan, of_keys)  # the n-th of n moves brings the gradients home


def _next(plan: BlockPlan, going: Parts) -> Any:
    count = plan.devices
    if count == 1:
        return going
    return lax.ppermute(going, plan.axis_name, [(i, (i + 1) % count) for i in range(count)])


def _device(plan: BlockPlan) -> Any:
    return 0 if plan.axis_name is None else lax.axis_index(plan.axis_name)


def _blocks(array: jax.Array, size: int) -> jax.Array:
    """Split an array (*, length, width) into blocks (blocks, *, size, width), where blocks · size = length."""
    *lead, length, width = array.shape
    return jnp.moveaxis(array.reshape(*lead, length // size, size, width), -3, 0)  # from (*, blocks, size, width)


def _joined(blocks: jax.Array) -> jax.Array:
    """Join blocks (blocks, *, size, width) to an array (*, length, width), where length = blocks · size."""
    array = jnp.moveaxis(blocks, 0, -3)  # (*, blocks, size, width)
    *lead, count, size, width = array.shape
    return array.reshape(*lead, count * size, width)  # not -1, which an empty array leaves open


def _query_side(plan: BlockPlan, masks: Masks, length: int) -> tuple[jax.Array | None, jax.Array | None]:
    """Return the rows of the attention mask and the segment ids of the queries, each divided into blocks of queries."""
    count = length // plan.queries
    rows, segments = masks.rows, masks.query_segments
    if rows is not None:
        one_row = rows.shape[-2] == 1
        # (*, L, keys) -> (N, *, l, keys), or (*, 1, keys) -> (N, *, 1, keys)
        rows = jnp.broadcast_to(rows, (count, *rows.shape)) if one_row else _blocks(rows, plan.queries)
    if segments is not None:
        segments = _blocks(segments[..., None], plan.queries)[..., 0]  # (*, L) -> (N, *, l)
    return rows, segments


def _key_blocks(plan: BlockPlan, keys: _Keys) -> _Keys:
    last = lambda array: _blocks(array[..., None], plan.keys)[..., 0]  # (*, S) -> (M, *, s)
    mask, segments = (None if one is None else last(one) for one in (keys.mask, keys.segments))
    return _Keys(_blocks(keys.key, plan.keys), _blocks(keys.value, plan.keys), mask, segments)


def _blocks_of_keys(plan: BlockPlan, gradients: Parts) -> Any:
    keys = _key_blocks(plan, _Keys(gradients[0], gradients[1], gradients[2], None))
    return keys.key, keys.value, keys.mask


def _joined_keys(gradients: Parts) -> Any:
    mask = gradients[2]
    if mask is not None:
        mask = _joined(mask[..., None])[..., 0]  # (M, *, s) -> (*, S)
    return _joined(gradients[0]), _joined(gradients[1]), mask


def _joined_rows(blocks: jax.Array, rows: jax.Array) -> jax.Array:
    return blocks.sum(0) if rows.shape[-2] == 1 else _joined(blocks)  # (N, *, l or 1, keys) -> (*, L or 1, keys)


def _summed_to(array: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Undo a broadcast: sum `array` over the dimensions that an array of shape `shape` lacks or has with size 1."""
    array = array.sum(tuple(range(array.ndim - len(shape))))
    repeated = tuple(i for i, (n, m) in enumerate(zip(array.shape, shape, strict=True)) if m == 1 != n)
    return array.sum(repeated, keepdims=True)
