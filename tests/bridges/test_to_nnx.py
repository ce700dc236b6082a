"""A funcnet module as an nnx module: the same numbers, in nnx's ways of training, copying, stacking and saving."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx

from funcnet import bridges, nn, tree
from tests.bridges.nets import KEY, Net, X, loss_of, same

NET = Net()


@pytest.fixture
def model() -> bridges.ToNNX:
    return bridges.ToNNX(NET, rngs=nnx.Rngs(params=0, dropout=1))


def test_value_gradient_statistics_and_masks_are_those_of_apply(model):
    params, state = model.trees()

    def loss(params):
        y, new = NET.apply(params, state, X, training=True, rng=KEY)
        return loss_of(y), (y, new)

    (value, (y, new)), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)

    @nnx.jit
    def run(model):
        def loss(model):
            y = model(X, rngs=KEY)
            return loss_of(y), y

        return nnx.value_and_grad(loss, has_aux=True)(model)

    (nnx_value, nnx_y), nnx_grads = run(model)
    same((value, y), (nnx_value, nnx_y))
    same(tree.flatten(grads), {".".join(path): v[...] for path, v in nnx.to_flat_state(nnx_grads)})
    same(new, model.trees()[1])
    assert int(new["blocks"]["1"]["bn"]["num_batches_tracked"]) == 1
    same(params, model.trees()[0])
    assert not np.array_equal(y, NET.apply(params, state, X, training=True, rng=jax.random.key(8))[0])


def test_five_steps_in_either_world_and_no_second_program(model):
    params, state = model.trees()
    keys = jax.random.split(KEY, 5)
    optimizer = optax.sgd(0.05, momentum=0.9)
    opt_state = optimizer.init(params)

    @jax.jit
    def step(params, state, opt_state, key):
        def loss(params):
            y, new = NET.apply(params, state, X, training=True, rng=key)
            return loss_of(y), new

        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), state, opt_state, value

    nnx_optimizer = nnx.Optimizer(model, optimizer, wrt=nnx.Param)

    @nnx.jit
    def nnx_step(model, optimizer, key):
        value, grads = nnx.value_and_grad(lambda model: loss_of(model(X, rngs=key)))(model)
        optimizer.update(model, grads)
        return value

    structure = jax.tree.structure(nnx.state(model))
    counts = []
    for key in keys:
        params, state, opt_state, value = step(params, state, opt_state, key)
        NET.traces[0].clear()
        nnx_value = nnx_step(model, nnx_optimizer, key)
        counts.append(len(NET.traces[0]))
        same(value, nnx_value, 1e-6)
    same((params, state), model.trees(), 1e-7)
    assert counts == [counts[0], 0, 0, 0, 0], "the second call does not trace"
    assert jax.tree.structure(nnx.state(model)) == structure


def test_names_and_kinds_in_nnx(model):
    state = nnx.state(model)
    assert model.stem.weight[...].shape == (4, 3)
    assert sorted(nnx.to_pure_dict(nnx.state(model, nnx.Param))) == ["blocks", "head", "stem"]
    same(tree.flatten(nnx.to_pure_dict(nnx.state(model, nnx.Param))), tree.flatten(model.trees()[0]))
    assert type(state["blocks"]["0"]["bn"]["running_mean"]) is nnx.BatchStat
    graphdef, params, statistics, rngs = nnx.split(model, nnx.Param, nnx.BatchStat, nnx.RngState)
    again = nnx.merge(graphdef, params, statistics, rngs)
    same(again(X, rngs=KEY), model(X, rngs=KEY))
    clone, deep = nnx.clone(model), copy.deepcopy(model)
    model.stem.weight[...] *= 2
    same(clone.trees(), deep.trees())
    assert not np.array_equal(clone.stem.weight[...], model.stem.weight[...])


def test_its_stream_advances_in_training_and_reseeds(model):
    first, second = model(X), model(X)
    assert not np.array_equal(first, second)
    nnx.reseed(model, dropout=3)
    a = model(X)
    nnx.reseed(model, dropout=3)
    same(a, model(X))
    count = int(model.rngs.count[...])
    model.eval()
    before = model.trees()
    same(model(X), model(X))
    same(before, model.trees())
    assert int(model.rngs.count[...]) == count, "eval changes nothing"
    same(jax.jit(lambda x: model(x))(X), model(X), 1e-6)  # a closure in eval, as nothing is assigned
    stream = nnx.Rngs(dropout=5).dropout
    same(model(X, training=True, rngs=nnx.Rngs(5)), model(X, training=True, rngs=stream))


def test_train_and_eval_reach_single_modules(model):
    params, state = model.trees()
    model.eval()
    same(model(X), NET.apply(params, state, X)[0])
    model.train()
    getattr(model.blocks, "1").eval()
    y = model(X, rngs=KEY)
    expected, new = NET.apply(params, state, X, training={"**": True, "": True, "blocks.1": False}, rng=KEY)
    same(y, expected)
    same(new, model.trees()[1])
    assert int(new["blocks"]["0"]["bn"]["num_batches_tracked"]) == 1
    assert int(new["blocks"]["1"]["bn"]["num_batches_tracked"]) == 0


def test_one_flag_a_module_by_nnx_names(model):
    """use_running_average is for modules with buffers, deterministic for the others: either can be set alone."""
    params, state = model.trees()
    frozen = nnx.view(model, use_running_average=True)
    pattern = {"": True, "**.bn": False}
    same(frozen(X, rngs=KEY), NET.apply(params, state, X, training=pattern, rng=KEY)[0])
    model.set_attributes(deterministic=True)
    y = model(X)
    same(y, NET.apply(params, state, X, training={"**.bn": True})[0])
    same(model(X, training=False), NET.apply(*model.trees(), X)[0])


def test_another_method_and_a_parent(model):
    class Parent(nnx.Module):
        def __init__(self, rngs):
            self.body = bridges.ToNNX(NET, rngs=rngs)
            self.top = nnx.Linear(4, 1, rngs=rngs)

        def __call__(self, x):
            return self.top(self.body(x, method="features"))

    parent = Parent(nnx.Rngs(0))
    parent.eval()
    expected = NET.apply(*parent.body.trees(), X, method="features")[0]
    same(parent(X), parent.top(expected))
    assert ("body", "stem", "weight") in [path for path, _ in nnx.to_flat_state(nnx.state(parent, nnx.Param))]
    grads = nnx.grad(lambda model: model(X).sum())(parent)
    assert float(jnp.abs(grads["body"]["stem"]["weight"][...]).sum()) > 0


@pytest.mark.slow
def test_an_ensemble_by_vmap_and_a_stack_by_scan():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))

    @nnx.split_rngs(splits=4)
    @nnx.vmap(in_axes=(0,))
    def make(rngs):
        return bridges.ToNNX(net, rngs=rngs)

    many = make(nnx.Rngs(0))
    weights = getattr(many, "0").weight[...]
    assert weights.shape == (4, 3, 3) and not np.array_equal(weights[0], weights[1])
    assert many.rngs.key[...].shape == (4,)
    params = many.trees()[0]
    y = nnx.vmap(lambda model, x: model(x, training=False), in_axes=(0, None))(many, X)
    for i in range(4):
        np.testing.assert_allclose(y[i], net.apply(jax.tree.map(lambda a, i=i: a[i], params), {}, X)[0], atol=1e-6)

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def through(x, model):
        return model(x, training=False)

    expected = X
    for i in range(4):
        expected = net.apply(jax.tree.map(lambda a, i=i: a[i], params), {}, expected)[0]
    np.testing.assert_allclose(through(X, many), expected, atol=1e-6)
    y = nnx.vmap(lambda model, x: model(x), in_axes=(0, None))(many, X)
    assert len({np.asarray(row == 0).tobytes() for row in y}) == 4, "each member drops by its own stream"
    assert many.rngs.count[...].tolist() == [1, 1, 1, 1]


def test_checkpoints_by_state(model, tmp_path):
    model(X)
    state = nnx.to_pure_dict(nnx.state(model, (nnx.Param, nnx.BatchStat)))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "model", state)
    other = bridges.ToNNX(NET, rngs=nnx.Rngs(9))
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "model")
    nnx.update(other, restored)
    same(other.trees(), model.trees())
    abstract = nnx.eval_shape(lambda: bridges.ToNNX(NET, rngs=nnx.Rngs(0)))
    assert abstract.stem.weight.get_value().shape == (4, 3)
    nnx.update(abstract, nnx.state(model))
    same(abstract(X, rngs=KEY), model(X, rngs=KEY))


def test_there_and_back_is_the_same(model):
    params, state = NET.init(KEY)
    same(bridges.ToNNX(NET, values=(params, state)).trees(), (params, state))
    model.set_trees(params, state)
    same(model.trees(), (params, state))
    assert jax.tree.structure(model.trees()) == jax.tree.structure(NET.init(KEY))


def test_start_values_are_drawn_from_params(model):
    rngs = nnx.Rngs(params=0)
    same(model.trees(), NET.init(rngs.params()))


def test_frozen_parameters_are_no_params():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    net[0].requires_grad_(False)
    model = bridges.ToNNX(net, rngs=nnx.Rngs(0))
    before = getattr(model, "0").weight[...]
    optimizer = nnx.Optimizer(model, optax.chain(optax.add_decayed_weights(0.5), optax.sgd(0.1)), wrt=nnx.Param)
    grads = nnx.grad(lambda model: model(X).sum())(model)
    assert list(grads) == ["1"]
    optimizer.update(model, grads)
    same(before, getattr(model, "0").weight[...])
    assert type(getattr(model, "0").weight) is bridges.FrozenParam
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_ties_stacks_and_lazy_modules():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.layers = nn.Repeat(nn.Linear(3, 3), 2, scan=True)
            self.lazy = nn.LazyLinear(4)
            self.decoder = nn.Linear(3, 5, bias=False)
            self.decoder.weight = self.embedding.weight

        def forward(self, ids):
            x = self.layers(self.embedding(ids))
            return self.decoder(x), self.lazy(x)

    net, ids = Tied(), jnp.array([[0, 4]])
    model = bridges.ToNNX(net, ids, rngs=nnx.Rngs(0))
    paths = {".".join(path): v[...].shape for path, v in nnx.to_flat_state(nnx.state(model, nnx.Param))}
    assert paths == {
        "embedding.weight": (5, 3), "layers.*.weight": (2, 3, 3), "layers.*.bias": (2, 3),
        "lazy.weight": (4, 3), "lazy.bias": (4,),
    }  # fmt: skip
    same(model(ids, training=False), net.apply(*model.trees(), ids)[0])
    assert "decoder.weight" in model.state_dict() and "layers.1.bias" in model.state_dict()
    other = bridges.ToNNX(net, ids, rngs=nnx.Rngs(1))
    other.load_state_dict(model.state_dict())
    same(other.trees(), model.trees())


def test_refusals(model):
    with pytest.raises(TypeError, match=r"expected a funcnet.nn.Module, got Linear. .*FromNNX"):
        bridges.ToNNX(nnx.Linear(2, 2, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"got neither. Pass rngs=nnx.Rngs\(0\)"):
        bridges.ToNNX(NET)
    net = nn.Sequential()
    net.add_module("rngs", nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"'rngs' has the same name as an attribute of ToNNX.*wrap the net"):
        bridges.ToNNX(net, rngs=nnx.Rngs(0))
    bridges.ToNNX(nn.Sequential(net), rngs=nnx.Rngs(0))
    params, state = NET.init(KEY)
    del params["head"]["bias"]
    with pytest.raises(ValueError, match=r"set_trees: .*missing: head.bias; unexpected: none"):
        model.set_trees(params, state)
    with pytest.raises(ValueError, match=r"missing: stem.bias"):
        model.load_state_dict({"stem.weight": np.zeros((4, 3))})
    model.load_state_dict({"stem.weight": np.zeros((4, 3))}, strict=False)
    assert not model.stem.weight[...].any() and model.head.weight[...].any()
    silent = bridges.ToNNX(NET, rngs=nnx.Rngs(params=0))
    with pytest.raises(ValueError, match=r"drop \(Dropout\): the module needs randomness") as raised:
        silent(X)
    assert any("rngs=jax.random.key(0)" in note for note in raised.value.__notes__)
    assert silent(X, rngs=KEY).shape == (6, 2)
