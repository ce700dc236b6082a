"""The rewriting as a whole: what is removed, what is shared, and that results stay (ONNX Runtime against JAX)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet import export
from funcnet.export.onnx.graph import Graph, OnnxNode, OnnxValue
from funcnet.export.onnx.rewriting import RULES, rewrite
from funcnet.models import bert
from tests.export.models import drawn, tokens
from tests.export.onnx.programs import agrees, graph_of, ops

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def test_dead_operations_are_removed():
    graph = graph_of(lambda x: (jnp.sin(x).sum(), x + 1)[1], [X], rewritten=True)
    assert ops(graph) == ["Add"]


def test_equal_operations_are_shared():
    graph = agrees(lambda x: jnp.sin(x + 1) * jnp.exp(jnp.sin(x + 1)), X)
    assert sorted(ops(graph)) == ["Add", "Exp", "Mul", "Sin"]


def test_inner_graphs_are_rewritten_too():
    graph = agrees(lambda x: lax.scan(lambda c, row: (c, jax.nn.softmax(row)), x[0], x)[1], X)
    (scan,) = [node for node in graph.nodes if node.op == "Scan"]
    assert "Softmax" in ops(scan.attributes["body"]) and "Exp" not in ops(scan.attributes["body"])


def test_a_replaced_value_is_replaced_in_inner_graphs():
    """The body of the loop reads a value outside, whose operations become one."""
    agrees(lambda x: lax.scan(lambda c, row: (c, row + jax.nn.softmax(x, -1)), x[0], x)[1], X)


def test_a_rule_of_ones_own():
    def squares(graph: Graph, node: OnnxNode) -> OnnxValue | None:
        return graph.like("Mul", node.inputs[0], node.inputs[0]) if node.op == "Abs" else None

    graph = graph_of(lambda x: jnp.abs(x), [X], rewritten=False)
    rewrite(graph, {"Abs": (squares,)})
    assert ops(graph) == ["Mul"] and "Abs" not in RULES


def test_bert_has_no_unfused_operation():
    """Of two layers: 16 products, 6 LayerNormalizations, 3 Gelus (one in the head), 2 Attentions, no Softmax."""
    model = bert.BertForPreTraining(bert.BertConfig.preset("tiny", vocab_size=300))
    run = export.inference_of(model, *drawn(model))
    for dynamic, most in ((None, 100), ("batch, length", 115)):
        exported = export.to_onnx(run, *tokens(300), dynamic=dynamic, constraints=["length <= 512"] if dynamic else ())
        found = ops(exported.graph)
        counts = {op: found.count(op) for op in ("MatMul", "LayerNormalization", "Gelu", "Attention")}
        assert counts == {"MatMul": 16, "LayerNormalization": 6, "Gelu": 3, "Attention": 2}, counts
        assert not {"Softmax", "Erf", "Exp", "Reciprocal"} & set(found) and len(found) < most, (len(found), found)
        assert exported.check.largest < 1e-5
