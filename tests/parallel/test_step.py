"""Values of the first device on all devices. tests/parallel/test_layout.py tests the rest of the module."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import parallel
from funcnet.parallel import average_over, first_over

TYPES = ["float32", "bfloat16", "float16", "complex64", "int32", "int8", "uint8", "uint32", "bool"]


def values(dtype):
    """(8 devices, 3), different on every device."""
    numbers = np.random.default_rng(0).integers(1, 100, (8, 3))
    return jnp.asarray(numbers % 2 == 1 if dtype == "bool" else numbers, dtype)


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
@pytest.mark.parametrize("dtype", TYPES)
def test_all_devices_get_the_values_of_the_first(kind, dtype):
    layout, rows = parallel.make_layout(kind=kind), values(dtype)

    def step(state, batch, key, *, axis_name):
        return first_over({"row": batch["x"][0], "empty": batch["x"][:0]}, axis_name)

    out = parallel.parallelize(step, layout)((), layout.shard({"x": np.asarray(rows)}), None)
    assert out["row"].dtype == rows.dtype and out["empty"].shape == (0, 3)
    parallel.check_replicated(out)
    np.testing.assert_array_equal(out["row"], rows[0])


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("agree", [first_over, average_over])
def test_all_devices_get_the_random_keys_of_the_first(kind, impl, agree):
    layout, key = parallel.make_layout(kind=kind), jax.random.key(3, impl=impl)

    def step(state, batch, key, *, axis_name):
        own = jax.random.fold_in(key, jax.lax.axis_index(axis_name))
        return {"agreed": agree({"keys": jax.random.split(own, 2)}, axis_name), "own": own}

    out = parallel.parallelize(step, layout)((), layout.shard({"x": np.zeros(8)}), layout.place(key))
    assert (layout.gather(out["agreed"])["keys"] == jax.random.split(jax.random.fold_in(key, 0), 2)).all()
    parallel.check_replicated(out["agreed"])
    with pytest.raises(ValueError, match="the replicas of own differ"):
        parallel.check_replicated(out)


@pytest.mark.parametrize("first", [1.5, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("other", [np.nan, np.inf])
def test_values_of_other_devices_do_not_matter(first, other):
    rows = np.full(8, other, np.float32)
    rows[0] = first
    np.testing.assert_array_equal(jax.pmap(lambda x: first_over(x, "data"), "data")(rows), np.full(8, first))


def test_the_first_device_of_two_axes_is_that_of_the_first_rows():
    rows = np.arange(8.0, dtype=np.float32).reshape(2, 4)
    both = jax.vmap(jax.vmap(lambda x: first_over(x + 3, ("outer", "inner")), axis_name="inner"), axis_name="outer")
    np.testing.assert_array_equal(both(rows), np.full((2, 4), 3))
    inner = jax.vmap(jax.vmap(lambda x: first_over(x, "inner"), axis_name="inner"), axis_name="outer")
    np.testing.assert_array_equal(inner(rows), rows[:, :1].repeat(4, 1))


def test_under_jit_the_tree_is_returned_unchanged():
    tree = {"x": jnp.ones(3)}
    assert first_over(tree, None) is tree
