"""The inference of a module as a pure function, and modules that have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import export, nn
from funcnet.export.inference import inference_of

X = np.ones((2, 3), np.float32)


class Counting(nn.Module):
    """Counts its calls, at inference too."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", jnp.zeros(()))

    def forward(self, x):
        self.calls = self.calls + 1
        return x * self.calls


class Sampling(nn.Module):
    def forward(self, x):
        return x + jax.random.normal(self.make_rng(), x.shape)


def test_it_is_apply_in_evaluation_mode():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    params, state = net.init(jax.random.key(0))
    run = inference_of(net, params, state)
    np.testing.assert_array_equal(run(X), net.apply(params, state, X)[0])
    assert export.to_stablehlo(run, X, params=(params, state)).arguments[0].name == "input"


def test_settings_and_methods():
    class Two(nn.Module):
        def forward(self, x):
            return x

        def twice(self, value, times=2):
            return value * times

    run = inference_of(Two(), {}, {}, method="twice", times=3)
    np.testing.assert_array_equal(run(X), X * 3)
    assert export.to_stablehlo(run, X).arguments[0].name == "value"


@pytest.mark.parametrize("form", [export.to_stablehlo, export.to_onnx])
def test_a_buffer_that_changes_is_refused(form):
    net = nn.Sequential(nn.Identity(), Counting())
    run = inference_of(net, *net.init(jax.random.key(0)))
    with pytest.raises(ValueError, match="export: 1 updates its buffer 'calls' at inference"):
        form(run, X)


@pytest.mark.parametrize("form", [export.to_stablehlo, export.to_onnx])
def test_a_layer_that_draws_is_refused(form):
    net = nn.Sequential(nn.Identity(), Sampling())
    run = inference_of(net, *net.init(jax.random.key(0)))
    with pytest.raises(ValueError, match=r"the module needs randomness") as error:
        form(run, X)
    assert "1" in str(error.value) + "".join(getattr(error.value, "__notes__", []))
