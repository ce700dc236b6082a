"""Sequences of different lengths in one array, padded or packed, at torch's import path. A packed batch has all first
steps, then all second steps, and so on. Within each step, longer sequences come first.

The shape of a packed batch depends on its lengths, so every new set of lengths causes a compilation under `jit`. To use
one program for batches of all lengths, keep them padded and pass `lengths=`, which may be traced, to the layers.

Reference: torch.nn.utils.rnn.
"""

from funcnet.functional.pack_and_pad import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)
from funcnet.functional.packed_sequence import PackedSequence, invert_permutation

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]
