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
