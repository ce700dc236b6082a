"""Placing, cutting and running over devices; agreement of whole training steps is in tests/train/test_step.py."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from funcnet import parallel
from funcnet.parallel.data_parallel import average_over, fold_in_device, sum_over

KINDS = ["pmap", "shard_map", "jit"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("devices", [1, 8])
def test_gradients_are_those_of_the_sum_over_all_rows(kind, devices):
    """The trap: a gradient of a summed loss, or a sum of one that is summed already, is `devices` times too large."""
    plan = parallel.data_parallel(kind, devices)
    x = np.arange(16, dtype=np.float32)

    def step(w, batch, key, *, axis_name):
        return sum_over(jax.grad(lambda w: (w * batch).sum())(w), axis_name)

    gradient = parallel.parallelize(step, plan)(plan.place(np.float32(2)), plan.shard(x), None)
    np.testing.assert_allclose(gradient, x.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_stays_in_place_and_its_memory_is_reused(kind):
    plan = parallel.data_parallel(kind, 8)
    traced = []

    def step(state, batch, key, *, axis_name):
        traced.append(kind)
        return {"w": state["w"] + sum_over(batch.sum(), axis_name)}

    call = parallel.parallelize(step, plan, donate=True)
    start = np.zeros(4, np.float32)
    first = plan.place({"w": start})
    key = plan.place(jax.random.key(0))
    state = call(first, plan.shard(np.ones(8, np.float32)), key)
    assert state["w"].sharding == first["w"].sharding == NamedSharding(plan.mesh, PartitionSpec())
    assert first["w"].is_deleted()
    np.testing.assert_array_equal(start, 0)  # a donated copy leaves the original alone
    for _ in range(2):
        state = call(state, plan.shard(np.ones(8, np.float32)), key)
    assert traced == [kind], "later calls compile nothing"
    np.testing.assert_array_equal(state["w"], 24)


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_each_device_has_a_key_of_its_own(kind):
    plan = parallel.data_parallel(kind, 8)

    def step(state, batch, key, *, axis_name):
        return lax.all_gather(jax.random.uniform(fold_in_device(key, axis_name)), axis_name)

    drawn = parallel.parallelize(step, plan)(None, plan.shard(np.ones(8)), plan.place(jax.random.key(0)))
    assert len(set(np.asarray(drawn).tolist())) == 8


@pytest.mark.parametrize("kind", KINDS)
def test_one_exchange_for_everything_that_is_summed(kind):
    plan = parallel.data_parallel(kind, 8)
    state = plan.place({f"w{i}": np.ones((4, 4), np.float32) for i in range(5)})

    def step(state, batch, key, *, axis_name):
        loss = lambda p: sum(jnp.tanh(batch @ w).sum() for w in p.values())
        return sum_over((jax.grad(loss)(state), batch.sum()), axis_name)

    call = parallel.parallelize(step, plan)
    text = call.lower(state, plan.shard(np.ones((8, 4), np.float32)), None).compile().as_text()
    assert len(re.findall(r"= .*all-reduce(?:-start)?\(", text)) == 1


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_averaging_takes_the_mean_of_floats_and_the_largest_integer(kind):
    plan = parallel.data_parallel(kind, 4)

    def step(state, batch, key, *, axis_name):
        return average_over({"mean": batch.mean(), "count": batch.max().astype(jnp.int32)}, axis_name)

    out = parallel.parallelize(step, plan)(None, plan.shard(np.arange(4, dtype=np.float32)), None)
    assert (float(out["mean"]), int(out["count"])) == (1.5, 3)
    assert average_over({"mean": 1.0}, None) == {"mean": 1.0}


def test_an_unknown_kind_is_an_error():
    with pytest.raises(ValueError, match=r"data_parallel: kind; expected pmap or shard_map or jit, got 'ddp'. Take"):
        parallel.data_parallel("ddp")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [np.ones((30, 2)), np.ones(0), np.float32(1)])
def test_a_batch_that_does_not_divide_is_an_error(kind, batch):
    rows = len(batch) if batch.ndim else 0
    text = (
        f"shard: a batch that does not divide over 8 devices; expected a multiple of 8, got {rows}. Take a batch size"
    )
    with pytest.raises(ValueError, match=text):
        parallel.data_parallel(kind, 8).shard({"x": batch})


def test_micro_batches_count_too():
    parallel.check_batch_size(32, devices=8, accumulate=4)
    text = (
        r"over 8 devices x 4 micro-batches; expected a multiple of 32, got 48. Take a batch size of 32 or 64, or other"
    )
    with pytest.raises(ValueError, match=text):
        parallel.check_batch_size(48, devices=8, accumulate=4)


def test_copies_that_differ_are_found():
    plan = parallel.data_parallel("shard_map", 4)
    same = plan.place({"bn": {"running_mean": np.zeros(3, np.float32)}})
    parallel.check_replicated(same)

    step = lambda state, batch, key, *, axis_name: {"bn": {"running_mean": batch.sum()}}
    differing = parallel.parallelize(step, plan)(None, plan.shard(np.arange(4.0, dtype=np.float32)), None)
    with pytest.raises(
        ValueError, match=r"check_replicated: bn.running_mean; expected equal copies on all devices, got"
    ):
        parallel.check_replicated(differing)


def test_host_copies_are_not_touched_by_donation():
    plan = parallel.data_parallel("jit", 1)
    add = parallel.parallelize(lambda state, batch, key, *, axis_name: state + batch.sum(), plan, donate=True)
    state = plan.place(np.zeros(1000, np.float32))
    copy = parallel.to_host(state)
    add(state, plan.shard(np.ones(1, np.float32)), None)
    np.testing.assert_array_equal(copy, 0)


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_place_copies_on_the_device_where_the_array_lies_too(devices):
    start = {"weight": jnp.ones(16), "key": jax.random.key(0)}
    placed = parallel.data_parallel("jit", devices).place(start)
    jax.tree.map(lambda leaf: leaf.delete(), placed)
    assert float(start["weight"].sum()) == 16
    assert jax.random.uniform(start["key"]) >= 0
