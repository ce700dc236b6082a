"""The names of results' parts are those of torch."""

import jax.numpy as jnp
import torch

import funcnet.torchlike as tl

PAIRS = {
    "linalg.qr": (), "linalg.lu": (), "linalg.lu_factor": (), "linalg.lu_factor_ex": (), "linalg.cholesky_ex": (),
    "linalg.inv_ex": (), "linalg.solve_ex": ("x",), "linalg.lstsq": ("x",), "linalg.svd": (), "linalg.eigh": (),
    "linalg.eig": (), "svd": (), "geqrf": (), "triangular_solve": ("x",),
}  # fmt: skip


def _function(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root


def test_names_of_parts():
    for name, more in PAIRS.items():
        ours = _function(tl, name)(jnp.eye(2), *(jnp.eye(2) for _ in more))
        theirs = _function(torch, name)(torch.eye(2), *(torch.eye(2) for _ in more))
        parts = [
            one for one in dir(theirs) if not one.startswith("_") and isinstance(getattr(theirs, one), torch.Tensor)
        ]
        assert sorted(ours._fields) == sorted(parts), name
