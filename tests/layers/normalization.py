"""Rows of `normalization`: see row.py."""

import torch

from tests.layers.row import LARGE_MEAN, SUMS, Row, floats

ROWS = [
    Row("LayerNorm", (6,), floats(4, 6), SUMS),
    Row("LayerNorm", ((4, 6),), floats(4, 6), SUMS, {"eps": 1e-12}),
    Row("LayerNorm", (6,), floats(4, 6), SUMS, {"elementwise_affine": False}),
    Row("LayerNorm", (6,), floats(4, 6), SUMS, {"bias": False}),
    Row("LayerNorm", (64,), floats(64, mean=1e4), LARGE_MEAN, note="mean=1e4"),
    Row("GroupNorm", (2, 6), floats(6, 5), SUMS),
    Row("GroupNorm", (1, 6), floats(6), SUMS, {"affine": False}),
    Row("GroupNorm", (6, 6), floats(6, 4, 3), SUMS, {"bias": False}),
    Row("GroupNorm", (2, 4), floats(4, 32, mean=1e4), LARGE_MEAN, note="mean=1e4"),
    # eps=None is the machine epsilon of the dtype, so the oracle runs in float32 here.
    Row("RMSNorm", (6,), floats(4, 6), SUMS, oracle=torch.float32),
    Row("RMSNorm", ((4, 6),), floats(4, 6), SUMS, {"eps": 1e-3}),
    Row("RMSNorm", (6,), floats(4, 6), SUMS, {"eps": 1e-6, "elementwise_affine": False}),
    Row("LocalResponseNorm", (3,), floats(5, 4), SUMS, {"alpha": 0.5}),
    Row("LocalResponseNorm", (4, 1.0, 0.5, 2.0), floats(5, 3, 2), SUMS),
]
