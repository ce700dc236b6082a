"""BERT in integers against LiteRT: tiny with random weights, and MiniLM on real text."""

import jax
import numpy as np
import pytest

from funcnet import text
from funcnet.export.tflite import to_tflite
from funcnet.models import bert
from funcnet.quantization import QuantizedNet, calibrate, convert
from tests import real_data
from tests.export.tflite.test_export import compare_every_tensor

CONFIG = bert.BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=32,
)


def tiny(masked=True):
    """Return a tiny BERT, whose weights are large enough for attention to matter, and inputs."""
    net = bert.BertModel(CONFIG)
    params, state = net.init(jax.random.key(0))
    params = jax.tree.map(lambda array: 8 * array if array.ndim == 2 else array, params)
    random = np.random.default_rng(0)
    ids = random.integers(0, 100, (2, 8)).astype(np.int32)
    mask = np.ones((2, 8), np.int32)
    mask[1, 5:] = 0
    types = np.repeat((np.arange(8) > 4).astype(np.int32)[None], 2, 0)
    return net, params, state, (ids, mask, types) if masked else (ids,)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
@pytest.mark.parametrize("masked", [True, False])
def test_a_tiny_bert(tmp_path, kernel, masked):
    net, params, state, inputs = tiny(masked)
    ranges = calibrate(net, params, state, [inputs])
    integers = convert(net, params, state, ranges, inputs, kernel)
    assert to_tflite(integers, tmp_path / "net.tflite", *inputs).differing == 0
    if kernel == "reference":
        assert compare_every_tensor(integers, tmp_path / "net.tflite", inputs) > 10_000
    for ours, expected in zip(integers(*inputs), net.apply(params, state, *inputs)[0], strict=True):
        assert np.corrcoef(np.ravel(ours), np.ravel(expected))[0, 1] > 0.9998


@pytest.mark.slow
def test_hidden_tokens_do_not_matter():
    net, params, state, (ids, mask, types) = tiny()
    ranges = calibrate(net, params, state, [(ids, mask, types)])
    integers = convert(net, params, state, ranges, (ids, mask, types))
    other = ids.copy()
    other[1, 5:] = (other[1, 5:] + 31) % 100
    (first, _), (second, _) = integers(ids, mask, types), integers(other, mask, types)
    np.testing.assert_array_equal(first[1, :5], second[1, :5])
    shown = integers(other, np.ones_like(mask), types)[0]
    assert np.abs(first[1, :5] - shown[1, :5]).max() > 0.1  # they do matter without the mask


@pytest.mark.slow
def test_minilm(tmp_path):
    folder = real_data.minilm()
    tokenizer = text.load_tokenizer(folder)
    articles = sorted(real_data.bbc().glob("*/00[1-6].txt"))
    rows = [tokenizer.encode(article.read_text("utf-8", "replace")).ids[:64] for article in articles]
    lengths = [64, 50, 33, 64, 20]
    rows = [row[: lengths[n % 5]] for n, row in enumerate(rows)]
    ids = np.array([row + [0] * (64 - len(row)) for row in rows], np.int32)
    mask = np.array([[1] * len(row) + [0] * (64 - len(row)) for row in rows], np.int32)
    inputs = [(ids[n : n + 5], mask[n : n + 5]) for n in range(0, 30, 5)]
    net, params, state = bert.from_pretrained(folder)
    ranges = calibrate(net, params, state, inputs[:3])
    held_out = inputs[5]
    delegated = convert(net, params, state, ranges, held_out, "xnnpack")
    assert to_tflite(delegated, tmp_path / "delegated.tflite", *held_out).differing == 0
    integers = convert(net, params, state, ranges, held_out)
    done = to_tflite(integers, tmp_path / "net.tflite", *held_out)
    assert done.differing == 0 and done.compared == 5 * 64 * 384 + 5 * 384
    assert compare_every_tensor(integers, tmp_path / "net.tflite", held_out) > 5_000_000
    integers.save(tmp_path / "net.safetensors")
    held = (tmp_path / "net.safetensors").stat().st_size
    again = QuantizedNet.load(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(again(*held_out)[0], integers(*held_out)[0])
    bytes_of_reals = sum(4 * np.size(leaf) for leaf in jax.tree.leaves(params))
    print(f"float {bytes_of_reals:,} bytes, .tflite {done.size:,}, .safetensors {held:,}")
    assert max(done.size, held) < 23.5e6 < 90e6 < bytes_of_reals
    found = cosines(*held_out, integers(*held_out)[0], net.apply(params, state, *held_out)[0][0])
    print(f"cosine of the sentence vectors with those in float: {found.min():.4f}")
    assert found.min() > 0.99  # 0.9903 is seen


def cosines(ids, mask, *outputs):
    """The cosine of each text's two sentence vectors. A vector is the mean of the tokens, as MiniLM is used."""
    shown = mask[:, :, None].astype(np.float32)
    one, other = (np.asarray((out * shown).sum(1) / shown.sum(1)) for out in outputs)
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


@pytest.mark.slow
def test_sentence_vectors_of_minilm():
    """128 articles that the calibration, on 96 others, did not see. The figures are those of docs/export.md."""
    folder = real_data.minilm()
    tokenizer = text.load_tokenizer(folder)
    articles = sorted(real_data.bbc().glob("*/0[0-9][0-9].txt"))
    chosen = np.random.default_rng(0).choice(len(articles), 224, replace=False)
    rows = [tokenizer.encode(articles[n].read_text("utf-8", "replace")).ids[:64] for n in chosen]
    ids = np.array([row + [0] * (64 - len(row)) for row in rows], np.int32)
    mask = np.array([[1] * len(row) + [0] * (64 - len(row)) for row in rows], np.int32)
    batches = [(ids[n : n + 32], mask[n : n + 32]) for n in range(0, 224, 32)]
    net, params, state = bert.from_pretrained(folder)
    integers = convert(net, params, state, calibrate(net, params, state, batches[:3]), batches[3])
    real = jax.jit(lambda *arrays: net.apply(params, state, *arrays)[0][0])
    found = np.concatenate([cosines(*one, integers(*one)[0], real(*one)) for one in batches[3:]])
    print(f"cosine with the vectors in float: mean {found.mean():.4f}, least {found.min():.4f}, of {found.size}")
    assert found.size == 128 and found.mean() > 0.99 and found.min() > 0.97
