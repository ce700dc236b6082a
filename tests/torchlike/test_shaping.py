"""Shapes against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

X = np.arange(24.0).reshape(2, 1, 3, 4)
OUTSIDE = {"as_strided": lambda *args, storage_offset=0, **kwargs: storage_offset == 10}  # a view of a larger storage


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["squeeze", "expand", "flatten", "unflatten", "unfold", "as_strided", "diag_embed", "view_as_complex"]
)
def test_database(name):
    agrees(name, **({"skip": OUTSIDE[name]} if name in OUTSIDE else {}))


def test_database_of_view_as_real():
    agrees("view_as_real")


def test_squeeze_and_expand():
    for dim in (0, 1, -3, (1, 2), [-3, 0], (), None):
        ours, theirs = lambda x, d=dim: tl.squeeze(x, d), lambda x, d=dim: x.squeeze() if d is None else x.squeeze(d)
        if dim != [-3, 0]:
            same(ours, theirs, X)
        assert ours(jnp.asarray(X)).shape == theirs(torch.tensor(X)).shape if dim != [-3, 0] else (2, 3, 4)
    same(lambda x: tl.squeeze(x, 0), lambda x: x.squeeze(0), np.float64(3))
    for sizes in ((5, -1, 7, -1, 4), (2, 9, 3, 4), ((2, 9, -1, -1),), (0, 2, 1, 3, 4), (2, 0, 3, 4)):
        same(lambda x, s=sizes: tl.expand(x, *s), lambda x, s=sizes: x.expand(*s), X)
    same(lambda x: tl.expand(x, 2, 3), lambda x: x.expand(2, 3), np.float64(3))


def test_flatten_and_unflatten():
    for dims in ((), (1,), (0, 1), (-2, -1), (2, 2)):
        same(lambda x, d=dims: tl.flatten(x, *d), lambda x, d=dims: torch.flatten(x, *d), X)
    same(lambda x: tl.flatten(x, 1), lambda x: torch.flatten(x, 1), np.zeros((0, 3, 2)))
    same(tl.flatten, torch.flatten, np.float64(3))
    for dim, sizes in ((-1, (2, -1)), (3, (2, 2)), (0, (-1,)), (2, (3, 1, 1))):
        same(lambda x, a=(dim, sizes): tl.unflatten(x, *a), lambda x, a=(dim, sizes): torch.unflatten(x, *a), X)
    same(lambda x: tl.unflatten(x, 0, (3, -1)), lambda x: torch.unflatten(x, 0, (3, -1)), np.zeros((0, 2)))


def test_unfold_and_diagonals():
    for dim, size, step in ((2, 2, 1), (-1, 3, 2), (3, 4, 9), (0, 1, 1), (2, 0, 1)):
        same(lambda x, a=(dim, size, step): tl.unfold(x, *a), lambda x, a=(dim, size, step): x.unfold(*a), X)
    for offset in (-2, 0, 3):
        for dims in ((-2, -1), (0, 2), (2, 0)):
            same(
                lambda x, a=(offset, *dims): tl.diag_embed(x, *a),
                lambda x, a=(offset, *dims): torch.diag_embed(x, *a),
                X,
            )
    same(lambda x: tl.as_strided(x, (3, 2, 2), (4, 1, 0), 5), lambda x: x.as_strided((3, 2, 2), (4, 1, 0), 5), X)


def test_refusals():
    x = jnp.ones((2, 3))
    for match, call in {
        "only a size of 1": lambda: tl.expand(x, 4, 3),
        "no -1": lambda: tl.expand(x, -1, 2, 3),
        "wrong order": lambda: tl.flatten(x, 1, 0),
        "product of 3": lambda: tl.unflatten(x, 1, (2, -1)),
        "size 0 to 3": lambda: tl.unfold(x, 1, 4, 1),
        "outside the input": lambda: tl.as_strided(x, (4,), (2,)),
        "same; expected different": lambda: tl.diag_embed(x, 0, 1, -2),
        r"expected \(…, 2\)": lambda: tl.view_as_complex(x),
        "out of range": lambda: tl.squeeze(x, 2),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="not complex"):
        tl.view_as_real(x)
