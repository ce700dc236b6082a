"""Datasets of other libraries are read one batch at a time."""

import datetime

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from funcnet.data import (
    ConcatDataset,
    DataLoader,
    Joined,
    ShardDataset,
    default_collate,
    read_columns,
    write_columns,
)
from funcnet.data.gather import Arrays, check_bounds, items_of

X = np.arange(40, dtype=np.int32).reshape(20, 2)


def batches(dataset, **options):
    return list(DataLoader(dataset, 8, shuffle=True, seed=2, **options))


def test_arrays_and_memory_maps(tmp_path):
    np.save(tmp_path / "x.npy", X)
    expected = [X[batch].tolist() for batch in batches(np.arange(20))]
    for dataset in (X, np.load(tmp_path / "x.npy", mmap_mode="r"), Joined([X[:7], X[7:]])):
        found = batches(dataset)
        assert [batch.tolist() for batch in found] == expected and type(found[0]) is np.ndarray
    found = batches(jnp.asarray(X))
    assert isinstance(found[0], jax.Array) and [batch.tolist() for batch in found] == expected


@pytest.mark.parametrize("kind", [np.ndarray, np.memmap, np.recarray, np.ma.MaskedArray, np.matrix, Joined])
@pytest.mark.parametrize("join", [lambda part: part, lambda part: ConcatDataset([part, part])])
def test_a_class_of_arrays_is_read_by_its_own_method(kind, join, tmp_path):
    class Augmented(kind):
        def __getitem__(self, index):
            return np.asarray(super().__getitem__(index)).reshape(*np.shape(index), 2) + 100

    np.save(tmp_path / "x.npy", X)
    array = Augmented([X[:7], X[7:]]) if kind is Joined else np.load(tmp_path / "x.npy", mmap_mode="r").view(Augmented)
    dataset = join(array)
    (batch,) = DataLoader(dataset, batch_sampler=[[3, 0, 19]])
    assert batch.tolist() == [dataset[index].tolist() for index in (3, 0, 19)] == (X[[3, 0, 19]] + 100).tolist()


def test_an_arrow_table():
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 2)
    columns = {
        "x": pa.chunked_array([fixed.slice(0, 7), fixed.slice(7)]),
        "name": pa.array([f"row {n}" for n in range(20)]),
        "score": pa.array(np.arange(20) / 4),
    }
    order = np.concatenate(batches(np.arange(20)))
    found = batches(pa.table(columns))
    np.testing.assert_array_equal(np.concatenate([batch["x"] for batch in found]), X[order])
    np.testing.assert_array_equal(np.concatenate([batch["score"] for batch in found]), order / 4)
    assert [name for batch in found for name in batch["name"]] == [f"row {n}" for n in order]
    item = next(iter(DataLoader(pa.table(columns), batch_size=None)))
    assert item["x"].tolist() == [0, 1] and item["name"] == "row 0"


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64(), pa.float32(), pa.list_(pa.int16(), 2)])
def test_the_dtype_of_a_batch_is_that_of_its_column(kind):
    """Rows of a column with nulls had the dtype of Python's numbers, int64 or float64."""
    one = [3, 100] if pa.types.is_fixed_size_list(kind) else 100
    table = pa.table({"x": pa.chunked_array([pa.array([one, one], kind), pa.array([None, one], kind)])})
    batch, other = (items_of(table).__getitems__(rows)["x"] for rows in ([0, 3], [1]))
    assert batch.dtype == other.dtype == np.dtype(getattr(kind, "value_type", kind).to_pandas_dtype())
    assert batch.tolist() == [one, one] and batch.shape == (2, *np.shape(one))
    with pytest.raises(TypeError, match=rf"column 'x' has a null in row 2; expected numbers, {batch.dtype}, in every"):
        items_of(table).__getitems__([1, 2])


LISTS = {
    "int8": ([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8())),
    "uint64": ([[2**63 + 1], [2**64 - 1], [0]], pa.list_(pa.uint64())),
    "float32": ([[0.5, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.large_list(pa.float32())),
    "bool": ([[True], [False], [True]], pa.list_(pa.bool_())),
    "fixed": ([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float16(), 2)),
    "dictionary": ([3, 4, 3], pa.dictionary(pa.int8(), pa.uint16())),
    "dictionary of floats": ([3.5, 4.0, 3.5], pa.dictionary(pa.int32(), pa.float32())),
    "flags": ([True, False, True], pa.bool_()),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("nulls", [0, 1])
def test_lists_and_dictionaries_have_the_dtype_of_their_column(name, nulls):
    """They had the dtypes of Python's numbers, and the item of a list was its first number."""
    values, kind = LISTS[name]
    table = pa.table({"x": pa.chunked_array([pa.array(values[:1], kind), pa.array(values[1:] + [None] * nulls, kind)])})
    items, leaf = items_of(table), getattr(kind, "value_type", kind)
    batch = items.__getitems__([2, 0, 1])["x"]
    assert batch.dtype == items[1]["x"].dtype == np.dtype(leaf.to_pandas_dtype())
    assert batch.tolist() == [values[2], values[0], values[1]] and items[1]["x"].tolist() == values[1]


@pytest.mark.parametrize("order", [None, [0, 1, 2], [2, 0, 1], [1, 0, 2]])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32"])
@pytest.mark.parametrize("nulls", [0, 1])
def test_tensors_of_a_fixed_shape(order, dtype, nulls, tmp_path):
    flat = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(120, dtype=dtype)), 24)
    kind = pa.fixed_shape_tensor(flat.type.value_type, (2, 3, 4), permutation=order)
    tensors = pa.ExtensionArray.from_storage(kind, flat)
    none = pa.array([None] * nulls, kind.storage_type)
    axes = [0, *(1 + axis for axis in order or range(3))]  # as Arrow's specification of the type says
    expected = np.arange(120, dtype=dtype).reshape(5, 2, 3, 4).transpose(axes)
    if order != [2, 0, 1]:  # pyarrow 26 does not read back what it writes in this order
        np.testing.assert_array_equal(tensors.to_numpy_ndarray(), expected)
    parts = [tensors.slice(0, 2), tensors.slice(2), pa.ExtensionArray.from_storage(kind, none)]
    table = pa.table({"x": pa.chunked_array(parts)})
    batch = items_of(table).__getitems__([4, 0, 2])["x"]
    assert batch.dtype == dtype
    np.testing.assert_array_equal(batch, expected[[4, 0, 2]])
    np.testing.assert_array_equal(items_of(table)[3]["x"], expected[3])
    parquet.write_table(table.slice(0, 5), tmp_path / "x.parquet")
    (batch,) = DataLoader(ShardDataset([tmp_path / "x.parquet"]), 5)
    np.testing.assert_array_equal(batch["x"], expected)


NULLS = {
    "strings": ["x", None, "z"],
    "bytes": [b"x", None, b"z"],
    "flags": [True, None, False],
    "dictionary": pa.array(["x", None, "z"]).dictionary_encode(),
    "dictionary of numbers": pa.array([5, None, 6]).dictionary_encode(),
    "lists": [[1], [None], [3]],
    "lists of strings": [["a"], [None], ["c"]],
    "structs": [{"s": "a"}, {"s": None}, {"s": "c"}],
    "all": pa.nulls(3),
}


@pytest.mark.parametrize("name", NULLS)
@pytest.mark.parametrize("rows", [[1], [0, 1, 2], [1, 0], [2, 1]])
def test_a_null_is_refused_wherever_it_is_in_a_batch(name, rows, tmp_path):
    """Whether a null among strings was refused depended on the order of the rows."""
    table = pa.table({"good": [1, 2, 3], "x": NULLS[name]})
    with pytest.raises(
        TypeError, match=rf"column 'x' has a null in row {rows[0] if name == 'all' else 1}; expected .* every row"
    ):
        items_of(table).__getitems__(rows)
    parquet.write_table(table, tmp_path / "x.parquet")
    items = list(ShardDataset([tmp_path / "x.parquet"]))
    with pytest.raises(TypeError) as found:
        default_collate([items[row] for row in rows])
    assert "under the key 'x'" in found.value.__notes__


def test_columns_that_cannot_be_batches_are_named():
    for values in ([datetime.date(2020, 1, 1)] * 2, [[1], [2, 3]], [["a"], ["b", "c"]]):
        with pytest.raises((TypeError, RuntimeError)) as found:
            items_of(pa.table({"x": values})).__getitems__([0, 1])
        assert found.value.__notes__ == ["in column 'x'"]


def test_hugging_face_datasets():
    datasets = pytest.importorskip("datasets")
    rows = {"x": [[1, 2], [3, 4], [5, 6]], "label": [0, 1, 0], "text": ["a", "b", "c"]}
    plain = datasets.Dataset.from_dict(rows)
    (batch,) = DataLoader(plain, 3)
    assert [column.tolist() for column in batch["x"]] == [[1, 3, 5], [2, 4, 6]]  # torch's nesting of lists
    assert batch["label"].tolist() == [0, 1, 0] and batch["text"] == ["a", "b", "c"]
    (batch,) = DataLoader(plain.with_format("numpy"), 3)
    assert batch["x"].tolist() == rows["x"] and list(batch["text"]) == rows["text"]


@pytest.mark.parametrize("form", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("values", [[2**60 + 1, 2, None, 4], [[1], [2], [3], [None]]])
@pytest.mark.parametrize("size", [2, None])
def test_a_null_among_integers_of_hugging_face_is_refused(form, values, size):
    """The formats of `datasets` make floats of a batch of integers with a null."""
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"x": values})
    with pytest.raises(TypeError, match=r"column 'x' has a null; expected int64 in every row .*, got float.. with NaN"):
        list(DataLoader(data.with_format(form), size))
    with pytest.raises(TypeError, match=r"found <class 'NoneType'>|got None"):
        list(DataLoader(data, 2))


def test_a_truncated_shard_is_named(tmp_path):
    path = tmp_path / "x.arrow"
    write_columns(path, {"x": X})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"x\.arrow cannot be read"):
        read_columns(path)


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([0, 20], IndexError, "index 20 is out of range; expected 0 to 19"),
        ([-1], IndexError, "index -1 is out of range"),
        ([0.5], TypeError, r"expected an int, got 0\.5"),
        (["a"], TypeError, "expected an int, got 'a'"),
    ],
)
def test_wrong_indices(indices, error, message):
    with pytest.raises(error, match=message):
        check_bounds(indices, 20)
    with pytest.raises(error):
        Arrays(X).__getitems__(indices)


def test_other_datasets_are_read_as_they_are():
    items = ["a", "b"]
    assert items_of(items) is items
