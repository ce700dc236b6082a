"""The ends of float32's range, and NaN: values and gradients are torch's where a formula would lose them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F

CASES = {
    "a norm whose square overflows": ("cosine_similarity", ([[1e20, 1.0]], [[1.0, 2.0]]), {}),
    "a square that overflows, of a mean that does not": ("mse_loss", ([2e38] * 4, [0.0] * 4), {}),
    "a variance that overflows": ("batch_norm", ([[1e30], [1.0], [2.0], [3.0]], None, None), {"training": True}),
    "a NaN beneath a slope": ("prelu", ([1e30, np.nan, -1.0, np.inf], [0.25]), {}),
    "a row's entries counted": (
        "embedding",
        ([0, 1], [[1.0, 1.0], [0.0, 2.0]]),
        {"max_norm": 1.0, "norm_type": 0.0},
    ),
}


def run(library, name, args, kwargs):
    """(value, gradients of the sum by every floating argument)."""
    floats = [i for i, a in enumerate(args) if a is not None and np.asarray(a).dtype.kind == "f"]
    if library is T:
        dtype = lambda i: torch.float32 if i in floats else torch.int64
        tensors = [None if a is None else torch.tensor(a, dtype=dtype(i)) for i, a in enumerate(args)]
        leaves = [tensors[i].requires_grad_() for i in floats]
        given = [t.clone() if i in floats else t for i, t in enumerate(tensors)]  # torch's embedding changes its table
        out = getattr(T, name)(*given, **kwargs)
        return out.detach().numpy(), [g.numpy() for g in torch.autograd.grad(out.sum(), leaves)]

    def forward(*leaves):
        rest = iter(leaves)
        arrays = [next(rest) if i in floats else None if a is None else jnp.asarray(a) for i, a in enumerate(args)]
        return jax.tree.leaves(getattr(library, name)(*arrays, **kwargs))[0]

    leaves = [jnp.asarray(args[i], jnp.float32) for i in floats]
    out, pull = jax.vjp(jax.jit(forward), *leaves)
    return out, pull(jnp.ones_like(out))


@pytest.mark.parametrize("what", CASES)
def test_torchs_value_and_gradients(what):
    (ours, our_gradients), (theirs, their_gradients) = (run(library, *CASES[what]) for library in (F, T))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    for got, expected in zip(our_gradients, their_gradients, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
