"""Keys from names and dropout masks: the same in every process and on any number of devices, and random enough."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from funcnet import random

RATE = 0.1


def bits(key, n):
    return np.asarray(jax.jit(random.dropout_mask, static_argnums=(1, 2))(key, (n,), RATE), np.float64)


def z_score_of_correlation(a, b):
    """How many standard deviations the correlation of two samples lies from zero."""
    return abs(np.corrcoef(a, b)[0, 1]) * len(a) ** 0.5


def test_the_key_of_a_name_is_fixed():
    data = jax.random.key_data(random.key_for_name(jax.random.key(0), "encoder.0.weight"))
    np.testing.assert_array_equal(data, jax.random.key_data(jax.random.fold_in(jax.random.key(0), 3351865100)))


def test_names_get_different_keys():
    names = [f"layer.{i}.{leaf}" for i in range(50) for leaf in ("weight", "bias")]
    words = {tuple(np.asarray(jax.random.key_data(random.key_for_name(jax.random.key(0), name)))) for name in names}
    assert len(words) == len(names)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_a_mask_keeps_its_share(rate):
    masks = jax.vmap(lambda key: random.dropout_mask(key, (4, 251, 509), rate))(jax.random.split(jax.random.key(1), 8))
    deviation = (rate * (1 - rate) / masks.size) ** 0.5
    assert masks.dtype == bool
    assert abs(float(np.asarray(masks).mean(dtype=np.float64)) - (1 - rate)) < 4.5 * deviation
    for axis in (0, 1, 2, 3):  # no slice along any dimension is thinner than chance allows
        other = tuple(i for i in range(4) if i != axis)
        means = np.asarray(masks).mean(other, dtype=np.float64)
        assert np.abs(means - (1 - rate)).max() < 5 * deviation * masks.shape[axis] ** 0.5


@pytest.mark.slow
def test_neighbouring_positions_are_independent():
    mask = bits(jax.random.key(3), 1 << 21)
    for lag in (*range(1, 40), 64, 128, 255, 256, 512, 1024, 4096, 65536):
        assert z_score_of_correlation(mask[:-lag], mask[lag:]) < 4.5, lag
    pairs = np.bincount((mask[:-2] * 4 + mask[1:-1] * 2 + mask[2:]).astype(int), minlength=8) / (len(mask) - 2)
    want = [RATE ** (3 - bin(i).count("1")) * (1 - RATE) ** bin(i).count("1") for i in range(8)]
    np.testing.assert_allclose(pairs, want, atol=5 * 0.5 / len(mask) ** 0.5)


def test_neighbouring_keys_are_independent():
    n = 1 << 18
    for make in (jax.random.key, lambda i: jax.random.fold_in(jax.random.key(7), i)):
        masks = [bits(make(i), n) for i in range(12)]
        for i in range(12):
            for j in range(i):
                assert z_score_of_correlation(masks[i], masks[j]) < 4.5
    word = jax.random.key_data(jax.random.key(5))
    flipped = [jax.random.wrap_key_data(word ^ jnp.uint32([0, 1 << bit])) for bit in range(0, 32, 5)]
    flipped += [jax.random.wrap_key_data(word ^ jnp.uint32([1 << bit, 0])) for bit in range(0, 32, 5)]
    for key in flipped:
        assert z_score_of_correlation(bits(jax.random.key(5), n), bits(key, n)) < 4.5


def test_runs_of_drops_have_a_geometric_length():
    gaps = np.diff(np.flatnonzero(bits(jax.random.key(11), 1 << 20) == 0))
    want = len(gaps) * RATE * (1 - RATE) ** np.arange(40)
    chi2 = ((np.bincount(gaps, minlength=41)[1:41] - want) ** 2 / want).sum()
    assert chi2 < 40 + 5 * 80**0.5


def test_a_flat_mask_and_a_shaped_one_agree():
    key = jax.random.key(2)
    flat = random.dropout_mask(key, (2 * 3 * 5 * 7,), 0.3)
    np.testing.assert_array_equal(random.dropout_mask(key, (2, 3, 5, 7), 0.3).ravel(), flat)
    assert random.dropout_mask(key, (), 0.3).shape == ()
    assert random.dropout_mask(key, (0, 4), 0.3).shape == (0, 4)


def test_beyond_32_bits_of_positions_nothing_repeats():
    """(4, 2**31) entries are too many to make: compare the rows' beginnings, a slice that XLA pushes inwards."""
    first = jax.jit(lambda key: random._hash(random._two_words(key), (4, 1 << 31))[:, :4096])(jax.random.key(0))
    rows = np.asarray(first >= np.uint32(1 << 31), np.float64)
    assert max(z_score_of_correlation(rows[i], rows[j]) for i in range(4) for j in range(i)) < 4.5


def test_sharding_changes_no_bit_and_sends_nothing():
    mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    key = jax.random.key(4)
    alone = np.asarray(random.dropout_mask(key, (8, 6, 10), RATE))
    for spec in (PartitionSpec("a"), PartitionSpec(None, "b"), PartitionSpec(("a", "b"), None, None)):
        out = NamedSharding(mesh, spec)
        draw = jax.jit(lambda key: random.dropout_mask(key, (8, 6, 10), RATE), out_shardings=out).lower(key).compile()
        np.testing.assert_array_equal(draw(key), alone)
        assert not any(word in draw.as_text() for word in ("all-gather", "all-reduce", "collective-permute"))


def test_vmap_jit_grad_and_jvp():
    keys = jax.random.split(jax.random.key(6), 3)
    one_by_one = [random.dropout_mask(key, (4, 5), RATE) for key in keys]
    together = jax.jit(jax.vmap(lambda key: random.dropout_mask(key, (4, 5), RATE)))(keys)
    np.testing.assert_array_equal(together, np.stack(one_by_one))

    def drop(x):
        return jnp.where(random.dropout_mask(keys[0], x.shape, 0.5), x * 2.0, 0.0)

    x = jnp.ones((4, 5))
    np.testing.assert_array_equal(jax.grad(lambda x: drop(x).sum())(x), drop(x))
    np.testing.assert_array_equal(jax.jvp(drop, (x,), (x,))[1], drop(x))


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_every_kind_of_key_is_taken(implementation):
    masks = [random.dropout_mask(jax.random.key(i, impl=implementation), (1 << 16,), RATE) for i in (0, 1)]
    assert abs(float(masks[0].mean()) - 0.9) < 0.005
    assert z_score_of_correlation(*(np.asarray(mask, np.float64) for mask in masks)) < 4.5


def test_the_ends_of_the_range():
    key = jax.random.key(0)
    assert random.dropout_mask(key, (1000,), 0.0).all()
    assert not random.dropout_mask(key, (1000,), 1.0).any()
    assert random.dropout_mask(key, (1000,), 1e-12).all()


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"0 <= rate <= 1, got 1\.5"):
        random.dropout_mask(jax.random.key(0), (2,), 1.5)
    with pytest.raises(TypeError, match=r"expected one typed key, got .*uint32.*jax\.random\.key\(seed\)"):
        random.dropout_mask(jax.random.PRNGKey(0), (2,), 0.5)
    with pytest.raises(TypeError, match=r"shape \(3,\)"):
        random.dropout_mask(jax.random.split(jax.random.key(0), 3), (2,), 0.5)
