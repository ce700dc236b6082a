"""Parts of arrays against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

X = np.arange(30.0).reshape(5, 6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chunk", "split", "tensor_split"])
def test_database(name):
    agrees(name)


def test_split_with_sizes():
    agrees("split_with_sizes", tl.split)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_every_number_of_parts(dim):
    for number in range(1, 8):
        for name in ("chunk", "split", "tensor_split"):
            ours, theirs = (lambda x, lib=lib, a=name, n=number: getattr(lib, a)(x, n, dim) for lib in (tl, torch))
            same(ours, theirs, X)
    same(lambda x: tl.tensor_split(x, [1, -2, 9], dim), lambda x: torch.tensor_split(x, (1, -2, 9), dim), X)
    same(
        lambda x: tl.split(x, [1, 0, X.shape[dim] - 1], dim), lambda x: torch.split(x, [1, 0, X.shape[dim] - 1], dim), X
    )


def test_empty_arrays():
    for name, number in (("chunk", 3), ("split", 2), ("split", 0), ("tensor_split", 3)):
        ours, theirs = (lambda x, lib=lib, a=name, n=number: getattr(lib, a)(x, n, 1) for lib in (tl, torch))
        same(ours, theirs, np.zeros((2, 0)))


def test_refusals():
    x = jnp.ones((4, 2))
    for match, call in {
        "sum of 4": lambda: tl.split(x, [1, 2]),
        "split_size is too small": lambda: tl.split(x, 0),
        "chunks is too small": lambda: tl.chunk(x, 0),
        "number of parts": lambda: tl.tensor_split(x, 0),
        "dim is out of range": lambda: tl.chunk(x, 2, 2),
        "scalar": lambda: tl.split(jnp.float32(1), 1),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
