"""`tl.to` against `Tensor.to`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

X = [0.5, -1.5, 3.0]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (jnp.int32, torch.int32), (jnp.float16, torch.float16), (bool, torch.bool), (np.dtype("int8"), torch.int8),
        ("cpu", "cpu"),
        (None, None), (jnp.ones(2, jnp.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
        (jax.devices()[0], torch.device("cpu")),
    ],
)  # fmt: skip
def test_targets(ours, theirs):
    got = tl.to(jnp.array(X), ours)
    want = torch.tensor(X) if theirs is None else torch.tensor(X).to(theirs)
    assert got.dtype == str(want.dtype).removeprefix("torch.")
    np.testing.assert_array_equal(got.astype(jnp.float32), want.float())


@pytest.mark.parametrize("name", ["float32", "half", "bfloat16", "torch.int64"])
def test_names_of_dtypes_are_refused(name):
    with pytest.raises(RuntimeError):
        torch.tensor(X).to(name)
    with pytest.raises(TypeError, match=f"tl.to: target is the name of a dtype; .* got '{name}'. Write jnp.dtype"):
        tl.to(jnp.array(X), name)


def test_names_and_numbers_of_devices():
    for device in ("cpu", "cuda", "cuda:0", "mps", "meta", "xpu:1", "gpu", "tpu", 0):
        assert tl.to(jnp.array(X), device).dtype == jnp.float32
