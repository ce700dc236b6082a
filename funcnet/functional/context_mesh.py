"""Attention inside a mesh whose axis `context` divides the sequences between devices.

Under `jit`, the compiler divides a program between the devices of the surrounding mesh, that of `jax.set_mesh` or
`jax.sharding.use_abstract_mesh`. It can divide every layer by positions of the sequence, except attention, for which it
would gather all keys on each device. Attention therefore runs in `jax.shard_map` along the axis `context`, as the
program of one device (`attend_in_parts`). `scaled_dot_product_attention` calls `attend_on_mesh`, so every layer that
calls `scaled_dot_product_attention` works on such a mesh. Its results are those of one device, up to rounding.

Letters: `L queries, S keys, E width of a head, V width of a value, n devices along the axis`.
"""

import jax
from jax.sharding import PartitionSpec

from funcnet.arguments import integer
from funcnet.functional.context_parallel import Drop, How, attend_in_parts

__all__ = ["CONTEXT", "attend_on_mesh", "check_length", "context_parts", "context_size"]

CONTEXT = "context"
"""The mesh axis along which sequences are sharded."""


def context_size() -> int:
    """Return the size of the axis `context` of the surrounding mesh. Return 1 if there is no such axis, or if the
    compiler does not shard along it (inside `jax.shard_map`, and for Explicit axes).

    Example:
        >>> context_size()
        1
    """
    mesh = jax.sharding.get_abstract_mesh()
    return int(mesh.shape[CONTEXT]) if CONTEXT in mesh.auto_axes else 1


def context_parts(where: str, queries: int, keys: int) -> int:
    """Return the number of parts into which the surrounding mesh divides the sequences of an attention.

    Args:
        where: prefix for error messages.
        queries, keys: numbers of queries and keys, L and S.

    Returns:
        The size of the mesh axis `context`, or 1 if there is no such axis. The result is also 1 if L and S differ and
        the axis does not divide both, as in attention from a few queries to a long sequence. The compiler then divides
        the attention.

    Raises:
        ValueError: if L = S, and the axis does not divide L.

    Example:
        >>> context_parts("here", 16, 16)
        1
    """
    count = context_size()
    if count > 1 and queries == keys:
        check_length(queries, count, where=where)
    return count if queries * keys and queries % count == 0 and keys % count == 0 else 1


def check_length(length: int, parts: int, *, where: str) -> None:
    """Check that sequences divide evenly over the mesh axis `context`.

    Args:
        length: length of the sequences.
        parts: size of the mesh axis `context`.
        where: prefix for error messages.

    Raises:
        ValueError: if `length` is not a multiple of `parts`.

    Example:
        >>> check_length(512, parts=4, where="pretrain")
    """
    if integer(where, "length", length) % integer(where, "parts", parts, 1):
        near = [m for m in (length // parts * parts, (length // parts + 1) * parts) if m > 0]
        raise ValueError(
            f"{where}: the mesh axis context={parts} does not divide the length of the sequences; expected a multiple "
            f"of {parts}, got {length}. Use a length of {' or '.join(map(str, near))}, or another size for the axis."
        )


def attend_on_mesh(
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
    """Return the attention (*, L, V) of entire sequences, each of which the surrounding mesh divides into n parts.

    The arguments are those of `attend_in_parts`, for the entire sequence: query (*, L, E), key (*, S, E), value
    (*, S, V), and a mask that broadcasts to (*, L, S). The numbers n, L and S must satisfy `context_parts`.
    """

    def run(
        query: jax.Array,
        key: jax.Array,
        value: jax.Array,
        mask: jax.Array | None,
        segments: tuple[jax.Array, jax.Array] | None,
        rng: jax.Array | None,
    ) -> jax.Array:
        part = how._replace(axis_name=CONTEXT)
        return attend_in_parts(where, query, key, value, mask, segments, part, scale, is_causal, Drop(drop.rate, rng))

    count, whole = context_size(), PartitionSpec()
    of_mask = whole
    if mask is not None and mask.shape[-2] > 1:
        of_mask = _along(mask, -2)  # (*, L, S) -> (*, L/n, S)
    elif mask is not None and mask.shape[-1] > count:  # with one key per device, (*, 1, 1) would mean all keys
        of_mask = _along(mask, -1)  # (*, 1, S) -> (*, 1, S/n)
    of_segments = whole if segments is None else tuple(_along(ids, -1) for ids in segments)
    lengths = [_along(array, -2) for array in (query, key, value)]
    longest = max(lengths, key=len)  # the output has as many dimensions as the input with the most
    split = jax.shard_map(
        run,
        in_specs=(*lengths, of_mask, of_segments, whole),
        out_specs=longest,
        axis_names={CONTEXT},
        check_vma=False,
    )
    return split(query, key, value, mask, segments, drop.rng)


def _along(array: jax.Array, axis: int) -> PartitionSpec:
    """Return the spec that shards dimension `axis`, a negative number, along `context`."""
    return PartitionSpec(*(None,) * (array.ndim + axis), CONTEXT)
