"""`data_parallel` and its parts, against `torch.nn.DataParallel`, and against one torch model per part of the batch.

On the CPU, `torch.nn.DataParallel` calls its module with the complete batch: the oracle for everything that does not
depend on the parts. Statistics of BatchNorm in training mode do. For them, a copy of the torch model runs each chunk.
"""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from funcnet import nn, parallel, tree
from funcnet.parallel import data_parallel, gather, parallel_apply, replicate, scatter

DEVICES = jax.devices()
ROWS = np.random.default_rng(0).standard_normal((2, 17, 4)).astype(np.float32)


def network(nn):
    """A net of funcnet or torch with tied weights, BatchNorm, two inputs and keyword arguments."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
            self.second.weight = self.first.weight
            self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, 3)

        def forward(self, x, y, scale=1.0, shift=None):
            hidden = self.norm(self.first(x)) + self.second(y * scale)
            hidden = hidden if shift is None else hidden + shift["value"]
            return {"logits": self.last(hidden), "other": (hidden.sum(1), None, (hidden**2).sum())}

    return Net()


@pytest.fixture
def nets():
    """(description, params, state, torch's model) with equal values, and running statistics that are not the initial
    ones.
    """
    net, theirs = network(nn), network(torch.nn)
    params, state = net.init(jax.random.key(0))
    state = {**state, "norm": {**state["norm"], "running_var": jnp.arange(1.0, 5.0)}}
    theirs.load_state_dict({name: torch.tensor(np.array(x)) for name, x in net.state_dict(params, state).items()})
    return net, params, state, theirs


def loss_of(output):
    return (output["logits"] ** 2).sum() + (output["other"][0] * 3.0).sum() + output["other"][2].sum()


def arguments(rows, convert):
    x, y = (convert(part[:rows]) for part in ROWS)
    return (x, y), {"scale": 0.5, "shift": {"value": convert(ROWS[1, :rows] * 2)}}


def gradients_of(model):
    return {name: p.grad.numpy() for name, p in model.named_parameters()}


def assert_close(ours, theirs, tolerance=1e-5):
    ours = tree.flatten(ours)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(
            ours[name], value, rtol=tolerance, atol=tolerance * max(np.abs(value).max(), 1), err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 5, 16, 17])
def test_outputs_and_gradients_are_those_of_torchs_data_parallel(nets, count, rows):
    net, params, state, theirs = nets
    inputs, kwargs = arguments(rows, torch.tensor)
    expected = torch.nn.DataParallel(theirs.eval())(*inputs, **kwargs)
    loss_of(expected).backward()

    inputs, kwargs = arguments(rows, jnp.asarray)

    def loss(params):
        output, after = data_parallel(net, params, state, inputs, devices=DEVICES[:count], module_kwargs=kwargs)
        return loss_of(output), (output, after)

    gradients, (output, after) = jax.grad(loss, has_aux=True)(params)
    np.testing.assert_allclose(output["logits"], expected["logits"].detach(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(output["other"][0], expected["other"][0].detach(), rtol=1e-5, atol=1e-5)
    parts = -(-rows // -(-rows // count))
    assert output["other"][1] is None and output["other"][2].shape == (parts,)  # a scalar of every replica
    assert_close(gradients, gradients_of(theirs))
    assert {leaf.devices().pop() for leaf in jax.tree.leaves((gradients, after))} == {DEVICES[0]}
    assert_close(after, dict(tree.flatten(state)))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [8, 13])
def test_training_keeps_the_statistics_of_the_first_replica(nets, rows):
    """Four steps of SGD with BatchNorm in training mode. The buffers of other replicas are lost, as in torch."""
    net, params, state, theirs = nets
    optimizer, chosen = optax.sgd(0.01), [DEVICES[i] for i in (2, 0, 5)]
    opt_state = optimizer.init(params)
    for _ in range(4):
        inputs, kwargs = arguments(rows, torch.tensor)
        split = lambda x: torch.chunk(x, 3)
        x, y, shift = (split(value) for value in (*inputs, kwargs["shift"]["value"]))
        copies, losses = [], []
        for part in zip(x, y, shift, strict=True):
            copies.append(copy.deepcopy(theirs).train())
            losses.append(loss_of(copies[-1](*part[:2], scale=0.5, shift={"value": part[2]})))
        sum(losses).backward()
        sums = [sum(p.grad for p in owners) for owners in zip(*(one.parameters() for one in copies), strict=True)]

        inputs, kwargs = arguments(rows, np.asarray)

        def loss(params, state=state, inputs=inputs, kwargs=kwargs):
            output, after = data_parallel(
                net, params, state, inputs, devices=chosen, output_device=1, module_kwargs=kwargs, training=True
            )
            return loss_of(output), (output, after)

        (value, (output, state)), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        np.testing.assert_allclose(value, sum(losses).item(), rtol=1e-5)
        assert output["logits"].devices() == {DEVICES[1]}
        assert jax.tree.leaves(state)[0].devices() == {DEVICES[2]}
        updates, opt_state = optimizer.update(gradients, opt_state)
        params = optax.apply_updates(params, updates)
        with torch.no_grad():
            theirs = copies[0]
            for parameter, gradient in zip(theirs.parameters(), sums, strict=True):
                parameter -= 0.01 * gradient
                parameter.grad = None
    assert_close(params, {name: p.detach().numpy() for name, p in theirs.named_parameters()}, 1e-4)
    assert_close(state, {name: b.numpy() for name, b in theirs.named_buffers()})
    assert int(state["norm"]["num_batches_tracked"]) == 4


@pytest.mark.slow
def test_every_replica_drops_units_of_its_own_as_under_shard_map():
    net, key, x = nn.Dropout(0.5), jax.random.key(3), np.ones((16, 64), np.float32)
    output, _ = data_parallel(net, {}, {}, x, training=True, rng=key)
    parts = np.asarray(output).reshape(8, -1)
    assert len({part.tobytes() for part in parts}) == 8
    assert 0.4 < (parts == 0).mean() < 0.6

    def step(state, batch, key, *, axis_name):
        key = parallel.fold_in_device(key, axis_name)
        rows = net.apply({}, {}, batch, training=True, rng=key)[0]
        return jax.lax.all_gather(rows, axis_name, tiled=True)

    layout = parallel.make_layout(kind="shard_map")
    together = parallel.parallelize(step, layout)((), layout.shard(x), layout.place(key))
    np.testing.assert_array_equal(output, together)
    placed = jax.device_put(key, DEVICES[3])  # a key that has been placed on a device
    np.testing.assert_array_equal(data_parallel(net, {}, {}, x, training=True, rng=placed)[0], output)


@pytest.mark.slow
def test_gradients_with_dropout_are_the_sum_of_those_of_the_replicas():
    net = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.Linear(32, 2))
    params, state = net.init(jax.random.key(0))
    key, x = jax.random.key(1), jnp.asarray(ROWS[0])

    def together(params):
        return (data_parallel(net, params, state, x, devices=[0, 1, 2], training=True, rng=key)[0] ** 2).sum()

    def alone(params):
        parts = enumerate((x[:6], x[6:12], x[12:]))
        runs = [net.apply(params, state, part, training=True, rng=jax.random.fold_in(key, i))[0] for i, part in parts]
        return sum((out**2).sum() for out in runs)

    for first, second in zip(*(jax.tree.leaves(jax.grad(one)(params)) for one in (together, alone)), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_inside_jit_the_values_are_the_same(nets):
    """In float64: the gradient of a bias before BatchNorm is a sum that cancels, in float32 its rounding alone."""
    net, params, state, _ = nets
    with jax.enable_x64(True):
        params, state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), (params, state))
        inputs, kwargs = arguments(13, lambda part: jnp.asarray(part, jnp.float64))

        def loss(params):
            output, after = data_parallel(
                net, params, state, inputs, devices=[0, 1, 2], module_kwargs=kwargs, training=True
            )
            return loss_of(output), after

        gradients, after = jax.grad(loss, has_aux=True)(params)
        compiled = jax.jit(jax.grad(loss, has_aux=True))(params)
    for ours, theirs in zip(compiled, (gradients, after), strict=True):
        assert_close(ours, {name: np.asarray(leaf) for name, leaf in tree.flatten(theirs).items()}, 1e-11)


class Sizes(nn.Module):
    """Returns what it gets."""

    def forward(self, *inputs, **kwargs):
        return {"count": jnp.full((1, 1), len(inputs)), "kwargs": kwargs}


def test_inputs_are_arguments_as_in_torch():
    run = lambda *inputs, **kwargs: data_parallel(Sizes(), {}, {}, *inputs, **kwargs)[0]
    x = jnp.ones((4, 2))
    assert run((x, x), devices=[0, 1])["count"].tolist() == [[2], [2]]
    assert run([x, x], devices=[0, 1])["count"].tolist() == [[1], [1]]  # a list is one argument
    assert run(None, devices=[0, 1])["count"].tolist() == [[0]]  # nothing to split: one replica
    assert run((), module_kwargs={"x": x}, devices=[0, 1])["kwargs"]["x"].shape == (4, 2)
    assert run(x, module_kwargs={"flag": None}, devices=[0, 1, 2])["count"].tolist() == [[1], [1]]  # two rows each
    out = run(x.T, module_kwargs={"x": x.T}, devices=[0, 1], dim=1)
    assert out["kwargs"]["x"].shape == (2, 4)


@pytest.mark.slow
def test_hooks_run_once_for_each_replica(nets):
    net, params, state, _ = nets
    hooks, seen = nn.Hooks(), []
    hooks.register_forward_hook("last", lambda module, args, out: seen.append((args[0].shape, out.devices().pop())))
    inputs, kwargs = arguments(7, jnp.asarray)
    data_parallel(net, params, state, inputs, devices=[4, 1, 0], module_kwargs=kwargs, hooks=hooks)
    assert seen == [((3, 4), DEVICES[4]), ((3, 4), DEVICES[1]), ((1, 4), DEVICES[0])]


def test_replicate_copies_to_every_device_and_detach_stops_gradients(nets):
    _, params, state, _ = nets
    replicas = replicate((params, state), [1, 3])
    for replica, device in zip(replicas, (DEVICES[1], DEVICES[3]), strict=True):
        assert jax.tree.structure(replica) == jax.tree.structure((params, state))
        assert {leaf.devices().pop() for leaf in jax.tree.leaves(replica)} == {device}
        jax.tree.map(np.testing.assert_array_equal, replica, (params, state))

    def total(x, detach):
        return sum(gather([copy.sum()], 0).sum() for copy in replicate(x, [0, 1, 2], detach=detach))

    assert jax.grad(total)(jnp.ones(2), False).tolist() == [3, 3]
    assert jax.grad(total)(jnp.ones(2), True).tolist() == [0, 0]


@jax.jit
def slow(x):
    return jax.lax.fori_loop(0, 300, lambda i, x: jnp.tanh(x @ x), x)


class Slow(nn.Module):
    def __init__(self, running):
        super().__init__()
        self.running = (running,)  # outputs so far

    def forward(self, x):
        self.running[0].append(slow(x))
        return self.running[0][-1]


@pytest.mark.slow
def test_no_replica_waits_for_another():
    """All replicas have started before the first one has finished."""
    running = []
    net, x = Slow(running), np.ones((2, 400, 400), np.float32)
    inputs, replicas = scatter(x.reshape(800, 400), [0, 1]), replicate(({}, {}), [0, 1])
    jax.block_until_ready(parallel_apply(net, replicas, inputs))  # compiles `slow` for both devices
    running.clear()
    pairs = parallel_apply(net, replicas, inputs)
    assert [out.is_ready() for out in running] == [False, False]
    assert [out.devices() for out, _ in jax.block_until_ready(pairs)] == [{DEVICES[0]}, {DEVICES[1]}]


def test_wrong_arguments(nets):
    net, params, state, _ = nets
    x = jnp.ones((4, 4))
    for devices, message in [
        ([], "parallel.data_parallel: there are no devices; expected at least one, got none."),
        ([0, 8], "unknown device; expected a jax.Device of this process or a number from 0 to 7, got 8."),
    ]:
        for function in (
            lambda devices: data_parallel(net, params, state, (x, x), devices=devices),
            lambda devices: replicate(params, devices),
        ):
            with pytest.raises(ValueError) as caught:
                function(devices)
            assert message.removeprefix("parallel.data_parallel") in str(caught.value)
    with pytest.raises(ValueError, match=r"unknown device; .*, got 'cpu'\."):
        data_parallel(net, params, state, (x, x), output_device="cpu")
    with pytest.raises(ValueError, match="an array is empty along dimension 0"):
        data_parallel(net, params, state, (x[:0], x[:0]))
    replicas = replicate((params, state), [0, 1])
    for name, given in [
        ("inputs", {"inputs": [x]}),
        ("kwargs", {"inputs": [x, x], "kwargs": [{}]}),
        ("devices", {"inputs": [x, x], "devices": [0, 1, 2]}),
    ]:
        count = len(given[name])
        message = f"{name} do not fit the replicas; expected 2, one for each replica, got {count}."
        with pytest.raises(ValueError, match=message):
            parallel_apply(net, replicas, **given)
    with pytest.raises(TypeError) as caught:
        parallel_apply(net, replicas, [(x, x), x])
    assert "in replica 1 of 2" in caught.value.__notes__
