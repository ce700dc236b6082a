"""The table of layers, a file a family; `tests/nn/test_layers.py` walks it."""

from tests.layers import (
    activation,
    attention,
    batchnorm,
    conv,
    distance,
    dropout,
    instancenorm,
    linear,
    loss,
    normalization,
    padding,
    pooling,
    resizing,
    rnn,
    sparse,
)

FAMILIES = [
    activation,
    attention,
    batchnorm,
    conv,
    distance,
    dropout,
    instancenorm,
    linear,
    loss,
    normalization,
    padding,
    pooling,
    resizing,
    rnn,
    sparse,
]
TABLE = [row for family in FAMILIES for row in family.ROWS]
