"""Objects beside the weights of a torch file are left out and named, and never made; all else is torch.load's."""

import argparse
import collections
import datetime
import enum
import functools
import pathlib
import re
import types
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from funcnet import weights
from tests.weights.test_torch_files_parity import DTYPES, assert_equal

FORMATS = [(protocol, is_zip) for protocol in range(6) for is_zip in (True, False)]
W = torch.arange(6.0).reshape(2, 3).T
MADE = []  # what unpickling has run


def run(*args):
    MADE.append(args)


class Trap:
    def __reduce__(self):
        return run, ("trapped",)


class Stateful:
    """An object with a state, items of a list and items of a dict, all of which torch.load would set."""

    def __reduce__(self):
        return Stateful, (1,), {"tensor": torch.ones(2)}, iter([1, torch.ones(1)]), iter([("k", 2)])

    def __new__(cls, *args):
        run(*args)
        return object.__new__(cls)


class Color(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "a b")
DictSub, ListSub = type("DictSub", (dict,), {}), type("ListSub", (list,), {})
DictSub.__module__ = ListSub.__module__ = __name__


def stepped():
    """An optimizer whose state has parameters as keys."""
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
    optimizer.step()
    return optimizer


BESIDE = {
    "argparse.Namespace": argparse.Namespace(lr=1.0, tensor=torch.ones(2)),
    "scalar": np.float32(1.5),
    "_reconstruct|_frombuffer": np.arange(3),
    "generator_ctor": np.random.default_rng(0),
    "Color": Color.RED,
    "Pair": Pair(1, torch.ones(1)),
    "DictSub": DictSub(a=1),
    "ListSub": ListSub([1, torch.ones(1)]),
    "defaultdict": collections.defaultdict(list, a=[1]),
    "Stateful": Stateful(),
    "partial": functools.partial(int, "3"),
    "getattr": "x".upper,
    "(builtins|__builtin__).len": len,
    "SimpleNamespace": types.SimpleNamespace(a=1),
    "PosixPath": pathlib.PosixPath("x"),
    "datetime": datetime.datetime(2020, 1, 1),
    "range": range(3),
    "Linear": torch.nn.Linear(2, 2),
    "Adam": torch.optim.Adam(torch.nn.Linear(2, 2).parameters()),
    "adam.Adam": stepped(),
    "builtins.(int|long)": int,
    "assert_equal": assert_equal,
    "Storage": torch.ones(2).untyped_storage(),
}


def saved(tree, path, protocol=2, is_zip=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(tree, path, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
    return path


def read(path):
    """(what is read, the warning about what is left out)."""
    MADE.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tree = weights.load(path)
    assert not MADE and len(caught) <= 1
    return tree, str(caught[0].message) if caught else ""


@pytest.mark.every_row
@pytest.mark.parametrize("name", BESIDE)
def test_an_object_beside_the_weights_is_left_out_and_named(tmp_path, name):
    """In every protocol and both formats, wherever it is; alone, it is refused."""
    thing = BESIDE[name]
    for protocol, is_zip in FORMATS:
        if name == "range" and protocol < 3:
            continue  # Python 2 calls it xrange
        path = saved({"w": W, "x": thing, "y": [1, (thing, 2), {"z": thing}]}, tmp_path / "a.pt", protocol, is_zip)
        tree, said = read(path)
        assert list(tree) == ["w", "y"] and tree["y"] == [1, (None, 2), {}]
        assert_equal(tree["w"], W)
        assert said.startswith(f"weights.load: {path}: left out what is not plain data: ['x'] (") and re.search(
            name, said
        )
        assert all(place in said for place in ("['y'][1][0] (", "['y'][2]['z'] (")) and "Nothing of it was run" in said
        with pytest.raises(weights.UnsafeFileError, match=r"expected (only names|plain data)"):
            weights.load(saved({"x": thing}, path, protocol, is_zip))


@pytest.mark.parametrize(("protocol", "is_zip"), FORMATS)
def test_objects_as_keys_and_in_sets_and_metadata_are_left_out(tmp_path, protocol, is_zip):
    state = collections.OrderedDict(w=W)
    state._metadata = collections.OrderedDict({"": {"version": 2, "by": Color.RED}})
    tree = {"s": state, Color.RED: 1, ("k", Color.RED): 2, "set": {1, Color.RED}, "f": frozenset({Color.RED, "a"})}
    found, said = read(saved(tree, tmp_path / "a.pt", protocol, is_zip))
    assert list(found) == ["s", "set", "f"] and found["set"] == {1} and found["f"] == frozenset({"a"})
    assert found["s"]._metadata == {"": {"version": 2}}
    assert "a key of the file (" in said and "a key of ['set'] (" in said and said.count("Color") == 5


@pytest.mark.parametrize(("protocol", "is_zip"), FORMATS)
def test_arrays_under_keys_that_are_left_out_are_no_weights(tmp_path, protocol, is_zip):
    with pytest.raises(weights.UnsafeFileError, match="expected only names"):
        weights.load(saved({np.str_("w"): W}, tmp_path / "a.pt", protocol, is_zip))


def test_a_warning_of_many_objects_is_short(tmp_path):
    _, said = read(saved({"w": W, **{f"x{i}": np.float32(i) for i in range(30)}}, tmp_path / "a.pt"))
    assert "['x5'] (" in said and "['x6']" not in said and " and 24 more; expected" in said


def test_a_call_beside_the_weights_is_not_run(tmp_path):
    path = saved({"w": W, "x": Trap(), "y": [Trap(), {1: Trap()}]}, tmp_path / "a.pt")
    tree, said = read(path)
    assert list(tree) == ["w", "y"] and tree["y"] == [None, {}]
    assert said.count("(tests.weights.test_plain_data.run)") == 3
    torch.load(path, weights_only=False)
    assert ("trapped",) in MADE  # torch runs it


def test_a_tensor_of_a_subclass_is_read_and_its_class_named(tmp_path):
    class Own(torch.Tensor):
        pass

    globals()["Own"], Own.__qualname__ = Own, "Own"
    tree, said = read(saved({"w": W.as_subclass(Own)}, tmp_path / "a.pt", 4))
    assert_equal(tree["w"], W)
    assert "(tests.weights.test_plain_data.Own)" in said


KEYS = st.text(max_size=3) | st.integers(-(2**70), 2**70) | st.booleans() | st.none() | st.binary(max_size=2)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    count = int(np.prod(shape)) * dtype.itemsize
    raw = torch.tensor(list(draw(st.binary(min_size=count, max_size=count))), dtype=torch.uint8)
    array = (raw % 2 if dtype == torch.bool else raw).view(dtype).reshape(shape)
    turns = [lambda x: x, lambda x: x.mT if x.ndim > 1 else x, lambda x: x[1:] if x.ndim and len(x) else x]
    array = draw(st.sampled_from(turns))(array)
    return torch.nn.Parameter(array) if dtype.is_floating_point and draw(st.booleans()) else array


PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**100), 2**100) | st.floats() | st.complex_numbers()
    | st.text(max_size=5) | st.binary(max_size=5) | st.binary(max_size=5).map(bytearray)
    | st.sampled_from([torch.float16, torch.bfloat16, torch.Size([2, 3]), collections.Counter("aab")])
)  # fmt: skip
OBJECTS = st.sampled_from(
    [BESIDE[name] for name in ("argparse.Namespace", "scalar", "Color", "PosixPath", "Pair", "builtins.(int|long)")]
)
TREES = st.recursive(
    tensors() | PLAIN | OBJECTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS | st.tuples(KEYS, KEYS), inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=3).map(collections.OrderedDict)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
    ),
    max_leaves=8,
)
MISSING = object()


def expected(tree):
    """The tree without the objects, or MISSING for an object."""
    if any(tree is thing for thing in BESIDE.values()):
        return MISSING
    if type(tree) in (dict, collections.OrderedDict):
        return type(tree)((key, item) for key, value in tree.items() if (item := expected(value)) is not MISSING)
    if type(tree) in (list, tuple):
        return type(tree)(None if (item := expected(value)) is MISSING else item for value in tree)
    return tree


def assert_same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        assert_equal(ours, theirs)
    elif type(theirs) in (list, tuple, dict, collections.OrderedDict):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        pairs = zip(ours.items(), theirs.items(), strict=True) if isinstance(theirs, dict) else ()
        assert all(a == b and type(a) is type(b) for (a, _), (b, _) in pairs)
        values = (ours.values(), theirs.values()) if isinstance(theirs, dict) else (ours, theirs)
        for a, b in zip(*values, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, torch.dtype | torch.Size):
        assert str(ours) == str(theirs)[6:] if isinstance(theirs, torch.dtype) else ours == tuple(theirs)
    else:  # the repr of a NaN is equal, and of a set is not
        assert type(ours) is type(theirs) and (repr(ours) == repr(theirs) or ours == theirs)


def tensors_in(tree):
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ()
    return isinstance(tree, torch.Tensor) or any(map(tensors_in, parts))


@given(tree=TREES, protocol=st.integers(0, 5), is_zip=st.booleans())
def test_hypothesis_every_protocol_is_read_as_torch_reads_it_or_refused(tmp_path_factory, tree, protocol, is_zip):
    path = saved(tree, tmp_path_factory.getbasetemp() / "x.pt", protocol, is_zip)
    rest = expected(tree)
    is_changed = rest is MISSING or repr(rest) != repr(tree)
    if is_changed and not tensors_in(rest):
        with pytest.raises(weights.UnsafeFileError, match=r"^weights\.load: .*expected"):
            weights.load(path)
        return
    found, said = read(path)
    assert bool(said) == is_changed
    assert_same(found, rest)
    if protocol and not is_changed:  # torch does not read its own files of protocol 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                theirs = torch.load(path, weights_only=False)
            except AttributeError:
                assert not is_zip  # nor storages without a class in the format before torch 1.6
            else:
                assert_same(found, theirs)
