"""A funcnet module as a linen module: the same numbers, at the top, in parents and under linen's transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen

from funcnet import bridges, nn, tree
from tests.bridges.nets import KEY, Net, X, loss_of, same
from tests.tracing import traced

NET = Net()
MODEL = bridges.ToLinen(NET)
VARIABLES = MODEL.init(jax.random.key(0), X)


class Key(linen.Module):
    """What the stream gives to a module at the top."""

    def __call__(self):
        return self.make_rng("dropout")


def test_value_gradient_statistics_and_masks_are_those_of_apply():
    assert sorted(VARIABLES) == ["batch_stats", "params"]
    params, state = MODEL.trees(VARIABLES)
    key = Key().apply({}, rngs={"dropout": KEY})

    def loss(params):
        y, new = NET.apply(params, state, X, training=True, rng=key)
        return loss_of(y), (y, new)

    def linen_loss(params):
        variables = {**VARIABLES, "params": params}
        y, new = MODEL.apply(variables, X, training=True, rngs={"dropout": KEY}, mutable=["batch_stats"])
        return loss_of(y), (y, new["batch_stats"])

    (value, (y, new)), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    (linen_value, (linen_y, stats)), linen_grads = jax.jit(jax.value_and_grad(linen_loss, has_aux=True))(
        VARIABLES["params"]
    )
    same((value, y), (linen_value, linen_y))
    same(tree.flatten(grads), tree.flatten(linen_grads))
    same(tree.flatten(new), tree.flatten(stats))
    assert int(new["blocks"]["0"]["bn"]["num_batches_tracked"]) == 1
    same(NET.apply(params, state, X)[0], MODEL.apply(VARIABLES, X))
    same(NET.apply(params, state, X, method="features")[0], MODEL.apply(VARIABLES, X, net_method="features"))
    pattern = {"blocks.0": True}
    part, _ = MODEL.apply(VARIABLES, X, training=pattern, rngs={"dropout": KEY}, mutable=["batch_stats"])
    same(NET.apply(params, state, X, training=pattern, rng=key)[0], part)


@pytest.mark.slow
def test_five_steps_in_either_world_and_no_second_program():
    params, state = MODEL.trees(VARIABLES)
    optimizer = optax.sgd(0.05, momentum=0.9)
    opt_state, variables = optimizer.init(params), VARIABLES
    linen_opt_state = optimizer.init(variables["params"])

    @jax.jit
    def step(params, state, opt_state, key):
        def loss(params):
            y, new = NET.apply(params, state, X, training=True, rng=key)
            return loss_of(y), new

        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, opt_state = optimizer.update(grads, opt_state)
        return optax.apply_updates(params, updates), state, opt_state, value

    @traced
    def linen(variables, opt_state, key):
        def loss(params):
            given = {**variables, "params": params}
            y, new = MODEL.apply(given, X, training=True, rngs={"dropout": key}, mutable=["batch_stats"])
            return loss_of(y), new

        (value, new), grads = jax.value_and_grad(loss, has_aux=True)(variables["params"])
        updates, opt_state = optimizer.update(grads, opt_state)
        return {"params": optax.apply_updates(variables["params"], updates), **new}, opt_state, value

    linen_step, traces = linen
    for key in jax.random.split(KEY, 5):
        given = Key().apply({}, rngs={"dropout": key})
        params, state, opt_state, value = step(params, state, opt_state, given)
        variables, linen_opt_state, linen_value = linen_step(variables, linen_opt_state, key)
        same(value, linen_value, 1e-6)
    same((params, state), MODEL.trees(variables), 1e-7)
    assert len(traces) == 1
    assert jax.tree.structure(variables) == jax.tree.structure(VARIABLES)


def test_there_and_back_is_the_same():
    params, state = NET.init(KEY)
    variables = MODEL.to_variables(params, state)
    assert jax.tree.structure(variables) == jax.tree.structure(VARIABLES)
    same(MODEL.trees(variables), (params, state))
    same(MODEL.trees(MODEL.load_state_dict(MODEL.state_dict(variables))), (params, state))
    same(MODEL.load_state_dict({}, strict=False, into=variables), variables)
    lacking = {"params": variables["params"]}
    with pytest.raises(ValueError, match=r"ToLinen.trees: .*missing: blocks.0.bn.running_mean.*unexpected: none"):
        MODEL.trees(lacking)


class Compact(linen.Module):
    @linen.compact
    def __call__(self, x, train: bool):
        x = linen.Dense(3)(x)
        x = bridges.ToLinen(NET, name="body")(x, training=train)
        return linen.Dense(1)(x)


class WithSetup(linen.Module):
    def setup(self):
        self.body = bridges.ToLinen(NET)

    def __call__(self, x, train: bool):
        return self.body(x, training=train) + self.body(x, training=train)

    def features(self, x):
        return self.body(x, net_method="features")


def test_inside_of_linen_parents():
    for parent in (Compact(), WithSetup()):
        variables = parent.init(KEY, X, train=False)
        assert variables["params"]["body"]["blocks"]["0"]["fc"]["weight"].shape == (4, 4)
        rngs = {"dropout": KEY}
        y, new = parent.apply(variables, X, train=True, rngs=rngs, mutable=["batch_stats"])
        assert y.shape[0] == 6
        assert jax.tree.structure(new["batch_stats"]) == jax.tree.structure(variables["batch_stats"])
        counts = [int(b["bn"]["num_batches_tracked"]) for b in new["batch_stats"]["body"]["blocks"].values()]
        assert counts == ([1, 1] if isinstance(parent, Compact) else [2, 2])
    own = bridges.ToLinen(NET).trees({name: values["body"] for name, values in variables.items()})
    same(parent.apply(variables, X, method="features"), NET.apply(*own, X, method="features")[0])


@pytest.mark.slow
def test_under_vmap_scan_and_remat():
    assert "body" in WithSetup().tabulate(KEY, X, train=False)
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    axes = {"params": 0, "batch_stats": 0}
    many = linen.vmap(bridges.ToLinen, variable_axes=axes, split_rngs={"params": True}, in_axes=None, axis_size=2)(net)
    variables = many.init(KEY, X)
    weights = variables["params"]["0"]["weight"]
    assert weights.shape == (2, 3, 3) and not np.array_equal(*weights)
    members = [bridges.ToLinen(net).trees(jax.tree.map(lambda a, i=i: a[i], variables)) for i in range(2)]
    expected = jnp.stack([net.apply(*trees, X)[0] for trees in members])
    np.testing.assert_allclose(many.apply(variables, X), expected, atol=1e-6)

    class Layer(linen.Module):
        @linen.compact
        def __call__(self, x, _):
            return linen.remat(bridges.ToLinen)(net)(x), None

    stack = linen.scan(Layer, variable_axes=axes, split_rngs={"params": True}, length=2)()
    stacked = stack.init(KEY, X, None)
    layers = stacked["params"]["CheckpointToLinen_0"]["0"]["weight"]
    assert layers.shape == (2, 3, 3)
    expected = X
    for i in range(2):
        variables = {name: jax.tree.map(lambda a, i=i: a[i], next(iter(v.values()))) for name, v in stacked.items()}
        expected = net.apply(*bridges.ToLinen(net).trees(variables), expected)[0]
    np.testing.assert_allclose(stack.apply(stacked, X, None)[0], expected, atol=1e-6)


def test_lazy_ties_and_frozen_parameters():
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fixed = nn.Linear(3, 3)
            self.fixed.requires_grad_(False)
            self.lazy = nn.LazyLinear(2)
            self.again = self.lazy

        def forward(self, x):
            return self.again(self.fixed(x))

    net = Head()
    model = bridges.ToLinen(net)
    variables = model.init(KEY, X)
    assert sorted(variables) == ["frozen_params", "params"]
    assert list(variables["params"]) == ["lazy"] and list(variables["frozen_params"]) == ["fixed"]
    same(model.apply(variables, X), net.apply(*model.trees(variables), X)[0])
    assert "again.weight" in model.state_dict(variables)
    empty = bridges.ToLinen(nn.ReLU())
    assert empty.init(KEY, X) == {}
    same(empty.apply({}, X), jnp.maximum(X, 0))


def test_init_runs_as_asked_and_keeps_the_buffers_start():
    variables = MODEL.init({"params": KEY, "dropout": KEY}, X, training=True)
    assert int(variables["batch_stats"]["blocks"]["0"]["bn"]["num_batches_tracked"]) == 0


def test_refusals():
    with pytest.raises(
        TypeError, match=r"ToLinen: net has the wrong type; expected a funcnet.nn.Module, got Dense. .*FromLinen"
    ):
        bridges.ToLinen(linen.Dense(2)).init(KEY, X)
    with pytest.raises(ValueError, match=r"changes buffers of Net; .*mutable=\['batch_stats'\]"):
        MODEL.apply(VARIABLES, X, training=True, rngs={"dropout": KEY})
    with pytest.raises(ValueError, match=r"Dropout\): the module needs randomness") as raised:
        MODEL.apply(VARIABLES, X, training=True, mutable=["batch_stats"])
    assert any("rngs={'dropout': jax.random.key(0)}" in note for note in raised.value.__notes__)
    with pytest.raises(ValueError, match=r"params has no 'weight'"):
        MODEL.apply({}, X)
