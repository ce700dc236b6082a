"""Rows of `batchnorm`: see row.py."""

from tests.layers.row import BOTH, LARGE_MEAN, SUMS, Row, floats

ROWS = [
    Row("BatchNorm1d", (3,), floats(3), SUMS, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3, 4), SUMS, {"momentum": None, "eps": 1e-3}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3), SUMS, {"affine": False}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3), SUMS, {"bias": False}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3), SUMS, {"track_running_stats": False}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3, 50, mean=1e4), LARGE_MEAN, modes=(True,), note="mean=1e4"),
    Row("BatchNorm2d", (3,), floats(3, 4, 2), SUMS, modes=BOTH),
    Row("BatchNorm3d", (3,), floats(3, 2, 2, 2), SUMS, modes=BOTH),
    Row("SyncBatchNorm", (3,), floats(3, 4), SUMS, modes=BOTH),
    Row("LazyBatchNorm1d", (), floats(3, 4), SUMS, modes=BOTH),
    Row("LazyBatchNorm2d", (), floats(3, 2, 2), SUMS, {"bias": False}, modes=BOTH),
    Row("LazyBatchNorm3d", (), floats(3, 2, 2, 1), SUMS, {"track_running_stats": False}, modes=BOTH),
]
