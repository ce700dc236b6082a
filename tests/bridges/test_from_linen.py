"""linen modules inside a funcnet model: what an example tells, leaves by name, statistics, random streams, flags."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from funcnet import bridges, nn, random, tree
from tests.bridges.nets import KEY, X, same
from tests.tracing import traced


class Tower(linen.Module):
    width: int

    @linen.compact
    def __call__(self, x, train: bool = False):
        x = linen.Dense(self.width)(x)
        x = linen.BatchNorm(use_running_average=not train)(x)
        return linen.Dropout(0.5, deterministic=not train)(x)


class AutoEncoder(linen.Module):
    def setup(self):
        self.encoder, self.decoder = linen.Dense(2), linen.Dense(3)

    def __call__(self, x):
        return self.decode(self.encode(x))

    def encode(self, x):
        return self.encoder(x)

    def decode(self, z):
        return self.decoder(z)


def make(*example):
    return nn.Sequential(nn.Linear(3, 4), bridges.FromLinen(Tower(4), *example), nn.Linear(4, 2))


NET = make()
PARAMS, STATE = NET.init(KEY, X)


def test_leaves_names_and_repr():
    assert [name for name, _ in NET[1].named_parameters()] == [
        "BatchNorm_0.bias", "BatchNorm_0.scale", "Dense_0.bias", "Dense_0.kernel"
    ]  # fmt: skip
    assert [name for name, _ in NET[1].named_buffers()] == ["BatchNorm_0.mean", "BatchNorm_0.var"]
    assert "(1): FromLinen(\n    Tower" in repr(NET)
    kernel = PARAMS["1"]["Dense_0"]["kernel"]
    assert 0.2 < float(kernel.std()) < 1.0 and STATE["1"]["BatchNorm_0"]["var"].tolist() == [1, 1, 1, 1]


def test_an_example_at_init_or_in_the_constructor_or_under_jit():
    same(make(jax.ShapeDtypeStruct((1, 4), jnp.float32)).init(KEY), (PARAMS, STATE))
    same(jax.jit(make().init)(KEY, X), (PARAMS, STATE), 1e-6)
    same(NET.init(KEY), (PARAMS, STATE))
    nested = nn.Sequential(nn.remat(nn.Sequential(bridges.FromLinen(linen.Dense(3)))), nn.LazyLinear(2))
    assert list(tree.flatten(nested.init(KEY, X)[0])) == ["0.0.bias", "0.0.kernel", "1.weight", "1.bias"]
    shared = bridges.FromLinen(linen.Dense(3))
    twice = nn.Sequential(shared, shared)
    assert sorted(tree.flatten(twice.init(KEY, X)[0])) == ["0.bias", "0.kernel"]


def test_value_gradient_statistics_and_masks_are_the_linen_modules():
    tower, h = NET[1], jax.random.normal(KEY, (6, 4))

    def ours(params, h):
        y, new = tower.apply(params, STATE["1"], h, training=True, rng=KEY)
        return (y**2).sum(), (y, new)

    (value, (y, new)), grads = jax.jit(jax.value_and_grad(ours, argnums=(0, 1), has_aux=True))(PARAMS["1"], h)
    variables = tower.to_variables(PARAMS["1"], STATE["1"])
    rngs = {"dropout": random.key_for_name(KEY, "#0")}

    def theirs(params, h):
        given = {**variables, "params": params}
        y, updated = Tower(4).apply(given, h, train=True, rngs=rngs, mutable=["batch_stats"])
        return (y**2).sum(), (y, updated)

    (linen_value, (linen_y, updated)), linen_grads = jax.jit(jax.value_and_grad(theirs, argnums=(0, 1), has_aux=True))(
        variables["params"], h
    )
    same((value, y, grads[1]), (linen_value, linen_y, linen_grads[1]))
    same(grads[0], linen_grads[0])
    same(tree.flatten(new), tree.flatten(updated["batch_stats"]))  # here a module without buffers has {}
    same(tower.apply(PARAMS["1"], new, h)[0], Tower(4).apply({**variables, **updated}, h))
    _, kept = tower.apply(PARAMS["1"], new, h)
    assert kept is new, "eval changes nothing"
    same(tower.trees({**variables, **updated}), (PARAMS["1"], new))


@pytest.mark.parametrize(
    "module",
    [linen.Dropout(0.5), linen.Sequential([linen.Dense(3), linen.relu]), linen.LayerNorm(), AutoEncoder()],
    ids=lambda module: type(module).__name__,
)
def test_modules_of_linen(module):
    net = bridges.FromLinen(module)
    params, state = net.init(KEY, X)
    y, _ = net.apply(params, state, X, training=True, rng=KEY)
    variables, key = net.to_variables(params, state), random.key_for_name(KEY, "#0")
    flags = {"deterministic": False} if isinstance(module, linen.Dropout) else {}
    same(y, module.apply(variables, X, rngs={"dropout": key}, **flags))
    if isinstance(module, linen.Dropout):
        same(net.apply(params, state, X)[0], X)
        fixed = bridges.FromLinen(linen.Dropout(0.5, deterministic=True))
        same(fixed.apply(*fixed.init(KEY, X), X, training=True, rng=KEY)[0], X)  # its field is set
    if isinstance(module, AutoEncoder):
        z = module.apply(variables, X, method="encode")
        same(net.apply(params, state, X, linen_method="encode")[0], z)
        same(net.apply(params, state, z, linen_method="decode")[0], y)


def test_state_dict_freezing_and_copies():
    sd = NET.state_dict(PARAMS, STATE)
    same(NET.load_state_dict(sd), (PARAMS, STATE))
    same(make(jnp.ones((1, 4))).load_state_dict(sd), (PARAMS, STATE))
    with pytest.raises(ValueError, match=r"missing: 1.init_with_an_example_first"):
        make().load_state_dict(sd)
    chosen, _ = tree.partition(PARAMS, "1.Dense_0")
    assert sorted(tree.flatten(chosen)) == ["1.Dense_0.bias", "1.Dense_0.kernel"]
    net = copy.deepcopy(NET)
    net.get_submodule("1.Dense_0").requires_grad_(False)
    grads = jax.grad(lambda params: net.apply(params, STATE, X)[0].sum())(PARAMS)
    assert not grads["1"]["Dense_0"]["kernel"].any() and grads["1"]["BatchNorm_0"]["scale"].any()


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True])
def test_repeat(scan):
    net = nn.Repeat(bridges.FromLinen(Tower(3)), 2, scan=scan)
    params, state = net.init(KEY, X)
    run, traces = traced(lambda *trees: net.apply(*trees, X, training=True, rng=KEY))
    y, new = run(params, state)
    plain = nn.Repeat(bridges.FromLinen(Tower(3), X), 2)
    loop, loop_new = plain.apply(net.unstack(params), net.unstack(state), X, training=True, rng=KEY)
    same(y, loop, 1e-6)
    same(net.unstack(new), loop_new, 1e-6)
    one, two = (net.unstack(params)[i]["Dense_0"]["kernel"] for i in "01")
    assert not np.array_equal(one, two)
    assert jax.tree.structure(new) == jax.tree.structure(state)
    run(params, new)
    assert len(traces) == 1


def test_collections_that_share_names_and_boxed_parameters():
    class Cached(linen.Module):
        @linen.compact
        def __call__(self, x):
            kernel = self.param("kernel", linen.with_partitioning(linen.initializers.ones, ("model",)), (3,))
            cache = self.variable("cache", "kernel", jnp.zeros, (3,))
            if not self.is_initializing():
                cache.value = cache.value + 1
            return x * kernel + cache.value

    net = bridges.FromLinen(Cached(), X)
    params, state = net.init(KEY)
    assert {**tree.flatten(params), **tree.flatten(state)}.keys() == {"kernel", "cache.kernel"}
    y, state = net.apply(params, state, X)
    same((y, state["cache"]["kernel"]), (X + 1, jnp.ones(3)))


def test_both_bridges_in_a_row():
    same(bridges.ToNNX(NET, values=(PARAMS, STATE)).trees(), (PARAMS, STATE))
    model = bridges.ToLinen(make())
    variables = model.init(KEY, X)
    assert variables["params"]["1"]["Dense_0"]["kernel"].shape == (4, 4)
    _, updated = model.apply(variables, X, training=True, rngs={"dropout": KEY}, mutable=["batch_stats"])
    assert jax.tree.structure(updated["batch_stats"]) == jax.tree.structure(variables["batch_stats"])

    class Parent(linen.Module):
        @linen.compact
        def __call__(self, x):  # the linen module inside is made in this one's call, and is not its part
            return bridges.ToLinen(nn.Sequential(bridges.FromLinen(linen.Dense(2), X)))(x)

    assert list(Parent().init(KEY, X)["params"]) == ["ToLinen_0"]


def test_refusals():
    with pytest.raises(
        TypeError, match=r"expected an instance of a flax.linen module, such as linen.Dense\(4\), got type"
    ):
        bridges.FromLinen(linen.Dense)
    with pytest.raises(TypeError, match=r"got Linear. .*FromNNX"):
        bridges.FromLinen(nnx.Linear(2, 2, rngs=nnx.Rngs(0)))
    with pytest.raises(ValueError, match=r"init_with_an_example_first' is not known. Pass an example input"):
        make().init(KEY)
    with pytest.raises(ValueError, match=r"1 \(FromLinen\): the module needs randomness. Pass apply"):
        NET.apply(PARAMS, STATE, X, training=True)
    with pytest.raises(ValueError, match=r"Tower has no method 'attend'; .*linen_method"):
        NET[1].apply(PARAMS["1"], STATE["1"], X, linen_method="attend")
    with pytest.raises(ValueError, match=r"the leaves of Tower are not known yet; expected an example"):
        make()[1].trees({})
    with pytest.raises(
        ValueError, match=r"the variables in the collection 'params' of Tower differ from those after init"
    ):
        NET[1].trees({"params": {"Dense_0": {}}})

    class Sows(linen.Module):
        @linen.compact
        def __call__(self, x):
            self.sow("losses", "sum", x.sum())
            return x

    net = bridges.FromLinen(Sows(), X)
    with pytest.raises(
        ValueError,
        match=r"the variables in the collection 'losses' of Sows differ from those after init; .*'intermediates'",
    ):
        net.apply(*net.init(KEY), X)

    class Grows(linen.Module):
        @linen.compact
        def __call__(self, x):
            self.variable("cache", "a", jnp.zeros, ())
            if not self.is_initializing():
                self.variable("cache", "b", jnp.zeros, ())
            return x

    net = bridges.FromLinen(Grows(), X)
    with pytest.raises(
        ValueError, match=r"the variables in the collection 'cache' of Grows differ from those after init"
    ):
        net.apply(*net.init(KEY), X)

    class Keeper(linen.Module):
        @linen.compact
        def __call__(self, x):
            self.variable("state", "key", jax.random.key, 0)
            return x

    with pytest.raises(TypeError, match=r"FromLinen: 'key' is a random key stored in the module"):
        bridges.FromLinen(Keeper(), X)
