"""A run starts, and is resumed, without the whole model on a device."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet import nn, optim, parallel, train
from funcnet.models import bert
from funcnet.train.initial_state import Start
from funcnet.train.task_interface import Task

WORDS, WIDTH = 4096, 128


class Toy(Task):
    """A task with a net, an optimizer, and values of its own."""

    def __init__(self, net, optimizer, ema=None, extra=None):
        self.net, self.optimizer, self.ema, self._extra = net, optimizer, ema, extra

    def extra(self, seed):
        return self._extra


class Loaded(Toy):
    """A task whose parameters are on the host."""

    def init(self, seed):
        return jax.tree.map(np.asarray, super().init(seed))


def small_bert():
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
    return bert.BertForPreTraining(bert.BertConfig(vocab_size=WORDS, max_position_embeddings=32, **sizes))


def layout_for(task, mesh="fsdp=8"):
    return parallel.make_layout(mesh).for_net(task.net)


def size_of(tree):
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def most_on_a_device(tree):
    found = dict.fromkeys(jax.devices(), 0)
    for leaf in jax.tree.leaves(tree):
        for shard in leaf.addressable_shards:
            found[shard.device] += shard.data.nbytes
    return max(found.values())


def assert_alike(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert (one.dtype, one.sharding) == (other.dtype, other.sharding)
        if jax.dtypes.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        assert one.weak_type == other.weak_type
        np.testing.assert_array_equal(one, other)


TASKS = {
    "adam": lambda: Toy(nn.Linear(64, 256), optax.adam(1e-3)),
    "values of its own": lambda: Toy(
        nn.Linear(64, 256), optax.sgd(0.1, 0.9), 0.9, {"key": jax.random.key(1), "count": 3, "weight": np.ones(4)}
    ),
    "lamb, buffers": lambda: Toy(
        nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256)), optim.lamb(1e-3, no_decay=()), 0.9
    ),
    "a schedule in the state": lambda: Toy(
        nn.Linear(64, 256), optax.inject_hyperparams(optax.adam)(lambda count: 1e-3 / (3 + count.astype(jnp.float32)))
    ),
    "two optimizers": lambda: Toy(
        nn.Linear(64, 256),
        optax.multi_transform({"a": optax.adam(0.1), "b": optax.sgd(0.1)}, {"weight": "a", "bias": "b"}),
    ),
    "orthogonal": lambda: Toy(orthogonal(), optax.adam(1e-3)),
    "on the host": lambda: Loaded(nn.Linear(64, 256), optax.adam(1e-3), 0.9, {"count": 3}),
    "an optimizer that reads the parameters": lambda: Toy(nn.Linear(64, 256), reading()),
}


def orthogonal():
    net = nn.Linear(64, 256)
    nn.init.orthogonal_(net.weight)
    return net


def reading():
    def init(params):
        return {"largest": jnp.asarray(max(float(abs(leaf).max()) for leaf in jax.tree.leaves(params)))}

    return optax.GradientTransformation(init, lambda updates, state, params=None: (updates, state))


@pytest.mark.every_row
@pytest.mark.parametrize("mesh", ["fsdp=8", "data=2"])
@pytest.mark.parametrize("name", TASKS)
def test_the_state_is_that_of_create(name, mesh):
    task = TASKS[name]()
    layout = layout_for(task, mesh)
    start = Start(task, layout)
    for seed in (0, 1):
        expected = train.create(*task.init(seed), task.optimizer, ema=task.ema, extra=task.extra(seed))
        assert_alike(start(seed), layout.place(expected))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), start(0))
    assert start.shapes(0) == shapes


def test_a_step_may_donate_the_state_and_the_start_can_be_repeated():
    task = TASKS["values of its own"]()
    start = Start(task, layout_for(task))
    first = start(0)
    jax.tree.map(lambda leaf: leaf.delete(), first)
    assert_alike(start(0), Start(TASKS["values of its own"](), start.layout)(0))


@pytest.mark.slow
def test_no_device_needs_more_than_its_part_of_the_model():
    task = Toy(small_bert(), optim.bert_adamw(1e-3))
    start = Start(task, layout_for(task))
    whole = size_of(start.shapes(0))
    needed = []
    for program in start.lower(0):
        found = program.compile().memory_analysis()
        total = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
        needed.append((total - found.alias_size_in_bytes) / whole)
    print("parts of the whole that a device needs:", needed)
    assert max(needed) < 1.1 / 8
    assert most_on_a_device(start(0)) < 1.1 / 8 * whole


@pytest.mark.slow
def test_a_resumed_run_reads_only_parts(tmp_path):
    task = Toy(small_bert(), optim.bert_adamw(1e-3), 0.9, {"key": jax.random.key(1)})
    layout = layout_for(task)
    start = Start(task, layout)
    state = start(0)
    with train.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state, 3, {})
    checkpoints = train.Checkpoints(tmp_path, say=lambda text: None)
    restored = train.resume(checkpoints, start.shapes(0), layout, lambda: pytest.fail("there is a checkpoint"))
    assert restored.step == 3
    assert_alike(restored.state, state)
    assert most_on_a_device(restored.state) < 1.1 / 8 * size_of(state)


def test_a_run_without_a_checkpoint_starts_again(tmp_path):
    task = TASKS["adam"]()
    start = Start(task, layout_for(task))
    checkpoints = train.Checkpoints(tmp_path, say=lambda text: None)
    restored = train.resume(checkpoints, start.shapes(0), start.layout, lambda: start(0))
    assert restored.step == 0
    assert_alike(restored.state, start(0))
