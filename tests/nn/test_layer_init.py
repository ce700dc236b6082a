"""How layers start: torch's distributions, lazy shapes, dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn
from tests.layers.near import is_float, near

KEY = jax.random.key(0)

MANY = [
    ("Linear", (20, 1000), {}),
    ("Bilinear", (20, 10, 100), {}),
    ("Embedding", (100, 200), {}),
    ("Conv1d", (8, 300, 9), {}),
    ("Conv2d", (8, 1200, 3), {"groups": 4}),
    ("Conv3d", (2, 300, 3), {}),
    ("LayerNorm", (50,), {}),
    ("GroupNorm", (5, 50), {}),
    ("RMSNorm", (50,), {}),
    ("BatchNorm1d", (50,), {}),
]


@pytest.mark.parametrize(("kind", "args", "kwargs"), MANY, ids=[kind for kind, *_ in MANY])
def test_init_has_torchs_distribution(kind, args, kwargs):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*args, **kwargs).state_dict()
    net = getattr(nn, kind)(*args, **kwargs)
    same_distribution(net.state_dict(*net.init(KEY)), theirs)


def same_distribution(ours, theirs):
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        a, b = np.asarray(ours[name], np.float64).ravel(), tensor.double().numpy().ravel()
        if b.std() == 0 or b.size == 1:
            assert np.array_equal(a, b), name
            continue
        few = 1 / np.sqrt(a.size)
        assert abs(a.std() / b.std() - 1) < 6 * few and abs(a.mean() - b.mean()) < 6 * b.std() * few, name
        if abs(b).max() < 2 * b.std():  # uniform: its bound is met and not passed
            bound = b.std() * np.sqrt(3)
            assert abs(a.max() / b.max() - 1) < 12 / a.size + 1e-6, (name, bound)
            assert abs(a.min() / b.min() - 1) < 12 / a.size + 1e-6, (name, bound)


def test_lazy_linear_takes_its_shape_and_its_bounds_from_the_example():
    net = nn.Sequential(nn.LazyLinear(500), nn.ReLU(), nn.LazyLinear(4, bias=False))
    params, state = net.init(KEY, jnp.ones((2, 30)))
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.LazyLinear(500), torch.nn.ReLU(), torch.nn.LazyLinear(4, bias=False))
    assert repr(net) == repr(theirs)
    theirs(torch.ones(2, 30))
    same_distribution(net.state_dict(params, state), theirs.state_dict())
    params, state = net.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(3, 30)).astype(np.float32)
    near(net.apply(params, state, x)[0], theirs(torch.tensor(x)).detach().numpy(), 1e-6, "output")
    with pytest.raises(ValueError, match="Pass an example input"):
        net.init(KEY)


def test_lazy_linear_keeps_the_init_that_the_user_gave_and_its_dtype():
    layer = nn.LazyLinear(3, dtype=jnp.bfloat16)
    nn.init.ones_(layer.bias)
    params, _ = layer.init(KEY, jnp.ones((2, 4), jnp.bfloat16))
    assert params["bias"].tolist() == [1, 1, 1] and params["weight"].dtype == jnp.bfloat16


TYPED = [
    ("Linear", (3, 4)),
    ("Bilinear", (2, 3, 4)),
    ("Conv2d", (3, 4, 2)),
    ("Embedding", (5, 3)),
    ("LayerNorm", (3,)),
    ("GroupNorm", (1, 3)),
    ("RMSNorm", (3,)),
    ("BatchNorm2d", (3,)),
    ("SyncBatchNorm", (3,)),
]


@pytest.mark.parametrize(("kind", "args"), TYPED, ids=[kind for kind, _ in TYPED])
def test_dtype_is_that_of_the_params_and_statistics_stay_wide(kind, args):
    params, state = getattr(nn, kind)(*args, dtype=jnp.bfloat16).init(KEY)
    assert {p.dtype for p in params.values()} == {jnp.dtype(jnp.bfloat16)}
    assert {s.dtype for s in state.values() if is_float(s)} <= {jnp.dtype(jnp.float32)}


def test_a_subclass_may_reset_its_parameters_as_in_torch():
    class Small(nn.Linear):
        def reset_parameters(self):
            nn.init.constant_(self.weight, 0.25)
            nn.init.zeros_(self.bias)

    params, _ = Small(3, 2).init(KEY)
    assert np.array_equal(params["weight"], np.full((2, 3), 0.25)) and not params["bias"].any()
