"""The rule for convolutions, `conv_general_dilated`."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.onnx.shaping import padded, spread
from funcnet.export.onnx.unsupported import BATCH_GROUPS
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _convolution(low: Emitter, equation: Equation, x: OnnxValue, w: OnnxValue) -> OnnxValue:
    params, aval, graph = equation.params, equation.outvars[0].aval, low.graph
    numbers, gaps = params["dimension_numbers"], params["lhs_dilation"]
    if params["batch_group_count"] != 1:
        raise low.refusal(equation, BATCH_GROUPS, "with batch groups")
    x, w = graph.transpose(x, numbers.lhs_spec), graph.transpose(w, numbers.rhs_spec)
    pads: Sequence[tuple[int, int]] = params["padding"]
    zero = graph.constant(np.zeros((), x.dtype))
    if any(n != 1 for n in gaps):  # a transposed convolution: zeros between the entries of the input
        for axis, n in enumerate(gaps, 2):
            x = spread(low, x, zero, axis, n - 1) if n > 1 else x
    if any(min(pair) < 0 for pair in pads):
        x, pads = padded(low, x, zero, [(0, 0), (0, 0), *pads]), [(0, 0)] * len(pads)
    out_order = numbers.out_spec
    shape = tuple(aval.shape[axis] for axis in out_order)
    out = graph.add(
        "Conv",
        [x, w],
        shape,
        aval.dtype,
        kernel_shape=[int(n) for n in w.shape[2:]],
        strides=list(params["window_strides"]),
        dilations=list(params["rhs_dilation"]),
        pads=[before for before, _ in pads] + [after for _, after in pads],
        group=params["feature_group_count"],
    )
    return graph.transpose(out, [out_order.index(axis) for axis in range(out.rank)])


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType({"conv_general_dilated": _convolution})
