"""Rows of `instancenorm`: see row.py."""

from tests.layers.row import BOTH, SUMS, Row, floats

TRACKED = {"affine": True, "track_running_stats": True}

ROWS = [
    Row("InstanceNorm1d", (3,), floats(3, 6), SUMS, TRACKED, modes=BOTH),
    Row("InstanceNorm1d", (3,), floats(3, 6), SUMS, modes=BOTH),
    Row("InstanceNorm1d", (3,), floats(3, 6), SUMS, {**TRACKED, "momentum": None, "bias": False}, modes=BOTH),
    Row("InstanceNorm2d", (3,), floats(3, 2, 3), SUMS, {"affine": True}, modes=BOTH),
    Row("InstanceNorm3d", (3,), floats(3, 2, 2, 3), SUMS, {"track_running_stats": True}, modes=BOTH),
    Row("LazyInstanceNorm1d", (), floats(3, 6), SUMS, modes=BOTH),
    Row("LazyInstanceNorm2d", (), floats(3, 2, 3), SUMS, {"bias": False}, modes=BOTH),
    Row("LazyInstanceNorm3d", (), floats(3, 2, 1, 3), SUMS, {"track_running_stats": False}, modes=BOTH),
]
