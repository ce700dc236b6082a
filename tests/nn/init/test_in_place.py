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


def elementwise(p):
    p.data.abs_().add_(1).log_().neg_().exp_()
    p.data.pow_(2).sqrt_().reciprocal_().tanh_()
    p.data[0].sub_(0.5).sign_()
    p.data[1].mul_(5).round_()
    p.data[2, :2].mul_(7).floor_()
    p.data[2, 2:].mul_(7).ceil_().square_()
    p.data.div_(100).erfinv_()


def limits(p):
    p.data.clamp_min_(-2).clamp_max_(3)
    p.data[:, 1].clip_(max=0)


def masked(p):
    p.data.masked_fill_(p.new_mask, -7.0)


def triangles(p):
    p.data.triu_()
    p.data.tril_(1)


def gates(p):
    """As for LSTMs: each gate by itself."""
    for i, part in enumerate(p.data.chunk(2)):
        part.fill_(i)
    first, rest = p.split([1, 3], dim=1)
    first.data.mul_(2)
    rest[0].add_(3)
    for i, part in enumerate(p.data.split(3, -1)):
        part.sub_(i)
    p.data.narrow(1, 1, 2).neg_()
    p.data.flatten()[5:7].zero_()
    assert p.nelement() == 12


@pytest.mark.parametrize(
    "statements",
    [scaled, methods, clamped, assigned, parts, replaced, rows, elementwise, limits, masked, triangles, gates],
)
def test_the_statements_of_constructors(statements):
    theirs, ours = torch.nn.Parameter(torch.tensor(START)), nn.Parameter(START)
    mask = START % 3 == 0
    theirs.new_mask, ours.new_mask = torch.tensor(mask), mask
    with torch.no_grad():
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


def test_timms_truncated_normal():
    """Its statements, with a fixed draw in place of the uniform one."""
    arrays = []
    for lib, array in ((torch.nn, torch.tensor), (nn, np.asarray)):
        p = lib.Parameter(array(START))
        with torch.no_grad():
            tensor = p.data
            tensor.uniform_(-0.9, 0.9, generator=None)
            tensor.copy_(array(START / 6))
            tensor.erfinv_()
            tensor.mul_(0.02 * 2**0.5)
            tensor.add_(0.1)
            tensor.clamp_(min=0.09, max=0.12)
        arrays.append(p)
    net = nn.Module()
    net.p = arrays[1]
    np.testing.assert_allclose(net.init(KEY)[0]["p"], arrays[0].detach().numpy(), rtol=1e-6)


def test_data_of_another_shape_replaces_the_shape():
    """torch: conv.weight.data = weight[:, :1], as for images with one channel."""
    theirs, net = torch.nn.Linear(4, 3), nn.Linear(4, 3)
    theirs.weight.data = torch.tensor(START[:, :2])
    net.weight.data = START[:, :2]
    assert net.weight.shape == tuple(theirs.weight.shape)
    np.testing.assert_array_equal(net.init(KEY)[0]["weight"], theirs.weight.detach().numpy())
    with pytest.raises(ValueError, match=r"expected an array that broadcasts to shape \(3, 2\), got shape \(4,\)"):
        net.weight.data.copy_(np.ones(4))


def test_a_description_has_no_values_to_compute_with():
    a, b = nn.Parameter(START), nn.Parameter(START)
    for attempt in (lambda: a.mul_(b), lambda: a.data[0].add_(b[0]), lambda: a.data.__imul__(b.data.clone())):
        with pytest.raises(TypeError, match=r"describes an array and has no values here.*Compute with the arrays in"):
            attempt()


def test_a_split_must_fill_the_dimension():
    with pytest.raises(ValueError, match=r"Parameter\.split: the sizes do not fill dimension 1; expected a sum of 4"):
        nn.Parameter(START).split([1, 2], 1)


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


def test_parts_of_a_parameter_are_drawn_independently():
    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter((6, 50), nn.init.zeros())
            for part in self.w.chunk(3):
                nn.init.normal_(part)

    w = np.asarray(Gates().init(jax.random.key(0))[0]["w"]).reshape(3, -1)
    assert abs(np.corrcoef(w) - np.eye(3)).max() < 0.4


def test_bernoulli():
    class Signs(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(1000)
            self.w.bernoulli_(0.25).mul_(2).sub_(1)

    w = np.asarray(Signs().init(jax.random.key(0))[0]["w"])
    assert set(np.unique(w)) == {-1.0, 1.0} and abs(w.mean() + 0.5) < 0.1
