"""LayerNormalization, BatchNormalization, Relu, Gelu, Softmax: recognised where they are, and nowhere else.

Results are those of JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn
from funcnet.export.inference import inference_of
from tests.export.onnx.programs import agrees, ops

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)
W, B = (jnp.asarray(np.random.default_rng(n).normal(size=8), jnp.float32) for n in (1, 2))


def plain_norm(x, eps=1e-5, axis=-1):
    """The textbook's form, with one subtraction of the mean."""
    centred = x - x.mean(axis, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(axis, keepdims=True) + eps)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: F.layer_norm(x, (8,)),
        lambda x: F.layer_norm(x, (8,), W, B),
        lambda x: F.layer_norm(x, (3, 8)),
    ],
)
def test_layer_norm(run):
    graph = agrees(run, X)
    assert ops(graph) == ["ReduceMean", "Sub", "LayerNormalization"]
    agrees(run, X + 1e4, tolerance=2e-6)  # E[x²] - E[x]² is wrong here by 1e-4
    agrees(run, X, dynamic="n, ...", others=[np.concatenate([X, X])])


@pytest.mark.parametrize("run", [lambda x: plain_norm(x) * W + B, lambda x: B + W * plain_norm(x)])
def test_layer_norm_of_the_textbook(run):
    assert ops(agrees(run, X)) == ["ReduceMean", "Sub", "LayerNormalization"]


def test_weights_of_other_shapes_stay_outside():
    graph = agrees(lambda x: plain_norm(x) * jnp.arange(3.0)[:, None] + x[0, 0, 0], X)
    assert {"Mul", "Add", "LayerNormalization"} <= set(ops(graph))


@pytest.mark.parametrize(
    "run",
    [
        lambda x: plain_norm(x, axis=1),
        lambda x: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5),
        lambda x: (x - x.max(-1, keepdims=True)) * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5),
    ],
)
def test_what_is_no_layer_norm(run):
    assert "LayerNormalization" not in ops(agrees(run, X))


@pytest.mark.parametrize(
    "run, form",
    [
        (lambda x: F.gelu(x), "none"),
        (lambda x: jax.nn.gelu(x, approximate=False), "none"),
        (lambda x: F.gelu(x, approximate="tanh"), "tanh"),
    ],
)
def test_gelu(run, form):
    graph = agrees(run, np.linspace(-12, 12, 200, dtype=np.float32))
    assert ops(graph) == ["Gelu"] and graph.nodes[0].attributes.get("approximate", "none") == form


@pytest.mark.parametrize("run", [lambda x: x * jax.nn.sigmoid(1.6 * x), lambda x: x * (1 + jax.lax.erf(x)) * 0.5])
def test_what_is_no_gelu(run):
    assert "Gelu" not in ops(agrees(run, X))


@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax(axis):
    assert ops(agrees(lambda x: F.softmax(x, axis), X)) == ["Softmax"]
    assert ops(agrees(lambda x: jax.nn.softmax(x, axis), X)) == ["Softmax"]
    assert ops(agrees(lambda x: F.log_softmax(x, axis), X)) == ["LogSoftmax"]
    agrees(lambda x: F.softmax(x, axis), X * 100)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: jnp.exp(x - x.max(-1, keepdims=True)) / jnp.exp(x - x.max(-1, keepdims=True)).sum(1, keepdims=True),
        lambda x: jnp.exp(x - x.max(-1, keepdims=True)) / jnp.exp(x).sum(-1, keepdims=True),
    ],
)
def test_what_is_no_softmax(run):
    assert "Softmax" not in ops(agrees(run, X))


def running(net, channels, key=0):
    """The net's inference, with statistics and weights that are not those of the start."""
    params, state = net.init(jax.random.key(key))
    draw = np.random.default_rng(key)
    change = lambda a: a + draw.uniform(0.1, 0.9, a.shape).astype(a.dtype) if a.shape == (channels,) else a
    params, state = jax.tree.map(change, (params, state))
    return inference_of(net, params, state)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolution_batch_norm_and_relu(dims):
    conv, norm = getattr(nn, f"Conv{dims}d")(3, 5, 3, stride=2), getattr(nn, f"BatchNorm{dims}d")(5)
    x = np.random.default_rng(0).normal(size=(2, 3, *[7] * dims)).astype(np.float32)
    graph = agrees(running(nn.Sequential(conv, norm, nn.ReLU()), 5), x, dynamic="n, ...", others=[x[:1]])
    assert ops(graph) == ["Conv", "BatchNormalization", "Relu"]
    assert len(graph.nodes[0].inputs) == 3  # the bias too


def test_batch_norm_of_rows():
    graph = agrees(running(nn.Sequential(nn.BatchNorm1d(8), nn.ReLU6()), 8), X[0])
    assert ops(graph) == ["BatchNormalization", "Relu", "Min"]


@pytest.mark.parametrize(
    "run",
    [
        lambda x: (x - x[0, 0]) * (1 / jnp.sqrt(W**2 + 1e-5) * W) + B,  # a mean that is computed
        lambda x: (x - B) * (1 / jnp.sqrt(W**2 + 1e-5) * W) + B,  # along the last dimension of three
    ],
)
def test_what_is_no_batch_norm(run):
    assert "BatchNormalization" not in ops(agrees(run, X))


def test_relu_of_what_is_not_finite():
    x = np.float32([[np.nan, -1, -0.0, np.inf, -np.inf]])
    assert ops(agrees(lambda x: F.relu(x), x)) == ["Relu"]
    assert ops(agrees(lambda x: jnp.maximum(x, 0), np.int32([[-1, 2]]))) == ["Max"]
    assert ops(agrees(lambda x: jnp.maximum(x, jnp.zeros((4, 5))), x)) != ["Relu"]  # the result is larger than x
