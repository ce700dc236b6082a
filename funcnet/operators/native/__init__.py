"""Kernels in C++ for operations that XLA computes slowly on CPU. They are operators, built when they are first used.

FUNCNET_NATIVE=0 turns them off. `with allowed(False):` turns them off for programs that are traced inside it. If they
are off, or there is no compiler, XLA computes these operations.
"""

from funcnet.operators.native.batchnorm import row_moments, scale_channels
from funcnet.operators.native.convolution import convolution, convolution_input, convolution_weight
from funcnet.operators.native.library import allowed, describe, is_on, is_used, targets
from funcnet.operators.native.normalization import group_norm, layer_norm, rms_norm
from funcnet.operators.native.softmax import log_softmax, softmax

__all__ = [
    "allowed",
    "convolution",
    "convolution_input",
    "convolution_weight",
    "describe",
    "group_norm",
    "is_on",
    "is_used",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "row_moments",
    "scale_channels",
    "softmax",
    "targets",
]
