"""The range that an activation leaves; `test_addition.py` compares it with LiteRT's in both kernels."""

import pytest

from funcnet.quantization import QParams
from funcnet.quantization.activations import activation_range

CASES = [
    (None, QParams(0.1, 3, "int8"), (-128, 127), (-128, 127)),
    ("relu", QParams(0.1, 3, "int8"), (3, 127), (3, 127)),
    ("relu6", QParams(0.5, 3, "int8"), (3, 15), (3, 15)),
    ("relu6", QParams(0.001, 3, "int8"), (3, 127), (3, 127)),
    ("relu_n1_to_1", QParams(0.4, 0, "int8"), (-3, 3), (-2, 2)),  # 2.5 steps: away from zero, or to even
    ("relu_n1_to_1", QParams(0.4, 1, "int8"), (-2, 4), (-2, 4)),  # -1.5 and 3.5: the zero point is added first
    ("relu_n1_to_1", QParams(0.4, 128, "uint8"), (125, 131), (126, 130)),
]


@pytest.mark.parametrize("activation, qparams, reference, xnnpack", CASES)
def test_limits(activation, qparams, reference, xnnpack):
    assert activation_range("add", activation, qparams) == reference
    assert activation_range("add", activation, qparams, "xnnpack") == xnnpack


def test_an_unknown_activation():
    with pytest.raises(ValueError, match="conv: unknown activation; expected None, 'relu', 'relu6' or 'relu_n1_to_1'"):
        activation_range("conv", "swish", QParams(1.0, 0, "int8"))
