"""Rows of `distance`: see row.py."""

import numpy as np

from tests.layers.row import SUMS, Row, pairs

ROWS = [
    Row("CosineSimilarity", (), pairs(5), SUMS),
    Row("CosineSimilarity", (-1, 2.0), pairs(3, 4), SUMS),
    Row("PairwiseDistance", (), pairs(5), SUMS),
    Row("PairwiseDistance", (), pairs(2, 5), SUMS, {"p": 1.5, "keepdim": True}),
    Row("PairwiseDistance", (np.inf,), pairs(5), SUMS),
]
