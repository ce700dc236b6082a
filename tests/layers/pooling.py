"""Rows of `pooling`: see row.py."""

import numpy as np

from tests.layers.row import EXACT, ROUNDING, SUMS, Row, floats, kinks


def maxima(size, *shape):
    """Numbers (batch, *shape), and for each plane as many different places among `size`."""

    def make(batch):
        random, (channels, *plane) = np.random.default_rng(batch), shape
        places = [random.permutation(size)[: np.prod(plane)].reshape(plane) for _ in range(batch * channels)]
        return [*floats(*shape)(batch), np.reshape(places, (batch, *shape)).astype(np.int32)]

    return make


def samples(channels, ndim):
    """The same draw for each of at most 8 examples, so that a shard of the batch has it too."""
    return np.tile(np.random.default_rng(0).random((1, channels, ndim)), (8, 1, 1)).astype(np.float32)


ROWS = [
    Row("MaxPool1d", (2,), floats(3, 7), EXACT),
    Row("MaxPool1d", (3,), kinks(2, 8), EXACT, {"stride": 2, "padding": 1, "ceil_mode": True}),
    Row("MaxPool2d", (3,), floats(2, 7, 6), EXACT, {"stride": 2, "padding": 1}),
    Row("MaxPool2d", ((2, 3),), floats(2, 7, 8), EXACT, {"stride": (1, 2), "dilation": (2, 1), "ceil_mode": True}),
    Row("MaxPool2d", (5,), kinks(2, 7, 8), EXACT, {"stride": 2, "padding": 2, "return_indices": True}),
    Row("MaxPool3d", (2,), floats(2, 4, 5, 4), EXACT),
    Row("MaxUnpool1d", (2,), maxima(8, 2, 4), EXACT),
    Row("MaxUnpool2d", (3,), maxima(45, 2, 3, 2), EXACT, {"stride": (3, 2), "padding": (0, 0)}),
    Row("MaxUnpool3d", ((2, 1, 2),), maxima(24, 2, 2, 3, 1), EXACT),
    Row("FractionalMaxPool2d", (2, 3), floats(2, 7, 5), EXACT, {"_random_samples": samples(2, 2)}, most=8),
    Row(
        "FractionalMaxPool3d",
        ((2, 1, 2),),
        floats(2, 6, 5, 4),
        EXACT,
        {"output_ratio": 0.5, "return_indices": True, "_random_samples": samples(2, 3)},
        most=8,
    ),
    Row("LPPool1d", (2, 3), floats(2, 7), SUMS, {"stride": 2, "ceil_mode": True}),
    Row("LPPool2d", (2, (2, 3)), floats(2, 6, 7), SUMS),
    Row("LPPool3d", (1, 2), floats(2, 4, 4, 5), SUMS),
    Row("AvgPool1d", (3,), floats(2, 7), ROUNDING, {"stride": 2, "padding": 1, "ceil_mode": True}),
    Row("AvgPool2d", ((2, 3),), floats(2, 6, 7), ROUNDING, {"padding": (1, 0), "count_include_pad": False}),
    Row("AvgPool2d", (2,), floats(2, 6, 6), ROUNDING, {"stride": (1, 2), "divisor_override": 3}),
    Row("AvgPool3d", (2,), floats(2, 4, 4, 5), ROUNDING, {"ceil_mode": True}),
    Row("AdaptiveAvgPool1d", (3,), floats(2, 7), ROUNDING),
    Row("AdaptiveAvgPool2d", ((3, None),), floats(2, 7, 5), ROUNDING),
    Row("AdaptiveAvgPool2d", (1,), floats(2, 5, 5), ROUNDING),
    Row("AdaptiveAvgPool3d", ((2, 1, 3),), floats(2, 5, 3, 4), ROUNDING),
    Row("AdaptiveMaxPool1d", (3,), floats(2, 7), EXACT, {"return_indices": True}),
    Row("AdaptiveMaxPool2d", ((3, None),), floats(2, 7, 5), EXACT),
    Row("AdaptiveMaxPool2d", (1,), kinks(2, 5, 5), EXACT, {"return_indices": True}),
    Row("AdaptiveMaxPool3d", ((2, 1, 3),), floats(2, 5, 3, 4), EXACT),
]
