"""Keys from names and dropout masks: the same in every process, and random enough."""

import jax
import numpy as np

from funcnet import random


def test_the_key_of_a_name_is_fixed():
    key = jax.random.key(0)
    data = jax.random.key_data(random.key_for_name(key, "encoder.0.weight"))
    np.testing.assert_array_equal(data, jax.random.key_data(jax.random.fold_in(key, 3351865100)))


def test_names_get_different_keys():
    key = jax.random.key(0)
    names = [f"layer.{i}.{leaf}" for i in range(50) for leaf in ("weight", "bias")]
    words = {tuple(np.asarray(jax.random.key_data(random.key_for_name(key, name)))) for name in names}
    assert len(words) == len(names)


def test_a_mask_keeps_its_share():
    mask = random.dropout_mask(jax.random.key(1), (512, 513), 0.1)
    assert mask.dtype == bool and abs(float(mask.mean()) - 0.9) < 5 * (0.09 / mask.size) ** 0.5
