"""Rules for conversions between dtypes. The rules give JAX's results, even for numbers for which ONNX does not define
the result.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import Graph, OnnxValue
from funcnet.export.onnx.unsupported import CASTS, ROUNDED_BITS
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _convert(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    dtype = np.dtype(equation.outvars[0].aval.dtype)
    if dtype.name == "float8_e4m3fn":  # JAX converts numbers that are too large to NaN
        return low.emit("Cast", equation, x, to=dtype, saturate=0)
    from_float = jnp.issubdtype(x.dtype, jnp.floating)
    if dtype.name.startswith("float8") or (from_float and dtype == np.uint64):
        raise low.refusal(equation, CASTS, f"to {dtype.name}")
    if from_float and jnp.issubdtype(dtype, jnp.integer):
        return _integers(low.graph, x, dtype)
    return low.graph.cast(x, dtype)


def _integers(graph: Graph, x: OnnxValue, dtype: np.dtype) -> OnnxValue:
    """Convert floating-point numbers to integers as JAX does: drop the fraction, clip to the limits of the dtype, and
    convert NaN to 0. ONNX defines Cast only for numbers within the limits.
    """
    if x.dtype.itemsize < 4:
        x = graph.cast(x, np.float32)  # which holds the limits of 16-bit integers exactly
    limits = jnp.iinfo(dtype)
    least, most = int(limits.min), int(limits.max)
    nan = graph.add("IsNaN", [x], x.shape, bool)
    x = graph.add("Where", [nan, graph.constant(np.zeros((), x.dtype)), x], x.shape, x.dtype)
    low = graph.constant(np.asarray(least, x.dtype))
    if limits.bits <= 16:
        limited = graph.like("Clip", x, low, graph.constant(np.asarray(most, x.dtype)))
        return graph.cast(graph.cast(limited, np.int32), dtype)  # ONNX Runtime's direct Cast to int4 rounds
    above = np.asarray(most + 1, x.dtype)  # a power of 2, which float32 holds exactly, unlike `most`
    if limits.bits == 32:
        limited = graph.cast(graph.like("Clip", x, low, graph.constant(above)), np.int64)
        return graph.cast(graph.like("Min", limited, graph.constant(np.int64(most))), dtype)
    below = graph.constant(np.nextafter(above, np.zeros((), x.dtype)))
    limited = graph.cast(graph.like("Clip", x, low, below), dtype)
    large = graph.add("GreaterOrEqual", [x, graph.constant(above)], x.shape, bool)
    return graph.add("Where", [large, graph.constant(np.asarray(most, dtype)), limited], x.shape, dtype)


def _reduce_precision(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    bits = (equation.params["exponent_bits"], equation.params["mantissa_bits"])
    own = jnp.finfo(x.dtype)
    if bits[0] >= own.nexp and bits[1] >= own.nmant:
        return x
    if bits != (8, 7) or x.dtype != np.float32:
        raise low.refusal(equation, ROUNDED_BITS, f"with {bits[0]} and {bits[1]} bits")
    return low.graph.cast(low.graph.cast(x, jnp.bfloat16), np.float32)


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"convert_element_type": _convert, "reduce_precision": _reduce_precision}
)
