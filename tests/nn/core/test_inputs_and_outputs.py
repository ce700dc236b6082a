"""Inputs and outputs of a call: NumPy arrays, plain containers, the pair of apply, descriptions as functions."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet import nn

KEY = jax.random.key(0)


class InPlace(nn.Module):
    def forward(self, x):
        x[0] = 0
        return x


@pytest.mark.parametrize("x", [np.ones(3), np.ones(3, np.int32), np.ones(3, bool)])
def test_forward_cannot_change_the_callers_array(x):
    before = x.copy()
    for run in (InPlace().apply, lambda p, s, x: jax.jit(lambda: InPlace().apply(p, s, x))()):
        with pytest.raises((TypeError, ValueError), match=r"immutable|read-only"):
            run({}, {}, x)
        np.testing.assert_array_equal(x, before)


def test_numpy_inputs_have_jax_semantics_also_in_containers():
    class Sees(nn.Module):
        def forward(self, batch, *, extra):
            assert isinstance(batch["x"], jax.Array) and isinstance(extra[0], jax.Array)
            return batch["x"].at[0].set(5.0) + extra[0]

    y, _ = Sees().apply({}, {}, {"x": np.zeros(2)}, extra=[np.ones(2)])
    assert y.tolist() == [6.0, 1.0]


def test_constant_integers_stay_static_under_jit():
    class Cuts(nn.Module):
        def forward(self, x, lengths):
            return x[: int(lengths[0])]

    lengths = np.array([2])
    assert jax.jit(lambda x: Cuts().apply({}, {}, x, lengths)[0])(jnp.arange(5.0)).shape == (2,)


def test_what_forward_appends_is_reported():
    class Logs(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.sizes, self.fixed = [], {}, [1, [2]]

        def forward(self, x):
            self.seen.append(x)
            return x

    net = Logs()
    with pytest.warns(
        UserWarning, match=r"the root .Logs.: forward changed 'seen', a plain list, and the change is lost"
    ):
        net.apply({}, {}, jnp.ones(2))
    assert net.seen == []


@pytest.mark.parametrize(
    "use", [lambda y: y.mean(), lambda y: y * 2, lambda y: y + 1, lambda y: 1 - y, lambda y: y.shape]
)
def test_the_pair_used_as_an_array_says_what_it_is(use):
    net = nn.Linear(2, 2)
    y = net.apply(*net.init(KEY), jnp.ones((1, 2)))
    with pytest.raises(
        TypeError, match=r"apply returns the pair \(output, state\), which must be unpacked: y, state = net.apply"
    ):
        use(y)
    out, _ = y
    assert out.shape == (1, 2) and y[0] is out and len(y) == 2 and isinstance(y, tuple) and not hasattr(y, "nothing")


def test_inside_a_transformation_it_is_a_plain_tuple():
    net = nn.Linear(2, 2)
    params, state = net.init(KEY)
    assert type(jax.eval_shape(net.apply, params, state, jnp.ones((1, 2)))) is tuple
    out, _ = jax.vmap(lambda x: net.apply(params, state, x), out_axes=(0, None))(jnp.ones((3, 2)))
    assert out.shape == (3, 2)


CRITERIA = {
    "cross entropy": (
        "CrossEntropyLoss",
        {"label_smoothing": 0.1},
        lambda r: (r.normal(size=(4, 3)), np.array([0, 2, 1, 1])),
    ),
    "mse": ("MSELoss", {}, lambda r: (r.normal(size=(4, 3)), r.normal(size=(4, 3)))),
    "gelu": ("GELU", {}, lambda r: (r.normal(size=(4, 3)),)),
    "flatten": ("Flatten", {}, lambda r: (r.normal(size=(4, 3, 2)),)),
    "pool": ("MaxPool1d", {"kernel_size": 2}, lambda r: (r.normal(size=(4, 3, 8)),)),
}


@pytest.mark.parametrize("name", CRITERIA)
def test_a_module_without_arrays_is_a_function(name):
    kind, options, make = CRITERIA[name]
    inputs = [x.astype(np.float32) if x.dtype == np.float64 else x for x in make(np.random.default_rng(0))]
    expected = getattr(torch.nn, kind)(**options)(*map(torch.tensor, inputs)).numpy()
    criterion = getattr(nn, kind)(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(criterion(*inputs), expected, atol=1e-6)
        np.testing.assert_allclose(jax.jit(criterion)(*inputs), expected, atol=1e-6)


def test_a_called_description_is_in_eval_mode_and_says_so():
    x = jnp.ones((4, 3))
    with pytest.warns(
        UserWarning, match=r"called like a function, which runs it in eval mode.*net.apply\(params, state, x, training"
    ):
        np.testing.assert_array_equal(nn.Sequential(nn.ReLU(), nn.Dropout(0.5))(x), x)
    with pytest.raises(ValueError, match=r"needs randomness. Pass apply\(…, rng=jax.random.key\(0\)\)"):
        nn.FractionalMaxPool2d(2, output_size=2)(jnp.ones((1, 4, 4)))
    with pytest.raises(TypeError, match="Linear: a description holds no arrays and cannot be called directly"):
        nn.Linear(2, 2)(x)


def test_make_rng_needs_the_key_only_when_something_draws():
    """The line of torch users: F.dropout(x, 0.5, self.training), with the key that JAX needs."""

    class Drops(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.5, self.training, rng=self.make_rng())

    class Draws(nn.Module):
        def forward(self, x):
            return x + jax.random.normal(self.make_rng(), x.shape)

    x = jnp.ones((64,))
    np.testing.assert_array_equal(Drops().apply({}, {}, x)[0], x)
    assert 0 < float((Drops().apply({}, {}, x, training=True, rng=KEY)[0] == 0).mean()) < 1
    for attempt in (lambda: Drops().apply({}, {}, x, training=True), lambda: Draws().apply({}, {}, x)):
        with pytest.raises(ValueError, match=r"the root \(D\w+\): the module needs randomness. Pass apply"):
            attempt()


def test_an_integer_is_no_key():
    net = nn.Dropout(0.5)
    for attempt in (lambda: net.apply({}, {}, jnp.ones(2), training=True, rng=0), lambda: nn.Linear(2, 2).init(0)):
        with pytest.raises(TypeError, match=r"expected a key, got int. Use jax.random.key\(0\)"):
            attempt()


def test_a_module_made_in_forward_is_named():
    class Makes(nn.Module):
        def forward(self, x):
            self.act = nn.ReLU()
            return self.act(x)

    with pytest.raises(ValueError, match=r"forward created the module 'act'.*created in __init__"):
        Makes().apply({}, {}, jnp.ones(2))


def test_no_grad_names_stop_gradient():
    with pytest.raises(AttributeError, match=r"jax.lax.stop_gradient\(self.teacher\(x\)\)"):
        nn.no_grad  # noqa: B018
