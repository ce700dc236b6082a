"""Values of Parquet and Arrow columns are pyarrow's, with one dtype for a column, whatever blocks and nulls it has."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from funcnet.data import DataLoader, ShardDataset
from funcnet.data.arrow_values import column_values

INTEGERS = {getattr(pa, f"{sign}int{bits}")(): (sign, bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}
OTHERS = {
    pa.bool_(): st.booleans(),
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("ms", "UTC"): st.datetimes(datetime.datetime(1900, 1, 1), timezones=st.just(datetime.UTC)),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.duration("us"): st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999)),
    pa.decimal128(9, 2): st.decimals(-9999, 9999, places=2),
    pa.string(): st.text(),
    pa.large_binary(): st.binary(),
}


def values_of(kind: pa.DataType) -> st.SearchStrategy:
    """Values of an Arrow type, as Python objects."""
    if kind in INTEGERS:
        sign, bits = INTEGERS[kind]
        return st.integers(0 if sign else -(2 ** (bits - 1)), 2 ** (bits if sign else bits - 1) - 1)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: st.none() | values_of(field.type) for field in kind})
    if pa.types.is_dictionary(kind):
        return values_of(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        size = getattr(kind, "list_size", None)
        one = st.none() | values_of(kind.value_type)
        return st.lists(one, min_size=size or 0, max_size=3 if size is None else size)
    return OTHERS[kind]


KINDS = st.recursive(
    st.sampled_from([*INTEGERS, *OTHERS]),
    lambda kinds: st.one_of(
        kinds.map(pa.list_),
        kinds.map(pa.large_list),
        kinds.map(lambda kind: pa.list_(kind, 2)),
        kinds.map(lambda kind: pa.struct({"a": kind})),
    ),
    max_leaves=2,
) | st.sampled_from([pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())])


def plain(value):
    """A value as Python's, with times in UTC and without a zone."""
    if isinstance(value, list | np.ndarray):
        return [*map(plain, value)]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return value.item() if isinstance(value, np.generic) else value


def dtypes(value) -> set:
    """The dtypes of the numbers in a value."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return set().union(*map(dtypes, value))
    return {value.dtype} if isinstance(value, np.ndarray | np.generic) else set()


@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(st.none() | values_of(kind)))), st.integers(1, 5))
def test_a_column_of_parquet_is_pyarrows(tmp_path_factory, column, block):
    kind, values = column
    file = tmp_path_factory.mktemp("parquet") / "x.parquet"
    parquet.write_table(pa.table({"x": pa.array(values, kind)}), file, row_group_size=block)
    expected = parquet.read_table(file)["x"]
    found = [row["x"] for row in ShardDataset([file])]
    assert repr(plain(found)) == repr(plain(expected.to_pylist()))
    assert [one is None for one in found] == expected.is_null().to_pylist()
    leaf = kind
    while hasattr(leaf, "value_type"):
        leaf = leaf.value_type
    is_number = leaf in INTEGERS or pa.types.is_floating(leaf) or pa.types.is_boolean(leaf)
    assert set().union(*map(dtypes, found)) <= ({np.dtype(leaf.to_pandas_dtype())} if is_number else dtypes_of(leaf))


def dtypes_of(leaf: pa.DataType) -> set:
    return {column_values(pa.array([], leaf)).dtype}


IDS = [2**60 + 1, 2, None, 2**53 + 1, 5, 6]


@pytest.mark.parametrize("block", [1, 2, 3, 6])
def test_large_ids_and_nulls_over_several_blocks(tmp_path, block):
    """Blocks with a null were float64, the others int64."""
    columns = {
        "id": pa.array(IDS),
        "lists": pa.array([[one, 7] for one in IDS]),
        "struct": pa.array([{"id": one} for one in IDS]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=block)
    rows = list(ShardDataset([tmp_path / "x.parquet"]))
    assert [row["id"] for row in rows] == [row["lists"][0] for row in rows] == [row["struct"]["id"] for row in rows]
    assert [row["id"] for row in rows] == IDS
    assert {type(row["id"]) for row in rows if row["id"] is not None} == {np.int64}
    assert [row["lists"].dtype for row in rows] == [*[np.int64] * 2, object, *[np.int64] * 3]
    assert isinstance(rows[0]["struct"]["id"], int)
    with pytest.raises(TypeError):  # a batch of numbers has no place for a null
        list(DataLoader(ShardDataset([tmp_path / "x.parquet"]), 3))


def test_items_do_not_keep_their_block():
    (row,) = column_values(pa.array([[1, 2, 3]]))
    assert row.flags.owndata and row.flags.writeable
    assert column_values(pa.array([decimal.Decimal("1.5"), None]))[0] == decimal.Decimal("1.5")
