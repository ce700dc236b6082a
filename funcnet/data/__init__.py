"""Anything indexable -> batches of numpy arrays, in an order that (seed, step) alone decides. Knows no text and no
model.

torch users: `DataLoader` and its dataset are where you expect them. What differs is that a dataset is asked for a
whole batch at once (`dataset[indices]` with an array of indices), so no Python runs per example, and that no loader
remembers where it is: `batch(step)` is a pure function, so a run resumes from its step number.
"""

from funcnet.data.arrow import read_columns, write_columns
from funcnet.data.datasets import ArrayDataset, Dataset
from funcnet.data.draws import draw_bits, permute, to_integers, to_uniform
from funcnet.data.joined import Joined
from funcnet.data.loader import DataLoader
from funcnet.data.prefetch import Prefetcher
from funcnet.data.tfrecord import read_examples, write_examples

__all__ = [
    "ArrayDataset",
    "DataLoader",
    "Dataset",
    "Joined",
    "Prefetcher",
    "draw_bits",
    "permute",
    "read_columns",
    "read_examples",
    "to_integers",
    "to_uniform",
    "write_columns",
    "write_examples",
]
