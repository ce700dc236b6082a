"""nnx modules inside a funcnet model: leaves by name, one start, statistics, random streams, flags."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

from funcnet import bridges, nn, random, tree
from tests.bridges.nets import KEY, X, same
from tests.tracing import traced


class Tower(nnx.Module):
    def __init__(self, width, *, rngs):
        self.layers = nnx.List([nnx.Linear(width, width, rngs=rngs), nnx.BatchNorm(width, rngs=rngs)])
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.scale = nnx.Param(jnp.ones(width))
        self.shift = nnx.Variable(jnp.full((width,), 0.5))
        self.pair = nnx.Variable((jnp.ones(()), jnp.zeros(())))

    def __call__(self, x):
        self.pair.set_value((self.pair.get_value()[0] + 1, self.pair.get_value()[1]))
        return self.drop(self.layers[1](self.layers[0](x))) * self.scale[...] + self.shift[...]

    def encode(self, x):
        return self.layers[0](x)


def make():
    return nn.Sequential(nn.Linear(3, 4), bridges.FromNNX(Tower, 4), nn.Linear(4, 2))


NET = make()
PARAMS, STATE = jax.jit(NET.init)(KEY)


def test_leaves_names_and_repr():
    tower = NET[1]
    parameters = ["scale", "layers.0.bias", "layers.0.kernel", "layers.1.bias", "layers.1.scale"]
    buffers = ["shift", "layers.1.mean", "layers.1.var", "pair.0", "pair.1"]
    assert [name for name, _ in tower.named_parameters()] == parameters
    assert [name for name, _ in tower.named_buffers()] == buffers
    assert "(1): FromNNX(\n    Tower" in repr(NET)
    assert "(1): Place(BatchNorm)" in repr(NET)


def test_they_start_together_as_the_constructor_makes_them():
    eager = make().init(KEY)
    same((PARAMS, STATE), eager, 1e-6)
    kernel = PARAMS["1"]["layers"]["0"]["kernel"]
    assert 0.2 < float(kernel.std()) < 1.0 and not np.array_equal(
        kernel, NET.init(jax.random.key(9))[0]["1"]["layers"]["0"]["kernel"]
    )
    assert STATE["1"]["layers"]["1"]["var"].tolist() == [1, 1, 1, 1] and STATE["1"]["shift"].tolist() == [0.5] * 4
    net = make()
    nn.init.zeros_(net[1].get_parameter("layers.0.kernel"))
    params, _ = net.init(KEY)
    assert not params["1"]["layers"]["0"]["kernel"].any() and params["1"]["scale"].all()


def test_value_gradient_statistics_and_masks_are_the_nnx_modules():
    tower = NET[1]
    h = jax.random.normal(KEY, (6, 4))

    def ours(params, h):
        y, new = tower.apply(params, STATE["1"], h, training=True, rng=KEY)
        return (y**2).sum(), (y, new)

    (value, (y, new)), grads = jax.value_and_grad(ours, argnums=(0, 1), has_aux=True)(PARAMS["1"], h)

    module = tower.to_nnx(PARAMS["1"], STATE["1"])
    assert type(module) is Tower
    key = random.key_for_name(random.key_for_name(KEY, "#0"), "default")
    nnx.reseed(module, default=key)

    def theirs(module, h):
        y = module(h)
        return (y**2).sum(), y

    (nnx_value, nnx_y), nnx_grads = nnx.value_and_grad(theirs, argnums=(0, 1), has_aux=True)(module, h)
    same((value, y, grads[1]), (nnx_value, nnx_y, nnx_grads[1]))
    flat = tree.flatten(grads[0])
    for path, variable in nnx.to_flat_state(nnx_grads[0]):
        same(flat.pop(".".join(map(str, path))), variable[...])
    assert not flat
    same(new["layers"]["1"]["mean"], module.layers[1].mean[...])
    same(tuple(new["pair"].values()), module.pair.get_value())
    assert jax.tree.structure(new) == jax.tree.structure(STATE["1"])
    module.eval()
    y, _ = tower.apply(PARAMS["1"], new, h)
    same(y, module(h))
    same(tower.apply(PARAMS["1"], new, h, nnx_method="encode")[0], module.encode(h))


def test_training_reaches_inner_modules_by_their_names():
    frozen = {"**": True, "1.layers.1": False}
    _, new = NET.apply(PARAMS, STATE, X, training=frozen, rng=KEY)
    same(new["1"]["layers"], STATE["1"]["layers"])
    _, new = NET.apply(PARAMS, STATE, X, training={"1.layers.1": True})
    assert not np.array_equal(new["1"]["layers"]["1"]["mean"], STATE["1"]["layers"]["1"]["mean"])

    class Flagged(nnx.Module):
        def __call__(self, x, train, is_training=False):
            return (x if train else 0 * x), is_training

    net = bridges.FromNNX(Flagged)
    x = jnp.ones(2)
    assert net.apply({}, {}, x, training=True)[0][0].sum() == 2 and net.apply({}, {}, x)[0][0].sum() == 0
    assert net.apply({}, {}, x, training=True)[0][1] is True
    assert net.apply({}, {}, x, False, training=True)[0][0].sum() == 0, "the caller's own value stays"


def test_a_module_that_is_made_gives_its_arrays():
    module = Tower(4, rngs=nnx.Rngs(3))
    net = nn.Sequential(bridges.FromNNX(module))
    params, state = net.init(KEY)
    same(params["0"]["layers"]["0"]["kernel"], module.layers[0].kernel[...])
    module.eval()
    h = jax.random.normal(KEY, (6, 4))
    same(net.apply(params, state, h)[0], module(h))


def test_state_dict_freezing_and_copies():
    sd = NET.state_dict(PARAMS, STATE)
    same(NET.load_state_dict(sd), (PARAMS, STATE))
    assert "1.layers.0.kernel" in sd
    net = make()
    net.get_submodule("1.layers.0").requires_grad_(False)
    _, frozen = net.partition(PARAMS)
    assert list(tree.flatten(frozen)) == ["1.layers.0.bias", "1.layers.0.kernel"]
    grads = jax.grad(lambda params: net.apply(params, STATE, X)[0].sum())(PARAMS)
    assert not grads["1"]["layers"]["0"]["kernel"].any() and grads["1"]["layers"]["1"]["scale"].any()
    chosen, _ = tree.partition(PARAMS, "1.layers.*.bias")
    assert len(tree.flatten(chosen)) == 2
    same(copy.deepcopy(NET).apply(PARAMS, STATE, X)[0], NET.apply(PARAMS, STATE, X)[0])


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True])
def test_repeat(scan):
    layer = bridges.FromNNX(Tower, 3)
    net = nn.Repeat(layer, 2, scan=scan)
    params, state = net.init(KEY)
    run, traces = traced(lambda *trees: net.apply(*trees, X, training=True, rng=KEY))
    y, new = run(params, state)
    plain = nn.Repeat(layer, 2)
    loop, loop_new = plain.apply(
        plain.unstack(params) if scan else params, net.unstack(state), X, training=True, rng=KEY
    )
    same(y, loop, 1e-6)
    same(net.unstack(new), loop_new, 1e-6)
    one, two = (net.unstack(params)[i]["layers"]["0"]["kernel"] for i in "01")
    assert not np.array_equal(one, two)
    assert jax.tree.structure(new) == jax.tree.structure(state)
    run(params, new)
    assert len(traces) == 1


def test_under_jax_transformations():
    remat = nn.Sequential(NET[0], nn.remat(NET[1]), NET[2])
    same(remat.apply(PARAMS, STATE, X)[0], NET.apply(PARAMS, STATE, X)[0], 1e-6)
    many = jax.vmap(lambda x: NET.apply(PARAMS, STATE, x)[0])(jnp.stack([X, X]))
    same(many[0], NET.apply(PARAMS, STATE, X)[0], 1e-6)

    class Mapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = bridges.FromNNX(nnx.Linear, 3, 2)

        def forward(self, x):
            return jax.vmap(self.inner)(x)

    net = Mapped()
    params, state = net.init(KEY)
    assert net.apply(params, state, X, training=True, rng=KEY)[0].shape == (6, 2), (
        "no key is drawn where none is needed"
    )


def test_there_and_back():
    same(bridges.ToNNX(NET, values=(PARAMS, STATE)).trees(), (PARAMS, STATE))
    module = NET[1].to_nnx(PARAMS["1"], STATE["1"], nnx.Rngs(default=4))
    again = bridges.FromNNX(module)
    same(again.init(KEY), (PARAMS["1"], STATE["1"]))


def test_refusals():
    with pytest.raises(TypeError, match=r"Linear is already an instance; expected no arguments .*got 1"):
        bridges.FromNNX(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), 3)
    with pytest.raises(TypeError, match=r"expected no rngs, got one. Omit rngs"):
        bridges.FromNNX(nnx.Linear, 2, 2, rngs=nnx.Rngs(0))
    with pytest.raises(TypeError, match=r"got Dense. For a linen module, use FromLinen"):
        bridges.FromNNX(linen.Dense(2))
    with pytest.raises(TypeError, match=r"got a callable that returns Dense. For a linen"):
        bridges.FromNNX(linen.Dense, 2)
    with pytest.raises(ValueError, match=r"1 \(FromNNX\): the module needs randomness. Pass apply"):
        NET.apply(PARAMS, STATE, X, training=True)
    with pytest.raises(ValueError, match=r"Linear has no method 'attend'; .*nnx_method"):
        net = bridges.FromNNX(nnx.Linear, 2, 2)
        net.apply(*net.init(KEY), jnp.ones(2), nnx_method="attend")

    layer = nn.utils.parametrizations.weight_norm(bridges.FromNNX(nnx.Linear, 2, 2), "kernel")
    with pytest.raises(ValueError, match=r"'kernel' is computed, .* `nn.init.normal_\(module.kernel\)`"):
        layer.init(KEY)
    nn.init.normal_(layer.kernel)
    params, state = layer.init(KEY)
    kernel = layer.to_nnx(params, state).kernel[...]
    same(layer.apply(params, state, jnp.eye(2))[0], kernel, 1e-6)

    class Constant(nnx.Module):
        def __init__(self):
            self.table = jnp.ones(2)

        def __call__(self, x):
            return x * self.table

    with pytest.raises(TypeError, match=r"'table' of Constant is a plain array; expected an nnx.Variable"):
        bridges.FromNNX(Constant)
    made = bridges.FromNNX(Constant())
    same(made.apply(*made.init(KEY), jnp.ones(2))[0], jnp.ones(2))

    class Keeper(nnx.Module):
        def __init__(self):
            self.key = nnx.Variable(jax.random.key(0))

    with pytest.raises(TypeError, match=r"'key' is a random key stored in the module; expected a numeric array"):
        bridges.FromNNX(Keeper)
