"""Sequences of different lengths in one array, padded or packed. `nn.utils.rnn` has the public names.

Letters: `B sequences, T the length of the longest sequence, N the sum of all lengths`. A packed batch has all first
steps, then all second steps, and so on. Within each step, longer sequences come first.

The shape of a packed batch depends on its lengths, so every new set of lengths causes a compilation under `jit`. To use
one program for batches of all lengths, keep them padded and pass `lengths=`, which may be traced, to the layers.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.functional import checks
from funcnet.functional.packed_sequence import PackedSequence, invert_permutation, known_integers, lengths_of, places_of

__all__ = [
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "repack",
    "unpack_sequence",
    "unpad_sequence",
]


def pack_padded_sequence(
    input: jax.Array | np.ndarray,
    lengths: ArrayLike | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Pack a padded batch, leaving out the padding.

    Args:
        input: padded batch, (T, B, *), or (B, T, *) with batch_first. Any dtype.
        lengths: B integers from 1 to T, which must not be traced.
        batch_first: if True, the batch dimension comes before time.
        enforce_sorted: if True, the lengths must be in decreasing order. If False, the function sorts the sequences by
            length, and sequences of equal length keep their order.

    Returns:
        a PackedSequence with data (N, *).

    Raises:
        TypeError: if the lengths are traced or not integers.
        ValueError: if the lengths do not fit the input, or are not sorted although `enforce_sorted` is True.

    Differs from torch: a length greater than T raises an error. torch reads past the end of the sequence. In torch, if
    there are more than 16 sequences, those of equal length are in an arbitrary order.

    Example:
        >>> pack_padded_sequence(jnp.array([[1, 2, 0], [3, 4, 5]]), [2, 3], batch_first=True, enforce_sorted=False)[:3]
        (Array([3, 1, 4, 2, 5], dtype=int32), array([2, 2, 1]), array([1, 0]))

    Reference: torch.nn.utils.rnn.pack_padded_sequence.
    """
    where = "pack_padded_sequence"
    input = _array(input)
    if input.ndim < 2 or input.size == 0:
        raise ValueError(
            f"{where}: input has the wrong shape; expected non-empty time and batch dimensions, got {input.shape}. "
            "Use pack_sequence for a list of sequences."
        )
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else input.shape[:2]
    lengths = known_integers(where, "lengths", lengths)
    if lengths.shape != (batch,) or lengths.min() < 1 or lengths.max() > steps:
        raise ValueError(
            f"{where}: lengths do not fit the input; expected {batch} lengths, each from 1 to {steps}, got "
            f"{lengths.tolist()}. Pass one length per sequence of the batch, and leave out empty sequences."
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-lengths, kind="stable")
    elif (np.diff(lengths) > 0).any():
        raise ValueError(
            f"{where}: lengths are not sorted; expected lengths in decreasing order, got {lengths.tolist()}. "
            "Pass enforce_sorted=False to let the function sort them."
        )
    packed = PackedSequence._make((None, _batch_sizes(lengths), order, invert_permutation(order)))
    return repack(packed, input, batch_first)


def repack(sequence: PackedSequence, padded: jax.Array | np.ndarray, batch_first: bool = False) -> PackedSequence:
    """Pack a padded batch (T, B, *) with the layout of `sequence`, for recurrent layers. torch lacks this function."""
    time, place = places_of(sequence)
    return sequence._replace(data=jnp.asarray(padded[(place, time) if batch_first else (time, place)]))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[jax.Array, np.ndarray]:
    """Pad a packed batch, with the sequences in their original order. `pad_packed_sequence` is the inverse of
    `pack_padded_sequence`.

    Args:
        sequence: packed batch with data (N, *).
        batch_first: if True, the batch dimension comes before time in the result.
        padding_value: value that fills the positions after the end of each sequence.
        total_length: length T of the result. The default is the longest length.

    Returns:
        (padded, lengths). `padded` is (T, B, *), or (B, T, *) with batch_first, in the dtype of the data. `lengths` is
        (B,), a NumPy int64 array that is concrete under `jit` too.

    Raises:
        TypeError: if `sequence` is not a PackedSequence.
        ValueError: if `total_length` is less than the longest length.

    Example:
        >>> packed = pack_sequence([jnp.array([1, 2, 3]), jnp.array([4])])
        >>> pad_packed_sequence(packed, batch_first=True)
        (Array([[1, 2, 3],
               [4, 0, 0]], dtype=int32), array([3, 1]))

    Reference: torch.nn.utils.rnn.pad_packed_sequence.
    """
    where = "pad_packed_sequence"
    _packed(where, sequence)
    longest = sequence.batch_sizes.size
    steps = longest if total_length is None else checks.as_int(where, "total_length", total_length)
    if steps < longest:
        raise ValueError(
            f"{where}: total_length is too small; expected at least the longest length, {longest}, got {steps}. "
            "Leave total_length out to use the longest length."
        )
    time, place = places_of(sequence)
    lengths = lengths_of(sequence)
    rows = np.full((lengths.size, steps), -1)
    rows[place, time] = np.arange(time.size)
    return _spread(sequence.data, rows if batch_first else rows.T, padding_value), lengths


def pad_sequence(
    sequences: Iterable[ArrayLike], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> jax.Array:
    """Stack sequences of different lengths in one array, and pad the shorter sequences.

    Args:
        sequences: arrays (length, *) of one dtype, whose shapes differ only in the length.
        batch_first: if True, the batch dimension comes before time in the result.
        padding_value: value of the padding.
        padding_side: 'right', after the end, or 'left', before the start.

    Returns:
        an array (T, B, *), or (B, T, *) with batch_first.

    Raises:
        TypeError: if `sequences` is not iterable, or the dtypes differ.
        ValueError: if there are no sequences, other dimensions differ, or `padding_side` is unknown.

    Differs from torch: different dtypes raise an error. torch uses the dtype of the first sequence.

    Example:
        >>> pad_sequence([jnp.array([1, 2]), jnp.array([3])], batch_first=True, padding_side="left")
        Array([[1, 2],
               [0, 3]], dtype=int32)

    Reference: torch.nn.utils.rnn.pad_sequence.
    """
    arrays, lengths = _listed("pad_sequence", sequences)
    if padding_side not in ("right", "left"):
        raise ValueError(f"pad_sequence: padding_side is unknown; expected 'right' or 'left', got {padding_side!r}.")
    steps = np.arange(lengths.max())
    steps = steps if padding_side == "right" else steps - (lengths.max() - lengths)[:, None]
    starts = np.cumsum(lengths) - lengths
    rows = np.where((steps >= 0) & (steps < lengths[:, None]), starts[:, None] + steps, -1)
    return _spread(_joined(arrays), rows if batch_first else rows.T, padding_value)


def unpad_sequence(
    padded_sequences: jax.Array | np.ndarray, lengths: ArrayLike | Sequence[int], batch_first: bool = False
) -> list[jax.Array]:
    """Return the sequences of a padded batch, each cut to its length.

    Args:
        padded_sequences: padded batch, (T, B, *), or (B, T, *) with batch_first.
        lengths: B integers from 0 to T, which must not be traced.
        batch_first: if True, the batch dimension comes before time.

    Returns:
        a list of B arrays (length, *).

    Raises:
        TypeError: if the lengths are traced or not integers.
        ValueError: if the lengths do not fit the input.

    Differs from torch: a length greater than T or less than 0 raises an error. The arrays that are passed are not
    changed.

    Example:
        >>> [a.tolist() for a in unpad_sequence(jnp.array([[1, 2], [3, 0]]), [2, 1], batch_first=True)]
        [[1, 2], [3]]

    Reference: torch.nn.utils.rnn.unpad_sequence.
    """
    where = "unpad_sequence"
    padded = _array(padded_sequences)
    if padded.ndim < 2:
        raise ValueError(
            f"{where}: the input has the wrong shape; expected time and batch dimensions, got {padded.shape}. Pass a "
            "padded batch."
        )
    padded = padded if batch_first else padded.swapaxes(0, 1)
    lengths = known_integers(where, "lengths", lengths)
    batch, steps = padded.shape[:2]
    if lengths.shape != (batch,) or lengths.min(initial=0) < 0 or lengths.max(initial=0) > steps:
        raise ValueError(
            f"{where}: lengths do not fit the input; expected {batch} lengths, each from 0 to {steps}, got "
            f"{lengths.tolist()}. Pass one length per sequence of the batch."
        )
    return [jnp.asarray(sequence[:length]) for sequence, length in zip(padded, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences.

    Args:
        sequences: non-empty arrays (length, *) of one dtype, whose shapes differ only in the length.
        enforce_sorted: as in `pack_padded_sequence`.

    Returns:
        a PackedSequence.

    Raises:
        TypeError, ValueError: if `pad_sequence` or `pack_padded_sequence` raises such an error.

    Example:
        >>> pack_sequence([jnp.array([1, 2, 3]), jnp.array([4, 5]), jnp.array([6])]).data
        Array([1, 4, 6, 2, 5, 3], dtype=int32)

    Reference: torch.nn.utils.rnn.pack_sequence.
    """
    arrays, lengths = _listed("pack_sequence", sequences)
    return pack_padded_sequence(pad_sequence(arrays), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[jax.Array]:
    """Return the sequences of a packed batch, in their original order.

    Args:
        packed_sequences: packed batch with data (N, *).

    Returns:
        a list of B arrays (length, *).

    Raises:
        TypeError: if `packed_sequences` is not a PackedSequence.

    Example:
        >>> packed = pack_sequence([jnp.array([4]), jnp.array([1, 2, 3])], enforce_sorted=False)
        >>> [a.tolist() for a in unpack_sequence(packed)]
        [[4], [1, 2, 3]]

    Reference: torch.nn.utils.rnn.unpack_sequence.
    """
    _packed("unpack_sequence", packed_sequences)
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)


# ------------------------------------------------------------------------------------------------------ the layout


def _batch_sizes(lengths: np.ndarray) -> np.ndarray:
    return (lengths > np.arange(lengths.max())[:, None]).sum(1)


def _spread(data: jax.Array, rows: np.ndarray, padding_value: float) -> jax.Array:
    """Return `data[rows]`, with the padding value in place of each row whose number is -1."""
    shape = (*rows.shape, *(1,) * (data.ndim - 1))
    real = (rows >= 0).reshape(shape)
    if data.shape[0] == 0:
        return jnp.full((*rows.shape, *data.shape[1:]), padding_value, data.dtype)
    if isinstance(data, np.ndarray):
        return jnp.asarray(np.where(real, data[rows], np.asarray(padding_value).astype(data.dtype)))
    if real.all():
        return data[rows]
    return jnp.where(real, data[np.maximum(rows, 0)], jnp.asarray(padding_value).astype(data.dtype))


def _packed(where: str, sequence: object) -> None:
    if not isinstance(sequence, PackedSequence):
        raise TypeError(
            f"{where}: expected a PackedSequence, got {type(sequence).__name__}. Create it with pack_sequence or "
            "pack_padded_sequence."
        )


def _array(array: ArrayLike) -> Any:
    """Return NumPy arrays unchanged, and convert other values to JAX arrays. NumPy arrays remain NumPy arrays, because
    NumPy needs no compilation for a new shape.
    """
    return array if isinstance(array, np.ndarray) else jnp.asarray(array)


def _listed(where: str, sequences: Iterable[ArrayLike]) -> tuple[list[Any], np.ndarray]:
    """Return (sequences, lengths) after a check that the shapes differ only in the length."""
    if not isinstance(sequences, Iterable):
        raise TypeError(
            f"{where}: expected a list of sequences, got {type(sequences).__name__}. To pass a single sequence, put it "
            "in a list."
        )
    arrays = [_array(a) for a in sequences]
    if not arrays or any(a.ndim == 0 or a.shape[1:] != arrays[0].shape[1:] for a in arrays):
        raise ValueError(
            f"{where}: the sequences do not fit together; expected at least one sequence, and shapes (length, *) that "
            f"differ only in the length, got shapes {[a.shape for a in arrays]}."
        )
    checks.one_dtype(where, **{f"sequence {i}": a for i, a in enumerate(arrays)})
    return arrays, np.array([a.shape[0] for a in arrays])


def _joined(arrays: list[Any]) -> Any:
    on_host = all(isinstance(a, np.ndarray) for a in arrays)
    return np.concatenate(arrays) if on_host else jnp.concatenate(arrays)
