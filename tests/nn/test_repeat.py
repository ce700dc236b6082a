"""`Repeat` as a loop and as a scan: one set of names, starts, values, gradients, buffers and masks; `remat`."""

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from funcnet import nn, random, tree
from tests.nn.nested import IDS, KEY, ours

RNG = jax.random.key(5)


def same(a, b, tolerance=1e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), a, b)


@pytest.mark.slow
def test_scanned_and_looped_agree_in_everything():
    loop, scan = ours(scan=False), ours(scan=True)
    params, state = loop.init(KEY)
    same(scan.init(KEY), (scan.stack(params), scan.stack(state)), 0)
    same(loop.stack(params), scan.stack(params), 0)
    same((scan.unstack(scan.stack(params)), scan.unstack(scan.stack(state))), (params, state), 0)

    def run(net, params, state):
        def loss(params):
            out, after = net.apply(params, state, IDS, training=True, rng=RNG)
            return jnp.mean(out**2), (out, after)

        return jax.jit(jax.grad(loss, has_aux=True))(params)

    gradient, (out, after) = run(loop, params, state)
    stacked_gradient, (stacked_out, stacked_after) = run(scan, *scan.init(KEY))
    same(out, stacked_out)
    same(loop.stack(after), stacked_after)
    same(gradient, scan.unstack(stacked_gradient), 1e-4)
    assert not np.array_equal(out, loop.apply(params, state, IDS, training=True, rng=jax.random.key(6))[0])


def test_layers_start_apart_and_drop_apart():
    net = nn.Repeat(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), 2, scan=True)
    params, _ = net.init(KEY)
    assert not np.array_equal(*params["*"]["0"]["weight"])
    drop = nn.Repeat(nn.Dropout(0.5), 2, scan=True)
    _, _, masks = nn.capture(drop, "*")({}, drop.init(KEY)[1], jnp.ones(64), training=True, rng=RNG)
    assert not np.array_equal(masks["*"][0] > 0, masks["*"][1] > 0)


class Parts(nn.Module):
    """Layers that a test runs as it likes: whole, or slice by slice."""

    def __init__(self, layers, run):
        super().__init__()
        self.layers, self.run = layers, run

    def forward(self, x):
        return self.run(self.layers, x)


def masks(layers, run):
    """What `run` returns for ones."""
    net = Parts(layers, run)
    return net.apply(*net.init(KEY), jnp.ones(64), training=True, rng=RNG)[0]


def in_parts(layers, x):
    return layers[2:](layers[:2](x))


def drops(scan=False):
    return nn.Repeat(nn.Sequential(nn.Dropout(0.1), nn.Linear(64, 64), nn.Dropout(0.1)), 4, scan=scan)


def test_slices_draw_what_the_whole_draws():
    whole = masks(drops(), lambda layers, x: layers(x))
    same(masks(drops(scan=True), lambda layers, x: layers(x)), whole)
    same(masks(drops(), in_parts), whole, 0)
    same(masks(drops(), lambda layers, x: layers[1:][1:](layers[:3][:2](x))), whole, 0)
    twice = masks(drops(), lambda layers, x: (layers(x), in_parts(layers, x)))
    same(masks(drops(scan=True), lambda layers, x: (layers(x), layers(x))), twice)


@pytest.mark.parametrize("kind", [nn.Repeat, lambda layer, n: nn.Sequential(*(copy.deepcopy(layer) for _ in range(n)))])
def test_every_slice_and_every_call_draws_its_own(kind):
    layers = kind(nn.Dropout(0.5), 4)
    drawn = masks(layers, lambda layers, x: [layers[:2](x), layers[2:](x), layers[:2](x), layers[1:](x)])
    drawn += masks(kind(nn.remat(nn.Dropout(0.5)), 4), lambda layers, x: [layers[1:](x), layers[1:](x)])
    assert len({np.asarray(mask).tobytes() for mask in drawn}) == len(drawn)


def test_a_slice_of_a_container_that_draws_by_itself_draws_its_own():
    class Noisy(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + jax.random.normal(self.make_rng(), x.shape)

    for container in (Noisy(nn.Identity(), nn.Identity()), nn.remat(nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)))):
        first, second = masks(container, lambda layers, x: (layers[:1](x), layers[1:](x)))
        assert not np.array_equal(first, second)


def test_a_slice_of_a_recomputed_container_trains_as_the_whole_is_told():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.seq = nn.remat(nn.Sequential(nn.Dropout(0.5), nn.Identity()))

        def forward(self, x):
            return self.seq[:1](x)

    net, x = Net(), jnp.ones((4, 8))
    for training in (True, False):
        out, _ = net.apply({"seq": {"0": {}, "1": {}}}, net.init(jax.random.key(0))[1], x, training={"seq": training},
                           rng=jax.random.key(0))  # fmt: skip
        assert bool((out == 0).any()) is training


def test_a_layer_that_several_places_share_draws_for_each():
    net = nn.Repeat(nn.Dropout(0.5), 1)
    net.append(net[0])
    elsewhere = nn.Sequential(net[0], net)
    _, _, seen = nn.capture(elsewhere, "0")({}, elsewhere.init(KEY)[1], jnp.ones(64), training=True, rng=RNG)
    assert len({np.asarray(mask > 0).tobytes() for mask in seen.values()}) == len(seen)


def test_keys_are_those_of_the_layers_names():
    """As a parameter's: adding a layer leaves the others' masks alone."""
    for scan in (False, True):
        net = nn.Repeat(Key(), 3, scan=scan)
        keys, _ = net.apply(*net.init(KEY), jnp.zeros((3, 2), jnp.uint32), rng=RNG)
        inner = [random.key_for_name(random.key_for_name(RNG, f"{i}#0"), "#0") for i in range(3)]
        assert keys.tolist() == [jax.random.key_data(key).tolist() for key in inner]


class Key(nn.Module):
    """Puts its key behind those it is given."""

    def forward(self, keys):
        return jnp.concatenate([keys[1:], jax.random.key_data(self.make_rng())[None]])


def test_further_arguments_go_to_every_layer():
    class Add(nn.Module):
        def forward(self, x, y, *, scale):
            return x + scale * y

    for scan in (False, True):
        net = nn.Repeat(Add(), 3, scan=scan)
        params, state = net.init(KEY)
        assert float(net.apply(params, state, jnp.array(1.0), jnp.array(2.0), scale=10)[0]) == 61


@pytest.mark.slow
def test_stacks_in_stacks():
    inner = lambda scan: nn.Repeat(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)), 2, scan=scan)
    loop, scan = nn.Repeat(inner(False), 3), nn.Repeat(inner(True), 3, scan=True)
    params, state = scan.init(KEY)
    assert params["*"]["*"]["0"]["weight"].shape == (3, 2, 3, 3)
    x = jnp.arange(12.0).reshape(4, 3)
    apply = lambda net: jax.jit(functools.partial(net.apply, training=True))(*net.init(KEY), x, rng=RNG)
    (out, after), (stacked_out, stacked_after) = apply(loop), apply(scan)
    same(out, stacked_out)
    same(after, scan.unstack(stacked_after))
    assert list(loop.state_dict(*loop.init(KEY))) == list(scan.state_dict(params, state))
    same(loop.init(KEY)[0], scan.unstack(params), 0)
    same(scan.load_state_dict(loop.state_dict(*loop.init(KEY))), (params, state), 0)


def test_single_layers_of_a_stack_are_refused_everywhere():
    net = nn.Sequential(nn.Repeat(nn.Linear(2, 2), 3, scan=True))
    params, state = net.init(KEY)
    hooks = nn.Hooks()
    hooks.register_forward_hook("0.1", print)
    for attempt in (
        lambda: net.apply(params, state, jnp.ones(2), hooks=hooks),
        lambda: net.apply(params, state, jnp.ones(2), training={"0.2": True}),
        lambda: nn.capture(net, "0.0"),
    ):
        with pytest.raises(ValueError, match=r"selects single layers of the stack '0\.\*'.*net\.unstack"):
            attempt()
    for attempt in (
        lambda: net[0][1],
        lambda: list(net[0]),
        lambda: net[0].append(nn.Linear(2, 2)),
        lambda: net[0].__setitem__(0, nn.Linear(2, 2)),
        lambda: net[0].__delitem__(0),
    ):
        with pytest.raises(
            ValueError,
            match=r"cannot be selected, iterated over or changed individually\. Build the Repeat with scan=False",
        ):
            attempt()
    assert len(net[0]) == 3


def test_a_tie_across_the_edge_of_a_stack_is_refused():
    net = nn.Sequential(nn.Linear(2, 2), nn.Repeat(nn.Linear(2, 2), 2, scan=True))
    net.get_submodule("1.*").weight = net[0].weight
    with pytest.raises(
        ValueError, match=r"1\.\* \(Linear\): a Parameter is shared between the layers of a stack and a module"
    ):
        net.apply(*net.init(KEY), jnp.ones(2))


class Half(nn.Module):
    def forward(self, x):
        return x.astype(jnp.bfloat16)


class Attends(nn.Module):
    """As a layer of a decoder: what runs through it starts as a parameter does, what it looks at is data."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x, memory=None, axis=None):
        q, n = x
        q = jnp.tanh(self.fc(q)) + (0.0 if memory is None else memory.mean(0))
        return q if axis is None else jax.lax.psum(q, axis), n + 1


@pytest.mark.parametrize(
    ("spread", "kwargs"),
    [("memory", {}), ("params", {}), ("x", {}), ("memory", {"axis": "data"})],
)
def test_what_runs_through_a_scan_varies_over_the_mesh_where_the_loops_does(spread, kwargs):
    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    whole, parts = PartitionSpec(), PartitionSpec("data")
    specs = tuple(parts if name in spread.split() else whole for name in ("params", "x", "memory"))

    def run(scan):
        net = nn.Repeat(Attends(), 3, scan=scan)
        params, state = net.init(KEY)

        def shard(params, x, memory):
            local = jax.tree.map(lambda a: a[0] if "params" in spread else a, params)
            run = lambda x: net.apply(local, state, (x, 0), memory, **kwargs)[0][0]
            return run(x), jax.grad(lambda x: (run(x) ** 2).sum())(x)

        params = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), params) if "params" in spread else params
        x, memory = jnp.arange(12.0).reshape(4, 3) / 9, jnp.arange(6.0).reshape(2, 3)
        out = (whole if kwargs else parts, parts if spread == "x" else whole)  # a sum is the same everywhere
        return jax.jit(jax.shard_map(shard, mesh=mesh, in_specs=specs, out_specs=out))(params, x, memory)

    same(run(True), run(False))


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            nn.Linear(2, 3),
            r"\* \(Linear\): .* expected float32\[4,2\], got float32\[4,3\]\. Make each layer keep",
        ),
        (Half(), r"\* \(Half\): the output of a layer .* expected float32\[4,2\], got bfloat16\[4,2\]"),
        (nn.LSTM(2, 2), r"\* \(LSTM\): the output of a layer .* expected float32\[4,2\], got \('float32\[4,2\]', "),
    ],
)
def test_a_scanned_layer_gives_what_it_takes(layer, text):
    net = nn.Sequential(nn.Repeat(layer, 2, scan=True))
    with pytest.raises(ValueError, match=text):
        net.apply(*net.init(KEY), jnp.ones((4, 2)))


def test_what_stops_to_vary_on_the_way_is_refused():
    """A sum over the mesh: from the second layer on the scan would count once for each device what counts once."""
    mesh = jax.make_mesh((2,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    net = nn.Repeat(Attends(), 3, scan=True)
    params, state = net.init(KEY)
    run = lambda x: net.apply(params, state, (x, 0), axis="data")[0][0]
    with pytest.raises(
        ValueError, match=r"\* \(Attends\): .*expected .*V:data.*keep the shape, dtype and varying mesh"
    ):
        jax.shard_map(run, mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec())(jnp.ones((4, 3)))


def test_a_scan_starts_from_a_python_number_too():
    for scan in (False, True):
        net = nn.Repeat(nn.Tanh(), 2, scan=scan)
        assert net.apply({}, {"*": {}} if scan else {"0": {}, "1": {}}, 0.5)[0] == jnp.tanh(jnp.tanh(0.5))


def test_layers_that_differ_cannot_be_stacked():
    net = nn.Repeat(nn.Linear(2, 2), 2)
    trainable, _ = tree.partition(net.init(KEY)[0], "0")
    with pytest.raises(ValueError, match="have different leaves and cannot be stacked"):
        nn.Sequential(net).stack({"0": trainable})


def test_a_looped_repeat_is_a_list():
    net = nn.Repeat(nn.Linear(2, 2), 2)
    net.append(nn.Linear(2, 2))
    assert len(net) == net.n == 3 and [type(layer).__name__ for layer in net] == ["Linear"] * 3
    params, state = net.init(KEY)
    net.apply(params, state, jnp.ones(2))
    with pytest.raises(ValueError, match="Repeat: expected at least 1 layer, got n=0"):
        nn.Repeat(nn.Linear(2, 2), 0)


# ------------------------------------------------------------------------------------------------------------- remat


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(3, 3), nn.BatchNorm1d(3)

    def forward(self, x, scale=1.0):
        return jnp.tanh(self.bn(self.fc(x))) * scale


def rematerialised(jaxpr) -> bool:
    return "remat" in str(jaxpr) or "checkpoint" in str(jaxpr)


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True], ids=["loop", "scan"])
def test_remat_changes_memory_and_nothing_else(scan):
    plain, again = nn.Repeat(Block(), 3, scan=scan), nn.Repeat(nn.remat(Block()), 3, scan=scan)
    params, state = plain.init(KEY)
    same(again.init(KEY), (params, state), 0)
    x = jnp.arange(12.0).reshape(4, 3)

    def loss(net, params):
        out, after = net.apply(params, state, x, scale=2.0, training=True)
        return out.sum(), after

    runs = {net: jax.grad(functools.partial(loss, net), has_aux=True) for net in (plain, again)}
    same(jax.jit(runs[plain])(params), jax.jit(runs[again])(params))
    assert rematerialised(jax.make_jaxpr(runs[again])(params))
    assert not rematerialised(jax.make_jaxpr(runs[plain])(params))


def test_remat_keeps_type_and_copies_and_pickles():
    net = nn.remat(Block(), policy=jax.checkpoint_policies.dots_saveable)
    for made in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert type(made) is Block and repr(made) == repr(Block())
        params, state = made.init(KEY)
        assert rematerialised(jax.make_jaxpr(made.apply)(params, state, jnp.ones((2, 3))))


def test_remat_draws_and_captures_on_each_call():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.remat(nn.Dropout(0.5))

        def forward(self, x):
            return self.drop(x), self.drop(x)

    (first, second), _, seen = nn.capture(Twice(), "drop")({}, {}, jnp.ones(64), training=True, rng=RNG)
    assert not np.array_equal(first, second)
    same((seen["drop"], seen["drop:1"]), (first, second), 0)


def test_what_lies_inside_a_rematerialised_or_repeated_layer_is_captured_on_each_call():
    class Calls(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(self.layer(x))

    block = lambda: nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    for layer, name in (
        (nn.remat(block()), "layer.1"),
        (nn.Repeat(block(), 1), "layer.0.1"),
        (nn.Repeat(block(), 1, scan=True), "layer.*.1"),
    ):
        net = Calls(layer)
        params, state = net.init(KEY)
        out, _, seen = nn.capture(net, name)(params, state, jnp.ones(2))
        assert list(seen) == [name, f"{name}:1"]
        np.testing.assert_array_equal(seen[f"{name}:1"].reshape(2), out)
        _, gradients = nn.capture_gradients(net, name, jnp.sum)(params, state, jnp.ones(2))
        np.testing.assert_array_equal(gradients[f"{name}:1"].reshape(2), jnp.ones(2))
        assert not np.array_equal(gradients[name].reshape(2), jnp.ones(2))
