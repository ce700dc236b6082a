"""Rows of `dropout`: see row.py."""

from tests.layers.row import EXACT, Row, floats

# In training only p = 0 and p = 1 leave nothing to chance; what lies between is in test_layers.py, mask by mask.
ROWS = [
    Row(kind, (p,), floats(*shape), EXACT, modes=(mode,))
    for kind, shape in [
        ("Dropout", (3,)),
        ("Dropout1d", (3, 2)),
        ("Dropout2d", (3, 2, 2)),
        ("Dropout3d", (3, 2, 2, 2)),
        ("AlphaDropout", (3,)),
        ("FeatureAlphaDropout", (3, 2)),
    ]
    for p, mode in [(0.5, False), (0.0, True), (1.0, True)]
]
