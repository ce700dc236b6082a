"""Layers with attention on a mesh with an axis `context`: the numbers of one device, and of torch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.sharding import PartitionSpec

from funcnet import functional as F
from funcnet import nn, optim, parallel, train

MESH = "data=2,context=4"
BATCH, LENGTH, WIDTH, HEADS = 4, 16, 8, 2
DRAW = np.random.default_rng(0)
CAUSAL = np.triu(np.ones((LENGTH, LENGTH), bool), 1)
PADDING = np.arange(LENGTH) >= np.array([16, 11, 9, 13])[:, None]


def on_mesh(function):
    """The function, compiled for the mesh."""
    return parallel.compile_whole(function, parallel.make_layout(MESH))


def sequences(*shape):
    return DRAW.normal(size=shape).astype(np.float32)


def near(ours, theirs, tolerance=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=tolerance), ours, theirs)


MASKS = {
    "no mask": {},
    "padding": {"key_padding_mask": PADDING},
    "causal": {"attn_mask": CAUSAL, "is_causal": True},
    "scores": {"attn_mask": sequences(BATCH * HEADS, LENGTH, LENGTH)},
    "both": {"attn_mask": CAUSAL, "key_padding_mask": PADDING, "is_causal": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("batch_first", [True, False])
def test_multi_head_attention_has_the_numbers_of_torch(masks, batch_first):
    x, change = sequences(BATCH, LENGTH, WIDTH), sequences(BATCH, LENGTH, WIDTH)
    if not batch_first:
        x, change = x.swapaxes(0, 1), change.swapaxes(0, 1)
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
    ours = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
    params, state = ours.load_state_dict(theirs.state_dict())
    given = {name: torch.tensor(mask) if isinstance(mask, np.ndarray) else mask for name, mask in masks.items()}
    there = torch.tensor(x, requires_grad=True)
    expected = theirs(there, there, there, need_weights=False, **given)[0]
    expected.backward(torch.tensor(change))
    gradients = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}

    @on_mesh
    def run(params, x):
        apply = lambda params, x: ours.apply(params, state, x, x, x, need_weights=False, **masks)[0][0]
        y, pull = jax.vjp(apply, params, x)
        return y, *pull(jnp.asarray(change))

    y, of_params, of_x = run(params, x)
    near(y, expected.detach().numpy())
    near(of_x, there.grad.numpy())
    near(dict(ours.state_dict(of_params, state)), gradients, 1e-4)


def test_weights_are_computed_by_the_compiler():
    layer, x = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), sequences(BATCH, LENGTH, WIDTH)
    params, state = layer.init(jax.random.key(0))
    run = lambda x: layer.apply(params, state, x, x, x, key_padding_mask=PADDING)[0]
    found, expected = on_mesh(run)(x), run(x)
    assert found[1].shape == (BATCH, LENGTH, LENGTH)
    near(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [LENGTH // 2, 10])
def test_attention_to_a_memory_of_another_length(memory):
    """The axis does not divide a memory of 10 keys, so the compiler divides this attention."""
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 16, dropout=0.2, batch_first=True)
    params, state = layer.init(jax.random.key(0))
    x, there = sequences(BATCH, LENGTH, WIDTH), sequences(BATCH, memory, WIDTH)

    def run(x, there):
        options = {"tgt_mask": CAUSAL, "tgt_is_causal": True, "training": True, "rng": jax.random.key(1)}
        return layer.apply(params, state, x, there, **options)[0]

    near(on_mesh(run)(x, there), run(x, there))


def test_appended_keys():
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, add_bias_kv=True, add_zero_attn=True)
    params, state = layer.init(jax.random.key(0))
    x = sequences(BATCH, LENGTH, WIDTH)
    run = lambda x: layer.apply(params, state, x, x, x, need_weights=False, attn_mask=CAUSAL)[0][0]
    near(on_mesh(run)(x), run(x))


def test_a_length_that_context_does_not_divide_is_named():
    layer, x = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True), sequences(BATCH, 10, WIDTH)
    params, state = layer.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"context=4 does not divide the length .* got 10. Use a length of 8 or 12"):
        on_mesh(lambda x: layer.apply(params, state, x)[0])(x)


# ---------------------------------------------------------------------------------------------- inside jax.shard_map


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"context_parallel": "gather"}, {"block_size": 2}], ids=str)
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
def test_axis_name_inside_shard_map(masks, how):
    options = {"dropout": 0.3, "batch_first": True}
    whole, part = nn.MultiheadAttention(WIDTH, HEADS, **options), PartitionSpec(None, "context")
    split = nn.MultiheadAttention(WIDTH, HEADS, **options, axis_name="context", **how)
    params, state = whole.init(jax.random.key(0))
    x = sequences(BATCH, LENGTH, WIDTH)
    static = {"is_causal": masks.get("is_causal", False), "training": True, "rng": jax.random.key(1)}
    arrays = {name: mask for name, mask in masks.items() if name != "is_causal"}

    def run(layer, params, x, arrays):
        return layer.apply(params, state, x, x, x, need_weights=False, **arrays, **static)[0][0]

    specs = {"attn_mask": PartitionSpec(*(None,) * (np.ndim(arrays.get("attn_mask")) - 2), "context")}
    specs |= {"key_padding_mask": part}
    over_parts = jax.shard_map(
        functools.partial(run, split),
        mesh=parallel.make_mesh({"context": 4}),
        in_specs=(PartitionSpec(), part, {name: specs[name] for name in arrays}),
        out_specs=part,
        check_vma=False,
    )
    near(over_parts(params, x, arrays), run(whole, params, x, arrays))


@pytest.mark.parametrize(
    ("constructor", "call", "message"),
    [
        ({"axis_name": "context"}, {}, r"give no attention weights, .* expected need_weights=False, got .*'context'"),
        ({"block_size": 2}, {}, r"give no attention weights, .* got need_weights=True .* block_size=2"),
        ({"axis_name": "context"}, {"need_weights": False}, r"axis_name='context' is not bound"),
        (
            {"axis_name": "context", "add_zero_attn": True},
            {"need_weights": False},
            r"keys cannot be appended to a part",
        ),
        ({"axis_name": "context", "add_bias_kv": True}, {"need_weights": False}, r"keys cannot be appended to"),
    ],
)
def test_refusals(constructor, call, message):
    layer, x = nn.MultiheadAttention(WIDTH, HEADS, **constructor), sequences(LENGTH, BATCH, WIDTH)
    params, state = layer.init(jax.random.key(0))
    with pytest.raises(ValueError, match=f"F.multi_head_attention_forward: .*{message}"):
        layer.apply(params, state, x, x, x, **call)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context_parallel": "rings"}, r"context_parallel is unknown; expected 'ring' or 'gather', got 'rings'"),
        ({"block_size": 0}, r"block_size is invalid; expected a positive int or None, got 0"),
    ],
)
def test_the_constructor_refuses(options, message):
    with pytest.raises(ValueError, match=f"MultiheadAttention: {message}"):
        nn.MultiheadAttention(WIDTH, HEADS, **options)


# --------------------------------------------------------------------------------------------------- a language model


class LanguageModel(nn.Module):
    def __init__(self, words=11, width=16, batch_first=True, dropout=0.1):
        super().__init__()
        self.embedding, self.position = nn.Embedding(words, width), nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=dropout, batch_first=batch_first)
        self.encoder, self.batch_first = nn.TransformerEncoder(layer, 2), batch_first
        self.head = nn.Linear(width, words)

    def forward(self, ids, is_causal=False, padding=None):
        x = self.embedding(ids) + self.position(jnp.arange(ids.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        x = x if self.batch_first else x.swapaxes(0, 1)
        x = self.encoder(x, mask=mask, src_key_padding_mask=padding, is_causal=is_causal)
        return self.head(x if self.batch_first else x.swapaxes(0, 1))


IDS = DRAW.integers(1, 11, (40, LENGTH + 1)).astype(np.int32)


def in_pairs(model, batch):
    return model(batch["ids"]), batch["targets"]


def causal(model, batch):
    return model(batch["ids"], is_causal=True), batch["targets"]


def shifted(model, batch):
    """The batch has rows of LENGTH + 1 words, so it is sharded by rows only."""
    return model(batch["ids"][:, :-1], is_causal=True), batch["ids"][:, 1:]


def padded(model, batch):
    return model(batch["ids"], is_causal=True, padding=batch["ids"] == 3), batch["targets"]


PAIRS = {"ids": IDS[:, :-1], "targets": IDS[:, 1:]}
CASES = [
    pytest.param(PAIRS, in_pairs, {}, id="a mask", marks=pytest.mark.slow),
    pytest.param(PAIRS, causal, {"dropout": 0.0}, id="causal", marks=pytest.mark.slow),
    pytest.param(PAIRS, padded, {"batch_first": False}, id="padded, sequence first"),
    pytest.param({"ids": IDS}, shifted, {}, id="shifted", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.every_row
@pytest.mark.parametrize(("data", "call", "options"), CASES)
def test_a_language_model_trains_by_the_mesh_alone(data, call, options, tmp_path):
    def loss(model, batch):
        logits, targets = call(model, batch)
        return F.cross_entropy(logits.swapaxes(1, 2), targets, reduction="none")

    found = {}
    for mesh in ("data=1", MESH):
        arguments = {"out": tmp_path / mesh, "steps": 5, "batch_size": 8, "log_every": 1, "mesh": mesh}
        rows = train.fit(
            LanguageModel(**options), loss, data, optim.bert_adamw(1e-2, no_decay="**.bias"), **arguments
        ).rows
        found[mesh] = [row["loss"] for row in rows if "loss" in row]
    assert len(found[MESH]) == 5
    np.testing.assert_allclose(found[MESH], found["data=1"], rtol=0, atol=1e-5)
