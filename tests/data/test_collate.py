"""Collating, beside torch's."""

import collections

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
import torch.utils.data as reference
from torch.utils.data._utils.collate import collate as torch_collate

from funcnet import data

Point = collections.namedtuple("Point", ["x", "y"])


class OwnList(list):
    pass


class OwnDict(dict):
    pass


def same(ours, theirs):
    """Equal nesting, types and values; arrays in the place of tensors."""
    if ours is theirs:  # both left an item as it was, beside a string
        return
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, np.ndarray)
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(ours, theirs.numpy())
        return
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert ours == theirs


BATCHES = {
    "floats": [1.5, 2.0],
    "ints": [1, 2, 3],
    "bools": [True, False],
    "numpy floats": [np.float32(1), np.float32(2)],
    "numpy ints": [np.int16(1), np.int16(2)],
    "arrays": [np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)],
    "arrays without dimensions": [np.array(1.0), np.array(2.0)],
    "empty arrays": [np.zeros((0, 3)), np.zeros((0, 3))],
    "bytes": [b"a", b"b"],
    "strings": ["a", "b"],
    "tuples": [(1, np.ones(2), "a"), (2, np.zeros(2), "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "dicts": [{"x": 1, "y": {"z": np.ones(1)}}, {"x": 2, "y": {"z": np.ones(1)}}],
    "namedtuples": [Point(1, (2.0, "a")), Point(3, (4.0, "b"))],
    "own list": [OwnList([1, 2]), OwnList([3, 4])],
    "own dict": [OwnDict(a=1), OwnDict(a=2)],
    "ordered": [collections.OrderedDict(b=1, a=2), collections.OrderedDict(b=3, a=4)],
    "ranges": [range(2), range(2, 4)],
    "one": [np.arange(3)],
    "matrices": [np.matrix([[1]]), np.matrix([[2]])],
    "more matrices": [np.matrix([[1, 2], [3, 4]]), np.matrix([[5, 6], [7, 8]])],
    "empty matrices": [np.matrix(np.zeros((1, 0)))] * 2,
    "array and matrix": [np.ones((1, 2)), np.matrix([[2.0, 3.0]])],
    "unmasked": [np.ma.array([1, 2]), np.ma.array([3, 4])],
    "strided": [np.arange(10)[::-2], np.arange(10)[::2]],
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_has_torchs_nesting_types_and_values(name):
    theirs = [np.ascontiguousarray(item) if name == "strided" else item for item in BATCHES[name]]
    same(data.default_collate(BATCHES[name]), reference.default_collate(theirs))


@pytest.mark.parametrize("name", BATCHES)
def test_a_single_item_is_converted_as_torch_does(name):
    item = BATCHES[name][0]
    theirs = np.ascontiguousarray(item) if name == "strided" else item
    same(data.default_convert(item), reference.default_convert(theirs))


def test_tensors_become_arrays_and_jax_arrays_stay():
    tensors = [torch.arange(3.0, requires_grad=True), torch.ones(3)]
    same(data.default_collate(tensors), torch.stack(tensors).detach())
    rounded = data.default_collate([torch.ones(2, dtype=torch.bfloat16) * 1.5] * 2)
    assert rounded.dtype == ml_dtypes.bfloat16 and rounded.astype(float).tolist() == [[1.5, 1.5]] * 2
    batch = data.default_collate([{"x": jnp.arange(2)}, {"x": jnp.ones(2, int)}])
    assert isinstance(batch["x"], jax.Array) and batch["x"].tolist() == [[0, 1], [1, 1]]
    assert isinstance(data.default_convert([jnp.ones(1)])[0], jax.Array)


@pytest.mark.parametrize(
    "batch",
    [
        [None, None],
        [{1, 2}, {3}],
        [np.array(["a"]), np.array(["b"])],
        [np.array([object()]), np.array([None])],
        [[1, 2], [3]],
        [(1,), (2, 3)],
        [np.ones(2), np.ones(3)],
        [np.ones((2, 1)), np.ones(2)],
    ],
)
def test_what_torch_refuses_is_refused_with_its_words(batch):
    with pytest.raises((TypeError, RuntimeError)) as theirs:
        reference.default_collate(batch)
    with pytest.raises(type(theirs.value)) as ours:
        data.default_collate(batch)
    assert str(theirs.value).split(",")[0].split("; found")[0] in str(ours.value)


def test_arrays_of_different_dtypes_are_refused():
    with pytest.raises(TypeError, match="expected float64 as at entry 0, got float32 at entry 1") as found:
        data.default_collate([np.ones(2), np.ones(2, np.float32)])
    assert found.value.entry == 1


SCALARS = {
    "bool": True,
    "int": 3,
    "float": 1.33,
    "np.bool": np.bool_(True),
    **{name: getattr(np, name)(3) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")},
    **{name: getattr(np, name)(1.33) for name in ("float16", "float32", "float64", "complex64", "complex128")},
    "int64 array": np.array(3),
    "float32 array": np.array(1.33, np.float32),
    "float64 array": np.array(1.33),
    "int64 tensor": torch.tensor(3),
    "float32 tensor": torch.tensor(1.33),
}
NESTED = {
    "alone": lambda value: value,
    "dict": lambda value: {"a": 1, "x": value},
    "tuple": lambda value: (value, "s"),
    "both": lambda value: {"x": ({"y": [value]}, 0)},
}


def dtype_of(value):
    """The dtype that a message names."""
    return str(getattr(value, "dtype", np.asarray(value).dtype))


def check_against_torch(batch, differs):
    """Our batch is torch's, or items that differ in dtype are refused with both dtypes."""
    try:
        ours = data.default_collate(batch)
    except TypeError as error:
        assert differs, error
        return str(error)
    same(ours, reference.default_collate(batch))
    return None


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("first", SCALARS)
def test_numbers_of_two_types_are_promoted_as_in_torch_or_refused(first, nested):
    for second in SCALARS:
        values = [SCALARS[first], SCALARS[second]]
        dtypes = [dtype_of(value) for value in values]
        differs = dtypes[0] != dtypes[1] or type(values[0]) is not type(values[1])
        refusal = check_against_torch([NESTED[nested](value) for value in values], differs)
        if refusal is not None and "different types" not in refusal:
            assert all(dtype in refusal for dtype in dtypes)


@pytest.mark.parametrize(
    "batch",
    [
        [0, 1.33], [1.33, 0], [True, 2], [2, True], [True, 0.5], [0.5, True], [1, 2.5, True], [2**24 + 1, 0.5],
        [1, 1e300], [-(2**63), 2**63 - 1], [0.1, 2**70], [float("nan"), 1], [0, float("-inf")], [True, False],
    ],
)  # fmt: skip
def test_numbers_of_python_are_promoted_as_in_torch(batch):
    same(data.default_collate(batch), reference.default_collate(batch))
    for nested in NESTED.values():
        assert check_against_torch([nested(value) for value in batch], differs=False) is None


@pytest.mark.parametrize("batch", [[2**63], [2**63, -1], [1, -(2**63) - 1], [2**64, 2**65], [True, 2**63]])
def test_integers_beyond_int64_are_refused_and_not_rounded(batch):
    with pytest.raises(Exception):  # noqa: B017  torch's type differs from version to version
        reference.default_collate(batch)
    with pytest.raises(ValueError, match="an integer is too large; expected one that int64 can represent, got"):
        data.default_collate(batch)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([np.ones(2), 3.0], r"expected ndarray of dtype float64 as at entry 0, got float at entry 1"),
        ([np.ones(2), [1.0, 1.0]], r"expected ndarray of dtype float64 as at entry 0, got list at entry 1"),
        ([torch.ones(2), np.ones(2, np.float32)], r"expected torch.float32 as at entry 0, got float32 at entry 1"),
        ([jnp.ones(2), None], r"got NoneType at entry 1"),
        ([np.float64(1), np.ones(3)], r"got \[\] at entry 0 and \[3\] at entry 1"),
        ([1, [2]], r"expected numbers like 1, got \[2\]"),
        ([[1, 2], 3], r"expected list as at entry 0, got int at entry 1"),
        (["a", np.ones(2), None], r"expected str as at entry 0, got NoneType at entry 2"),
        ([(1, 2), "ab"], r"expected tuple as at entry 0, got str at entry 1"),
        ([{"a": 1}, 3], r"expected dict as at entry 0, got int at entry 1"),
        ([{"a": 1}, {"b": 1}], r"an item lacks a key; expected 'a' as at entry 0, got the keys \['b'\] at entry 1"),
        ([], "the batch is empty; expected at least one item, got none"),
    ],
)
def test_items_that_do_not_fit_are_named(batch, message):
    with pytest.raises((TypeError, RuntimeError, KeyError, ValueError), match=message):
        data.default_collate(batch)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (0,)])
def test_keys_of_jax_are_stacked(impl, shape):
    keys = jax.random.split(jax.random.key(0, impl=impl), (4, *shape))
    loaders = [data.DataLoader(one, 4) for one in (keys, data.TensorDataset(keys), data.ConcatDataset([keys, keys]))]
    found = [data.default_collate([*keys]), data.default_collate([{"k": one} for one in keys])["k"]]
    for batch in (*found, *(next(iter(loader)) for loader in loaders)):
        batch = batch[0] if isinstance(batch, list) else batch
        assert batch.dtype == keys.dtype and batch.shape == keys.shape
        np.testing.assert_array_equal(jax.random.key_data(batch), jax.random.key_data(keys))
    for wrong in (jax.random.key_data(keys[0]), jax.random.key(0, impl="unsafe_rbg"), 3, None):
        with pytest.raises((TypeError, RuntimeError), match="at entry 1"):
            data.default_collate([keys[0], wrong])


MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])


@pytest.mark.parametrize(
    ("batch", "entry"),
    [
        ([MASKED, MASKED], 0),
        ([np.ones(3), MASKED], 1),
        ([np.ma.array([1, 2]), np.ma.array([[3, 4]], mask=[[1, 1]])[0]], 1),
        ([{"x": MASKED[:1]}, {"x": MASKED[1:2]}], 1),
        ([MASKED[0], MASKED[2], MASKED[1]], 2),
        ([1.0, np.ma.masked], 1),
        ([np.ma.masked, 1.0], 1),
    ],
)
def test_masked_values_are_refused(batch, entry):
    """torch's batch has the numbers below the mask."""
    with pytest.raises(TypeError, match=rf"has masked values; .* at entry {entry}\. Fill|got float at entry {entry}"):
        data.default_collate(batch)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: data.DataLoader(x, 3),
        lambda x: data.DataLoader(data.ConcatDataset([x, x]), 6),
        lambda x: data.DataLoader(data.ConcatDataset([x, x.data]), 6),
        lambda x: data.DataLoader(data.Subset(x, [1, 0]), 2),
        data.TensorDataset,
        lambda x: data.ArrayDataset({"x": x}),
        lambda x: data.Joined([x.data, x]),
    ],
)
def test_a_dataset_with_masked_values_is_refused(make):
    rows = np.ma.array(np.arange(6).reshape(3, 2), mask=[[0, 0], [0, 1], [0, 0]])
    for array in (MASKED, rows):
        assert len(make(np.ma.array(array.data)))
        with pytest.raises(TypeError, match=r"has masked values; expected a value in every place, got 1 of"):
            list(make(array))


def test_the_key_is_named():
    with pytest.raises(TypeError) as found:
        data.default_collate([{"a": {"b": np.int64(0)}}, {"a": {"b": np.float64(1.33)}}])
    assert found.value.__notes__ == ["under the key 'b'", "under the key 'a'"]


def test_the_map_of_types():
    def total(batch, *, collate_fn_map):
        return sum(batch)

    functions = {**data.default_collate_fn_map, int: total}
    assert data.collate([{"n": 1}, {"n": 2}], collate_fn_map=functions) == {"n": 3}
    theirs = torch_collate(
        [(1, "a"), (2, "b")], collate_fn_map={int: total, str: lambda b, *, collate_fn_map: "".join(b)}
    )
    ours = data.collate([(1, "a"), (2, "b")], collate_fn_map={int: total, str: lambda b, *, collate_fn_map: "".join(b)})
    assert ours == theirs == [3, "ab"]
    with pytest.raises(TypeError):
        data.default_collate_fn_map[int] = total
