"""An int8 model as a module: batches, padding to the next length, and masked positions, against its nets of one row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.models import bert, resnet
from funcnet.models.integers import OUTPUTS, IntegerModel, open_bert
from funcnet.quantization import Int8Model, calibrate, convert, save_int8
from funcnet.serving import inference

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def rows(count, length):
    ids = np.random.default_rng(0).integers(0, 40, (count, length)).astype(np.int32)
    return ids, np.ones_like(ids), np.zeros_like(ids)


def quantized(kind, lengths=(8, 16)):
    """(float net, params, state, int8 model) of a small BERT."""
    net = bert.ARCHITECTURES[kind](bert.BertConfig.preset("tiny", vocab_size=40, num_hidden_layers=1))
    params, state = net.init(jax.random.key(0))
    ranges = calibrate(net, params, state, [rows(4, 16)])
    nets = {length: convert(net, params, state, ranges, rows(1, length)) for length in lengths}
    return net, params, state, Int8Model(kind, INPUTS, tuple(OUTPUTS[kind]), nets)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["BertForPreTraining", "BertForQuestionAnswering", "BertForSequenceClassification", "BertModel"]
)
def test_a_batch_is_its_rows_and_has_the_shapes_of_the_float_model(kind):
    net, params, state, model = quantized(kind)
    integers = IntegerModel(model)
    _, buffers = integers.init(jax.random.key(0))
    whole = rows(3, 16)
    out, _ = integers.apply({}, buffers, *whole)
    for place in range(3):
        alone = model.nets[16](*(array[place : place + 1] for array in whole))
        for ours, theirs in zip(jax.tree.leaves(out), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(ours[place], theirs[0])
    for count in (5, 8, 11):
        short = tuple(array[:, :count] for array in whole)
        real, _ = net.apply(params, state, *short)
        found, _ = jax.jit(integers.apply)({}, buffers, *short)
        assert jax.tree.map(jnp.shape, found) == jax.tree.map(jnp.shape, real)
        for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(real), strict=True):
            assert np.abs(ours - theirs).max() < 0.2 * np.abs(theirs).max() + 0.02


@pytest.mark.slow
def test_masked_positions_and_missing_masks():
    _, _, _, model = quantized("BertForPreTraining", (16,))
    integers = IntegerModel(model)
    _, buffers = integers.init(jax.random.key(0))
    ids, mask, types = rows(2, 16)
    (words, _), _ = integers.apply({}, buffers, ids, mask, types)
    places = np.array([[3, 1], [0, 9]], np.int32)
    (chosen, _), _ = integers.apply({}, buffers, ids, masked_positions=places)
    np.testing.assert_array_equal(chosen, np.take_along_axis(np.asarray(words), places[:, :, None], 1))


def test_rows_that_are_too_long_are_refused():
    _, _, _, model = quantized("BertForSequenceClassification", (8,))
    integers = IntegerModel(model)
    _, buffers = integers.init(jax.random.key(0))
    with pytest.raises(ValueError, match="expected at most 8 tokens, got 9"):
        integers.apply({}, buffers, *rows(1, 9))


@pytest.mark.slow
def test_images():
    net = resnet.resnet18(num_classes=3, in_channels=1, small_images=True)
    params, state = jax.jit(net.init)(jax.random.key(0))
    images = np.random.default_rng(0).normal(size=(4, 1, 8, 8)).astype(np.float32)
    one = convert(net, params, state, calibrate(net, params, state, [images]), images[:1])
    integers = IntegerModel(Int8Model("resnet18", ("images",), ("logits",), {0: one}))
    _, buffers = integers.init(jax.random.key(0))
    logits, _ = integers.apply({}, buffers, images)
    np.testing.assert_array_equal(logits, np.concatenate([one(image[None]) for image in images]))


@pytest.mark.slow
def test_a_dtype_is_refused_for_integers(tmp_path):
    net, params, state, model = quantized("BertForMaskedLM", (16,))
    bert.save_pretrained(tmp_path, net, params, state)
    assert type(open_bert(tmp_path, "BertForMaskedLM", "here")[0]) is bert.BertForMaskedLM
    save_int8(tmp_path, model)
    assert type(open_bert(tmp_path, "BertForMaskedLM", "here")[0]) is IntegerModel
    with pytest.raises(ValueError, match=r"bert\.from_pretrained: .* holds an int8 model"):
        bert.from_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]))
    with pytest.raises(ValueError, match=r"dtype: .* holds an int8 model"):
        inference(tmp_path, dtype=jnp.bfloat16, max_length=16, ahead=False)
