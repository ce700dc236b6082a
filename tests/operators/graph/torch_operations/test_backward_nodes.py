"""The order of torch's engine, also of nodes that are ready at the same time, and what a node saves."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet.operators.graph import backward
from tests.operators.graph.torch_graph import differences, torch_order


@pytest.mark.every_row
@pytest.mark.parametrize("count", range(2, 13))
def test_leaves_that_are_ready_together(count):
    """All leaves have the same place in torch's heap, and their sizes tell which one is which."""
    arrays = [np.ones((2, size + 1), np.float32) for size in range(count)]
    leaves = [torch.tensor(one, requires_grad=True) for one in arrays]
    order = torch_order([torch.cat(leaves, 1)])
    graph = backward(lambda *arrays: jnp.concatenate(arrays, 1))(*map(jnp.asarray, arrays))
    assert [node.shape for node in graph][1:] == [tuple(node.variable.shape) for node in order[1:]]


@pytest.mark.every_row
@pytest.mark.parametrize("asked", [flags for flags in itertools.product((False, True), repeat=3) if any(flags)])
def test_a_node_saves_only_what_it_needs(asked):
    shapes = (2, 3), (4, 3), (4,)
    arrays = [np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in shapes]
    x, w, b = (torch.tensor(one, requires_grad=flag) for one, flag in zip(arrays, asked, strict=True))
    order = torch_order([torch.nn.functional.linear(x, w, b) * w.sum() / b.sum()])
    forward = lambda x, w, b: F.linear(x, w, b) * w.sum() / b.sum()
    numbers = [number for number, flag in enumerate(asked) if flag]
    assert not differences(backward(forward, argnums=numbers)(*map(jnp.asarray, arrays)), order)


def test_results_that_share_nodes():
    x = torch.ones(3, requires_grad=True)
    middle = x.exp()
    order = torch_order([middle, middle.sin(), (middle * x).sum()])
    graph = backward(lambda x: (jnp.exp(x), jnp.sin(jnp.exp(x)), (jnp.exp(x) * x).sum()))(jnp.ones(3))
    assert len(graph) == len(order) + 2  # three exponentials here

    def run(x):
        middle = jnp.exp(x)
        return middle, jnp.sin(middle), (middle * x).sum()

    assert not differences(backward(run)(jnp.ones(3)), order)
