"""Convolutions with other layouts, groups, gaps and pads."""

import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, graph_of

RANDOM = np.random.default_rng(0)
X, W = RANDOM.normal(size=(2, 4, 7, 6)).astype(np.float32), RANDOM.normal(size=(6, 2, 3, 2)).astype(np.float32)


@pytest.mark.parametrize(
    "settings",
    [
        {"padding": [(1, 2), (0, 1)]},
        {"padding": [(-1, 2), (0, -1)]},
        {"padding": "SAME", "rhs_dilation": (2, 1)},
        {"padding": "VALID", "window_strides": (2, 3)},
        {"padding": [(2, 2), (1, 1)], "lhs_dilation": (2, 3)},
    ],
    ids=str,
)
def test_settings(settings):
    settings = {"window_strides": (1, 1), **settings}
    run = lambda x: lax.conv_general_dilated(x, W, feature_group_count=2, **settings)
    agrees(run, X)
    agrees(run, X, dynamic="n, ...", others=[np.concatenate([X, X])])


def test_layouts():
    x, w = X.transpose(0, 2, 3, 1), W.transpose(2, 3, 1, 0)
    run = lambda x: lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2
    )
    agrees(run, x)


def test_batch_groups_are_refused():
    run = lambda x: lax.conv_general_dilated(x, W[:, :, :, :], (1, 1), "SAME", batch_group_count=2)
    with pytest.raises(ValueError, match="with batch groups"):
        graph_of(run, [X[:, :2]], rewritten=False)
