"""Attention over sequences that are split over the devices of a mesh axis, and attention in blocks on one device.

Device i has the i-th part of the sequence. If attention is causal and the keys are passed around a ring, the last
devices have more keys to attend to than the first devices. The first devices would wait for the last devices. To avoid
the wait, the devices first exchange halves of their parts. Each device then has an early piece and a late piece of the
sequence (*zigzag*). After the attention, the devices exchange the halves of the output back.

Letters: `B batch, L queries, S keys (of this device), n devices, E width of a head, V width of a value`. An asterisk
stands for the leading dimensions, such as (batch, heads).
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.attention_blocks import BlockPlan, Masks, attend_in_blocks
from funcnet.random import Rate

__all__ = ["Drop", "How", "attend_in_parts", "segments_of"]


class How(NamedTuple):
    """The arguments of `scaled_dot_product_attention` that split the computation over devices and into blocks."""

    axis_name: Any = None
    context_parallel: str = "ring"
    block_size: int | None = None

    def check(self, where: str) -> None:
        """Raise ValueError if `context_parallel` or `block_size` is invalid."""
        if self.context_parallel not in ("ring", "gather"):
            raise ValueError(
                f"{where}: context_parallel is unknown; expected 'ring' or 'gather', got {self.context_parallel!r}."
            )
        if self.block_size is not None and (not isinstance(self.block_size, int) or self.block_size < 1):
            raise ValueError(
                f"{where}: block_size is invalid; expected a positive int or None, got {self.block_size!r}."
            )

    def devices(self, where: str) -> int:
        """Return the number of devices along the mesh axis `axis_name`, or 1 if it is None."""
        if self.axis_name is None:
            return 1
        try:
            return int(lax.axis_size(self.axis_name))
        except NameError:
            raise ValueError(
                f"{where}: axis_name={self.axis_name!r} is not bound; expected the name of an axis of a surrounding "
                "jax.shard_map, jax.pmap or jax.vmap, got an unbound name. Call the function inside one of them, or "
                "pass axis_name=None."
            ) from None


class Drop(NamedTuple):
    """Dropout of the attention weights: the dropout rate, and the random key, which is the same on all devices."""

    rate: Rate
    rng: jax.Array | None


def segments_of(
    where: str, segment_ids: jax.Array | tuple[jax.Array, jax.Array] | None, query: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array] | None:
    """Return the segment ids of queries (B or 1, …, L) and keys (B or 1, …, S), or None if `segment_ids` is None."""
    if segment_ids is None:
        return None
    pair = segment_ids if isinstance(segment_ids, tuple | list) else (segment_ids, segment_ids)
    found = []
    for ids, array, name in zip(pair, (query, key), ("queries", "keys"), strict=True):
        ids = jnp.asarray(ids)
        wanted = ((array.shape[-2],), (1, array.shape[-2]), (array.shape[0], array.shape[-2]))
        if ids.shape not in (wanted if array.ndim > 2 else wanted[:1]) or not jnp.issubdtype(ids.dtype, jnp.integer):
            raise ValueError(
                f"{where}: segment_ids do not fit the {name}; expected integers of shape (B, length) or (length,) for "
                f"{name} of shape {array.shape}, got {ids.dtype} of shape {ids.shape}. Pass a pair if queries and keys "
                "have different segments."
            )
        lead = ids.shape[:-1]  # (B,), (1,) or ()
        # ones for the dimensions between batch and length, such as the heads, so that the ids broadcast with the scores
        found.append(ids.reshape(*lead, *(1,) * (array.ndim - 2 - len(lead)), ids.shape[-1]))  # (B or 1, …, L or S)
    return found[0], found[1]


def attend_in_parts(
    where: str,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None,
    segments: tuple[jax.Array, jax.Array] | None,
    how: How,
    scale: float,
    is_causal: bool,
    drop: Drop,
) -> jax.Array:
    """Return the attention (*, L, V) of this device's queries to the keys of all devices, without storing all scores.

    `mask` is the `attn_mask` of `scaled_dot_product_attention`, except that True in a boolean mask marks a hidden
    position.
    """
    if isinstance(drop.rate, jax.core.Tracer):
        raise TypeError(
            f"{where}: dropout_p is traced; expected a Python float for attention in blocks or over devices, got "
            f"{drop.rate.aval}. Leave out block_size and axis_name, or make the net outside of jit and vmap."
        )
    count = how.devices(where)
    lead = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (jnp.broadcast_to(one, (*lead, *one.shape[-2:])) for one in (query, key, value))  # one `*`
    length, keys = query.shape[-2], key.shape[-2]
    masks = Masks(*_rows_or_keys(where, mask, lead, length, keys, count), *(segments or (None, None)))
    is_ring = count > 1 and how.context_parallel == "ring"
    if count > 1 and not is_ring:  # (*, S, E) -> (*, S·n, E)
        key, value = (lax.all_gather(one, how.axis_name, axis=one.ndim - 2, tiled=True) for one in (key, value))
        masks = _gathered(masks, how.axis_name)
    # Without a causal mask, all devices have the same work anyway. A part of odd length has no two equal halves.
    is_zigzag = is_ring and is_causal and length == keys and length % 2 == 0
    of_keys = _block(key.shape[-2] // 2 if is_zigzag else key.shape[-2], how.block_size, is_padded=count == 1)
    plan = BlockPlan(
        scale,
        # In zigzag, a block lies within one half. A block with an early and a late half could hardly ever be skipped.
        queries=_block(length // 2 if is_zigzag else length, how.block_size, is_padded=count == 1),
        keys=of_keys,
        is_causal=is_causal,
        dtype=checks.wide_dtype(query),
        rate=0.0 if drop.rate == 1 else float(drop.rate),  # the blocks divide by 1 - rate
        whole=(*lead, length * count, keys * count),  # `keys`, not `key.shape[-2]`, which counts gathered keys
        is_padded=count == 1 and key.shape[-2] % of_keys > 0,
        axis_name=how.axis_name if count > 1 else None,
        is_ring=is_ring,
        is_zigzag=is_zigzag,
    )
    rng = drop.rng if plan.rate > 0 else None
    if drop.rate == 1:
        value = value * 0  # in place of dropping every weight
    if count == 1:
        query, key, value, masks = _padded(plan, query, key, value, masks)
    if not is_zigzag:
        return attend_in_blocks(plan, query, key, value, masks, rng)[..., :length, :]  # (*, L, V) without padding
    go = lambda one, axis: None if one is None else _to_zigzag(one, how.axis_name, count, axis)
    # The columns of the mask stay in order, because they are read at the positions of the keys (`BlockPlan.positions`).
    rows = masks.rows if masks.rows is None or masks.rows.shape[-2] == 1 else go(masks.rows, -2)
    masks = Masks(rows, go(masks.keys, -1), go(masks.query_segments, -1), go(masks.key_segments, -1))
    out = attend_in_blocks(plan, go(query, -2), go(key, -2), go(value, -2), masks, rng)
    return _from_zigzag(out, how.axis_name, count)


def _rows_or_keys(
    where: str, mask: jax.Array | None, lead: tuple[int, ...], length: int, keys: int, count: int
) -> tuple[jax.Array | None, jax.Array | None]:
    """Return a pair of masks: one for this device's queries and all keys, and one for this device's keys. At least one
    mask of the pair is None.
    """
    if mask is None:
        return None, None
    queries, columns = mask.shape[-2:] if mask.ndim > 1 else (0, 0)  # with (0, 0), the mask fits nothing
    above, most = mask.shape[:-2], len(mask.shape[:-2])
    fits = most <= len(lead) and all(n in (1, m) for n, m in zip(above, lead[len(lead) - most :], strict=True))
    if fits and queries in (1, length) and columns in (1, keys * count):
        return mask, None
    if fits and queries == 1 and columns == keys:
        return None, mask
    raise ValueError(
        f"{where}: attn_mask does not fit the parts of the sequence; expected (…, {length} or 1, {keys * count}) for "
        f"this device's queries and all keys, or (…, 1, {keys}) for this device's keys, where the leading dimensions "
        f"broadcast to {lead}, got {mask.shape}."
    )


def _gathered(masks: Masks, axis_name: Hashable) -> Masks:
    """Return the masks with the keys of all devices, (*, S·n), instead of this device's keys, (*, S)."""
    whole = lambda one: None if one is None else lax.all_gather(one, axis_name, axis=one.ndim - 1, tiled=True)
    rows = masks.rows if masks.keys is None else whole(masks.keys)  # (*, 1, S) -> (*, 1, S·n)
    return Masks(rows, None, masks.query_segments, whole(masks.key_segments))


def _block(length: int, most: int | None, is_padded: bool) -> int:
    """Return the number of queries or keys in a block, at most `most`. Unless `is_padded` is True, this number divides
    `length`.
    """
    if most is None or most >= length:
        return max(length, 1)
    return most if is_padded else max(size for size in range(1, most + 1) if length % size == 0)


def _padded(plan: BlockPlan, query: jax.Array, key: jax.Array, value: jax.Array, masks: Masks) -> Any:
    """Append zeros to query, key, value and masks, so that the block lengths divide the numbers of queries and keys."""

    def pad(array: jax.Array | None, block: int, axis: int) -> Any:
        if array is None or array.shape[axis] == 1 or not (missing := -array.shape[axis] % block):
            return array
        widths = [(0, 0)] * array.ndim
        widths[axis] = (0, missing)
        return jnp.pad(array, widths)

    # The rows of padding queries are cut from the output, and `BlockPlan.is_padded` hides padding keys. The padding of
    # masks and segment ids can therefore have any value.
    masks = Masks(
        pad(masks.rows, plan.queries, -2), None, pad(masks.query_segments, plan.queries, -1), masks.key_segments
    )
    masks = masks._replace(key_segments=pad(masks.key_segments, plan.keys, -1))
    return pad(query, plan.queries, -2), pad(key, plan.keys, -2), pad(value, plan.keys, -2), masks


def _routes(count: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return two lists of (source, target) devices: the routes of the first and of the second half of every device's
    part. These halves are the pieces 0 to 2n - 1 of the sequence. Piece p goes to device p if p < n, and to device
    `2n - 1 - p` otherwise.
    """
    home = lambda piece: piece if piece < count else 2 * count - 1 - piece
    return [(i, home(2 * i)) for i in range(count)], [(i, home(2 * i + 1)) for i in range(count)]


def _to_zigzag(array: jax.Array, axis_name: Hashable, count: int, axis: int) -> jax.Array:
    """Exchange pieces of the sequence between n devices. Device i has pieces 2i and 2i + 1 before the exchange, and
    pieces i and 2n - 1 - i after it.
    """
    first, second = _routes(count)
    halves = jnp.split(array, 2, axis=axis)  # pieces 2i and 2i + 1: L -> L/2 and L/2
    even, odd = lax.ppermute(halves[0], axis_name, first), lax.ppermute(halves[1], axis_name, second)
    # Every device gets one even and one odd piece. On device i, the early piece is i, and the late piece is 2n - 1 - i.
    is_even = lax.axis_index(axis_name) % 2 == 0
    return jnp.concatenate([jnp.where(is_even, even, odd), jnp.where(is_even, odd, even)], axis=axis)  # L/2 twice -> L


def _from_zigzag(array: jax.Array, axis_name: Hashable, count: int) -> jax.Array:
    """Send the pieces of the second-to-last dimension back to the devices from which `_to_zigzag` took them."""
    first, second = ([(to, source) for source, to in route] for route in _routes(count))
    low, high = jnp.split(array, 2, axis=-2)  # (*, L, V) -> (*, L/2, V) and (*, L/2, V)
    is_even = lax.axis_index(axis_name) % 2 == 0
    even, odd = jnp.where(is_even, low, high), jnp.where(is_even, high, low)
    return jnp.concatenate([lax.ppermute(even, axis_name, first), lax.ppermute(odd, axis_name, second)], axis=-2)
