"""The names and semantics of torch.utils.data. Batches are NumPy arrays, and a loader's position can be saved.

A dataset class written for torch works unchanged: only the import differs. Loaders and samplers take `seed=` instead of
`generator=`. A dataset with `__getitems__(indices)` returns a complete batch, so no Python code runs per item.
`loader.state_dict()` returns the loader's position, from which another process can continue to read.
"""

from typing import NoReturn

from funcnet.data.arrow import read_columns, write_columns
from funcnet.data.buckets import BucketBatchSampler, PaddedCollate, bucket_lengths
from funcnet.data.collate import collate, default_collate, default_collate_fn_map, default_convert
from funcnet.data.dataloader import DataLoader
from funcnet.data.dataset import (
    ArrayDataset,
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    TensorDataset,
)
from funcnet.data.distributed import DistributedSampler
from funcnet.data.hashed_draws import draw_bits, permute, to_integers, to_uniform
from funcnet.data.item_rng import item_rng
from funcnet.data.joined import Joined
from funcnet.data.mixing import MixedDataset, MixedIterableDataset
from funcnet.data.padded import pad_batch
from funcnet.data.prefetch import Prefetcher
from funcnet.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from funcnet.data.shards import ShardDataset
from funcnet.data.shuffle_buffer import ShuffleBuffer
from funcnet.data.subset import Subset, random_split
from funcnet.data.tfrecord import read_examples, write_examples
from funcnet.data.to_device import prefetch_to_device
from funcnet.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "BucketBatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "Joined",
    "MixedDataset",
    "MixedIterableDataset",
    "PaddedCollate",
    "Prefetcher",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "ShardDataset",
    "ShuffleBuffer",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "bucket_lengths",
    "collate",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "draw_bits",
    "get_worker_info",
    "item_rng",
    "pad_batch",
    "permute",
    "prefetch_to_device",
    "random_split",
    "read_columns",
    "read_examples",
    "to_integers",
    "to_uniform",
    "write_columns",
    "write_examples",
]

_TORCHS = {
    "IterDataPipe": "IterableDataset, because torch has given up datapipes",
    "MapDataPipe": "Dataset, because torch has given up datapipes",
}


def __getattr__(name: str) -> NoReturn:
    """Raise an AttributeError. For a class of torch in `_TORCHS`, the message names the class to use instead."""
    text = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(f"{text}. Use {_TORCHS[name]}." if name in _TORCHS else text, name=name)


def __dir__() -> list[str]:
    return __all__
