"""`nn.output_shape` and `nn.dry_run` beside the shapes that torch's layers give for zeros, as constructors use them."""

import functools
import tracemalloc
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)


def convolutions(lib):
    return lib.Sequential(
        lib.Conv2d(3, 8, 3, stride=2), lib.BatchNorm2d(8), lib.Dropout(0.5), lib.MaxPool2d(2), lib.Flatten()
    )


CASES = {
    "convolutions": (convolutions, [(2, 3, 32, 33)]),
    "several outputs": (lambda lib: lib.LSTM(4, 6, num_layers=2), [(5, 3, 4)]),
    "nested inputs": (lambda lib: lib.GRU(4, 6), [(5, 3, 4), (1, 3, 6)]),
    "states": (lambda lib: lib.LSTM(4, 6), [(5, 3, 4), ((1, 3, 6), (1, 3, 6))]),
    "lazy": (lambda lib: lib.Sequential(lib.LazyConv2d(4, 3), lib.Flatten(), lib.LazyLinear(7)), [(2, 3, 8, 8)]),
    "a scalar": (lambda lib: lib.Identity(), [()]),
}


def zeros(shape):
    return torch.zeros(shape) if all(isinstance(n, int) for n in shape) else tuple(map(zeros, shape))


def shapes(value):
    return tuple(value.shape) if hasattr(value, "shape") else tuple(map(shapes, value))


@pytest.mark.parametrize("name", CASES)
def test_the_shapes_are_torchs(name):
    make, given = CASES[name]
    expected = shapes(make(torch.nn)(*map(zeros, given)))
    net = make(nn)
    to_array = lambda shape: jnp.zeros(shape) if all(isinstance(n, int) for n in shape) else tuple(map(to_array, shape))
    arrays = list(map(to_array, given))
    structs = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), arrays)
    for inputs in (given, arrays, structs):
        found = nn.output_shape(net, *inputs)
        assert found == expected
        assert all(type(n) is int for n in jax.tree.leaves(found))
    for inputs in (arrays, structs):
        output = nn.dry_run(net, *inputs)
        assert shapes(output) == expected
        assert all(isinstance(leaf, jax.Array) and leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(output))


def learns_its_size(lib, size):
    """The usual constructor: a linear layer behind convolutions whose output is measured."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.features = convolutions(lib)
            self.head = lib.Linear(size(self)[1], 5)
            lib.init.normal_(self.features[0].weight)

        def pooled(self, x, scale=1.0):
            return self.features(x) * scale

        def forward(self, x):
            return self.head(self.pooled(x))

    return Net()


@pytest.mark.parametrize(
    "size",
    [
        lambda net: nn.output_shape(net.features, (1, 3, 32, 32)),
        lambda net: nn.output_shape(net, (1, 3, 32, 32), method="pooled", scale=2.0),
        lambda net: nn.dry_run(net.features, jnp.zeros((1, 3, 32, 32))).shape,
        lambda net: nn.dry_run(net, jnp.zeros((1, 3, 32, 32)), method="pooled", scale=2.0).shape,
        lambda net: (
            1,
            functools.reduce(lambda x, layer: nn.dry_run(layer, x), net.features, jnp.ones((1, 3, 32, 32))).size,
        ),
    ],
)
def test_in_a_constructor(size):
    theirs = learns_its_size(torch.nn, lambda net: net.features(torch.zeros(1, 3, 32, 32)).shape).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # measuring is no use of the inits
        net = learns_its_size(nn, size)
        params, state = net.load_state_dict(theirs.state_dict())
        x = np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32)
        y, _ = net.apply(params, state, x)
    np.testing.assert_allclose(y, theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_nothing_is_computed():
    """The weight would take 4 TiB."""
    net = nn.Linear(2**20, 2**20)
    tracemalloc.start()
    assert nn.output_shape(net, (2**20, 2**20)) == (2**20, 2**20)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_dicts_keywords_and_dtypes():
    class Net(nn.Module):
        def forward(self, batch, size, flag=False):
            assert flag and batch["ids"].dtype == jnp.int32 and batch["x"].dtype == jnp.float32
            return {"y": batch["x"].reshape(size), "ids": [batch["ids"]]}

    ids = jax.ShapeDtypeStruct((4,), jnp.int32)
    found = nn.output_shape(Net(), {"x": (2, 6), "ids": ids}, size=(3, 4), flag=True)
    assert found == {"y": (3, 4), "ids": [(4,)]}


class Measured(nn.Module):
    """A module with outputs of all kinds, and a helper that both the constructor and `forward` use."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.width = self.run(jnp.zeros((1, 2), jnp.int32)).shape[-1]

    def run(self, ids):
        return nn.dry_run(self.embed, ids)

    def several(self, ids, label):
        x = self.embed(ids)
        return {"x": x, "label": label, "sizes": x.shape, "size": x.size, "places": x.argmax(-1), "none": None}

    def forward(self, ids):
        return self.run(ids), nn.dry_run(self, ids, "y", method="several")["x"]


def test_a_dry_run_keeps_what_is_no_array():
    found = nn.dry_run(Measured(), jnp.zeros((2, 3), jnp.int32), label="x", method="several")
    x, places = found.pop("x"), found.pop("places")
    assert found == {"label": "x", "sizes": (2, 3, 4), "size": 24, "none": None}
    assert not x.any() and x.dtype == jnp.float32 and places.dtype == jnp.int32


def test_a_dry_run_inside_forward_is_a_call():
    net = Measured()
    params, state = net.init(KEY)
    ids = jnp.array([1, 2])
    (y, again), _ = jax.jit(net.apply)(params, state, ids)
    assert net.width == 4 and (y == params["embed"]["weight"][ids]).all() and (y == again).all()


def test_a_dry_run_without_parameters_is_the_output():
    x = jnp.arange(4.0).reshape(1, 1, 4)
    assert (nn.dry_run(nn.Sequential(nn.Upsample(scale_factor=2), nn.Dropout()), x) == jnp.repeat(x, 2, -1)).all()


def test_a_dry_run_has_the_dtype_of_its_inputs():
    for dtype in (jnp.bfloat16, jnp.float32):
        assert nn.dry_run(convolutions(nn), jnp.zeros((1, 3, 9, 9), dtype)).dtype == dtype


def test_inside_forward():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 6)

        def forward(self, x):
            assert nn.output_shape(self.fc, x.shape) == (3, 6)
            return self.fc(x)

    net = Net()
    assert jax.jit(net.apply)(*net.init(KEY), jnp.ones((3, 4)))[0].shape == (3, 6)


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"nn\.output_shape: expected a module, such as .* got the class Linear"):
        nn.output_shape(nn.Linear, (1, 2))
    with pytest.raises(TypeError, match=r"nn\.output_shape: expected a module, such as .* got function"):
        nn.output_shape(nn.functional.relu, (1, 2))
    with pytest.raises(TypeError, match=r"nn\.dry_run: expected a module, such as .* got the class Linear"):
        nn.dry_run(nn.Linear, jnp.zeros((1, 2)))
    with pytest.raises(TypeError, match=r"A constructor that needs the shape of an output calls nn\.dry_run"):
        nn.Linear(3, 2)(jnp.zeros((1, 3)))
    with pytest.raises((ValueError, TypeError), match="in_features"):
        nn.output_shape(nn.Linear(3, 2), (1, 4))
