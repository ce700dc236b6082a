"""Rules for shifts of bits. ONNX shifts unsigned numbers only, and does not define a shift by all bits of a number."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import Graph, OnnxValue
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _logical(direction: str) -> Callable[..., OnnxValue]:
    def rule(low: Emitter, equation: Equation, x: OnnxValue, by: OnnxValue) -> OnnxValue:
        graph = low.graph
        bits = graph.cast(graph.cast(x, f"uint{8 * x.dtype.itemsize}"), _unsigned(x))
        return graph.cast(_shifted(graph, bits, by, direction), x.dtype)

    return rule


def _arithmetic(low: Emitter, equation: Equation, x: OnnxValue, by: OnnxValue) -> OnnxValue:
    """Shift numbers to the right, and fill with copies of the sign bit. Shift a negative x as ~(~x >> n)."""
    graph = low.graph
    signed = np.dtype("int64" if x.dtype.itemsize == 8 else "int32")
    numbers = graph.cast(graph.cast(x, f"int{8 * x.dtype.itemsize}"), signed)
    negative = graph.add("Less", [numbers, graph.constant(np.zeros((), signed))], x.shape, bool)
    positive = graph.where(negative, graph.like("BitwiseNot", numbers), numbers, x.shape)
    right = graph.cast(_shifted(graph, graph.cast(positive, _unsigned(x)), by, "RIGHT"), signed)
    return graph.cast(graph.where(negative, graph.like("BitwiseNot", right), right, x.shape), x.dtype)


def _unsigned(x: OnnxValue) -> np.dtype:
    """Return an unsigned dtype that ONNX Runtime can shift, and that is wide enough for the bits of x."""
    return np.dtype("uint64" if x.dtype.itemsize == 8 else "uint32")


def _shifted(graph: Graph, bits: OnnxValue, by: OnnxValue, direction: str) -> OnnxValue:
    """Return unsigned numbers, shifted by `by` places. As in JAX, a negative number of places shifts out all bits.

    A processor takes the number of places modulo the width of the dtype. A shift by the full width is therefore done in
    two steps: all places but the last, and then the last place.
    """
    width = 8 * bits.dtype.itemsize
    all_bits, last, zero = (graph.constant(np.int64(number)) for number in (width, width - 1, 0))
    places = graph.cast(by, np.int64)
    negative = graph.add("Less", [places, zero], by.shape, bool)
    places = graph.where(negative, all_bits, graph.like("Min", places, all_bits), by.shape)
    first = graph.like("Min", places, last)
    for count in (first, graph.like("Sub", places, first)):
        bits = graph.like("BitShift", bits, graph.cast(count, bits.dtype), direction=direction)
    return bits


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"shift_left": _logical("LEFT"), "shift_right_logical": _logical("RIGHT"), "shift_right_arithmetic": _arithmetic}
)
