"""The range of integers to which a fused activation limits the output of an operator."""

import numpy as np

from funcnet.quantization.qparams import QParams, integer_range

__all__ = ["activation_range"]


def activation_range(
    where: str, activation: str | None, qparams: QParams, kernel: str = "reference"
) -> tuple[int, int]:
    """Return the smallest and the largest integer that an operator with a fused activation can return.

    Args:
        where: name of the operator, for error messages.
        activation: None, "relu", "relu6" or "relu_n1_to_1" (a clamp to -1 and 1).
        qparams: parameters of the output.
        kernel: "reference" rounds `limit / scale`, with halves away from zero, and then adds the zero point;
            "xnnpack" adds the zero point first, and then rounds, with halves to even.

    Returns:
        Two integers.

    Raises:
        ValueError: if the activation is unknown.

    Example:
        >>> activation_range("add", "relu6", QParams(0.5, 3, "int8"))
        (3, 15)

    Reference: TFLite's CalculateActivationRangeQuantized; XNNPACK's `xnn_qs8_quantize`.
    """
    low, high = integer_range(qparams.dtype)
    if activation is None:
        return low, high
    integer = _nearest_even if kernel == "xnnpack" else _away_from_zero
    if activation == "relu":
        return max(low, qparams.zero_point), high
    if activation == "relu6":
        return max(low, qparams.zero_point), min(high, integer(6.0, qparams))
    if activation == "relu_n1_to_1":
        return max(low, integer(-1.0, qparams)), min(high, integer(1.0, qparams))
    raise ValueError(
        f"{where}: unknown activation; expected None, 'relu', 'relu6' or 'relu_n1_to_1', got {activation!r}."
    )


def _away_from_zero(real: float, qparams: QParams) -> int:
    quotient = float(np.float32(real) / np.float32(qparams.scale))
    return qparams.zero_point + int(np.copysign(np.floor(abs(quotient) + 0.5), quotient))


def _nearest_even(real: float, qparams: QParams) -> int:
    return int(np.rint(np.float32(real) / np.float32(qparams.scale) + np.float32(qparams.zero_point)))
