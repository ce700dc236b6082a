"""A torch checkpoint goes through both bridges: in, five steps in flax, out again and into torch."""

import jax
import numpy as np
import optax
import pytest
import torch
from flax import nnx

from funcnet import bridges, nn
from tests.bridges.nets import X


def make(library):
    return library.Sequential(library.Linear(3, 4), library.BatchNorm1d(4), library.ReLU(), library.Linear(4, 2))


def torch_steps(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.tensor(np.asarray(X))
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()


def assert_equal(ours, theirs):
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert np.asarray(ours[name]).dtype == value.numpy().dtype
        np.testing.assert_allclose(ours[name], value.numpy(), atol=2e-6, rtol=1e-5)  # two libraries' sums


def test_a_torch_checkpoint_in_and_out():
    oracle, net = make(torch.nn), make(nn)
    torch_steps(oracle, 1)
    model, linen_model = bridges.ToNNX(net, rngs=nnx.Rngs(0)), bridges.ToLinen(net)
    model.load_state_dict(oracle.state_dict())
    variables = linen_model.load_state_dict(oracle.state_dict())
    model.eval()
    oracle.eval()
    expected = oracle(torch.tensor(np.asarray(X))).detach().numpy()
    np.testing.assert_allclose(model(X), expected, atol=1e-6)
    np.testing.assert_allclose(linen_model.apply(variables, X), expected, atol=1e-6)
    for sd in (model.state_dict(), linen_model.state_dict(variables)):
        assert_equal(sd, oracle.state_dict())
        make(torch.nn).load_state_dict({name: torch.tensor(np.asarray(value)) for name, value in sd.items()})


@pytest.mark.slow
def test_a_torch_checkpoint_through_nnx():
    torch.manual_seed(0)
    oracle, net = make(torch.nn), make(nn)
    model = bridges.ToNNX(net, values=net.load_state_dict(oracle.state_dict()))
    optimizer = nnx.Optimizer(model, optax.sgd(0.05), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        optimizer.update(model, nnx.grad(lambda model: (model(X) ** 2).mean())(model))

    for _ in range(5):
        step(model, optimizer)
    torch_steps(oracle, 5)
    assert_equal(model.state_dict(), oracle.state_dict())
    fresh = make(torch.nn)
    fresh.load_state_dict({name: torch.tensor(np.asarray(value)) for name, value in model.state_dict().items()})
    model.eval()
    fresh.eval()
    np.testing.assert_allclose(model(X), fresh(torch.tensor(np.asarray(X))).detach().numpy(), atol=1e-6)
    model.load_state_dict(oracle.state_dict())
    assert_equal(model.state_dict(), oracle.state_dict())


@pytest.mark.slow
def test_a_torch_checkpoint_through_linen():
    torch.manual_seed(1)
    oracle, model = make(torch.nn), bridges.ToLinen(make(nn))
    variables = model.load_state_dict(oracle.state_dict())

    @jax.jit
    def step(variables):
        def loss(params):
            y, updated = model.apply({**variables, "params": params}, X, training=True, mutable=["batch_stats"])
            return (y**2).mean(), updated

        grads, updated = jax.grad(loss, has_aux=True)(variables["params"])
        return {"params": jax.tree.map(lambda p, g: p - 0.05 * g, variables["params"], grads), **updated}

    for _ in range(5):
        variables = step(variables)
    torch_steps(oracle, 5)
    assert_equal(model.state_dict(variables), oracle.state_dict())
