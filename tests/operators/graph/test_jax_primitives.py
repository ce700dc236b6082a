"""Code in jax.numpy beside the same code in torch's functions: names in order, edges and shapes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet.operators.graph import backward
from tests.operators.graph.torch_graph import differences, torch_order

_random = np.random.default_rng(0)
A = _random.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
B = _random.uniform(0.1, 0.9, (4, 5)).astype(np.float32)
C = _random.uniform(0.1, 0.9, (2, 3, 4)).astype(np.float32)
D = _random.uniform(0.1, 0.9, (2, 4, 5)).astype(np.float32)
V = A[0]
ROWS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "arithmetic": (lambda a: -(a + 2) * a - a / 3, lambda a: -(a + 2) * a - a / 3, (A,)),
    "a number first": (lambda a: 1 - 2 / a, lambda a: 1 - 2 / a, (A,)),
    "a vector beside a matrix": (lambda a, v: a * v + v, lambda a, v: a * v + v, (A, V)),
    "powers": (lambda a: a**2 + a**1.5 + 2**a + a**a, lambda a: a**2 + a**1.5 + 2**a + a**a, (A,)),
    "functions": (
        lambda a: jnp.exp(jnp.log(jnp.sin(jnp.tanh(jnp.sqrt(a))))),
        lambda a: torch.exp(torch.log(torch.sin(torch.tanh(torch.sqrt(a))))),
        (A,),
    ),
    "maximum": (
        lambda a, b: jnp.minimum(jnp.maximum(a, 1 - a), b),
        lambda a, b: torch.minimum(torch.maximum(a, 1 - a), b),
        (A, A + 0.1),
    ),
    "where": (lambda a: jnp.where(a > 0.5, a, 2 * a), lambda a: torch.where(a > 0.5, a, 2 * a), (A,)),
    "sums": (
        lambda c: c.sum() + c.sum(1).sum() + (c - c.sum(-1, keepdims=True)).sum(),
        lambda c: c.sum() + c.sum(1).sum() + (c - c.sum(-1, keepdim=True)).sum(),
        (C,),
    ),
    "means": (lambda c: c.mean(-1, keepdims=True) + c.mean(), lambda c: c.mean(-1, keepdim=True) + c.mean(), (C,)),
    "extremes": (lambda c: c.max(1) + c.min(), lambda c: c.amax(1) + c.min(), (C,)),
    "products of matrices": (lambda a, b: a @ b, lambda a, b: a @ b, (A, B)),
    "products of vectors": (lambda a, v: (a @ v).sum() + v @ v, lambda a, v: (a @ v).sum() + v @ v, (A, V)),
    "products of batches": (lambda c, d: c @ d, lambda c, d: c @ d, (C, D)),
    "a batch and a matrix": (lambda c, b: c @ b, lambda c, b: c @ b, (C, B)),
    "shapes": (
        lambda c: c.reshape(6, 4).T.reshape(-1) * c.swapaxes(0, 1).reshape(-1),
        lambda c: c.reshape(6, 4).t().reshape(-1) * c.transpose(0, 1).reshape(-1),
        (C,),
    ),
    "permute": (lambda c: c.transpose(2, 0, 1), lambda c: c.permute(2, 0, 1), (C,)),
    "new dimensions": (lambda a: jnp.exp(a[:, None])[..., None], lambda a: torch.exp(a[:, None])[..., None], (A,)),
    "slices": (lambda c: c[1, :, 1:3] * 2, lambda c: c[1, :, 1:3] * 2, (C,)),
    "indices": (lambda a: a[jnp.array([0, 2])], lambda a: a[torch.tensor([0, 2])], (A,)),
    "expand": (lambda v: jnp.broadcast_to(v, (3, 4)), lambda v: v.expand(3, 4), (V,)),
    "concatenate": (lambda a: jnp.concatenate([a, a * 2], 1), lambda a: torch.cat([a, a * 2], 1), (A,)),
    "split": (lambda a: jnp.split(a, 2, 1)[1], lambda a: torch.split(a, 2, 1)[1], (A,)),
    "pad": (lambda a: jnp.pad(a, ((0, 0), (1, 2))), lambda a: torch.nn.functional.pad(a, (1, 2, 0, 0)), (A,)),
    "flip": (lambda a: jnp.flip(a, 1), lambda a: a.flip(1), (A,)),
    "cumsum": (lambda a: jnp.cumsum(a, 1), lambda a: a.cumsum(1), (A,)),
    "dtypes": (lambda a: a.astype(jnp.bfloat16), lambda a: a.to(torch.bfloat16), (A,)),
    "relu": (lambda a: jax.nn.relu(a - 0.5), lambda a: torch.relu(a - 0.5), (A,)),
    "a loop": (
        lambda a: jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x) + a, a),
        lambda a: torch.tanh(torch.tanh(torch.tanh(a) + a) + a) + a,
        (A,),
    ),
    "stop_gradient": (lambda a: a * jax.lax.stop_gradient(a), lambda a: a * a.detach(), (A,)),
    "put": (
        lambda a, v: a.at[jnp.array([1])].set(v[None]),
        lambda a, v: a.index_put((torch.tensor([1]),), v[None]),
        (A, V),
    ),
}  # fmt: skip


@pytest.mark.every_row
@pytest.mark.parametrize("name", ROWS)
def test_the_graph_of_code(name):
    ours, theirs, arrays = ROWS[name]
    graph = backward(ours)(*map(jnp.asarray, arrays))
    np.testing.assert_allclose(
        np.asarray(graph.results, np.float32), np.asarray(ours(*map(jnp.asarray, arrays)), np.float32), rtol=1e-5
    )
    output = theirs(*(torch.tensor(one, requires_grad=True) for one in arrays))
    assert not differences(graph, torch_order([output]), saved=False)
