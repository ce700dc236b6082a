"""Columns come back as they went in, memory-mapped; a bad file is an error, and a failed write leaves nothing."""

import numpy as np
import pandas as pd
import pyarrow
import pytest

from funcnet.data import ArrayDataset, read_columns, write_columns


def test_round_trip_without_copying(tmp_path):
    columns = {
        "ids": np.arange(12, dtype=np.uint16).reshape(6, 2),
        "length": np.arange(6, dtype=np.int32),
        "flag": np.array([True, False] * 3),
    }
    write_columns(tmp_path / "x.arrow", columns, {"passes": 3})
    before = pyarrow.total_allocated_bytes()
    read, metadata = read_columns(tmp_path / "x.arrow")
    assert metadata == {"passes": 3} and pyarrow.total_allocated_bytes() == before, "no page is read yet"
    for name, column in columns.items():
        np.testing.assert_array_equal(read[name], column)
        assert not read[name].flags.owndata and not read[name].flags.writeable, "not its own"
    assert read["ids"].dtype == np.uint16 and read["flag"].dtype == np.uint8
    batch = ArrayDataset(read)[np.array([4, 0])]
    np.testing.assert_array_equal(batch["ids"], [[8, 9], [0, 1]])


def test_empty_columns(tmp_path):
    write_columns(tmp_path / "x.arrow", {"ids": np.empty(0, np.int32), "wide": np.empty((0, 3), np.int32)})
    read, _ = read_columns(tmp_path / "x.arrow")
    assert read["ids"].shape == (0,) and read["wide"].shape == (0, 3)


@pytest.mark.parametrize(
    "column",
    [
        np.ma.array([1, 2], mask=[False, True]),  # np.asarray drops the mask
        pd.array([1, None], dtype="Int64"),
        np.array([1, None], object),
        np.array(["1", "2"]),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([1j, 2]),
        np.arange(2, dtype=np.longdouble),
    ],
)
def test_columns_with_missing_values_or_without_numbers_are_refused(tmp_path, column):
    with pytest.raises(ValueError, match=r"column 'a' has values that are missing or not numbers; expected integers, "):
        write_columns(tmp_path / "x.arrow", {"a": column})
    assert list(tmp_path.iterdir()) == []


def test_numbers_in_another_order_of_bytes_and_files_of_several_blocks(tmp_path):
    columns = {"a": np.arange(4, dtype=">i4"), "b": np.arange(8.0).reshape(4, 2), "c": np.ma.array([1, 2, 3, 4])}
    write_columns(tmp_path / "x.arrow", columns)
    table = pyarrow.ipc.open_file(tmp_path / "x.arrow").read_all()
    with pyarrow.ipc.new_file(tmp_path / "y.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    for name in ("x", "y"):
        read, _ = read_columns(tmp_path / f"{name}.arrow")
        assert {key: value.tolist() for key, value in read.items()} == {k: v.tolist() for k, v in columns.items()}


def test_errors_name_the_file_and_leave_nothing(tmp_path):
    with pytest.raises(
        ValueError, match=r"write_columns: columns differ in length; expected equal lengths, got .*'a': 2"
    ):
        write_columns(tmp_path / "x.arrow", {"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(ValueError, match="column 'a' has 3 dimensions"):
        write_columns(tmp_path / "x.arrow", {"a": np.zeros((2, 2, 2))})
    with pytest.raises(OSError):
        write_columns(tmp_path / "nowhere" / "x.arrow", {"a": np.zeros(2)})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"x\.arrow does not exist"):
        read_columns(tmp_path / "x.arrow")


@pytest.mark.parametrize("length", [0, 10, 200, -1])
def test_a_file_cut_short_is_an_error(tmp_path, length):
    file = tmp_path / "x.arrow"
    write_columns(file, {"a": np.arange(1000)})
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"x\.arrow cannot be read; expected an Arrow file"):
        read_columns(file)


def test_array_dataset_wants_one_length():
    with pytest.raises(ValueError, match="ArrayDataset: arrays differ in length"):
        ArrayDataset({"a": np.zeros(2), "b": np.zeros(3)})
