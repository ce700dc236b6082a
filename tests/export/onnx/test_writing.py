"""The model as protobuf: valid by onnx's checker, with names and types."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

from funcnet.export.onnx import writing
from tests.export.onnx.programs import graph_of

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def written(run, dynamic=None):
    graph = graph_of(run, [X], dynamic, rewritten=True)
    writing.with_names(graph)
    model = writing.model_of(graph)
    onnx.checker.check_model(model, full_check=True)  # shapes of outputs against those that onnx infers
    return model


@pytest.mark.parametrize(
    "run",
    [
        lambda x: jax.nn.softmax(x @ x.T),
        lambda x: (x > 0, x.astype(jnp.int8), x.astype(jnp.float16)),
        lambda x: jax.lax.scan(lambda c, row: (c + row, c), x[0], x),
        lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
        lambda x: jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x),
    ],
)
@pytest.mark.parametrize("dynamic", [None, "n, _"])
def test_it_is_valid(run, dynamic):
    model = written(run, dynamic)
    assert model.opset_import[0].version == writing.OPSET and model.graph.input[0].name == "x"
    names = [output for node in model.graph.node for output in node.output]
    assert len(names) == len(set(names)) and all(node.name for node in model.graph.node)


def test_symbolic_sizes_have_their_names():
    model = written(lambda x: jnp.concatenate([x, x]), "n, _")
    sizes = [[d.dim_param or d.dim_value for d in one.type.tensor_type.shape.dim] for one in model.graph.output]
    assert sizes == [["2*n", 3]]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ValueError, match=r'to_onnx: the package onnx is missing; .* pip install "funcnet\[export\]"'):
        writing.require_onnx("to_onnx")
