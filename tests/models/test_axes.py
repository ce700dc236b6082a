"""BERT and ResNet with a batch on a mesh of Explicit axes, and exported with symbolic sizes: the values of plain `jit`.

`test_parity.py` and `test_resnet_parity.py` compare those with torch.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import NamedSharding, PartitionSpec

from funcnet import functional as F
from funcnet.models import bert, resnet

KEY = jax.random.key(0)
MESH = jax.make_mesh((8,), ("data",))
NEAR = 2e-5  # of the largest entry: sums over the batch are added in another order on 8 devices, then pass 20 layers
slow = pytest.mark.slow


def same(found, expected):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        largest = np.abs(theirs).max(initial=0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=NEAR * largest + 1e-7)


def check(function, whole, batched, sizes="b"):
    """On the mesh, and exported with `sizes` as the leading dimensions of the batched inputs."""
    jitted = jax.jit(function)
    put = lambda *spec: lambda x: jax.device_put(x, NamedSharding(MESH, PartitionSpec(*spec)))
    with jax.set_mesh(MESH):
        found = jax.jit(function)(jax.tree.map(put(), whole), *map(put("data"), batched))
    same(found, jitted(whole, *batched))
    dims = export.symbolic_shape(sizes)
    specs = [jax.ShapeDtypeStruct((*dims, *x.shape[len(dims) :]), x.dtype) for x in batched]
    program = export.export(jitted)(whole, *specs)
    for size in (3, 8):
        rows = [x[tuple(slice(size + i) for i in range(len(dims)))] for x in batched]
        same(program.call(whole, *rows), jitted(whole, *rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {},
        pytest.param({"scan_layers": True}, marks=slow),
        pytest.param({"position_embedding_type": "relative_key_query"}, marks=slow),
    ],
)
@pytest.mark.parametrize("case", ["model", "train", pytest.param("outputs", marks=slow)])
def test_bert(fields, case):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = bert.BertConfig.preset("tiny", vocab_size=50, max_position_embeddings=16, **sizes, **fields)
    net = bert.BertModel(config) if case == "model" else bert.BertForPreTraining(config)
    whole = net.init(KEY)
    ids = jax.random.randint(KEY, (8, 12), 0, 50)
    mask = ((ids > 5) | (jnp.arange(12) < 2)).astype(jnp.int32)
    if case == "train":

        def step(whole, ids, mask, words, follows):
            labels = {"labels": words, "next_sentence_label": follows}
            loss = lambda params: net.apply(params, whole[1], ids, mask, **labels, training=True, rng=KEY)[0][0]
            return jax.value_and_grad(loss)(whole[0])

        check(step, whole, (ids, mask, jnp.where(ids % 3 == 0, ids, -100), ids[:, 0] % 2))
    else:
        asked = {} if case == "model" else {"output_attentions": True, "output_hidden_states": True}
        check(lambda whole, ids, mask: net.apply(*whole, ids, mask, **asked)[0], whole, (ids, mask), "b, t")


@pytest.mark.slow
def test_bert_past_its_position_table_is_nan():
    """A symbolic length cannot be checked before the call."""
    config = bert.BertConfig.preset("tiny", vocab_size=50, max_position_embeddings=16)
    net = bert.BertModel(config)
    params, state = net.init(KEY)
    (length,) = export.symbolic_shape("t")
    run = jax.jit(lambda ids: net.apply(params, state, ids)[0][0])
    program = export.export(run)(jax.ShapeDtypeStruct((1, length), jnp.int32))
    assert np.isfinite(program.call(jnp.ones((1, 16), jnp.int32))).all()
    assert np.isnan(program.call(jnp.ones((1, 17), jnp.int32))).any()
    with pytest.raises(ValueError, match="longer than the position table"):
        run(jnp.ones((1, 17), jnp.int32))


@slow
@pytest.mark.parametrize("training", [False, True])
def test_resnet(training):
    net = resnet.resnet18(num_classes=5)
    whole = net.init(KEY)
    images, classes = jax.random.normal(KEY, (8, 3, 32, 32)), jnp.arange(8) % 5
    if not training:
        check(lambda whole, images: net.apply(*whole, images)[0], whole, (images,))
        return

    def step(whole, images, classes):
        def loss(params):
            logits, state = net.apply(params, whole[1], images, training=True)
            return F.cross_entropy(logits, classes), state

        return jax.value_and_grad(loss, has_aux=True)(whole[0])

    check(step, whole, (images, classes))
