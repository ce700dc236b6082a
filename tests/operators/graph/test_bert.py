"""The graph of a layer of BERT beside that of transformers, and of a Transformer's layer beside torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers
from transformers.models.bert.modeling_bert import BertLayer as TorchBertLayer

from funcnet import nn, operators
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.encoder import BertLayer
from tests.operators.graph.bert_layers import SdpaBertLayer
from tests.operators.graph.torch_graph import differences, torch_order

SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}
LAYERS = {"eager": BertLayer, "sdpa": SdpaBertLayer}
X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)


@pytest.mark.every_row
@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize(("training", "rate"), [(False, 0.1), (True, 0.0), (True, 0.1)])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_backward_pass_of_a_bert_layer(attention, training, rate, has_mask):
    """Torch's node names in torch's order. "eager" is funcnet's own BERT."""
    settings = SIZES | {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
    config = transformers.BertConfig(**settings)
    config._attn_implementation = attention
    theirs = TorchBertLayer(config).train(training)
    net = LAYERS[attention](BertConfig(**settings))
    params, state = net.load_state_dict(theirs.state_dict())
    mask = None
    if has_mask:
        mask = np.zeros((2, 1, 1, 5), np.float32)
        mask[1, ..., -2:] = np.finfo(np.float32).min
    output = theirs(torch.tensor(X, requires_grad=True), attention_mask=None if mask is None else torch.tensor(mask))[0]

    def forward(params, x):
        bias = None if mask is None else jnp.asarray(mask)
        return net.apply(params, state, x, bias, training=training, rng=jax.random.key(0))[0]

    graph = operators.graph.backward(forward)(params, jnp.asarray(X))
    order = torch_order([output])
    assert len(order) == len(graph) > 50
    is_random = training and rate > 0  # torch draws other numbers
    assert not differences(graph, order, saved=not is_random)
    np.testing.assert_allclose(graph.results, forward(params, jnp.asarray(X)), rtol=1e-5, atol=1e-6)
    if not is_random:
        np.testing.assert_allclose(graph.results, output.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_the_backward_pass_of_a_transformer_layer(norm_first, rate):
    settings = {"dropout": rate, "batch_first": True, "norm_first": norm_first}
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 12, **settings).train()
    net = nn.TransformerEncoderLayer(8, 2, 12, **settings)
    params, state = net.load_state_dict(theirs.state_dict())
    order = torch_order([theirs(torch.tensor(X, requires_grad=True))])
    forward = lambda params, x: net.apply(params, state, x, training=True, rng=jax.random.key(0))[0]
    assert not differences(operators.graph.backward(forward)(params, jnp.asarray(X)), order, saved=not rate)
