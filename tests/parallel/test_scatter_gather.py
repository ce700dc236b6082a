"""`scatter` and `gather` against torch's own, which here split with `torch.chunk` and join with `torch.cat`.

torch splits and joins on GPUs alone. The code that walks through nested inputs and outputs is torch's.
"""

import collections
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn.parallel import scatter_gather as torchs

from funcnet.nn.utils.rnn import pack_padded_sequence
from funcnet.parallel import gather, scatter

Pair = collections.namedtuple("Pair", ["first", "second"])


@pytest.fixture
def on_cpu(monkeypatch):
    """Let torch's functions run on the CPU."""
    split = lambda devices, sizes, dim, x: torch.chunk(x, len(devices), dim)
    join = lambda device, dim, *xs: torch.stack(xs) if dim == 0 and all(x.ndim == 0 for x in xs) else torch.cat(xs, dim)
    monkeypatch.setattr(torchs, "Scatter", types.SimpleNamespace(apply=split))
    monkeypatch.setattr(torchs, "Gather", types.SimpleNamespace(apply=join))


def in_torch(value):
    """The same nesting with torch's tensors."""
    if isinstance(value, jax.Array | np.ndarray):
        return torch.tensor(np.asarray(value))
    if isinstance(value, dict):
        return type(value)((key, in_torch(one)) for key, one in value.items())
    if isinstance(value, Pair):
        return Pair(*map(in_torch, value))
    return type(value)(map(in_torch, value)) if isinstance(value, list | tuple) else value


def assert_same(ours, theirs):
    """Equal nesting, order of keys, other values, and numbers."""
    if isinstance(theirs, torch.Tensor):
        np.testing.assert_array_equal(ours, theirs.numpy())
        return
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        ours, theirs = ours.values(), theirs.values()
    if isinstance(theirs, dict | list | tuple | type({}.values())):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
        return
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_chunks_are_those_of_torch(on_cpu, count, dim):
    for rows in range(1, 18):
        x = np.arange(rows * rows * 2).reshape(rows, rows, 2)
        theirs = torchs.scatter(torch.tensor(x), range(count), dim)
        for given in (x, jnp.asarray(x)):
            ours = scatter(given, range(count), dim)
            assert_same(ours, list(theirs))
            assert [part.devices() for part in ours] == [{jax.devices()[i]} for i in range(len(theirs))]
            np.testing.assert_array_equal(gather(ours, 1, dim), x)


NESTED = {
    "tuple": lambda x: (x, 3, x * 2),
    "list": lambda x: [x, [x + 1, "text"], []],
    "dict": lambda x: {"z": x, "a": {"flag": True, "none": None}, 3: (x,)},
    "ordered": lambda x: collections.OrderedDict([("z", x), ("a", x + 1)]),
    "named": lambda x: Pair(x, {"deep": Pair(None, [x, 2.5])}),
    "only others": lambda x: {"flag": True, "deep": (1, "text")},
    "empty": lambda x: (),
}


@pytest.mark.parametrize("rows", [1, 5, 8])
@pytest.mark.parametrize("kind", NESTED)
def test_nested_inputs_are_split_as_in_torch(on_cpu, kind, rows):
    inputs = NESTED[kind](jnp.arange(rows * 3.0).reshape(rows, 3))
    assert_same(scatter(inputs, range(4)), torchs.scatter(in_torch(inputs), range(4)))


def test_other_containers_are_split_too():
    counted = collections.defaultdict(list, x=jnp.arange(4))
    parts = scatter(counted, [0, 1])
    assert [part["x"].tolist() for part in parts] == [[0, 1], [2, 3]] and parts[0]["absent"] == []
    assert "absent" not in counted
    tree = jax.tree_util.Partial(max, jnp.arange(4))  # any other pytree
    assert [part.args[0].tolist() for part in scatter(tree, [0, 1])] == [[0, 1], [2, 3]]
    keys = scatter(jax.random.split(jax.random.key(0), 4), [0, 1])
    assert [key.shape for key in keys] == [(2,), (2,)]


OUTPUTS = {
    "array": lambda x: x,
    "scalar": lambda x: x.sum(),
    "tuple": lambda x: (x, None, x.sum()),
    "dict": lambda x: {"z": x, "a": [x + 1, x.sum()]},
    "ordered": lambda x: collections.OrderedDict([("z", x), ("a", x.mean())]),
    "named": lambda x: Pair(x, {"deep": Pair(None, [x])}),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_nested_outputs_are_joined_as_in_torch(on_cpu, kind):
    outputs = [OUTPUTS[kind](part) for part in scatter(jnp.arange(21.0).reshape(7, 3), range(4))]
    ours = gather(outputs, 5)
    assert_same(ours, torchs.gather([in_torch(output) for output in outputs], 0))
    assert all(leaf.devices() == {jax.devices()[5]} for leaf in jax.tree.leaves(ours))


def test_outputs_are_joined_along_another_dimension_and_keys_may_come_in_another_order(on_cpu):
    parts = [{"a": np.ones((2, 3)), "b": np.zeros((1, 1))}, {"b": np.ones((1, 4)), "a": np.zeros((2, 1))}]
    with jax.enable_x64(True):
        assert_same(gather(parts, 0, dim=1), torchs.gather([in_torch(part) for part in parts], 0, dim=1))


@pytest.mark.slow
def test_gradients_go_through_both():
    x, w = jnp.arange(10.0).reshape(5, 2), jnp.linspace(0.0, 1.0, 10).reshape(5, 2)

    def value(x):
        parts = [{"y": jnp.sin(part), "s": (part**2).sum()} for part in scatter(x, [3, 1, 2])]
        out = gather(parts, 4)
        return (out["y"] * jax.device_put(w, jax.devices()[4])).sum() + out["s"].sum()

    gradient = jax.grad(value)(x)
    np.testing.assert_allclose(gradient, w * jnp.cos(x) + 2 * x, rtol=1e-6)
    assert gradient.devices() == x.devices()
    tangent = jax.jvp(value, (x,), (jnp.ones_like(x),))[1]
    np.testing.assert_allclose(tangent, gradient.sum(), rtol=1e-6)


def test_a_packed_sequence_is_split_by_its_data_alone_and_torch_cannot_split_it_either():
    """torch's advice holds: unpack at the end of `forward`."""
    packed = pack_padded_sequence(jnp.ones((3, 2, 4)), np.array([3, 2]))
    assert [part.data.shape for part in scatter(packed, [0, 1])] == [(3, 4), (2, 4)]


def error(kind, function, *arguments, **named):
    with pytest.raises(kind) as caught:
        function(*arguments, **named)
    return str(caught.value)


def test_wrong_inputs():
    x = np.ones((4, 2), np.float32)
    assert error(ValueError, scatter, x, []) == (
        "parallel.scatter: there are no devices; expected at least one, got none."
    )
    for wrong in (8, -1, "cpu", None):
        assert error(ValueError, scatter, x, [0, wrong]) == (
            "parallel.scatter: unknown device; expected a jax.Device of this process or a number from 0 to 7, got "
            f"{wrong!r}."
        )
    message = "devices has the wrong type; expected a list of devices or of their numbers, got 2."
    assert message in error(TypeError, scatter, x, 2)
    assert error(ValueError, scatter, x[:0], [0, 1]) == (
        "parallel.scatter: an array is empty along dimension 0; expected at least one row, got shape (0, 2)."
    )
    assert "an array has no dimension 2; expected arrays to split, got shape (4, 2)." in error(
        ValueError, scatter, x, [0], dim=2
    )
    assert "no dimension 0; expected arrays to split, got shape ()." in error(ValueError, scatter, jnp.ones(()), [0])
    assert "got 4 chunks for shape (4, 2) and 1 for shape (1, 2)." in error(ValueError, scatter, (x, x[:1]), range(4))


@pytest.mark.parametrize(
    ("outputs", "kind", "message"),
    [
        ([], ValueError, "there are no outputs; expected at least one, got none."),
        (
            [{"a": 1}, {"b": 1}],
            ValueError,
            "the structure of output differs between replicas; expected dict with 'a' as in replica 0, got dict with "
            "'b' in replica 1.",
        ),
        ([(np.ones(2),), [np.ones(2)]], ValueError, "expected tuple with 0 as in replica 0, got list with 0"),
        ([{"a": [np.ones(2)]}, {"a": np.ones(2)}], ValueError, "the structure of output['a'] differs"),
        ([np.ones(2), None], ValueError, "expected an array as in replica 0, got None in replica 1."),
        ([(3,), (3,)], TypeError, "output[0] cannot be gathered; expected an array or None, got int in replica 0."),
        (
            [np.ones((2, 3)), np.ones((2, 4))],
            ValueError,
            "output of replica 1 does not match; expected float64 and shape (2, 3)",
        ),
        ([np.ones(2), np.ones(2, np.int32)], ValueError, "(dimension 0 may differ), got int32 and shape (2,)."),
        (
            [np.ones(()), np.ones(2)],
            ValueError,
            "output has no dimension 0; expected arrays with at least 1 dimension(s), got shape ()",
        ),
        ([np.ones(2), np.ones(())], ValueError, "got float64 and shape ()."),
    ],
)
def test_wrong_outputs(outputs, kind, message):
    assert message in error(kind, gather, outputs, 0)
    assert "unknown device" in error(ValueError, gather, outputs, 8)
