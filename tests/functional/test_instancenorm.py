"""Instance normalisation against torch: values, gradients, running statistics, and a mean far from zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from jax.test_util import check_grads

from funcnet import functional as F
from funcnet import nn

from .oracle import agrees, close, normal


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 3), (1, 3, 2, 3, 2)])
def test_values_and_gradients(shape):
    agrees(
        lambda x, w, b: F.instance_norm(x, None, None, w, b, eps=1e-3)[0],
        lambda x, w, b: T.instance_norm(x, None, None, w, b, eps=1e-3),
        *(normal(*shape), normal(3, seed=1), normal(3, seed=2)),
    )


@pytest.mark.parametrize("use_input_stats", [True, False])
def test_running_statistics_are_averages_over_the_batch(use_input_stats):
    x, mean, var = normal(4, 3, 6).astype(np.float32), normal(3, seed=1), np.abs(normal(3, seed=2)) + 0.5
    tensors = [torch.tensor(v) for v in (mean, var)]
    expected = T.instance_norm(torch.tensor(x).double(), *tensors, None, None, use_input_stats, 0.3)
    run = jax.jit(lambda x, m, v: F.instance_norm(x, m, v, None, None, use_input_stats, 0.3))
    found = run(x, jnp.asarray(mean, jnp.float32), jnp.asarray(var, jnp.float32))
    for got, want in zip(found, (expected, *tensors), strict=True):
        close(got, want.numpy(), 1e-6, "value or statistics")


def test_a_mean_far_from_zero():
    x = normal(3, 2, 50, mean=1e4).astype(np.float32)
    expected = T.instance_norm(torch.tensor(x).double())
    close(jax.jit(F.instance_norm)(x)[0], expected.numpy(), 2e-6, "value")


def test_half_precision_keeps_its_statistics_in_float32():
    x = jnp.asarray(normal(2, 3, 40, mean=20.0), jnp.bfloat16)
    y, mean, var = F.instance_norm(x, jnp.zeros(3), jnp.ones(3), momentum=1.0)
    wide = np.asarray(x, np.float64)
    assert y.dtype == jnp.bfloat16 and mean.dtype == var.dtype == jnp.float32
    np.testing.assert_allclose(mean, wide.mean(-1).mean(0), rtol=1e-6)
    np.testing.assert_allclose(var, wide.var(-1, ddof=1).mean(0), rtol=1e-5)


@pytest.mark.slow
def test_derivatives_of_derivatives():
    with jax.enable_x64(True):
        norm = jax.jit(lambda x: F.instance_norm(x, eps=0.1)[0])
        check_grads(norm, (jnp.asarray(normal(2, 2, 4)),), order=2, modes=("fwd", "rev"), rtol=1e-4, atol=1e-4)


def test_empty_arrays():
    for shape in ((0, 2, 4), (3, 2, 0), (3, 0, 4)):
        assert F.instance_norm(jnp.zeros(shape))[0].shape == T.instance_norm(torch.zeros(shape)).shape == shape


# ---------------------------------------------------------------------------------------------------------- the layers


def test_the_layer_tracks_what_torchs_tracks_and_normalises_by_it_in_eval():
    theirs = torch.nn.InstanceNorm1d(3, affine=True, track_running_stats=True)
    layer = nn.InstanceNorm1d(3, affine=True, track_running_stats=True)
    params, state = layer.load_state_dict(theirs.state_dict())
    step = jax.jit(lambda state, x: layer.apply(params, state, x, training=True))
    for seed in range(3):
        x = normal(4, 3, 6, seed=seed).astype(np.float32)
        y, state = step(state, x)
        close(y, theirs(torch.tensor(x)).detach().numpy(), 3e-6, "value")
    ours = layer.state_dict(params, state)
    for name, value in theirs.state_dict().items():
        close(ours[name], value.numpy(), 1e-6, name)
    one = normal(3, 1).astype(np.float32)  # a single position, and no batch
    y, after = layer.apply(params, state, one)
    close(y, theirs.eval()(torch.tensor(one)).detach().numpy(), 3e-6, "value in eval")
    assert jax.tree.all(jax.tree.map(np.array_equal, state, after))


def test_files_from_before_the_count_of_batches():
    old = torch.nn.InstanceNorm2d(3, track_running_stats=True).state_dict()
    del old["num_batches_tracked"], old._metadata
    _, state = nn.InstanceNorm2d(3, track_running_stats=True).load_state_dict(old)
    assert int(state["num_batches_tracked"]) == 0
    with pytest.raises(ValueError, match="unexpected: running_mean"):  # a layer that tracks nothing
        nn.InstanceNorm2d(3).load_state_dict(old)


def test_other_channels_are_told_of_where_nothing_depends_on_them():
    with pytest.warns(UserWarning, match="InstanceNorm1d: num_features=3 differs from the input's 2 channels"):
        nn.InstanceNorm1d(3).apply({}, {}, jnp.ones((4, 2, 5)))


def test_lazy_norms_take_their_features_from_the_example_and_keep_a_given_start():
    net = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.LazyInstanceNorm1d(dtype=jnp.bfloat16))
    nn.init.constant_(net[1].weight, 0.5)
    params, state = net.init(jax.random.key(0), jnp.ones((2, 3, 9)))
    assert params["1"]["weight"].tolist() == [0.5] * 4 and params["2"]["weight"].dtype == jnp.bfloat16
    assert state["1"]["running_var"].tolist() == [1] * 4 and state["2"]["running_mean"].dtype == jnp.float32
    assert nn.LazyInstanceNorm1d().init(jax.random.key(0), jnp.ones((3, 9)))[0]["bias"].shape == (3,)  # no batch
    with pytest.raises(ValueError, match="Pass an example input"):
        net.init(jax.random.key(0))
    with pytest.raises(ValueError, match="LazyBatchNorm2d: the input has the wrong rank; expected 4D input, got 3D"):
        nn.LazyBatchNorm2d().init(jax.random.key(0), jnp.ones((2, 3, 9)))


X, V = jnp.ones((2, 3, 4)), jnp.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.instance_norm(X[..., :1]),
            ValueError,
            "F.instance_norm: a channel with only one value has no variance; expected more",
        ),
        (
            lambda: F.instance_norm(X[:0], weight=V),
            ValueError,
            "F.instance_norm: the batch is empty; expected a batch",
        ),
        (lambda: F.instance_norm(V), ValueError, "F.instance_norm: input has too few dimensions"),
        (
            lambda: F.instance_norm(X, V),
            ValueError,
            "one of the running statistics is missing; .* got only running_mean",
        ),
        (
            lambda: F.instance_norm(X, use_input_stats=False),
            ValueError,
            "F.instance_norm: the running statistics are missing",
        ),
        (lambda: F.instance_norm(X, weight=jnp.ones(2)), ValueError, "F.instance_norm: weight has the wrong shape"),
        (lambda: F.instance_norm(X.astype(int)), TypeError, "F.instance_norm: input must hold floating-point numbers"),
        (lambda: nn.InstanceNorm2d(3).apply({}, {}, V), ValueError, "InstanceNorm2d: the input has the wrong rank"),
        (
            lambda: nn.InstanceNorm1d(2, affine=True).apply({"weight": V[:2], "bias": V[:2]}, {}, X),
            ValueError,
            "InstanceNorm1d: expected 2 channels in dimension 1, got 3",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
