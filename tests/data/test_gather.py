"""Datasets of other libraries are read one batch at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest

from funcnet.data import DataLoader, Joined, read_columns, write_columns
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
