"""Load batches of numpy arrays from datasets, in an order that depends only on (seed, step).

`DataLoader` and `Dataset` differ from torch's in two ways. First, `dataset[indices]` takes an array of indices and
returns a complete batch, so no Python code runs per example. Second, a loader has no current position. `batch(step)` is
a pure function, so a run can resume from its step number.
"""

from typing import NoReturn

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

_TORCHS = {
    "TensorDataset": "ArrayDataset({name: array})",
    "ConcatDataset": "np.concatenate, or Joined",
    "Subset": "array[indices]",
    "random_split": "permute, and array[indices]",
    "IterableDataset": "arrays, such as read_columns returns them",
    "default_collate": "a dataset whose dataset[indices] returns a complete batch",
    "Sampler": "DataLoader(…, shuffle=True, seed=…)",
    "RandomSampler": "DataLoader(…, shuffle=True, seed=…)",
    "SequentialSampler": "DataLoader(…)",
    "DistributedSampler": "Layout.shard of funcnet.parallel",
}


def __getattr__(name: str) -> NoReturn:
    """Raise an AttributeError. For the name of a class of torch, the message names an alternative."""
    text = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(f"{text}. Use {_TORCHS[name]}." if name in _TORCHS else text, name=name)
