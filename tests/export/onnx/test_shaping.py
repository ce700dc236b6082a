"""Rules for moving entries, at fixed and symbolic sizes."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees

X = np.arange(24, dtype=np.float32).reshape(4, 6)
LONGER = np.arange(42, dtype=np.float32).reshape(7, 6)

PROGRAMS = {
    "reshape": lambda x: x.reshape(x.shape[0], 2, 3),
    "flatten": lambda x: x.reshape(-1),
    "transpose": lambda x: x.T,
    "broadcast": lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 2, 6)),
    "squeeze": lambda x: jnp.squeeze(x[:, None], 1),
    "concatenate": lambda x: jnp.concatenate([x, x * 2], 1),
    "stack": lambda x: jnp.stack([x, x * 2], 1),
    "split": lambda x: jnp.split(x, 3, 1),
    "slice": lambda x: x[:, 1:5:2],
    "reversed": lambda x: x[::-1, ::-1],
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 2)), constant_values=3.0),
    "negative pad": lambda x: lax.pad(x, 1.0, [(1, 0, 0), (-1, -2, 0)]),
    "interior pad": lambda x: lax.pad(x, -1.0, [(0, 0, 0), (1, 0, 2)]),
    "pad of booleans": lambda x: jnp.pad(x > 3, ((0, 0), (1, 2))),
    "tile": lambda x: jnp.tile(x, (1, 3)),
    "repeat": lambda x: jnp.repeat(x, 2, 1),
    "positions": lambda x: x + jnp.arange(x.shape[0], dtype=jnp.float32)[:, None],
    "count": lambda x: x.sum() / x.shape[0],
    "zeros": lambda x: jnp.concatenate([jnp.zeros_like(x), x], 1),
    "empty": lambda x: jnp.concatenate([x[:, :0], x], 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_fixed_sizes(name):
    agrees(PROGRAMS[name], X)


@pytest.mark.parametrize("name", PROGRAMS)
def test_symbolic_sizes(name):
    agrees(PROGRAMS[name], X, dynamic="n, _", others=[LONGER])


def test_empty_arrays():
    agrees(lambda x: (jnp.broadcast_to(x[:1, :1], (1, 0)), x), X)
