"""Rows of `sparse`: see row.py."""

import numpy as np

from tests.layers.row import EXACT, ROUNDING, Row, ids

ROWS = [
    Row("Embedding", (7, 3), ids(7, 5), EXACT),
    Row("Embedding", (7, 3), ids(7, 5), EXACT, {"padding_idx": -2}),
    Row("Embedding", (7, 3), ids(7, 5), ROUNDING, {"scale_grad_by_freq": True}),
    Row("Embedding", (300, 3), ids(7, 5, dtype=np.uint8), EXACT, {"padding_idx": 259}, note="uint8"),
    Row("Embedding", (7, 3), ids(7, 5), ROUNDING, {"padding_idx": 0, "norm_type": 1.0, "sparse": False}),
    Row("EmbeddingBag", (7, 3), ids(7, 5), ROUNDING, {"mode": "sum", "padding_idx": -2}),
    Row("EmbeddingBag", (7, 3), ids(7, 5), ROUNDING, {"norm_type": 1.0}),
    Row("EmbeddingBag", (7, 3), ids(7, 5), EXACT, {"mode": "max", "padding_idx": 1}),
]
