"""Windows against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

OPTIONS = {
    "exponential": [{}, {"tau": 2.5}],
    "gaussian": [{}, {"std": 0.5}],
    "general_cosine": [{"a": [0.4, 0.3, 0.2, 0.1]}],
    "general_hamming": [{}, {"alpha": 0.3}],
    "kaiser": [{}, {"beta": 0.0}, {"beta": 3.0}],
}


@pytest.mark.parametrize("name", tl.windows.__all__)
def test_window(name):
    with jax.enable_x64(True):
        for options in OPTIONS.get(name, [{}]):
            for size in (0, 1, 2, 7, 8):
                for sym in (True, False):
                    ours = getattr(tl.windows, name)(size, sym=sym, **options)
                    theirs = getattr(torch.signal.windows, name)(size, sym=sym, dtype=torch.float64, **options)
                    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14, err_msg=f"{options} {size} {sym}")


def test_center_and_dtype():
    theirs = torch.signal.windows.exponential(6, center=1.0, tau=2.0, sym=False)
    np.testing.assert_allclose(tl.windows.exponential(6, center=1.0, tau=2.0, sym=False), theirs, rtol=1e-6)
    assert tl.windows.hann(4, dtype=jnp.bfloat16).dtype == jnp.bfloat16
    assert tl.windows.hann(4).dtype == jnp.float32


@pytest.mark.parametrize(
    ("name", "options"),
    [("hann", {"M": -1}), ("kaiser", {"M": 3, "beta": -1.0}), ("gaussian", {"M": 3, "std": 0.0}),
     ("exponential", {"M": 3, "center": 1.0})],
)  # fmt: skip
def test_errors(name, options):
    with pytest.raises(ValueError, match=f"tl.windows.{name}"):
        getattr(tl.windows, name)(**options)
    with pytest.raises((ValueError, RuntimeError)):
        getattr(torch.signal.windows, name)(**options)
