"""Overridden methods of Module: modes that `train` and `eval` set, as in torch; overrides that nothing calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(2.0, 3.0, (16, 4)).astype(np.float32)


def frozen(lib):
    """torchvision's and mmdet's way to freeze the statistics of BatchNorm; the same class for both libraries."""

    class Frozen(lib.Module):
        def __init__(self):
            super().__init__()
            self.bn = lib.BatchNorm1d(4)
            self.head = lib.BatchNorm1d(4)

        def train(self, mode=True):
            super().train(mode)
            self.bn.eval()
            return self

        def forward(self, x):
            return self.head(self.bn(x))

    return Frozen()


def outer(lib):
    class Outer(lib.Module):
        def __init__(self):
            super().__init__()
            self.backbone = frozen(lib)
            self.last = lib.BatchNorm1d(4)

        def forward(self, x):
            return self.last(self.backbone(x))

    return Outer()


def monte_carlo(lib):
    """Dropout that stays on in evaluation."""

    class MonteCarlo(lib.Module):
        def __init__(self):
            super().__init__()
            self.drop = lib.Dropout(0.5)
            self.bn = lib.BatchNorm1d(4)

        def eval(self):
            super().eval()
            self.drop.train()
            return self

        def forward(self, x):
            return self.drop(self.bn(x))

    return MonteCarlo()


@pytest.mark.parametrize("make", [frozen, outer])
@pytest.mark.parametrize("mode", [True, False])
def test_a_frozen_batchnorm_is_torchs(make, mode):
    theirs, net = make(torch.nn), make(nn)
    theirs.train(mode)
    y = theirs(torch.tensor(X))
    params, state = net.init(KEY)
    ours, state = jax.jit(lambda p, s, x: net.apply(p, s, x, training=mode))(params, state, X)
    np.testing.assert_allclose(ours, y.detach().numpy(), atol=2e-6)
    for name, value in net.state_dict(params, state).items():
        np.testing.assert_allclose(value, theirs.state_dict()[name].numpy(), atol=1e-6, err_msg=name)


def test_a_dict_keeps_what_the_class_pins():
    """torch: train() of the net, then eval() of `last`; the frozen BatchNorm stays frozen."""
    theirs, net = outer(torch.nn), outer(nn)
    theirs.train()
    theirs.last.eval()
    theirs(torch.tensor(X))
    params, state = net.init(KEY)
    _, state = net.apply(params, state, X, training={"**": True, "last": False})
    for name, value in net.state_dict(params, state).items():
        np.testing.assert_allclose(value, theirs.state_dict()[name].numpy(), atol=1e-6, err_msg=name)


def test_dropout_that_stays_on():
    net = monte_carlo(nn)
    params, state = net.init(KEY)
    out, after = net.apply(params, state, jnp.ones((16, 4)), rng=KEY)
    assert 0 < float((out == 0).mean()) < 1
    jax.tree.map(np.testing.assert_array_equal, after, state)


@pytest.mark.parametrize("wrap", [lambda m: nn.Repeat(m, 2), lambda m: nn.Repeat(m, 2, scan=True), nn.remat])
def test_the_modes_reach_layers_that_run_in_a_transformation(wrap):
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = wrap(nn.BatchNorm1d(4))
            self.bn = nn.BatchNorm1d(4)

        def train(self, mode=True):
            super().train(mode)
            self.layers.eval()

        def forward(self, x):
            return self.bn(self.layers(x))

    net = Holds()
    params, state = net.init(KEY)
    _, after = net.apply(params, state, X, training=True)
    jax.tree.map(np.testing.assert_array_equal, after["layers"], state["layers"])
    assert float(jnp.abs(after["bn"]["running_mean"]).max()) > 0


def stages(lib):
    """mmdet's ResNet: train() freezes the parameters of the first stages too."""

    class Stages(lib.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = lib.Linear(4, 4), lib.Linear(4, 4)

        def train(self, mode=True):
            super().train(mode)
            self.first.eval()
            for p in self.first.parameters():
                p.requires_grad = False

        def forward(self, x):
            return self.second(self.first(x))

    return Stages()


def test_parameters_that_train_freezes_get_no_gradient():
    theirs, net = stages(torch.nn), stages(nn)
    theirs.train()
    theirs(torch.tensor(X)).sum().backward()
    params, state = net.load_state_dict(theirs.state_dict())
    grads = jax.grad(lambda p: net.apply(p, state, X, training=True)[0].sum())(params)
    for name, p in theirs.named_parameters():
        expected = np.zeros(p.shape, np.float32) if p.grad is None else p.grad.numpy()
        module, leaf = name.split(".")
        np.testing.assert_allclose(grads[module][leaf], expected, rtol=1e-5, err_msg=name)
    assert all(p.requires_grad for p in net.parameters())


def test_the_mode_is_no_attribute_to_set():
    net = nn.BatchNorm1d(4)
    for attempt in (net.train, net.eval, lambda: setattr(net, "training", True)):
        with pytest.raises(AttributeError, match=r"Use net.apply\(…, training=True\)"):
            attempt()

    class Switches(nn.Module):
        def forward(self, x):
            self.eval()
            return x

    with pytest.raises(ValueError, match=r"the root .Switches.: forward changed the training mode"):
        Switches().apply({}, {}, X)


@pytest.mark.parametrize(
    "name",
    ["_save_to_state_dict", "state_dict", "load_state_dict", "named_parameters", "_apply"],
)
def test_an_override_that_nothing_calls_is_refused(name):
    kind = type("Port", (nn.Module,), {name: lambda self, *args, **kwargs: None})
    with pytest.raises(TypeError, match=rf"^Port\.{name}: this override would never be called"):
        kind()
    inner = type("Inner", (nn.Linear,), {name: lambda self, *args, **kwargs: None})
    with pytest.raises(TypeError, match=rf"^Inner\.{name}"):
        nn.Sequential(inner(2, 2))


def test_torchs_argument_device_is_named():
    with pytest.raises(TypeError, match=r"^Linear: layers take no device.*jax.device_put\(params, device\)"):
        nn.Linear(2, 2, device="cpu")

    class Placed(nn.Module):
        def __init__(self, device=None):
            super().__init__()
            self.device = device

    assert Placed(device="cpu").device == "cpu"
