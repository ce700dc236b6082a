"""Load batches of numpy arrays from datasets, in an order that depends only on (seed, step).

`DataLoader` and `Dataset` differ from torch's in two ways. First, `dataset[indices]` takes an array of indices and
returns a complete batch, so no Python code runs per example. Second, a loader has no position. `batch(step)` is a pure
function, so a run can resume from its step number.
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
