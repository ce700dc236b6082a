"""Quantization: integer operators that equal TFLite's kernels bit for bit, and the conversion of whole nets.

`qparams.py` has the class of the quantization parameters, and the conversion of arrays between real numbers and
integers. `addition.py`, `concatenation.py`, `requantization.py`, `linear.py`, `convolution.py`, `pooling.py` and
`tables.py` have the operators. `multipliers.py` multiplies integers by real numbers in fixed point, and
`integer_products.py` computes exact sums of products. `observers.py` and `histogram_observer.py` choose parameters from
data, and `fake_quantization.py` simulates integers in training.

`calibrate` finds the ranges of a net's arrays, and `convert` makes an integer net with these ranges. `layer_losses`
measures how much each layer loses. `QuantizationAware` trains a net that rounds where the integer net will round.
`save_int8` and `open_int8` write and read directories of int8 models.

Quantized tensors are plain integer arrays. The scale and the zero point of a quantized tensor are passed as a separate
argument, which is static under jit.
"""

from funcnet.quantization.accumulators import bias_qparams
from funcnet.quantization.addition import add
from funcnet.quantization.calibration import calibrate
from funcnet.quantization.checkpoint import Int8Model, is_int8, open_int8, refuse_int8, save_int8
from funcnet.quantization.concatenation import concat
from funcnet.quantization.conversion import convert
from funcnet.quantization.convolution import conv
from funcnet.quantization.fake_quantization import fake_quantize
from funcnet.quantization.histogram_observer import HistogramObserver
from funcnet.quantization.linear import embedding, linear
from funcnet.quantization.loss_report import LayerLoss, LayerLosses
from funcnet.quantization.network import QuantizedNet, QuantizedNode, QuantizedValue
from funcnet.quantization.observers import (
    MeanSquaredErrorObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PercentileObserver,
)
from funcnet.quantization.pooling import avg_pool
from funcnet.quantization.qparams import QParams, choose_qparams, dequantize, quantize
from funcnet.quantization.quantization_aware_training import QuantizationAware
from funcnet.quantization.quantization_loss import layer_losses
from funcnet.quantization.requantization import requantize
from funcnet.quantization.tables import activation_by_table, activation_table

__all__ = [
    "HistogramObserver",
    "Int8Model",
    "LayerLoss",
    "LayerLosses",
    "MeanSquaredErrorObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "PercentileObserver",
    "QParams",
    "QuantizationAware",
    "QuantizedNet",
    "QuantizedNode",
    "QuantizedValue",
    "activation_by_table",
    "activation_table",
    "add",
    "avg_pool",
    "bias_qparams",
    "calibrate",
    "choose_qparams",
    "concat",
    "conv",
    "convert",
    "dequantize",
    "embedding",
    "fake_quantize",
    "is_int8",
    "layer_losses",
    "linear",
    "open_int8",
    "quantize",
    "refuse_int8",
    "requantize",
    "save_int8",
]
