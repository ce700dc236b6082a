"""`to`, `cpu`, `cuda`, `half` and the like in constructors, beside torch: the same dtypes; devices change nothing."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def model(lib, act):
    """A constructor that ends with `act`; the same class for both libraries."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.fc = lib.Linear(4, 4).to("cpu")
            self.bn = lib.BatchNorm1d(4).cpu()
            self.register_buffer("ids", torch.arange(3) if lib is torch.nn else jnp.arange(3))
            self.register_buffer("scale", torch.ones(2) if lib is torch.nn else jnp.ones(2))
            self.waves = lib.Parameter(torch.ones(2, dtype=torch.complex64) if lib is torch.nn else np.ones(2, "c8"))
            assert act(self, torch if lib is torch.nn else jnp) is not None

        def forward(self, x):
            return self.bn.to(x.dtype)(self.fc.to(x.dtype).to(device="cpu")(x))

    return Net()


ACTS = {
    "device": lambda net, t: net.to("cpu"),
    "device by name": lambda net, t: net.to(device="cpu"),
    "none": lambda net, t: net.to(None),
    "cpu": lambda net, t: net.cpu(),
    "half": lambda net, t: net.half(),
    "bfloat16": lambda net, t: net.bfloat16(),
    "float": lambda net, t: net.half().float(),
    "child": lambda net, t: net.fc.half(),
    "dtype": lambda net, t: net.fc.to(t.float16),
    "dtype by name": lambda net, t: net.bn.to(dtype=t.bfloat16),
    "device and dtype": lambda net, t: net.fc.to("cpu", t.float16, non_blocking=True),
    "device, and dtype by name": lambda net, t: net.fc.to("cpu", dtype=t.float16),
    "an array": lambda net, t: net.fc.to(t.ones(2, dtype=t.float16)),
    "complex": lambda net, t: net.bn.to(t.complex64),
}


@pytest.mark.every_row
@pytest.mark.parametrize("name", ACTS)
def test_the_dtypes_are_torchs(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = model(nn, ACTS[name])
        values = {k: v for one in net.init(KEY) for k, v in tree.flatten(one).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of complex modules
        theirs = model(torch.nn, ACTS[name])
    leaves = dict([*net.named_parameters(), *net.named_buffers()])
    for key, tensor in theirs.state_dict().items():
        expected = str(tensor.dtype).removeprefix("torch.")
        assert np.dtype(values[key].dtype).name == expected.replace("int64", "int32"), key
        assert np.dtype(leaves[key].dtype).name == expected or not tensor.is_floating_point(), key


def test_a_half_net_computes_as_one_whose_params_were_cast():
    net, half = nn.Linear(4, 4), nn.Linear(4, 4)
    params, _ = net.init(KEY)
    half.half()
    loaded, state = half.load_state_dict(net.state_dict(params, {}))
    y, _ = net.apply(tree.cast(params, jnp.float16), {}, X.astype(np.float16))
    np.testing.assert_array_equal(half.apply(loaded, state, X.astype(np.float16))[0], y)


@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, "meta", "mps", torch.device("cpu"), jax.devices()[0]])
def test_a_device_is_accepted_and_changes_nothing(device):
    net = nn.Linear(4, 4)
    assert net.to(device) is net and net.cuda() is net and net.cuda(0) is net and net.weight.dtype == jnp.float32
    assert net.to(device, torch.float16).weight.dtype == jnp.float16


def test_inside_forward_the_dtype_must_be_that_of_the_arrays():
    net = model(nn, ACTS["cpu"])
    params, state = net.init(KEY)
    expected, _ = net.bn.apply(params["bn"], state["bn"], X @ params["fc"]["weight"].T + params["fc"]["bias"])
    for apply in (net.apply, jax.jit(net.apply)):
        np.testing.assert_allclose(apply(params, state, X)[0], expected, rtol=1e-5)
    with pytest.raises(
        TypeError, match=r"BatchNorm1d\.to: forward cannot change the dtype.*tree\.cast\(params, 'float16'\)"
    ):
        net.apply(params, state, jnp.asarray(X, jnp.float16))


def test_what_is_refused_or_reported():
    net = nn.Linear(4, 4)
    for dtype in (jnp.int32, torch.int64, bool):
        with pytest.raises(TypeError, match=r"Linear\.to: expected a floating or complex dtype, got (int|bool)"):
            net.to(dtype)
    for args, kwargs, got in (
        ((), {}, "no argument"),
        ((), {"where": 1}, "an argument 'where'"),
        (("gpux",), {}, "'gpux'"),
    ):
        with pytest.raises(TypeError, match=rf"Linear\.to: expected a device, a dtype or an array, got {got}"):
            net.to(*args, **kwargs)
    net.init(KEY)
    with pytest.warns(UserWarning, match=r"Linear\.half: values were already made.*tree\.cast\(params, 'float16'\)"):
        net.half()
