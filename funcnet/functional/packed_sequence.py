"""`PackedSequence` and functions for its layout. `pack_and_pad.py` has the functions that create packed sequences.

Letters: `B sequences, T the length of the longest sequence, N the sum of all lengths`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

__all__ = ["PackedSequence", "invert_permutation", "known_integers", "lengths_of", "places_of"]


class _Fields(NamedTuple):
    data: Any
    batch_sizes: np.ndarray
    sorted_indices: np.ndarray | None
    unsorted_indices: np.ndarray | None


class PackedSequence(_Fields):
    """A batch of sequences of different lengths, stored without padding, as made by the functions of `nn.utils.rnn`.
    Recurrent layers accept and return packed batches.

    Args:
        data: steps of all sequences, (N, *).
        batch_sizes: for each step, the number of sequences that have this step, (T,). batch_sizes is a NumPy int64
            array, because torch keeps it on the CPU.
        sorted_indices: index of the sequence at each sorted position, (B,), or None if the sequences were
            already sorted.
        unsorted_indices: sorted position of each sequence, (B,). By default, unsorted_indices is computed from
            `sorted_indices`.

    In JAX, `data` is the only leaf of the pytree, and the other fields are its static layout. `jax.grad` and
    `jax.tree.map` therefore see only the array `data`. Under `jit`, each new set of sequence lengths causes a
    compilation. To change the data, write `packed._replace(data=f(packed.data))`.

    Raises:
        TypeError: if the layout is traced or not integer, or `batch_sizes` are missing.
        ValueError: if the batch sizes are not positive and in decreasing order, or do not fit the data or the indices.

    Differs from torch: an invalid layout raises an error when the PackedSequence is created, not when it is used. A
    PackedSequence has no methods for devices and dtypes. Use `funcnet.tree.cast(packed, dtype)`.

    Example:
        >>> from funcnet.nn.utils.rnn import pack_sequence
        >>> packed = pack_sequence([jnp.array([1, 2, 3]), jnp.array([4])])
        >>> packed.data, packed.batch_sizes
        (Array([1, 4, 2, 3], dtype=int32), array([2, 1, 1]))

    Reference: torch.nn.utils.rnn.PackedSequence.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: ArrayLike | None = None,
        sorted_indices: ArrayLike | None = None,
        unsorted_indices: ArrayLike | None = None,
    ) -> "PackedSequence":
        if batch_sizes is None:  # torch's old form, with both in one pair
            if not isinstance(data, (tuple, list)) or len(data) != 2:
                raise TypeError(
                    "PackedSequence: batch_sizes is missing; expected data and batch_sizes, got batch_sizes=None. "
                    "Create it with pack_sequence or pack_padded_sequence."
                )
            data, batch_sizes = data
        sizes = known_integers("PackedSequence", "batch_sizes", batch_sizes)
        order = None if sorted_indices is None else known_integers("PackedSequence", "sorted_indices", sorted_indices)
        back = invert_permutation(order)
        if unsorted_indices is not None:
            back = known_integers("PackedSequence", "unsorted_indices", unsorted_indices)
        if sizes.ndim != 1 or sizes.size == 0 or sizes[-1] < 1 or (np.diff(sizes) > 0).any():
            raise ValueError(
                "PackedSequence: batch_sizes are invalid; expected positive numbers in decreasing order, "
                f"got {sizes.tolist()}. Create it with pack_sequence or pack_padded_sequence."
            )
        if np.ndim(data) == 0 or data.shape[0] != sizes.sum():
            raise ValueError(
                f"PackedSequence: data does not fit batch_sizes; expected {sizes.sum()} steps, the sum of batch_sizes, "
                f"got shape {np.shape(data)}. Create it with pack_sequence or pack_padded_sequence."
            )
        for name, indices in (("sorted_indices", order), ("unsorted_indices", back)):
            if indices is not None and not np.array_equal(np.sort(indices), np.arange(sizes[0])):
                raise ValueError(
                    f"PackedSequence: {name} are not a permutation; expected the index of each of the {sizes[0]} "
                    f"sequences exactly once, got {indices.tolist()}. Create it with pack_sequence or "
                    "pack_padded_sequence."
                )
        return super().__new__(cls, data, sizes, order, back)


def _flatten(packed: PackedSequence) -> tuple[Any, Any]:
    layout = tuple(None if a is None else tuple(a.tolist()) for a in packed[1:])
    return ((jax.tree_util.GetAttrKey("data"), packed.data),), layout


def _unflatten(layout: tuple[Any, ...], leaves: Iterable[Any]) -> PackedSequence:
    arrays = (None if a is None else np.array(a, np.int64) for a in layout)
    return PackedSequence._make((*leaves, *arrays))  # not checked, because a leaf may be any object


jax.tree_util.register_pytree_with_keys(PackedSequence, _flatten, _unflatten)


def invert_permutation(permutation: jax.Array | np.ndarray | None) -> Any:
    """Return the inverse of a permutation, `result[permutation[i]] = i`. If `permutation` is None, return None.

    Args:
        permutation: permutation of the integers from 0 to B - 1, (B,).

    Returns:
        a JAX array if `permutation` is a JAX array, else a NumPy array.

    Example:
        >>> invert_permutation(np.array([2, 0, 1]))
        array([1, 2, 0])

    Reference: torch.nn.utils.rnn.invert_permutation.
    """
    if permutation is None:
        return None
    if isinstance(permutation, jax.Array):
        return jnp.argsort(permutation).astype(permutation.dtype)
    return np.argsort(permutation, kind="stable")


def known_integers(where: str, name: str, array: ArrayLike | Sequence[int]) -> np.ndarray:
    """Return `array` as NumPy int64, or raise TypeError if it is traced or not integer."""
    if isinstance(array, jax.core.Tracer):
        raise TypeError(
            f"{where}: {name} are traced; expected concrete numbers, got {array.aval}. They determine the shape of the "
            "packed batch. Pack outside jit, pass a list, or keep the batch padded and pass lengths= to the layer."
        )
    known = np.asarray(array)
    if known.size and not np.issubdtype(known.dtype, np.integer):
        raise TypeError(f"{where}: {name} must hold integers; expected an integer dtype, got {known.dtype}.")
    return known.astype(np.int64)


def lengths_of(packed: PackedSequence) -> np.ndarray:
    """Return the lengths of the sequences, (B,), in their original order."""
    sizes = packed.batch_sizes
    lengths = (sizes > np.arange(sizes[0])[:, None]).sum(1)
    return lengths if packed.unsorted_indices is None else lengths[packed.unsorted_indices]


def places_of(packed: PackedSequence) -> tuple[np.ndarray, np.ndarray]:
    """Return (step, index of the sequence in the original order) for each row of the data, both (N,)."""
    sizes = packed.batch_sizes
    time = np.repeat(np.arange(sizes.size), sizes)
    place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return time, place if packed.sorted_indices is None else packed.sorted_indices[place]
