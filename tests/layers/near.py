"""How near ours must be to torch's in the tests of layers."""

import jax.numpy as jnp
import numpy as np


def near(ours, theirs, tolerance, what):
    """`ours` lies within tolerance · (the largest entry of `theirs`) of it, everywhere. Gives that difference."""
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape, what
    largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
    np.testing.assert_allclose(np.asarray(ours, theirs.dtype), theirs, rtol=0, atol=tolerance * largest, err_msg=what)
    apart = np.abs(np.asarray(ours, theirs.dtype) - theirs)
    return float(apart[np.isfinite(apart)].max(initial=0) / largest) if largest else 0.0


def is_float(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)
