"""Wrong and swapped arguments: each is named, with what was expected and what was given."""

import numpy as np
import pandas
import pytest
import torch
import torch.utils.data

from funcnet import data
from funcnet.arguments import shown

X = np.arange(12.0).reshape(6, 2)
PAIRS = data.TensorDataset(X, X)
STREAM = data.IterableDataset()
THEIRS = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4)), 2)
GENERATOR = torch.Generator()


class Pairs(data.Dataset):
    pass


# (the call, its name in the message, the argument, what was expected, what was given)
CALLS = [
    # DataLoader
    (lambda: data.DataLoader(THEIRS, 2), "DataLoader", "dataset", "a dataset", "a DataLoader of torch"),
    (lambda: data.DataLoader(data.DataLoader(X)), "DataLoader", "dataset", "a dataset", "a DataLoader of funcnet"),
    (lambda: data.DataLoader(Pairs), "DataLoader", "dataset", "a dataset", "the class Pairs"),
    (lambda: data.DataLoader("rows.npy"), "DataLoader", "dataset", "__getitem__", "'rows.npy'"),
    (lambda: data.DataLoader(32, X), "DataLoader", "the dataset", "__getitem__ and __len__", "int"),
    (lambda: data.DataLoader(np.array(3)), "DataLoader", "dataset", "__getitem__", r"an array int64\[\]"),
    (lambda: data.DataLoader({"x": X}), "DataLoader", "dataset", "__len__ of numbered items", "a dict of columns"),
    (lambda: data.DataLoader(pandas.DataFrame(X)), "DataLoader", "dataset", "numbered items", "a DataFrame of columns"),
    (lambda: data.DataLoader(X, "4"), "DataLoader", "batch_size", "positive integer", "batch_size='4'"),
    (lambda: data.DataLoader(X, 2.0), "DataLoader", "batch_size", "positive integer", "batch_size=2.0"),
    (lambda: data.DataLoader(X, 2, "False"), "DataLoader", "shuffle", "True or False", "'False'"),
    (lambda: data.DataLoader(X, 2, drop_last="no"), "DataLoader", "drop_last", "True or False", "'no'"),
    (lambda: data.DataLoader(X, in_order=None), "DataLoader", "in_order", "True or False", "None"),
    (lambda: data.DataLoader(X, pin_memory="cuda"), "DataLoader", "pin_memory", "True or False", "'cuda'"),
    (lambda: data.DataLoader(X, num_workers=1, persistent_workers=2), "DataLoader", "persistent_workers", "False", "2"),
    (lambda: data.DataLoader(X, sampler=5), "DataLoader", "sampler", "an iterable of indices", "5"),
    (lambda: data.DataLoader(X, sampler=data.RandomSampler), "DataLoader", "sampler", "iterable", "the class RandomS"),
    (lambda: data.DataLoader(X, batch_sampler=2), "DataLoader", "batch_sampler", "lists of indices", "2"),
    (lambda: list(data.DataLoader(X, batch_sampler=[0, 1])), "DataLoader", "batch_sampler", "a list of indices", "0"),
    (lambda: data.DataLoader(X, num_workers="2"), "DataLoader", "num_workers", "int", "'2'"),
    (lambda: data.DataLoader(X, num_workers=1.5), "DataLoader", "num_workers", "int", "1.5"),
    (lambda: data.DataLoader(X, timeout="5"), "DataLoader", "timeout", "a number", "'5'"),
    (lambda: data.DataLoader(X, num_workers=1, prefetch_factor="2"), "DataLoader", "prefetch_factor", "int", "'2'"),
    (lambda: data.DataLoader(X, collate_fn="default"), "DataLoader", "collate_fn", "a function", "'default'"),
    (lambda: data.DataLoader(X, generator=GENERATOR), "DataLoader", "generator", "None", "Generator"),
    (lambda: data.DataLoader(X, seed="1"), "DataLoader", "seed", "int", "'1'"),
    (lambda: data.DataLoader(X, seed=None), "DataLoader", "seed", "int", "None"),
    (lambda: data.DataLoader(X, num_workers=1, multiprocessing_context="threads"), "DataLoader",
     "multiprocessing_context", r"\['spawn', 'forkserver'\]", "'threads'"),
    (lambda: data.DataLoader(X).batch(1.5), "DataLoader.batches", "start", "int", "1.5"),
    (lambda: data.DataLoader(X).epoch("1"), "DataLoader.epoch", "number", "int", "'1'"),
    (lambda: data.DataLoader(X).position(-1), "DataLoader.position", "step", "at least 0", "-1"),
    (lambda: data.DataLoader(X).batches(0, "9"), "DataLoader.batches", "stop", "int", "'9'"),
    (lambda: data.DataLoader(X).read_rows([0]), "DataLoader.read_rows", "rows", r"a function rows\(n\)", r"\[0\]"),
    (lambda: data.DataLoader(X).load_state_dict(7), "DataLoader", "position", "what state_dict", "7"),
    # datasets
    (lambda: data.TensorDataset(), "TensorDataset", "array", "at least one", "none"),
    (lambda: data.TensorDataset(X, 5), "TensorDataset", "array 1", "an array with at least one dimension", "5"),
    (lambda: data.TensorDataset({"x": X}), "TensorDataset", "array 0", "an array with at least one", "dict"),
    (lambda: data.ArrayDataset(X), "ArrayDataset", "columns", "a dict of names and arrays", "ndarray"),
    (lambda: data.ArrayDataset({"x": [1, 2]}), "ArrayDataset", r"columns\['x'\]", "an array", r"\[1, 2\]"),
    (lambda: data.ArrayDataset({"x": np.array(1)}), "ArrayDataset", r"columns\['x'\]", "dimension", r"array int64\[\]"),
    (lambda: data.ArrayDataset({"x": pandas.Series([1])}), "ArrayDataset", r"columns\['x'\]", "array", "Series"),
    (lambda: data.ConcatDataset(5), "ConcatDataset", "datasets", "a list of datasets", "5"),
    (lambda: data.ConcatDataset([X, 5]), "ConcatDataset", r"datasets\[1\]", "__getitem__ and __len__", "5"),
    (lambda: data.ConcatDataset([THEIRS]), "ConcatDataset", r"datasets\[0\]", "a dataset", "DataLoader of torch"),
    (lambda: data.ChainDataset(5), "ChainDataset", "datasets", "a list of iterable datasets", "5"),
    (lambda: data.StackDataset(X, 6), "StackDataset", "dataset 1", "__getitem__ and __len__", "6"),
    (lambda: data.StackDataset(x=X, y=STREAM), "StackDataset", "y", "a map-style dataset", "IterableDataset"),
    (lambda: data.Subset([0, 1], PAIRS), "Subset", "indices", "a list of integers", "TensorDataset"),
    (lambda: data.Subset(PAIRS, 3), "Subset", "indices", "a list of integers", "3"),
    (lambda: data.Subset(PAIRS, "012"), "Subset", "indices", "a list of integers", "'012'"),
    (lambda: data.Subset(Pairs, [0]), "Subset", "dataset", "an object with __getitem__", "the class Pairs"),
    (lambda: data.random_split([0.5, 0.5], PAIRS), "random_split", "lengths", "int", "a tuple of an array"),
    (lambda: data.random_split(PAIRS, 0.5), "random_split", "lengths", "a list of numbers", "0.5"),
    (lambda: data.random_split(PAIRS, [3, 3], generator=GENERATOR), "random_split", "generator", "None", "Generator"),
    (lambda: data.random_split(PAIRS, [3, 3], GENERATOR), "random_split", "generator", "None", "Generator"),
    (lambda: data.random_split(PAIRS, [2.5, 3.5]), "random_split", r"lengths\[0\]", "int", "2.5"),
    (lambda: data.random_split(PAIRS, [-1, 7]), "random_split", r"lengths\[0\]", "at least 0", "-1"),
    (lambda: data.random_split(STREAM, [1.0]), "random_split", "dataset", "a map-style dataset", "IterableDataset"),
    (lambda: data.MixedDataset([2, 1], [X, X]), "MixedDataset", r"datasets\[0\]", "__getitem__ and __len__", "2"),
    (lambda: data.MixedDataset([X, X], "21"), "MixedDataset", "weights", "a list of numbers", "'21'"),
    (lambda: data.MixedDataset([X, X], [2, "1"]), "MixedDataset", r"weights\[1\]", "int or float", "'1'"),
    (lambda: data.MixedDataset({"x": X}, [1]), "MixedDataset", "datasets", "a list of datasets", "dict"),
    (lambda: data.MixedDataset([STREAM], [1]), "MixedDataset", r"datasets\[0\]", "map-style", "IterableDataset"),
    (lambda: data.MixedDataset([X], [1], length=2.5), "MixedDataset", "length", "int", "2.5"),
    (lambda: data.MixedDataset([X], [1], shuffle="no"), "MixedDataset", "shuffle", "True or False", "'no'"),
    (lambda: data.MixedIterableDataset([1], [STREAM]), "MixedIterableDataset", r"datasets\[0\]", "an iterable", "1"),
    (lambda: data.MixedIterableDataset([[1]], [1], seed="a"), "MixedIterableDataset", "seed", "int", "'a'"),
    (lambda: data.ShardDataset("a.npy"), "ShardDataset", "paths", "a list of paths", "'a.npy'"),
    (lambda: data.ShardDataset(3), "ShardDataset", "paths", "a list of paths", "3"),
    (lambda: data.ShardDataset([3]), "ShardDataset", "paths", "str or Path", "3"),
    (lambda: data.ShardDataset(["a.npy"], read="npy"), "ShardDataset", "read", r"a function read\(path\)", "'npy'"),
    (lambda: data.ShardDataset(["a.npy"], rank="0"), "ShardDataset", "rank", "int", "'0'"),
    (lambda: data.ShuffleBuffer(10, STREAM), "ShuffleBuffer", "source", "an iterable dataset", "10"),
    (lambda: data.ShuffleBuffer("a.txt", 10), "ShuffleBuffer", "source", "an iterable dataset", "'a.txt'"),
    (lambda: data.ShuffleBuffer(STREAM, 2.5), "ShuffleBuffer", "buffer_size", "int", "2.5"),
    (lambda: data.Joined([X, X[:, :1]]), "Joined", "arrays", "rows of one shape", r"\[\(1,\), \(2,\)\]"),
    (lambda: data.Joined([3]), "Joined", "arrays", r"arrays \(N", "3"),
    # samplers
    (lambda: data.SequentialSampler(5), "SequentialSampler", "data_source", "__len__", "5"),
    (lambda: data.RandomSampler(5), "RandomSampler", "data_source", "__len__", "5"),
    (lambda: data.RandomSampler(X, generator=GENERATOR), "RandomSampler", "generator", "None", "Generator"),
    (lambda: data.SubsetRandomSampler(5), "SubsetRandomSampler", "indices", "__getitem__ and __len__", "5"),
    (lambda: data.SubsetRandomSampler([1], GENERATOR), "SubsetRandomSampler", "generator", "None", "Generator"),
    (lambda: data.WeightedRandomSampler("abc", 2), "WeightedRandomSampler", "weights", "an array", "'abc'"),
    (lambda: data.WeightedRandomSampler([1], 1, seed=1.5), "WeightedRandomSampler", "seed", "int", "1.5"),
    (lambda: data.BatchSampler(2, [0, 1], False), "BatchSampler", "sampler", "an iterable of indices", "2"),
    (lambda: data.DistributedSampler(X, "2", 0), "DistributedSampler", "num_replicas", "int", "'2'"),
    (lambda: data.DistributedSampler(X, 2, 0, shuffle="no"), "DistributedSampler", "shuffle", "True or", "'no'"),
    (lambda: data.BucketBatchSampler(["a"], 1, [4]), "BucketBatchSampler", "lengths", "an integer array", r"\['a'\]"),
    (lambda: data.BucketBatchSampler([1], 1, 4), "BucketBatchSampler", "boundaries", "a list of numbers", "4"),
    (lambda: data.PaddedCollate([8, 4]), "PaddedCollate", "boundaries", "increasing order", r"\[8, 4\]"),
    (lambda: data.bucket_lengths(np.ones(3, int), 8, most=0), "bucket_lengths", "most", "at least 1", "0"),
    # devices
    (lambda: data.prefetch_to_device(5), "prefetch_to_device", "loader", "a DataLoader or another", "5"),
    (lambda: data.prefetch_to_device(THEIRS), "prefetch_to_device", "loader", "a funcnet.data.DataLoader", "a torch"),
    (lambda: data.prefetch_to_device(data.DataLoader(X), 8), "prefetch_to_device", "layout", "make_layout", "8"),
    (lambda: data.prefetch_to_device(data.DataLoader(X), depth=0), "prefetch_to_device", "depth", "at least 1", "0"),
    (lambda: data.prefetch_to_device(data.DataLoader(X), depth="2"), "prefetch_to_device", "depth", "int", "'2'"),
    (lambda: data.prefetch_to_device(data.DataLoader(X), batch_size=0), "prefetch_to_device", "batch_size",
     "at least 1", "0"),
    (lambda: data.pad_batch(X, "8"), "pad_batch", "rows", "int", "'8'"),
    (lambda: data.Prefetcher(5), "Prefetcher", "batches", "an iterable of batches", "5"),
    (lambda: data.Prefetcher([1], transfer=3), "Prefetcher", "transfer", r"a function transfer\(batch\)", "3"),
    (lambda: data.permute([5], 5, seed=0, epoch=0), "permute", "position", "0 to 4", "5"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "where", "name", "expected", "got"), CALLS, ids=range(len(CALLS)))
def test_a_wrong_argument_is_named(call, where, name, expected, got):
    with pytest.raises((TypeError, ValueError), match=rf"^{where}: .*{name}.*{expected}.*{got}") as found:
        call()
    message = str(found.value)
    assert "expected" in message or "should be" in message or "should specify" in message


def test_what_is_right_is_not_refused():
    """Objects that look odd and are right."""
    assert len(data.DataLoader({"a": 1, "b": 2}, sampler=["b"])) == 1
    assert len(data.DataLoader(torch.arange(5), np.int64(2), np.bool_(True))) == 3
    assert data.Subset(PAIRS, np.array([1, 2]))[0][0].tolist() == [2, 3]
    assert len(data.Subset(PAIRS, data.permute(range(6), 6, seed=0, epoch=0))) == 6 and len(data.Subset(X, [])) == 0
    assert [len(part) for part in data.random_split(X, (np.int64(2), 4))] == [2, 4]
    assert len(data.MixedDataset([X, [1, 2]], np.array([1.0, 2.0]))) == 8
    assert data.TensorDataset([1, 2, 3])[0] == (1,)
    assert next(iter(data.DataLoader(X, timeout=np.float32(5), num_workers=1))).shape == (1, 2)


@pytest.mark.parametrize("make", [lambda *tensors: data.TensorDataset(*tensors),
                                  lambda *tensors: data.ArrayDataset(dict(enumerate(tensors)))])  # fmt: skip
def test_tensors_of_torch_become_arrays(make):
    tensors = torch.arange(6.0).reshape(3, 2), torch.tensor([1, 2, 3]), torch.ones(3, requires_grad=True).bfloat16()
    (batch,) = data.DataLoader(make(*tensors), 3)
    for tensor, array in zip(tensors, batch.values() if isinstance(batch, dict) else batch, strict=True):
        assert isinstance(array, np.ndarray) and str(array.dtype) == str(tensor.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(array.astype(np.float32), tensor.float().detach().numpy())


def test_one_file_for_two_workers(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(5))
    files = data.ShardDataset([tmp_path / "x.npy"])
    assert sorted(data.DataLoader(files, None, num_workers=2)) == list(range(5))
    mixed = data.MixedIterableDataset([files, range(8)], [1, 1])
    with pytest.raises(ValueError, match=r"source 0 has no items for worker . of 2; .*ShardDataset, .* num_workers=1"):
        list(data.DataLoader(mixed, 2, num_workers=2))


def test_values_are_shown_short():
    assert shown(list(range(99))) == "a list with 99 items" and shown(X) == "an array float64[6, 2]"
    assert shown(pandas.Series([1])) == "a Series int64[1]" and shown(STREAM).startswith(
        "an object of the class funcnet."
    )
    assert [shown(x) for x in (np.float64(1.5), np.str_("a"), np.bool_(True), Pairs)] == [
        "1.5",
        "'a'",
        "True",
        "the class Pairs",
    ]
