"""Finite flags name the layer that broke first, forward and backward: as torch's hooks find it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn
from funcnet.nn.inspection.finite_flags import FLAGS, PROBES, describe_broken, zeros_like

KEY = jax.random.key(0)
TRAPS = {  # breaks forward, breaks backward only, breaks nothing
    "log": (lambda x: jnp.log(-jnp.abs(x) - 1), lambda x: torch.log(-x.abs() - 1)),
    "overflow": (lambda x: jnp.exp(jnp.abs(x) + 1000), lambda x: torch.exp(x.abs() + 1000)),
    "root": (lambda x: jnp.sqrt(x * 0), lambda x: torch.sqrt(x * 0)),
    "none": (lambda x: x, lambda x: x),
}


class Trap(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        return TRAPS[self.kind][0](x)


class TorchTrap(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        return TRAPS[self.kind][1](x)


def build(library, trap, kind, where):
    """Three blocks of three layers, with a trap in one of them."""
    blocks = []
    for number in range(3):
        layers = [library.Linear(6, 6), library.Tanh(), trap(kind if number == where else "none")]
        blocks.append(library.Sequential(*layers))
    return library.Sequential(*blocks, library.Linear(6, 2))


def flags_of(net, params, state, x, **how):
    """(flags of the outputs, flags of their gradients) of the sum of the net's output, under jit."""

    def loss(params, probes):
        y, new = net.apply({**params, PROBES: probes}, state, x, training=True, rng=KEY, **how)
        return y.sum(), new[FLAGS]

    shapes = jax.eval_shape(loss, params, {})[1]
    (_, backward), forward = jax.jit(jax.grad(loss, (0, 1), has_aux=True))(params, zeros_like(shapes))
    return jax.device_get((forward, backward))


@pytest.mark.parametrize("where", range(3))
@pytest.mark.parametrize("kind", TRAPS)
def test_the_first_broken_layer_is_that_of_torchs_hooks(kind, where):
    theirs = build(torch.nn, TorchTrap, kind, where)
    net = build(nn, Trap, kind, where)
    params, state = net.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)

    forward, backward = [], []
    for name, module in theirs.named_modules():
        if not list(module.children()):
            module.register_forward_hook(
                lambda m, i, out, name=name: forward.append((name, bool(out.isfinite().all())))
            )
            module.register_full_backward_hook(
                lambda m, into, out, name=name: backward.append((name, bool(out[0].isfinite().all())))
            )
    theirs(torch.from_numpy(x)).sum().backward()
    broken_output = next((name for name, is_finite in forward if not is_finite), None)
    broken_gradient = next((name for name, is_finite in backward if not is_finite), None)

    said = describe_broken(*flags_of(net, params, state, x))
    if broken_output is not None:
        assert said == f"forward: the output of {broken_output!r} is the first that is not finite"
    elif broken_gradient is not None:
        assert said.startswith(f"backward: the gradient of the output of {broken_gradient!r} is the first that is not")
        assert said.endswith(f"look at the code from there to the end of '{where}.2'")
    else:
        assert said.startswith("all outputs of modules and their gradients are finite; look at the loss")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.drop, self.trap = nn.Linear(4, 4), nn.Dropout(0.5), Trap("none")

    def forward(self, x):
        x = self.drop(self.fc(x))
        return jnp.where(jnp.abs(x).max() > 1e3, self.trap(x) / 0, self.trap(x))


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize("wrap", [lambda layer: layer, nn.remat], ids=["stored", "recomputed"])
def test_layers_of_stacks_are_named_singly(scan, wrap):
    """Layer 1 has large weights: its output breaks, and those after it."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Repeat(wrap(Block()), 3, scan=scan), nn.Linear(4, 2))
    params, state = net.init(KEY)
    layers = net.unstack(params)
    layers["1"]["1"]["fc"]["weight"] = layers["1"]["1"]["fc"]["weight"] * 1e6
    params = net.stack(layers) if scan else layers
    said = describe_broken(*flags_of(net, params, state, jnp.ones((3, 4))))
    assert said == "forward: the output of '1.1' is the first that is not finite"


def test_flags_change_nothing_and_count_calls():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn = nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x):
            return self.bn(self.fc(jnp.log(self.fc(x) - 100)))

    net = Twice()
    params, state = net.init(KEY)
    x = jax.random.normal(KEY, (5, 4))
    run = lambda params: net.apply(params, state, x, training=True)
    plain, new = jax.jit(run)(params)
    traced, flagged = jax.jit(run)({**params, PROBES: {}})
    assert np.array_equal(plain, traced, equal_nan=True)
    flags = flagged.pop(FLAGS)
    assert jax.tree.structure(new) == jax.tree.structure(flagged)
    assert {name for name, _ in flags} == {"", "fc", "bn"} and {count for _, count in flags} == {0, 1}
    assert describe_broken(flags, {}) == "forward: the output of 'fc:1' is the first that is not finite"


@pytest.mark.slow
def test_checked_with_a_loss_runs_a_step():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    params, state = net.init(KEY)
    x = jax.random.normal(KEY, (8, 3))
    value, gradients, new = nn.checked(net, lambda y: (y**2).sum())(params, state, x, training=True)

    def loss(params):
        y, new = net.apply(params, state, x, training=True)
        return (y**2).sum(), new

    (expected, after), expected_gradients = jax.value_and_grad(loss, has_aux=True)(params)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    jax.tree.map(close, (gradients, new), (expected_gradients, after))
    with pytest.raises(ValueError, match=r"^nn.checked: backward: the gradient of the output of '1' is the first"):
        nn.checked(net, lambda y: jnp.sqrt(y * 0).sum())(params, state, x, training=True)
