"""Datasets -> batches of numpy arrays, in an order that (seed, step) alone determines.

torch users find `DataLoader` and its dataset where they expect them. There are two differences. A dataset is asked for
a whole batch at once (`dataset[indices]` with an array of indices), so no Python runs for each example. And a loader
has no position: `batch(step)` is a pure function, so a run resumes from the number of its step.
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
