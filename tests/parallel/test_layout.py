"""Placing, sharding and gathering arrays, and running steps; tests/train/test_step.py tests whole training steps."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from funcnet import optim, parallel, train
from funcnet.parallel import average_over, fold_in_device, sum_over

KINDS = ["pmap", "shard_map", "jit"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("devices", [1, 8])
def test_gradients_are_those_of_the_sum_over_all_rows(kind, devices):
    """A gradient of a summed loss, or a gradient that is summed twice, would be `devices` times too large."""
    layout = parallel.make_layout({"data": devices}, kind=kind)
    x = np.arange(16, dtype=np.float32)

    def step(w, batch, key, *, axis_name):
        return sum_over(jax.grad(lambda w: (w * batch).sum())(w), axis_name)

    gradient = parallel.parallelize(step, layout)(layout.place(np.float32(2)), layout.shard(x), None)
    np.testing.assert_allclose(gradient, x.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_stays_in_place_and_its_memory_is_reused(kind):
    layout = parallel.make_layout({"data": 8}, kind=kind)
    traced = []

    def step(state, batch, key, *, axis_name):
        traced.append(kind)
        return {"w": state["w"] + sum_over(batch.sum(), axis_name)}

    call = parallel.parallelize(step, layout, donate=True)
    start = np.zeros(4, np.float32)
    first = layout.place({"w": start})
    key = layout.place(jax.random.key(0))
    state = call(first, layout.shard(np.ones(8, np.float32)), key)
    assert state["w"].sharding == first["w"].sharding == NamedSharding(layout.mesh, PartitionSpec())
    assert first["w"].is_deleted()
    np.testing.assert_array_equal(start, 0)  # a donated copy leaves the original alone
    for _ in range(2):
        state = call(state, layout.shard(np.ones(8, np.float32)), key)
    assert traced == [kind], "later calls compile nothing"
    np.testing.assert_array_equal(state["w"], 24)


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_each_device_has_a_key_of_its_own(kind):
    layout = parallel.make_layout({"data": 8}, kind=kind)

    def step(state, batch, key, *, axis_name):
        return lax.all_gather(jax.random.uniform(fold_in_device(key, axis_name)), axis_name)

    drawn = parallel.parallelize(step, layout)(None, layout.shard(np.ones(8)), layout.place(jax.random.key(0)))
    assert len(set(np.asarray(drawn).tolist())) == 8


@pytest.mark.parametrize("kind", KINDS)
def test_one_exchange_for_everything_that_is_summed(kind):
    layout = parallel.make_layout({"data": 8}, kind=kind)
    state = layout.place({f"w{i}": np.ones((4, 4), np.float32) for i in range(5)})

    def step(state, batch, key, *, axis_name):
        loss = lambda p: sum(jnp.tanh(batch @ w).sum() for w in p.values())
        return sum_over((jax.grad(loss)(state), batch.sum()), axis_name)

    call = parallel.parallelize(step, layout)
    text = call.lower(state, layout.shard(np.ones((8, 4), np.float32)), None).compile().as_text()
    assert len(re.findall(r"= .*all-reduce(?:-start)?\(", text)) == 1


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_averaging_takes_the_mean_of_floats_and_the_largest_integer(kind):
    layout = parallel.make_layout({"data": 4}, kind=kind)

    def step(state, batch, key, *, axis_name):
        return average_over({"mean": batch.mean(), "count": batch.max().astype(jnp.int32)}, axis_name)

    out = parallel.parallelize(step, layout)(None, layout.shard(np.arange(4, dtype=np.float32)), None)
    assert (float(out["mean"]), int(out["count"])) == (1.5, 3)
    assert average_over({"mean": 1.0}, None) == {"mean": 1.0}


def test_an_unknown_kind_is_an_error():
    with pytest.raises(
        ValueError, match=r"make_layout: unknown kind; expected 'pmap' or 'shard_map' or 'jit', got 'ddp'."
    ):
        parallel.make_layout(kind="ddp")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [np.ones((30, 2)), np.ones(0)])
def test_a_batch_that_does_not_divide_is_an_error(kind, batch):
    text = (
        "shard: the batch does not divide evenly over 8 devices; expected "
        f"a multiple of 8, got {len(batch)}. Use a batch size"
    )
    with pytest.raises(ValueError, match=text):
        parallel.make_layout({"data": 8}, kind=kind).shard({"x": batch})


def test_micro_batches_count_too():
    parallel.check_batch_size(32, devices=8, accumulate=4)
    text = "over 8 devices x 4 micro-batches; expected a multiple of 32, got 48. Use a batch size of 32 or 64, or a"
    with pytest.raises(ValueError, match=text):
        parallel.check_batch_size(48, devices=8, accumulate=4)


def test_copies_that_differ_are_found():
    layout = parallel.make_layout({"data": 4}, kind="shard_map")
    same = layout.place({"bn": {"running_mean": np.zeros(3, np.float32)}})
    parallel.check_replicated(same)

    step = lambda state, batch, key, *, axis_name: {"bn": {"running_mean": batch.sum()}}
    differing = parallel.parallelize(step, layout)(None, layout.shard(np.arange(4.0, dtype=np.float32)), None)
    with pytest.raises(
        ValueError,
        match=r"check_replicated: the replicas of bn.running_mean differ; "
        r"expected equal replicas on all devices, got",
    ):
        parallel.check_replicated(differing)


def test_host_copies_are_not_touched_by_donation():
    layout = parallel.make_layout({"data": 1}, kind="jit")
    add = parallel.parallelize(lambda state, batch, key, *, axis_name: state + batch.sum(), layout, donate=True)
    state = layout.place(np.zeros(1000, np.float32))
    copy = layout.gather(state)
    add(state, layout.shard(np.ones(1, np.float32)), None)
    np.testing.assert_array_equal(copy, 0)


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_place_copies_on_the_device_where_the_array_lies_too(devices):
    start = {"weight": jnp.ones(16), "key": jax.random.key(0)}
    placed = parallel.make_layout({"data": devices}, kind="jit").place(start)
    jax.tree.map(lambda leaf: leaf.delete(), placed)
    assert float(start["weight"].sum()) == 16
    assert jax.random.uniform(start["key"]) >= 0


# ------------------------------------------------------------------------------------------------- rules over two axes


def two_axes(**rules):
    return parallel.make_layout("data=4,model=2", rules=rules or {"**.weight": PartitionSpec("model", None)})


def start():
    params = {"fc": {"weight": np.arange(24, dtype=np.float32).reshape(6, 4), "bias": np.ones(6, np.float32)}}
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))
    return params, optimizer, train.create(params, {}, optimizer)


def test_optimizer_state_lies_as_its_parameters():
    layout = two_axes()
    placed = layout.place(start()[2])
    weight = NamedSharding(layout.mesh, PartitionSpec("model", None))
    whole = NamedSharding(layout.mesh, PartitionSpec())
    adam = placed.opt_state[1][0]
    assert placed.params["fc"]["weight"].sharding == adam.mu["fc"]["weight"].sharding == weight
    assert placed.params["fc"]["bias"].sharding == adam.nu["fc"]["bias"].sharding == placed.step.sharding == whole
    assert placed.params["fc"]["weight"].addressable_shards[0].data.shape == (3, 4)
    for ours, theirs in zip(jax.tree.leaves(layout.gather(placed)), jax.tree.leaves(start()[2]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_step_over_two_axes_is_that_of_one_device():
    """Only the layout knows that a weight is sharded: steps, losses and moments are those of one device."""
    params, optimizer = start()[0], optim.bert_adamw(0.1, no_decay="**.bias")
    batch = {"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)}

    traces = []

    def objective(params, state, batch, *, training, rng):
        traces.append(None)
        y = batch["x"] @ params["fc"]["weight"].T + params["fc"]["bias"]
        return {"fit": {"loss": jnp.sum(jnp.square(y).mean(1))}}, state

    def trained(layout):
        step = train.make_step(objective, lambda batch: {"fit": jnp.float32(batch["x"].shape[0])}, optimizer)
        state = layout.place(train.create(params, {}, optimizer))
        shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
        call = parallel.parallelize(step, layout, state=state, donate=True)
        counts = []
        for _ in range(3):
            state, metrics = call(state, layout.shard(batch), layout.place(jax.random.key(0)))
            counts.append(len(traces))
        assert jax.tree.map(lambda leaf: leaf.sharding, state) == shardings
        assert counts[0] == counts[-1], "no step after the first compiles"
        return layout.gather(state), float(metrics["loss"])

    (alone, loss), (together, same) = trained(parallel.make_layout({"data": 1})), trained(two_axes())
    np.testing.assert_allclose(same, loss, rtol=1e-6)
    for ours, theirs in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            {"fc.weight": PartitionSpec("tensor")},
            r"rules: 'fc.weight' names the unknown axis 'tensor'; expected an axis of",
        ),
        (
            {"fc.wieght": PartitionSpec("model")},
            r"rules: pattern 'fc.wieght' matches nothing. Nearest names: .*fc.weight",
        ),
        (
            {"fc.weight": PartitionSpec("model"), "**.weight": PartitionSpec(None, "model")},
            r"rules: two rules match 'fc.weight'; expected one rule, got 'fc.weight' and '\*\*.weight'",
        ),
        ({"fc.bias": PartitionSpec(None, "model")}, r"'fc.bias' does not fit 'fc.bias'; expected at most 1 entries"),
        (
            {"fc.bias": PartitionSpec(("data", "model"))},
            r"into 8 parts along .* expected a dimension that is divisible by 8, got 6",
        ),
    ],
)
def test_rules_that_do_not_fit_are_refused(rules, message):
    layout = parallel.Layout("jit", parallel.make_mesh({"data": 4, "model": 2}), rules)
    with pytest.raises(ValueError, match=message):
        layout.shardings(start()[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mesh": "data=4,model=2"}, r"no array is sharded along the axis 'model'"),
        (
            {"mesh": "data=4,model=2", "rules": {"**": PartitionSpec("model")}, "kind": "pmap"},
            r"'pmap' shards only batches",
        ),
        ({"mesh": "data=16"}, r"CPU devices is out of range; expected 1 to 8, got 16"),
        ({"mesh": "data=3,model=-1"}, r"sizes that divide the 8 devices, got data=3, model=-1"),
        ({"mesh": "data"}, r"'data' is not a mesh; expected axes with sizes, such as data=8"),
        ({"mesh": "data=2,data=4"}, r"is not a mesh; .* got 'data=4'"),
        ({"mesh": "data=0"}, r"is not a mesh; .* got 'data=0'"),
    ],
)
def test_meshes_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        parallel.make_layout(**arguments)
