"""Parameters on which the loss does not depend keep their value, whatever the optimizer does, as in torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, optim, train


def one_step(net, params, state, x, **options):
    def objective(params, state, batch, *, training, rng):
        y, state = net.apply(params, state, batch["x"], training=training, rng=rng)
        return {"fit": {"loss": (y**2).sum()}}, state

    optimizer = optim.bert_adamw(
        0.1, eps=1e-8, weight_decay=0.5, no_decay=(), max_norm=None, bias_correction=True
    )  # torch's AdamW, without the digits that optax.adamw loses in its bias correction
    step = train.make_step(objective, lambda batch: {"fit": batch["x"].shape[0]}, optimizer, **options)
    return jax.jit(step)(train.create(params, state, optimizer), {"x": x}, jax.random.key(0))[0]


class WithSpare(nn.Module):
    """A frozen layer, a used one, and one that forward does not use."""

    def __init__(self):
        super().__init__()
        self.frozen, self.used, self.spare = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.used(self.frozen(x))


class TorchWithSpare(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.used, self.spare = torch.nn.Linear(3, 3), torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.used(self.frozen(x))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_adamw_moves_what_torchs_adamw_moves(accumulate):
    torch.manual_seed(0)
    theirs, net = TorchWithSpare(), WithSpare()
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    params, state = net.load_state_dict(before)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.1, weight_decay=0.5)
    ((theirs(torch.from_numpy(x)) ** 2).sum() / 4).backward()
    optimizer.step()
    ours = net.state_dict(one_step(net, params, state, x, accumulate=accumulate).params, state)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-6, atol=1e-7, err_msg=name)
        if not name.startswith("used"):
            assert np.asarray(ours[name]).tobytes() == before[name].numpy().tobytes(), name


@pytest.mark.parametrize("wrap", [lambda layer: nn.Repeat(layer, 3, scan=True), nn.remat], ids=["scan", "remat"])
def test_frozen_parameters_inside_a_transformation(wrap):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.used = nn.Linear(3, 3), nn.Linear(3, 3)
            self.frozen.requires_grad_(False)

        def forward(self, x):
            return jnp.tanh(self.used(self.frozen(x)))

    net = wrap(Layer())
    params, state = net.init(jax.random.key(0))
    after = one_step(net, params, state, np.ones((4, 3), np.float32)).params
    moved = jax.tree.map(lambda a, b: bool((np.asarray(a) != np.asarray(b)).any()), after, params)
    flat = jax.tree_util.tree_leaves_with_path(moved)
    assert {jax.tree_util.keystr(path): value for path, value in flat} == {
        jax.tree_util.keystr(path): "used" in jax.tree_util.keystr(path) for path, _ in flat
    }


def test_a_gradient_that_happens_to_be_zero_is_not_an_unused_parameter():
    """In torch too, weight decay moves a parameter whose `grad` is zero."""
    net = nn.Linear(3, 2, bias=False)
    params, state = net.init(jax.random.key(0))
    after = one_step(net, params, state, np.zeros((4, 3), np.float32)).params
    np.testing.assert_allclose(after["weight"], 0.95 * params["weight"], rtol=1e-6)
