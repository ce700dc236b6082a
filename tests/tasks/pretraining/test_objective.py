"""20 steps of BERT on 1, 2 and 8 devices by pmap, shard_map and jit, compared with training without funcnet.train."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet import optim, tree
from funcnet.models import bert
from funcnet.parallel import make_layout, parallelize
from funcnet.tasks.pretraining import objective as losses
from funcnet.train import create, make_step

STEPS, ROWS, TOKENS, SLOTS, WORDS = 20, 16, 12, 3, 60
CONFIG = bert.BertConfig(
    vocab_size=WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=TOKENS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip


def batches():
    """Batches whose rows differ in length and in the number of masked words; the last two rows have none."""
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        lengths = random.integers(4, TOKENS + 1, ROWS)
        shown = np.arange(TOKENS) < lengths[:, None]
        hidden = np.arange(SLOTS) < random.integers(0, SLOTS + 1, ROWS)[:, None]
        hidden[-2:] = False  # with 8 devices, one device has no masked words
        yield {
            "input_ids": np.where(shown, random.integers(5, WORDS, (ROWS, TOKENS)), 0).astype(np.int32),
            "attention_mask": shown.astype(np.int32),
            "token_type_ids": (np.arange(TOKENS) >= lengths[:, None] // 2).astype(np.int32),
            "masked_positions": np.stack([random.permutation(4)[:SLOTS] for _ in range(ROWS)]).astype(np.int32),
            "masked_ids": random.integers(5, WORDS, (ROWS, SLOTS)).astype(np.int32),
            "masked_weights": hidden.astype(np.float32),
            "next_sentence_label": random.integers(0, 2, ROWS).astype(np.int32),
        }


def net_with(dropout):
    changes = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return bert.BertForPreTraining(bert.BertConfig.from_dict(CONFIG.to_dict() | changes))


def plain(net, params, state, optimizer):
    """The reference: the same training on one device, with jax.grad of the mean losses and without funcnet.train."""

    @jax.jit
    def step(params, opt_state, number, batch):
        def loss(params):
            (words, sentence), _ = net.apply(
                params, state, batch["input_ids"], batch["attention_mask"], batch["token_type_ids"],
                masked_positions=batch["masked_positions"], training=True,
                rng=jax.random.fold_in(jax.random.key(1), number),
            )  # fmt: skip
            per_word = optax.softmax_cross_entropy_with_integer_labels(words, batch["masked_ids"])
            per_row = optax.softmax_cross_entropy_with_integer_labels(sentence, batch["next_sentence_label"])
            weights = batch["masked_weights"]
            return (per_word * weights).sum() / weights.sum() + per_row.mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value

    opt_state, values = optimizer.init(params), []
    for number, batch in enumerate(batches()):
        params, opt_state, value = step(params, opt_state, jnp.int32(number), batch)
        values.append(float(value))
    return np.array(values), jax.device_get(params)


def ours(net, params, state, optimizer, kind, devices):
    plan = make_layout({"data": devices}, kind=kind)
    step = parallelize(make_step(losses.make_objective(net), losses.counts, optimizer), plan, donate=True)
    train_state, key, values = plan.place(create(params, state, optimizer)), plan.place(jax.random.key(1)), []
    for batch in batches():
        train_state, metrics = step(train_state, plan.shard(batch), key)
        values.append(float(metrics["loss"]))
    return np.array(values), jax.device_get(train_state.params)


def difference(found, expected):
    """The largest difference in any leaf, relative to its largest entry or to 1e-3 of the largest entry of all."""
    expected = tree.flatten(expected)
    floor = 1e-3 * max(np.abs(leaf).max() for leaf in expected.values())
    return max(
        np.abs(leaf - expected[name]).max() / max(np.abs(expected[name]).max(), floor)
        for name, leaf in tree.flatten(found).items()
    )


@pytest.fixture(scope="module")
def reference():
    made = {}

    def make(dropout, name):
        if (dropout, name) not in made:
            net = net_with(dropout)
            params, state = jax.jit(net.init)(jax.random.key(0))
            optimizer = optax.sgd(0.1) if name == "sgd" else optim.bert_adamw(1e-3)
            made[dropout, name] = net, params, state, optimizer, plain(net, params, state, optimizer)
        return made[dropout, name]

    return make


@pytest.mark.parametrize("devices", [8, 2, 1])
@pytest.mark.parametrize("kind", ["jit", "shard_map", "pmap"])
def test_sgd(reference, kind, devices):
    net, params, state, optimizer, (values, trained) = reference(0.0, "sgd")
    found, params = ours(net, params, state, optimizer, kind, devices)
    np.testing.assert_allclose(found, values, rtol=1e-5)
    assert difference(params, trained) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["jit", "shard_map", "pmap"])
def test_adamw(reference, kind):
    """Losses agree. Parameters are only printed: for gradients near 0, the first steps of Adam amplify rounding."""
    net, params, state, optimizer, (values, trained) = reference(0.0, "adamw")
    found, params = ours(net, params, state, optimizer, kind, 8)
    np.testing.assert_allclose(found, values, rtol=1e-5)
    print(f"AdamW, 8 devices by {kind}: parameters differ by {difference(params, trained):.1e} after {STEPS} steps")


@pytest.mark.slow
@pytest.mark.parametrize("devices", [8, 2, 1])
def test_jit_with_dropout(reference, devices):
    net, params, state, optimizer, (values, trained) = reference(0.1, "sgd")
    found, params = ours(net, params, state, optimizer, "jit", devices)
    np.testing.assert_allclose(found, values, rtol=1e-5)
    assert difference(params, trained) < 1e-5
    assert np.abs(values - reference(0.0, "sgd")[4][0]).max() > 1e-3, "dropout is on"
