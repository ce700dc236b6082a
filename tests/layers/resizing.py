"""Rows of `fold`, `pixelshuffle`, `channelshuffle`, `upsampling` and of Unflatten: see row.py."""

from tests.layers.row import EXACT, ROUNDING, Row, floats

ROWS = [
    Row("Fold", ((4, 5), (2, 3)), floats(6, 5), ROUNDING, {"padding": (0, 1), "stride": (2, 1), "dilation": (2, 1)}),
    Row("Fold", (4, 2), floats(8, 4), EXACT, {"stride": 2}),
    Row("Unfold", ((2, 3),), floats(2, 4, 5), EXACT, {"padding": 1, "stride": 2}),
    Row("Unfold", (2,), floats(2, 4, 5), EXACT, {"dilation": 2}),
    Row("PixelShuffle", (2,), floats(8, 2, 3), EXACT),
    Row("PixelUnshuffle", (3,), floats(2, 3, 6), EXACT),
    Row("ChannelShuffle", (2,), floats(6, 3), EXACT),
    Row("Upsample", (), floats(2, 4, 3), ROUNDING, {"scale_factor": 2, "mode": "bilinear"}),
    Row("Upsample", ((5, 2),), floats(2, 4, 3), ROUNDING, {"mode": "bicubic", "align_corners": True}),
    Row("Upsample", (), floats(2, 5), EXACT, {"scale_factor": 1.7}),
    Row("Upsample", (), floats(2, 5), ROUNDING, {"scale_factor": (1.7,), "mode": "linear"}),
    Row("Upsample", (3,), floats(1, 2, 4, 3), ROUNDING, {"mode": "trilinear"}),
    Row("UpsamplingNearest2d", (), floats(2, 3, 2), ROUNDING, {"scale_factor": 3}),
    Row("UpsamplingBilinear2d", (), floats(2, 3, 2), ROUNDING, {"scale_factor": 2}),
    Row("UpsamplingBilinear2d", ((2, 5),), floats(2, 3, 2), ROUNDING),
    Row("Unflatten", (1, (2, -1)), floats(6, 3), EXACT),
    Row("Unflatten", (-1, (3, 1, 2)), floats(2, 6), EXACT),
]
