"""Rows of `linear`: see row.py."""

from tests.layers.row import EXACT, SUMS, Row, both, floats

ROWS = [
    Row("Identity", (), floats(3), EXACT),
    Row("Linear", (5, 4), floats(5), SUMS),
    Row("Linear", (5, 4), floats(2, 3, 5), SUMS, {"bias": False}),
    Row("Bilinear", (3, 4, 5), both(floats(3), floats(4)), SUMS),
    Row("Bilinear", (3, 4, 5), both(floats(3), floats(4)), SUMS, {"bias": False}),
    Row("Flatten", (), floats(3, 2, 4), EXACT),
    Row("Flatten", (-3, -2), floats(3, 2, 4), EXACT),
]
