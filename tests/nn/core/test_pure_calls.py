"""Pure in fact: one nested model with buffers, dropout, ties, a shared module and a stack, in JAX's hands."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from funcnet import nn, tree
from funcnet.nn.utils import parametrizations
from tests.nn.nested import IDS, KEY, ours
from tests.tracing import traced

RNG = jax.random.key(7)
both = pytest.mark.parametrize("scan", [False, True], ids=["loop", "scan"])


def same(a, b, tolerance=1e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), a, b)


def different(a, b) -> bool:
    return any(not np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@functools.cache
def model(scan):
    net = ours(scan)
    return net, *net.init(KEY)


@functools.cache
def train(scan):
    return traced(functools.partial(model(scan)[0].apply, training=True))


def test_same_in_same_out_and_the_inputs_are_left_alone():
    net, params, state = model(False)
    before = jax.tree.map(np.array, (params, state))
    first, second = (net.apply(params, state, IDS, training=True, rng=RNG) for _ in range(2))
    same(first, second, 0)
    same(before, (params, state), 0)
    assert different(first[1], state)


def picture(thing, seen):
    """All attributes of a description and of what is beneath it, in order, down to the identity of what is plain."""
    if id(thing) in seen:
        return "seen"
    if isinstance(thing, (nn.Module, nn.Parameter, nn.Buffer)) or type(thing).__module__.startswith("funcnet."):
        seen.add(id(thing))
        return id(thing), [(name, picture(value, seen)) for name, value in vars(thing).items()]
    if isinstance(thing, dict):
        return [(key, picture(value, seen)) for key, value in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [picture(value, seen) for value in thing]
    return id(thing)


@pytest.mark.parametrize(
    ("make", "x"),
    [
        (ours, IDS),
        (functools.partial(ours, scan=True), IDS),
        (lambda: nn.Sequential(nn.LazyLinear(4), parametrizations.spectral_norm(nn.Linear(4, 4))), jnp.ones((2, 4))),
        (lambda: nn.Sequential(nn.LazyConv1d(4, 1), nn.utils.weight_norm(nn.Conv1d(4, 4, 1))), jnp.ones((2, 4, 3))),
    ],
    ids=["nested", "stacked", "parametrized", "normalised"],
)
def test_a_description_is_left_alone(make, x):
    """Every attribute of every module and leaf is the very object that it was, after all that reads a description."""
    net = make()
    before = picture(net, set())
    params, state = net.init(KEY, x)
    assert picture(net, set()) == before
    sd = net.state_dict(params, state)
    net.load_state_dict(sd)
    net.match_state_dict(sd)
    for training in (False, True):
        net.apply(params, state, x, training=training, rng=RNG)
        jax.jit(functools.partial(net.apply, training=training))(params, state, x, rng=RNG)
        nn.capture(net, "**")(params, state, x, training=training, rng=RNG)
    net.summary(x)
    repr(net)
    net.stack(net.unstack(params))
    for name, _ in net.named_children():
        net.subtree(name, params, state)
    assert picture(net, set()) == before


@both
def test_jit_equals_eager_and_traces_once(scan):
    net, params, state = model(scan)
    eager = tuple(net.apply(params, state, IDS, training=True, rng=RNG))
    same(train(scan)[0](params, state, IDS, rng=RNG), eager)
    train(scan)[0](*jax.tree.map(jnp.array, (params, state)), IDS, rng=jax.random.key(8))
    assert len(train(scan)[1]) == 1


@both
def test_state_keeps_structure_shapes_and_dtypes(scan):
    _, params, state = model(scan)
    _, after = train(scan)[0](params, state, IDS, rng=RNG)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    signature = lambda s: [(a.shape, a.dtype, a.weak_type) for a in jax.tree.leaves(s)]
    assert signature(after) == signature(state)


@pytest.mark.slow
@both
def test_grad_and_jvp_agree(scan):
    net, params, state = model(scan)

    def loss(params):
        return jnp.mean(net.apply(params, state, IDS, training=True, rng=RNG)[0] ** 2)

    trainable, frozen = net.partition(params)
    of_trainable = lambda p: loss(tree.merge(p, frozen))
    gradient = jax.jit(jax.grad(of_trainable))(trainable)
    assert jax.tree.structure(gradient) == jax.tree.structure(trainable)
    direction = jax.tree.map(lambda a: jnp.cos(jnp.arange(a.size, dtype=a.dtype)).reshape(a.shape), trainable)
    _, forward = jax.jit(lambda p, d: jax.jvp(of_trainable, (p,), (d,)))(trainable, direction)
    backward = sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    np.testing.assert_allclose(forward, backward, rtol=1e-4, atol=1e-6)


def test_grad_has_aux_gives_the_new_state():
    net, params, state = model(False)
    gradient, after = jax.jit(jax.grad(lambda p: _loss_and_state(net, p, state), has_aux=True))(params)
    same(after, train(False)[0](params, state, IDS, rng=RNG)[1])
    assert jax.tree.structure(gradient) == jax.tree.structure(params)


def _loss_and_state(net, params, state):
    out, state = net.apply(params, state, IDS, training=True, rng=RNG)
    return out.sum(), state


@both
def test_vmap_over_params_state_and_keys(scan):
    net, params, state = model(scan)
    stacked = jax.tree.map(lambda a: jnp.stack([a, a]), (params, state))
    keys = jax.random.split(RNG, 2)
    run = lambda p, s, key: net.apply(p, s, IDS, training=True, rng=key)
    together = jax.jit(jax.vmap(run))(*stacked, keys)
    for i in range(2):
        same(jax.tree.map(lambda a, i=i: a[i], together), train(scan)[0](params, state, IDS, rng=keys[i]))


@both
def test_scan_over_training_steps_carries_the_state(scan):
    _, params, state = model(scan)
    keys = jax.random.split(RNG, 3)

    def step(state, key):
        out, state = model(scan)[0].apply(params, state, IDS, training=True, rng=key)
        return state, out

    last, outs = jax.jit(lambda s: jax.lax.scan(step, s, keys))(state)
    stepped = state
    for i in range(3):
        out, stepped = train(scan)[0](params, stepped, IDS, rng=keys[i])
        same(outs[i], out)
    same(last, stepped)


@pytest.mark.slow
def test_shard_map_runs_each_shard_on_its_own():
    net, params, state = model(False)
    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,))
    ids = jnp.concatenate([IDS, IDS[::-1]])
    spread, whole = PartitionSpec("data"), PartitionSpec()

    def local(params, state, ids, key):
        out, state = net.apply(params, state, ids, training=True, rng=key[0])
        return out, jax.tree.map(lambda a: a[None], state)

    sharded = jax.shard_map(local, mesh=mesh, in_specs=(whole, whole, spread, spread), out_specs=(spread, spread))
    keys = jax.random.split(RNG, 2)
    outs, states = jax.jit(sharded)(params, state, ids, keys)
    for i, part in enumerate((IDS, IDS[::-1])):
        out, after = train(False)[0](params, state, part, rng=keys[i])
        same(outs.reshape(2, *out.shape)[i], out)
        same(jax.tree.map(lambda a, i=i: a[i], states), after)


@pytest.mark.slow
@both
def test_donated_state_and_params(scan):
    net, params, state = model(scan)
    expected = train(scan)[0](params, state, IDS, rng=RNG)
    given = jax.tree.map(jnp.array, (params, state))
    step = lambda p, s: (p, *net.apply(p, s, IDS, training=True, rng=RNG))
    kept, *got = jax.jit(step, donate_argnums=(0, 1))(*given)
    same(tuple(got), expected)
    same(kept, params, 0)
    assert all(a.is_deleted() for a in jax.tree.leaves(given[1]) if a.ndim)  # the running statistics were reused


def test_arrays_that_were_given_as_a_start_survive_donation():
    array = jnp.arange(3.0)

    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(array)

    net = Fixed()
    jax.jit(lambda p: jax.tree.map(lambda a: a + 1, p), donate_argnums=0)(net.init(KEY)[0])
    assert net.init(KEY)[0]["weight"].tolist() == array.tolist() == [0, 1, 2]


# ------------------------------------------------------------------------------------------------------ randomness


class Twice(nn.Module):
    """Calls one dropout twice and another once."""

    def __init__(self, more=False):
        super().__init__()
        if more:
            self.before = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.other = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x), self.drop(x), self.other(x)


def test_each_call_and_each_layer_draws_its_own_mask():
    x = jnp.ones(64)
    outs, _ = Twice().apply({}, {}, x, training=True, rng=RNG)
    assert all(different(outs[i], outs[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    same(outs, Twice().apply({}, {}, x, training=True, rng=RNG)[0], 0)


def test_another_layer_moves_neither_starts_nor_masks():
    small, large = Twice(), Twice(more=True)
    params, state = large.init(KEY)
    same(
        small.apply({}, {}, jnp.ones(64), training=True, rng=RNG)[0],
        large.apply(params, state, jnp.ones(64), training=True, rng=RNG)[0],
    )
    net, wider = nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    same(net.init(KEY)[0]["0"], wider.init(KEY)[0]["0"], 0)
    assert different(wider.init(KEY)[0]["0"], wider.init(KEY)[0]["1"])


def test_starts_do_not_depend_on_jit():
    net, params, state = model(True)
    same(jax.jit(net.init)(KEY), (params, state), 1e-6)
    shapes = jax.eval_shape(net.init, KEY)
    assert jax.tree.map(lambda a: a.shape, shapes) == jax.tree.map(lambda a: a.shape, (params, state))


# ---------------------------------------------------------------------------- transformations inside a forward


class OwnScan(nn.Module):
    """Steps a child in the user's own scan: by calling it, or by its pure apply."""

    def __init__(self, child, pure):
        super().__init__()
        self.child, self.pure = child, pure

    def forward(self, x):
        if not self.pure:
            return jax.lax.scan(lambda c, _: (self.child(c), None), x, None, length=2)[0]
        params, state = self.subtree("child")

        def step(carry, key):
            x, state = carry
            return self.child.apply(params, state, x, training=self.training, rng=key), None

        (x, state), _ = jax.lax.scan(step, (x, state), jax.random.split(self.make_rng(), 2))
        for name, _ in self.child.named_buffers():
            setattr(self.child, name, state[name])
        return x


@pytest.mark.parametrize(
    ("child", "what"),
    [(nn.Dropout(0.5), "randomness"), (nn.BatchNorm1d(3), "the buffer 'running_mean' is assigned")],
    ids=["dropout", "buffers"],
)
def test_a_child_called_in_the_users_own_scan_is_refused_and_its_pure_apply_works(child, what):
    x = jnp.arange(12.0).reshape(4, 3)
    net = OwnScan(child, pure=False)
    params, state = net.init(KEY)
    with pytest.raises(ValueError, match=r"child \(\w+\): (.*) inside a transformation .* nn.Repeat .*apply") as error:
        net.apply(params, state, x, training=True, rng=RNG)
    assert what.split(" to ")[0] in str(error.value)
    assert "draw all keys before it: `keys = jax.random.split(self.make_rng(), n)`" in str(error.value)
    net.apply(params, state, x)  # in eval it neither draws nor assigns
    net = OwnScan(child, pure=True)
    _, after = net.apply(params, state, x, training=True, rng=RNG)
    if state["child"]:
        assert int(after["child"]["num_batches_tracked"]) == 2


@pytest.mark.parametrize("wrap", [jax.checkpoint, jax.jit])
def test_dropout_in_the_users_own_checkpoint_is_told_of_remat(wrap):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = nn.Dropout(0.5)

        def forward(self, x):
            return wrap(self.child)(x)

    with pytest.raises(
        ValueError, match=r"child \(Dropout\): randomness .*nn\.remat\(layer\) in place of jax\.checkpo"
    ):
        Own().apply({}, Own().init(KEY)[1], jnp.ones(3), training=True, rng=RNG)


def test_transformations_of_a_child_without_state_are_free():
    class Jacobian(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x):
            return jax.vmap(jax.jacfwd(self.fc))(x), jax.checkpoint(self.fc)(x), jax.jit(self.fc)(x)

    net = Jacobian()
    params, state = net.init(KEY)
    jacobian, *_ = net.apply(params, state, jnp.ones((5, 3)))[0]
    same(jacobian[0], params["fc"]["weight"])
