"""The 30 models of `tests/export/models.py`, the default BERT and MiniLM as modules, in wasmtime and in Node."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.export.check import compare
from funcnet.export.wasm.module import to_wasm
from funcnet.models import bert
from tests import real_data
from tests.export.models import FAST, MODELS, Model
from tests.export.wasm import node

TOLERANCE = 2e-6  # of the largest entry
SLOW = [pytest.mark.slow]
CODE = 100_000


@pytest.mark.parametrize("model", [m if m.name in FAST else pytest.param(m, marks=SLOW) for m in MODELS], ids=str)
def test_model(model: Model, tmp_path):
    function, arrays, _ = model.make()
    export = to_wasm(function, *arrays)
    assert export.check.largest <= TOLERANCE and export.code_size < CODE
    outputs, imports = node.run(export.save(tmp_path / "model.wasm"), arrays)
    assert imports == ""
    expected = jax.tree.leaves(jax.jit(function)(*arrays))
    names = [place.name for place in export.description.entries[0].outputs]
    assert compare(names, outputs, expected).largest <= TOLERANCE


@pytest.mark.slow
def test_minilm_at_two_lengths(tmp_path):
    net, params, state = bert.from_pretrained(real_data.minilm())

    def embed(input_ids, attention_mask):
        return net.apply(params, state, input_ids, attention_mask)[0][0]

    random = np.random.default_rng(0)
    ids = random.integers(1000, 30_000, (1, 128)).astype(np.int32)
    mask = (np.arange(128) < 100).astype(np.int32)[None]
    export = to_wasm(embed, ids, mask, lengths=(16, 128))
    assert export.check.largest <= TOLERANCE and export.code_size < CODE
    files = export.save(tmp_path / "minilm.wasm")
    assert files[0].stat().st_size < 1.01 * sum(x.nbytes for x in jax.tree.leaves(params))
    for length in (16, 128):
        arrays = [ids[:, :length], mask[:, :length]]
        (ours,), _ = node.run(files, arrays, length)
        expected = jax.jit(embed)(*map(jnp.asarray, arrays))
        assert compare(["embedding"], [ours], [expected]).largest <= TOLERANCE
