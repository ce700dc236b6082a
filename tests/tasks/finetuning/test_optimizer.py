"""Rates by layer, and what freezing saves."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet import tree
from funcnet.heads.head import make_forward
from funcnet.heads.text import Classify
from funcnet.models import bert
from funcnet.tasks.finetuning.optimizer import layer_rates, make_optimizer, trainable_names
from funcnet.train import create, make_step

SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
BATCH = {
    "input_ids": jnp.ones((2, 5), jnp.int32),
    "token_type_ids": jnp.zeros((2, 5), jnp.int32),
    "attention_mask": jnp.ones((2, 5), bool),
    "counted": jnp.ones(2, bool),
    "labels": jnp.array([0, 1], jnp.int32),
}


def test_layer_rates():
    names = ["bert.embeddings.a", "bert.encoder.layer.0.b", "bert.encoder.layer.11.c", "bert.pooler.d", "classifier.e"]
    rates = list(layer_rates(names, 12, 0.9).values())
    np.testing.assert_allclose(rates, [0.9**13, 0.9**12, 0.9, 1, 1])


def products(freeze):
    """How many matrix products a step computes, and how many the forward pass alone."""
    head = Classify(labels=("a", "b"))
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    net = bert.BertForSequenceClassification(bert.BertConfig(vocab_size=20, **SIZES, **still))
    params, state = jax.eval_shape(net.init, jax.random.key(0))
    trainable = trainable_names(list(tree.flatten(params)), freeze)
    optimizer = make_optimizer(optax.constant_schedule(1e-3), trainable, 2, 0.9)
    step = make_step(head.objective(net), head.counts, optimizer, trainable=trainable)
    start = jax.eval_shape(lambda p, s: create(p, s, optimizer, trainable=trainable), params, state)
    whole = str(jax.make_jaxpr(step)(start, BATCH, jax.random.key(0)))
    forward = str(jax.make_jaxpr(lambda p, s: make_forward(net)(p, s, BATCH, False, None))(params, state))
    return whole.count("= dot_general"), forward.count("= dot_general")


@pytest.mark.parametrize(
    ("freeze", "more"),
    [
        ("bert", 1),  # the classifier's own weight
        (("bert.embeddings", "bert.encoder"), 3),  # and the pooler's, with what passes back through the classifier
        ((), 36),  # each product has two derivatives
    ],
)
def test_what_is_frozen_costs_no_gradient(freeze, more):
    whole, forward = products(freeze)
    assert forward == 2 * 8 + 2  # query, key, value, scores, context, three dense; pooler and classifier
    assert whole - forward == more
