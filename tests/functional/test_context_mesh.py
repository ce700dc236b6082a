"""Attention on a mesh with an axis `context`: torch's numbers, without an argument that names the axis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from funcnet import functional as F
from funcnet import parallel
from funcnet.functional.context_mesh import context_parts, context_size
from tests.functional.test_context_parallel import KINDS, agrees, inputs

LAYOUT = parallel.make_layout("data=2,context=4")
LENGTH = 24


def on_mesh(function):
    """The function, compiled for the mesh."""
    return parallel.compile_whole(function, LAYOUT)


def text(function, *arrays):
    """The program of a function on the mesh, before the compiler divides it."""
    return str(on_mesh(function).trace(*arrays).jaxpr)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["ring", "gather"])
def test_values_and_gradients_are_those_of_torch(kind, how):
    arrays, mask, segments = inputs(LENGTH, kind)
    attend = lambda *qkv, **given: on_mesh(
        lambda *qkv: F.scaled_dot_product_attention(*qkv, **given, context_parallel=how)
    )(*qkv)
    agrees(attend, arrays, kind, mask, segments)


@pytest.mark.slow
@pytest.mark.parametrize("is_causal", [False, True])
def test_dropout_is_that_of_one_device(is_causal):
    (query, key, value, _), _, _ = inputs(LENGTH, "none")
    attend = lambda *qkv: F.scaled_dot_product_attention(*qkv, None, 0.3, is_causal, rng=jax.random.key(1))
    np.testing.assert_allclose(on_mesh(attend)(query, key, value), attend(query, key, value), atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (4, 1), (1, 4), (4, 4)])
def test_one_query_and_key_per_device(shape):
    arrays, _, _ = inputs(4, "none")
    mask = np.arange(np.prod(shape)).reshape(shape).astype(np.float32) / 8
    attend = lambda *qkv: F.scaled_dot_product_attention(*qkv, mask)
    np.testing.assert_allclose(on_mesh(attend)(*arrays[:3]), attend(*arrays[:3]), atol=1e-6)


def test_only_the_parts_of_a_device_are_in_its_program():
    arrays, _, _ = inputs(LENGTH, "none")
    attend = lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True)
    assert "ppermute" in text(attend, *arrays[:3])
    assert f"{LENGTH},{LENGTH}]" not in text(attend, *arrays[:3])  # neither all scores nor the causal mask


def test_lengths_that_the_axis_does_not_divide_are_left_to_the_compiler():
    query, key, value = (np.random.default_rng(0).normal(size=(2, n, 8)).astype(np.float32) for n in (8, 10, 10))
    attend = lambda *qkv: F.scaled_dot_product_attention(*qkv)
    assert "shard_map" not in text(attend, query, key, value)
    np.testing.assert_allclose(on_mesh(attend)(query, key, value), attend(query, key, value), atol=1e-6)
    assert attend(query[:, :0], key, value).shape == on_mesh(attend)(query[:, :0], key, value).shape


def test_a_length_that_the_axis_does_not_divide_is_named():
    x = np.ones((2, 10, 8), np.float32)
    message = (
        r"F.scaled_dot_product_attention: the mesh axis context=4 does not divide the length .* got 10. Use .* 8 or"
    )
    with pytest.raises(ValueError, match=message):
        on_mesh(lambda x: F.scaled_dot_product_attention(x, x, x))(x)


def test_a_mask_of_a_wrong_shape_is_named():
    x = np.ones((2, 8, 8), np.float32)
    with pytest.raises(ValueError, match=r"attn_mask has the wrong shape; .* broadcasts to \(2, 8, 8\), got \(4, 8\)"):
        on_mesh(lambda x: F.scaled_dot_product_attention(x, x, x, np.ones((4, 8), bool)))(x)
    with pytest.raises(ValueError, match=r"attn_mask has the wrong shape; .* got \(8,\)"):
        on_mesh(lambda x: F.scaled_dot_product_attention(x, x, x, np.ones(8, bool), block_size=2))(x)


def test_a_part_of_a_sequence_is_not_split_again():
    x = np.random.default_rng(0).normal(size=(2, 16, 8)).astype(np.float32)
    part = PartitionSpec(None, "context")
    sizes = []

    def local(x):
        sizes.append((context_size(), context_parts("here", 3, 3)))
        return F.scaled_dot_product_attention(x, x, x)

    run = lambda x: jax.shard_map(local, in_specs=part, out_specs=part, axis_names={"context"})(x)
    found = on_mesh(run)(x)
    assert set(sizes) == {(1, 1)}
    for i in range(4):
        own = x[:, 4 * i : 4 * i + 4]
        np.testing.assert_allclose(found[:, 4 * i : 4 * i + 4], local(jnp.asarray(own)), atol=1e-6)
