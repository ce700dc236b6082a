"""The operations of a `QuantizedNet`: a table from the name of each operation to its function."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.quantization.activations import activation_range
from funcnet.quantization.addition import add
from funcnet.quantization.batch_products import batch_matmul
from funcnet.quantization.convolution import conv
from funcnet.quantization.layer_norm import layer_norm
from funcnet.quantization.linear import embedding, linear
from funcnet.quantization.pooling import avg_pool
from funcnet.quantization.qparams import integer_range, quantize
from funcnet.quantization.requantization import requantize
from funcnet.quantization.softmax import softmax
from funcnet.quantization.tables import activation_by_table

__all__ = ["OPERATIONS"]

Arrays = Sequence[jax.Array]
Parameters = Sequence[Any]
Settings = Mapping[str, Any]


class QuantizedOutput(Protocol):
    """The properties of a result that its operation must know: the shape, and the parameters of the integers (a
    `QParams`).
    """

    shape: tuple[int, ...]
    qparams: Any


def _conv(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    x, weight, bias = arrays
    return conv(
        x,
        weight,
        bias,
        qparams[0],
        qparams[1],
        out.qparams,
        stride=settings["stride"],
        padding=[tuple(pair) for pair in settings["padding"]],
        dilation=settings["dilation"],
        groups=settings["groups"],
        activation=settings["activation"],
        kernel=kernel,
    )


def _linear(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    x, weight, bias = arrays
    return linear(x, weight, bias, qparams[0], qparams[1], out.qparams, kernel, settings["activation"])


def _add(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    return add(arrays[0], arrays[1], qparams[0], qparams[1], out.qparams, kernel, settings["activation"])


def _avg_pool(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    pads = [tuple(pair) for pair in settings["padding"]]
    return avg_pool(arrays[0], settings["kernel_size"], qparams[0], stride=settings["stride"], padding=pads)


def _max_pool(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    pads = [(0, 0), (0, 0), *(tuple(pair) for pair in settings["padding"])]
    sizes, strides = ((1, 1, *settings[name]) for name in ("kernel_size", "stride"))
    return lax.reduce_window(arrays[0], np.int8(-128), lax.max, sizes, strides, pads)


def _pad(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    config = [(low, high, 0) for low, high in settings["padding"]]
    return lax.pad(arrays[0], np.int8(qparams[0].zero_point), config)


def _relu(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    """Clamp integers to the range of the activation.

    `kernel` is ignored, because both kernels of LiteRT clamp equally.
    """
    low, high = activation_range("relu", settings["activation"], out.qparams)
    return jnp.clip(requantize(arrays[0], qparams[0], out.qparams), np.int8(low), np.int8(high))


def _embedding(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    return embedding(arrays[1], arrays[0], qparams[0])


def _layer_norm(
    arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str
) -> jax.Array:
    x, weight, bias = arrays
    return layer_norm(x, weight, bias, settings["eps"])


def _dequantize(
    arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str
) -> jax.Array:
    """Dequantize by table look-up.

    If the integers were multiplied by the scale, a compiler would contract this multiplication and a later addition of
    a residual into one operation, which rounds differently.
    """
    low, high = integer_range(qparams[0].dtype)
    steps = np.arange(low, high + 1) - qparams[0].zero_point
    numbers = steps.astype(np.float32) * np.float32(qparams[0].scale)
    return jnp.take(numbers, arrays[0].astype(jnp.int32) - np.int32(low), mode="clip")


def _crop(arrays: Arrays, qparams: Parameters, out: QuantizedOutput, settings: Settings, kernel: str) -> jax.Array:
    begin = settings["begin"]
    return lax.slice(arrays[0], begin, [start + size for start, size in zip(begin, out.shape, strict=True)])


OPERATIONS: Mapping[str, Callable[[Arrays, Parameters, Any, Settings, str], jax.Array]] = MappingProxyType(
    {
        "add": _add,
        "avg_pool": _avg_pool,
        "batch_matmul": lambda arrays, qparams, out, settings, kernel: batch_matmul(
            arrays[0], arrays[1], qparams[0], qparams[1], out.qparams, kernel
        ),
        "concat": lambda arrays, qparams, out, settings, kernel: jnp.concatenate(arrays, settings["axis"]),
        "conv": _conv,
        "crop": _crop,
        "dequantize": _dequantize,
        "embedding": _embedding,
        "layer_norm": _layer_norm,
        "linear": _linear,
        "max_pool": _max_pool,
        "pad": _pad,
        "quantize": lambda arrays, qparams, out, settings, kernel: quantize(arrays[0], out.qparams, kernel),
        "real_add": lambda arrays, qparams, out, settings, kernel: arrays[0] + arrays[1],
        "relu": _relu,
        "requantize": lambda arrays, qparams, out, settings, kernel: requantize(
            arrays[0], qparams[0], out.qparams, kernel
        ),
        "reshape": lambda arrays, qparams, out, settings, kernel: arrays[0].reshape(out.shape),
        "scale": lambda arrays, qparams, out, settings, kernel: arrays[0] * arrays[1],
        "softmax": lambda arrays, qparams, out, settings, kernel: softmax(arrays[0], qparams[0], kernel),
        "table": lambda arrays, qparams, out, settings, kernel: activation_by_table(
            arrays[0], settings["function"], qparams[0], out.qparams
        ),
        "transpose": lambda arrays, qparams, out, settings, kernel: arrays[0].transpose(settings["order"]),
    }
)
"""{name of an operation: function of the input arrays, their parameters, the output's description (`QuantizedValue`),
the settings and the name of the kernel}."""
