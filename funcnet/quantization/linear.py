"""Linear layers and embeddings in integers."""

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.quantization.accumulators import check_product, rescale
from funcnet.quantization.integer_products import dot
from funcnet.quantization.qparams import QParams, check_integers, require_per_tensor
from funcnet.quantization.requantization import requantize

__all__ = ["embedding", "linear"]


def linear(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    x_qparams: QParams,
    weight_qparams: QParams,
    out_qparams: QParams,
    kernel: str = "reference",
    activation: str | None = None,
) -> jax.Array:
    """Compute `x · weightᵀ + bias` in integers.

    The sums are exact in int32, and one multiplication per output channel rescales them to the output's parameters.
    The result equals that of LiteRT's FULLY_CONNECTED bit for bit.

    Args:
        x: int8 array (*, in_features).
        weight: int8 array (out_features, in_features).
        bias: int32 array (out_features,) with the parameters that `bias_qparams` returns, or None.
        x_qparams, weight_qparams, out_qparams: parameters of input, weight and output, all int8. The weight has one
            scale, or one for each output channel (axis 0). The zero point of the weight is 0.
        kernel: "reference" (a 32-bit mantissa) or "xnnpack" (a float32 multiplier). "reference" rounds each product
            once, as in TFLite, whereas "reference" of `conv` rounds twice.
        activation: None, "relu", "relu6" or "relu_n1_to_1", applied to the result.

    Returns:
        An int8 array (*, out_features).

    Raises:
        TypeError: if parameters are not `QParams`, an array has a different dtype from its parameters, or the bias is
            not int32.
        ValueError: if shapes or parameters do not fit, a ratio of scales is outside the kernel's range, or the kernel
            or the activation is unknown.

    Example:
        >>> one, half = QParams(1.0, 0, "int8"), QParams(0.5, 0, "int8")
        >>> x, weight = jnp.array([[2, 3]], jnp.int8), jnp.array([[4, 5], [6, 7]], jnp.int8)
        >>> linear(x, weight, jnp.array([1, 2], jnp.int32), one, half, one)
        Array([[12, 18]], dtype=int8)

    Reference: TFLite's `reference_integer_ops::FullyConnected` and `FullyConnectedPerChannel`.
    """
    x, weight, bias = check_product("linear", x, weight, bias, x_qparams, weight_qparams, out_qparams)
    if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear: x and weight do not fit; expected (*, in) and (out, in), got {x.shape} and {weight.shape}."
        )
    sums = dot(x, weight) - np.int32(x_qparams.zero_point) * jnp.sum(weight, 1, dtype=jnp.int32)
    if bias is not None:
        sums = sums + bias
    qparams = x_qparams, weight_qparams, out_qparams
    return rescale("linear", sums, -1, weight.shape[1], qparams, activation, kernel, roundings=1)


def embedding(
    ids: jax.Array, weight: jax.Array, qparams: QParams, out_qparams: QParams | None = None, kernel: str = "reference"
) -> jax.Array:
    """Look up rows of a quantized matrix.

    The result equals that of LiteRT's GATHER. If `out_qparams` differs from `qparams`, the result is requantized as by
    LiteRT's QUANTIZE.

    Args:
        ids: integer array of row numbers. A row number that is out of range selects the nearest row, which is the first
            or the last.
        weight: integer array (rows, width).
        qparams: parameters of the weight, with one scale.
        out_qparams: parameters of the result; None means those of the weight.
        kernel: "reference" or "xnnpack", as in `requantize`.

    Returns:
        An array of the shape of `ids` plus (width,).

    Raises:
        TypeError: if the ids are not integers, or the weight has a different dtype from its parameters.
        ValueError: if the weight is not a matrix or has a scale for each channel, or if `requantize` raises ValueError.

    Example:
        >>> weight = jnp.array([[1, 2], [3, 4]], jnp.int8)
        >>> embedding(jnp.array([1, 0]), weight, QParams(0.5, 0, "int8"))
        Array([[3, 4],
               [1, 2]], dtype=int8)
    """
    weight = check_integers("embedding", "weight", weight, qparams)
    require_per_tensor("embedding", "weight", qparams)
    if not jnp.issubdtype(jnp.result_type(ids), jnp.integer):
        raise TypeError(f"embedding: ids are not integers; expected an integer dtype, got {jnp.result_type(ids)}.")
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight is not a matrix; expected (rows, width), got {weight.shape}.")
    rows = jnp.take(weight, jnp.asarray(ids), axis=0, mode="clip")
    return rows if out_qparams in (None, qparams) else requantize(rows, qparams, out_qparams, kernel)
