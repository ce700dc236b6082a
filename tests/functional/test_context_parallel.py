"""Attention in blocks and over devices, against torch in float64 on one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.sharding import Mesh, PartitionSpec

from funcnet import functional as F
from funcnet import random

BATCH, HEADS, WIDTH = 2, 2, 16
KINDS = ["none", "keys", "segments", "causal", "scores"]


def inputs(length, kind, seed=0):
    """(query, key, value, cotangent), and the mask as torch takes it: booleans, True to attend, or None."""
    draw = np.random.default_rng(seed)
    arrays = [draw.standard_normal((BATCH, HEADS, length, WIDTH)).astype(np.float32) for _ in range(4)]
    segments = np.sort(draw.integers(0, 5, (BATCH, length)), axis=1).astype(np.int32)
    shown = np.arange(length) < draw.integers(length // 2, length, (BATCH, 1))
    scores = draw.standard_normal((BATCH, 1, length, length)).astype(np.float32)
    mask = {
        "none": None,
        "keys": shown[:, None, None, :],
        "segments": (segments[:, None, :, None] == segments[:, None, None, :]),
        "causal": np.tril(np.ones((length, length), bool)),
        "scores": scores,
    }[kind]
    return arrays, mask, segments


def expected(arrays, mask):
    """torch's output and gradients in float64; the gradient of a floating mask comes last."""
    *leaves, cotangent = (torch.tensor(array, dtype=torch.float64) for array in arrays)
    bias = None
    if mask is not None:
        bias = torch.tensor(mask) if mask.dtype == bool else torch.tensor(mask, dtype=torch.float64)
        if mask.dtype != bool:
            leaves.append(bias)
    for leaf in leaves:
        leaf.requires_grad_()
    out = torch.nn.functional.scaled_dot_product_attention(*leaves[:3], attn_mask=bias)
    return out.detach().numpy(), [grad.numpy() for grad in torch.autograd.grad(out, leaves, cotangent)]


def options(kind, mask, segments):
    if kind == "causal":
        return {"is_causal": True}
    if kind == "segments":
        return {"segment_ids": segments}
    return {} if mask is None else {"attn_mask": mask}


def near(ours, theirs, tolerance, what):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max(initial=0), err_msg=what)


def agrees(attend, arrays, kind, mask, segments):
    """The value within 1e-5 and the gradients within 1e-4 of torch's, relative to the largest entry."""
    given = options(kind, mask, segments)
    learned = [*arrays[:3], *([given.pop("attn_mask")] if kind == "scores" else [])]

    def run(*learned):
        own = {"attn_mask": learned[3]} if kind == "scores" else {}
        return attend(*learned[:3], **given, **own)

    out, pull = jax.vjp(jax.jit(run), *learned)
    value, gradients = expected(arrays, mask)
    near(out, value, 1e-5, "output")
    for ours, theirs in zip(pull(jnp.asarray(arrays[3])), gradients, strict=True):
        near(ours, theirs, 1e-4, "gradient")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "block"), [(64, 16), (61, 16), (50, 64)])
def test_blocks_on_one_device(length, block, kind):
    arrays, mask, segments = inputs(length, kind)
    agrees(
        lambda *qkv, **given: F.scaled_dot_product_attention(*qkv, **given, block_size=block),
        arrays,
        kind,
        mask,
        segments,
    )


def over_devices(count, how, block=None, **more):
    """The attention of sequences that are split over devices."""
    mesh = Mesh(np.array(jax.devices()[:count]), ("context",))
    part, whole = PartitionSpec(None, None, "context"), PartitionSpec()

    def attend(query, key, value, attn_mask=None, segment_ids=None, is_causal=False):
        def local(query, key, value, attn_mask, segment_ids):
            return F.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask,
                is_causal=is_causal,
                segment_ids=segment_ids,
                axis_name="context",
                context_parallel=how,
                block_size=block,
                **more,
            )

        keys_only = attn_mask is not None and attn_mask.shape[-2] == 1
        of_mask = PartitionSpec(None, None, None, "context") if keys_only else part
        specs = (part, part, part, whole if attn_mask is None else of_mask, PartitionSpec(None, "context"))
        split = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=part, check_vma=False)
        return split(query, key, value, attn_mask, segment_ids)

    return attend


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["ring", "gather"])
@pytest.mark.parametrize(("count", "block"), [(4, None), (8, 3)])
def test_over_devices(count, block, how, kind):
    arrays, mask, segments = inputs(96, kind)
    agrees(over_devices(count, how, block), arrays, kind, mask, segments)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["keys", "segments", "causal"])
@pytest.mark.parametrize("how", ["ring", "gather"])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_a_sequence_of_4096(count, how, kind):
    arrays, mask, segments = inputs(4096, kind)
    agrees(over_devices(count, how, 512), arrays, kind, mask, segments)


def temporary_bytes(count, how, length=4096, is_causal=False):
    """The memory for temporary values of a device: of the compiled program with its gradients."""
    attend = over_devices(count, how)
    draw = jax.ShapeDtypeStruct((1, HEADS, length, WIDTH), jnp.float32)
    loss = lambda *qkv: attend(*qkv, is_causal=is_causal).sum()
    return jax.jit(jax.grad(loss, (0, 1, 2))).lower(draw, draw, draw).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_memory_of_a_device_falls_with_the_degree_of_the_ring(is_causal):
    sizes = {count: temporary_bytes(count, "ring", is_causal=is_causal) for count in (2, 4, 8)}
    assert sizes[4] <= 0.5 * sizes[2] and sizes[8] <= 0.5 * sizes[4], sizes


def test_blocks_need_less_memory_than_all_scores():
    draw = jax.ShapeDtypeStruct((1, HEADS, 2048, WIDTH), jnp.float32)

    def size(**how):
        loss = lambda *qkv: F.scaled_dot_product_attention(*qkv, **how).sum()
        return jax.jit(jax.grad(loss, (0, 1, 2))).lower(draw, draw, draw).compile().memory_analysis().temp_size_in_bytes

    assert size(block_size=128) < size() / 10


@pytest.mark.slow
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("how", ["blocks", "ring", "gather"])
def test_dropout_is_that_of_all_scores(how, is_causal):
    """The same entries are dropped, whatever the number of devices or blocks."""
    (query, key, value, _), _, _ = inputs(96, "none")
    rng = jax.random.key(3)
    plain = F.scaled_dot_product_attention(query, key, value, None, 0.3, is_causal, rng=rng)
    if how == "blocks":
        ours = F.scaled_dot_product_attention(query, key, value, None, 0.3, is_causal, rng=rng, block_size=20)
    else:
        ours = over_devices(8, how, 4, dropout_p=0.3, rng=rng)(query, key, value, is_causal=is_causal)
    near(ours, plain, 1e-5, "output")
    assert np.abs(plain - F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)).max() > 0.1


@pytest.mark.slow
def test_the_gradient_with_dropout_is_that_of_all_scores():
    (query, key, value, change), _, _ = inputs(96, "none")
    loss = lambda attend: lambda *qkv: (attend(*qkv) * change).sum()
    rng = jax.random.key(3)
    plain = lambda *qkv: F.scaled_dot_product_attention(*qkv, None, 0.3, rng=rng)
    theirs = jax.grad(loss(plain), (0, 1, 2))(query, key, value)
    ours = jax.grad(loss(over_devices(4, "ring", dropout_p=0.3, rng=rng)), (0, 1, 2))(query, key, value)
    for one, other in zip(ours, theirs, strict=True):
        near(one, other, 1e-5, "gradient")


def test_a_part_of_a_dropout_mask_is_that_of_the_whole():
    key, shape = jax.random.key(1), (3, 40, 50)
    whole = random.dropout_mask(key, shape, 0.4)
    rows, columns = jnp.array([7, 3, 39]), jnp.arange(20, 30)
    part = random.dropout_mask(key, shape, 0.4, part=(None, rows, columns))
    np.testing.assert_array_equal(part, whole[:, rows][:, :, columns])


def test_a_query_without_keys_gets_zero_and_no_gradient():
    (query, key, value, _), _, _ = inputs(32, "none")
    mask = np.zeros((1, 1, 1, 32), bool)
    run = lambda *qkv: F.scaled_dot_product_attention(*qkv, mask, block_size=8)
    assert not np.any(run(query, key, value))
    for gradient in jax.grad(lambda *qkv: run(*qkv).sum(), (0, 1, 2))(query, key, value):
        assert not np.any(gradient)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(0, 2, 4, 4), (2, 0, 4, 4), (2, 2, 0, 4), (2, 2, 4, 0)], ids=str)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("is_split", [False, True])
def test_empty_arrays_give_what_torch_gives(shape, is_causal, is_split):
    draw = np.random.default_rng(0)
    query, key, value = (draw.normal(size=(*shape[:-1], w)).astype(np.float32) for w in (shape[-1], shape[-1], 5))
    run = lambda *qkv: F.scaled_dot_product_attention(
        *qkv, is_causal=is_causal, block_size=1, axis_name="context" if is_split else None
    )
    if is_split:
        spec = PartitionSpec(None, None, "context")
        mesh = Mesh(np.array(jax.devices()[:4]), ("context",))
        run = jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec)
    expected = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.tensor, (query, key, value)), is_causal=is_causal
    )
    ours = run(query, key, value)
    assert ours.shape == expected.shape
    if expected.numel():  # JAX cannot read an empty array from several devices
        near(ours, expected.numpy(), 1e-6, "output")
    gradients = jax.grad(lambda *qkv: run(*qkv).sum(), (0, 1, 2))(query, key, value)
    assert [one.shape for one in gradients] == [query.shape, key.shape, value.shape]


def test_queries_without_keys_get_zeros():
    none = jnp.zeros((2, 3, 0, 4))
    assert not F.scaled_dot_product_attention(jnp.ones((2, 3, 5, 4)), none, none, block_size=2).any()


@pytest.mark.slow
def test_with_checked_variance_too():
    """`jax.shard_map` checks by default over which axes values vary."""
    (query, key, value, _), _, _ = inputs(32, "none")
    mesh = Mesh(np.array(jax.devices()[:4]), ("context",))
    spec = PartitionSpec(None, None, "context")
    local = lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True, axis_name="context", block_size=4)
    run = jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=spec)
    plain = lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True)
    gradient = lambda attend: jax.grad(lambda *qkv: (attend(*qkv) ** 2).sum(), (0, 1, 2))(query, key, value)
    ours, theirs = gradient(run), gradient(plain)
    for one, other in zip(ours, theirs, strict=True):
        near(one, other, 1e-5, "gradient")


def test_in_half_precision_the_sums_are_float32():
    arrays, _, _ = inputs(64, "none")
    half = [jnp.asarray(array, jnp.bfloat16) for array in arrays[:3]]
    plain = F.scaled_dot_product_attention(*half)
    ours = F.scaled_dot_product_attention(*half, block_size=16)
    assert ours.dtype == jnp.bfloat16
    near(ours.astype(np.float32), plain.astype(np.float32), 2**-7, "output")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"axis_name": "context"}, r"axis_name='context' is not bound; expected the name of an axis of a surrounding"),
        ({"axis_name": "x", "context_parallel": "tree"}, r"context_parallel is unknown; expected 'ring' or 'gather'"),
        ({"block_size": 0}, r"block_size is invalid; expected a positive int or None, got 0"),
        ({"segment_ids": np.zeros((3, 8), int)}, r"segment_ids do not fit the queries; expected integers of shape"),
        ({"segment_ids": np.zeros((2, 8))}, r"segment_ids do not fit the queries"),
        ({"block_size": 4, "attn_mask": np.ones((1, 1, 3, 8), bool)}, r"attn_mask does not fit the parts"),
        ({"block_size": 4, "attn_mask": np.ones(8, bool)}, r"attn_mask does not fit the parts"),
        ({"block_size": 4, "attn_mask": np.ones((3, 2, 8, 8), bool)}, r"attn_mask does not fit the parts"),
        ({"block_size": 4, "attn_mask": np.ones((1, 2, 2, 8, 8), bool)}, r"attn_mask does not fit the parts"),
        ({"block_size": 4, "dropout_p": 1.5}, r"dropout_p is not a probability"),
        ({"dropout_p": 1.5}, r"F.scaled_dot_product_attention: dropout_p is not a probability"),
        ({"context_parallel": "tree"}, r"context_parallel is unknown; expected 'ring' or 'gather'"),
        ({"block_size": 4, "dropout_p": 0.5}, r"rng"),
    ],
)
def test_wrong_arguments(given, message):
    query = np.ones((2, 2, 8, 4), np.float32)
    with pytest.raises(ValueError, match=message):
        F.scaled_dot_product_attention(query, query, query, **given)


@pytest.mark.parametrize("how", [{}, {"block_size": 4}])
@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64"])
def test_masks_of_the_wrong_dtype(dtype, how):
    query = np.ones((2, 2, 8, 4), np.float32)
    mask = np.ones((8, 8), dtype)
    with pytest.raises(RuntimeError):
        torch.nn.functional.scaled_dot_product_attention(*[torch.tensor(query)] * 3, torch.tensor(mask))
    with pytest.raises(TypeError, match=r"F.scaled_dot_product_attention: .*attn_mask"):
        F.scaled_dot_product_attention(query, query, query, mask, **how)
