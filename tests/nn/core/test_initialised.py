"""What constructors written for torch do to parameters, beside torch: the same statements, the same arrays."""

import copy
import pickle

import jax
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)
START = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def scaled(p):
    p.data *= 2
    p.data /= 3
    p.data += 1
    p.data -= 0.25


def methods(p):
    p.data.mul_(2).div_(3).add_(1).sub_(0.25)
    p.data.add_(2.0, alpha=0.5)


def clamped(p):
    p.data.clamp_(-1, 2)
    p.data.clamp_(max=1.5)


def assigned(p):
    p.data[:] = 7.0
    p.data[1] = 3.0
    p.data[2, :2] = 1.0
    p.data[0] *= 2


def parts(p):
    p.data[0].mul_(3)
    p.data[:, 1].add_(1)
    p.data[1:, 2:] /= 4


def replaced(p):
    p.data = p.data.mul_(2)
    p.data[0].zero_()


def rows(p):
    for i in range(len(p)):
        p.data[i] *= i


@pytest.mark.parametrize("statements", [scaled, methods, clamped, assigned, parts, replaced, rows])
def test_the_statements_of_constructors(statements):
    theirs, ours = torch.nn.Parameter(torch.tensor(START)), nn.Parameter(START)
    statements(theirs)
    statements(ours)
    net = nn.Module()
    net.p = ours
    for one in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_allclose(one.init(KEY)[0]["p"], theirs.detach().numpy(), rtol=1e-6)


def test_a_random_start_may_be_scaled():
    """As in GPT-2: normal, then divided by the root of the number of layers."""
    net = nn.Linear(64, 64)
    nn.init.normal_(net.weight, std=0.02)
    plain = net.init(KEY)[0]["weight"]
    fresh = nn.Linear(64, 64)
    nn.init.normal_(fresh.weight, std=0.02)
    fresh.weight.data /= np.sqrt(2 * 12)
    np.testing.assert_allclose(fresh.init(KEY)[0]["weight"], plain / np.sqrt(2 * 12), rtol=1e-6)


def test_a_view_is_a_target_of_initialisers():
    """MAE and ViT: xavier_uniform_(w.view(w.shape[0], -1)) has the fans of the flat matrix."""
    net = nn.Conv2d(3, 32, 4)
    nn.init.xavier_uniform_(net.weight.view(net.weight.shape[0], -1))
    weight = net.init(KEY)[0]["weight"]
    bound = np.sqrt(6 / (32 + 3 * 4 * 4))
    assert weight.shape == (32, 3, 4, 4)
    assert 0.9 * bound < float(np.abs(weight).max()) <= bound
    nn.init.orthogonal_(net.weight.reshape((32, -1)))
    flat = net.init(KEY)[0]["weight"].reshape(32, -1)
    np.testing.assert_allclose(flat @ flat.T, np.eye(32), atol=1e-5)


def test_all_of_a_parameter_may_be_assigned_before_it_has_an_init():
    p = nn.Parameter((3, 4))
    p.data[:] = START
    net = nn.Module()
    net.p = p
    np.testing.assert_array_equal(net.init(KEY)[0]["p"], START)
    with pytest.raises(ValueError, match="entire parameter must have an init before a part"):
        nn.Parameter((3, 4)).data[0] = 1.0
    with pytest.raises(ValueError, match="there is no init to change"):
        nn.Parameter((3, 4)).data.mul_(2)


def test_a_description_used_as_an_array_says_where_the_arrays_are():
    import jax.numpy as jnp
    import optax

    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"is a description and has no values.*params and state that net.init returns"):
        optax.adam(1e-3).init(list(net.parameters()))
    with pytest.raises(TypeError, match="is a description"):
        jnp.ones((2, 2)) @ net.weight


def test_parameters_in_a_plain_list_are_refused():
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.ws = [nn.Parameter((2,)), nn.Parameter((2,))]

    with pytest.raises(TypeError, match=r"Listed.ws: init cannot find .* got a list of .* nn.ParameterList"):
        Listed()

    class Aliased(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter((2,))
            self.all = [self.a]

    Aliased()


def test_torchs_own_parameter_is_refused():
    net = nn.Module()
    with pytest.raises(
        TypeError, match=r"Module.w: the value is an object of torch; expected .* got a torch Parameter"
    ):
        net.w = torch.nn.Parameter(torch.ones(2))
