"""Random numbers that are the same in both libraries."""

import jax
import numpy as np
import pytest
import torch
import torch.nn.functional as TF

from funcnet import functional as F
from funcnet.porting.proving.equal_random_numbers import patterned, uniforms

KEY = jax.random.key(0)
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) + 1


def test_numbers_are_spread():
    found = uniforms((1000,))
    assert found.min() > 0 and found.max() < 1 and abs(found.mean() - 0.5) < 1e-3
    assert uniforms((2, 3)).shape == (2, 3) and uniforms(()).shape == ()


PAIRS = {
    "rand": (lambda: torch.rand(2, 3), lambda: jax.random.uniform(KEY, (2, 3))),
    "rand of a size": (lambda: torch.rand(size=(2, 3)), lambda: jax.random.uniform(KEY, (2, 3))),
    "randn": (lambda: torch.randn((2, 3)), lambda: jax.random.normal(KEY, (2, 3))),
    "rand_like": (lambda: torch.rand_like(torch.tensor(X)), lambda: jax.random.uniform(KEY, X.shape)),
    "randn_like": (lambda: torch.randn_like(torch.tensor(X)), lambda: jax.random.normal(KEY, X.shape)),
    "randint": (lambda: torch.randint(2, 9, (5,)), lambda: jax.random.randint(KEY, (5,), 2, 9)),
    "randperm": (lambda: torch.randperm(7), lambda: jax.random.permutation(KEY, 7)),
    "bernoulli": (lambda: torch.bernoulli(torch.full((9,), 0.3)), lambda: jax.random.bernoulli(KEY, 0.3, (9,))),
    "normal": (lambda: torch.normal(1.0, 2.0, size=(5,)), lambda: 1 + 2 * jax.random.normal(KEY, (5,))),
    "normal of tensors": (lambda: torch.normal(torch.ones(5), 2.0), lambda: 1 + 2 * jax.random.normal(KEY, (5,))),
    "uniform_": (lambda: torch.empty(4).uniform_(-1, 3), lambda: jax.random.uniform(KEY, (4,), minval=-1, maxval=3)),
    "normal_": (lambda: torch.empty(4).normal_(1, 2), lambda: 1 + 2 * jax.random.normal(KEY, (4,))),
    "bernoulli_": (lambda: torch.empty(9).bernoulli_(0.3), lambda: jax.random.bernoulli(KEY, 0.3, (9,))),
    "exponential_": (lambda: torch.empty(4).exponential_(), lambda: jax.random.exponential(KEY, (4,))),
    "dropout": (lambda: TF.dropout(torch.tensor(X), 0.4), lambda: F.dropout(X, 0.4, rng=KEY)),
    "dropout in place": (lambda: TF.dropout(torch.tensor(X), 0.4, True, True), lambda: F.dropout(X, 0.4, rng=KEY)),
    "dropout1d": (lambda: TF.dropout1d(torch.tensor(X), 0.4), lambda: F.dropout1d(X, 0.4, rng=KEY)),
    "dropout of all": (lambda: TF.dropout(torch.tensor(X), 1.0), lambda: F.dropout(X, 1.0, rng=KEY)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_same_numbers(name):
    theirs, ours = PAIRS[name]
    with patterned():
        np.testing.assert_allclose(np.asarray(ours(), np.float64), theirs().double().numpy(), rtol=1e-5, atol=1e-6)


def test_layers_draw_the_same():
    with patterned():
        layer = torch.nn.Dropout(0.4).train()
        np.testing.assert_allclose(layer(torch.tensor(X)).numpy(), F.dropout(X, 0.4, rng=KEY), rtol=1e-6)


def test_an_in_place_dropout_changes_its_argument():
    with patterned():
        given = torch.tensor(X)
        assert TF.dropout(given, 0.4, True, True) is given


def test_everything_is_put_back():
    before = torch.rand, torch.Tensor.normal_, jax.random.normal
    with pytest.raises(KeyError), patterned():
        assert torch.rand is not before[0]
        raise KeyError
    assert before == (torch.rand, torch.Tensor.normal_, jax.random.normal)
