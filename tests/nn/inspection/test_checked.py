"""`nn.checked`: what compiled code cannot raise is raised, by the name of the module that comes first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from funcnet import nn

KEY = jax.random.key(0)


class Model(nn.Module):
    def __init__(self, scan=False):
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.layers = nn.Repeat(nn.Linear(4, 4), 2, scan=scan)
        self.drop = nn.Dropout(0.1)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, ids, target, log=False):
        x = self.drop(self.layers(self.words(ids)))
        return self.loss(jnp.log(x) if log else x, target)


@pytest.mark.parametrize("scan", [False, True])
def test_ids_and_nan_are_told_by_the_first_module(scan):
    net = Model(scan)
    params, state = net.init(KEY)
    run = nn.checked(net)
    ids, target = jnp.array([0, 6]), jnp.array([1, -100])
    out, _ = run(params, state, ids, target)
    assert np.array_equal(out, net.apply(params, state, ids, target)[0])
    trained, _ = run(params, state, ids, target, training={"drop": True}, rng=KEY)
    assert np.array_equal(trained, net.apply(params, state, ids, target, training={"drop": True}, rng=KEY)[0])
    with pytest.raises(
        ValueError,
        match=r"^words \(Embedding\): ids out of range; expected values from 0 to 6, got values from -1 to 2\. Che",
    ):
        run(params, state, jnp.array([-1, 2]), target)
    with pytest.raises(
        ValueError,
        match=r"^loss \(CrossEntropyLoss\): target out of range; expected values from 0 to 3, got values from 0 to",
    ):
        run(params, state, ids, jnp.array([0, 4]))
    with pytest.raises(ValueError, match=r"^the root \(Model\): the output contains NaN|^loss"):
        run(params, state, ids, target, log=True)
    params["layers"] = jax.tree.map(lambda p: p * jnp.nan, params["layers"])
    run(params, state, ids, target)  # NaN in, NaN out: no module's doing


class ByKeyword(nn.Module):
    """Ids and classes by keyword, and a list of them."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, ids, target):
        return self.loss(target=target, input=self.words(input=ids))


class Renamed(nn.Embedding):
    def forward(self, *, words):
        return super().forward(words)


def test_ids_by_keyword_are_looked_at_too():
    net = ByKeyword()
    params, state = net.init(KEY)
    run = nn.checked(net)
    run(params, state, jnp.array([0, 6]), jnp.array([1, 3]))
    with pytest.raises(
        ValueError, match=r"^the root \(Embedding\): ids out of range; expected values from 0 to 6, got values from 0"
    ):
        nn.checked(net.words)(params["words"], {}, [0, 7])
    with pytest.raises(
        ValueError, match=r"^words \(Embedding\): ids out of range; expected values from 0 to 6, got values from 0 to 7"
    ):
        run(params, state, jnp.array([0, 7]), jnp.array([1, 3]))
    with pytest.raises(
        ValueError,
        match=r"^loss \(CrossEntropyLoss\): target out of range; expected values from 0 to 3, got values from 1 to 4",
    ):
        run(params, state, jnp.array([0, 6]), jnp.array([1, 4]))
    net = Renamed(7, 4)
    out, _ = nn.checked(net)(*net.init(KEY), words=jnp.array([6]))  # which of its own arguments are ids, it alone knows
    assert out.shape == (1, 4)


def test_a_second_call_finds_the_program_of_the_first():
    traces = []

    class Counting(nn.Module):
        def forward(self, x):
            traces.append(1)
            return x * 2

    run = nn.checked(Counting())
    for value in (1.0, 2.0):
        run({}, {}, jnp.full(2, value))
    assert len(traces) == 1


def test_a_train_step_of_ones_own_with_the_hooks():
    net = Model()
    params, state = net.init(KEY)

    def step(params, ids, target):
        return jax.grad(lambda p: net.apply(p, state, ids, target, hooks=nn.checking_hooks())[0])(params)

    error, _ = jax.jit(checkify.checkify(step))(params, jnp.array([9, 0]), jnp.array([1, 2]))
    with pytest.raises(checkify.JaxRuntimeError, match=r"words \(Embedding\): ids out of range"):
        error.throw()
    error, gradients = jax.jit(checkify.checkify(step))(params, jnp.array([1, 0]), jnp.array([1, 2]))
    assert error.get() is None and bool(gradients["words"]["weight"].any())


def test_without_it_an_id_that_names_no_row_reads_nan():
    net = nn.Embedding(3, 2)
    params, state = net.init(KEY)
    out, _ = jax.jit(net.apply)(params, state, jnp.array([0, 3, -1]))
    assert np.isnan(out).all(1).tolist() == [False, True, True]


def test_a_row_that_may_attend_to_nothing_is_named():
    net = nn.MultiheadAttention(4, 2, batch_first=True)
    params, state = net.init(KEY)
    x = jnp.ones((1, 3, 4))
    run = nn.checked(net)
    run(params, state, x, x, x, need_weights=False)
    with pytest.raises(ValueError, match=r"^the root \(MultiheadAttention\): the output contains NaN"):
        run(params, state, x, x, x, key_padding_mask=jnp.ones((1, 3), bool))
