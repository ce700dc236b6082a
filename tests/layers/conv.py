"""Rows of `conv`: see row.py."""

from tests.layers.row import SUMS, Row, floats

ROWS = [
    Row("Conv1d", (4, 6, 3), floats(4, 9), SUMS, {"stride": 2, "padding": 1, "groups": 2}),
    Row("Conv1d", (2, 3, 4), floats(2, 9), SUMS, {"padding": "same", "dilation": 2, "bias": False}),
    Row("Conv1d", (2, 3, 4), floats(2, 9), SUMS, {"padding": "same", "padding_mode": "circular"}),
    Row("Conv2d", (3, 4, 3), floats(3, 6, 5), SUMS, {"padding": 1}),
    Row("Conv2d", (3, 4, (3, 2)), floats(3, 6, 5), SUMS, {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
    Row("Conv2d", (4, 4, 3), floats(4, 5, 5), SUMS, {"groups": 4, "padding": "valid", "bias": False}),
    Row("Conv2d", (2, 3, 3), floats(2, 5, 4), SUMS, {"padding": (2, 1), "padding_mode": "reflect"}),
    Row("Conv2d", (2, 3, 3), floats(2, 5, 4), SUMS, {"padding": (2, 1), "padding_mode": "replicate", "stride": 2}),
    Row("Conv3d", (2, 3, 2), floats(2, 3, 4, 4), SUMS, {"stride": (1, 2, 1), "padding": 1}),
    Row("Conv3d", (2, 2, 2), floats(2, 3, 3, 3), SUMS, {"padding": "same", "padding_mode": "replicate"}),
    Row("Conv2d", (18, 9, 3), floats(18, 4, 3), SUMS, {"groups": 9, "padding": 1}),
    Row("Conv2d", (3, 4, 2), floats(3, 4, 6), SUMS, {"stride": 2}),
    Row("Conv1d", (3, 4, 1), floats(3, 4), SUMS),
    Row("ConvTranspose1d", (4, 6, 4), floats(4, 5), SUMS, {"stride": 3, "padding": 1, "output_padding": 2}),
    Row("ConvTranspose1d", (3, 2, 3), floats(3, 5), SUMS, {"dilation": 2, "bias": False}),
    Row("ConvTranspose2d", (3, 4, 3), floats(3, 4, 3), SUMS, {"stride": 2, "padding": 1}),
    Row("ConvTranspose2d", (4, 4, (2, 3)), floats(4, 3, 3), SUMS, {"groups": 2, "dilation": (1, 2), "padding": (0, 1)}),
    Row("ConvTranspose2d", (3, 2, 2), floats(3, 3, 2), SUMS, {"stride": 2, "dilation": 2}),
    Row("ConvTranspose3d", (2, 3, 2), floats(2, 2, 3, 2), SUMS, {"stride": (1, 2, 2), "output_padding": (0, 0, 1)}),
    Row("LazyConv1d", (4, 3), floats(2, 5), SUMS, {"padding": 1, "padding_mode": "circular"}),
    Row("LazyConv2d", (4, (2, 3)), floats(2, 4, 5), SUMS, {"groups": 2, "bias": False}),
    Row("LazyConv3d", (3, 2), floats(2, 3, 3, 2), SUMS, {"stride": 2}),
    Row("LazyConvTranspose1d", (4, 3), floats(2, 4), SUMS, {"stride": 2}),
    Row("LazyConvTranspose2d", (4, 2), floats(2, 3, 2), SUMS, {"groups": 2, "bias": False}),
    Row("LazyConvTranspose3d", (2, 2), floats(2, 2, 3, 2), SUMS, {"stride": 2}),
]
