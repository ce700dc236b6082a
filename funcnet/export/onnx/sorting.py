"""Rules for sorting. The only operator of ONNX that sorts is TopK. Like JAX, TopK orders equal entries by position."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.onnx.unsupported import MANY_KEYS
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _sort(low: Emitter, equation: Equation, *arrays: OnnxValue) -> list[OnnxValue]:
    axis = equation.params["dimension"]
    if equation.params["num_keys"] != 1:
        raise low.refusal(equation, MANY_KEYS, f"with {equation.params['num_keys']} keys")
    keys, graph = arrays[0], low.graph
    numbers = graph.cast(keys, np.int32) if keys.dtype == bool else keys
    _, places = graph.add_many(
        "TopK",
        [numbers, low.dimensions.value(keys.shape[axis])],
        [(keys.shape, numbers.dtype), (keys.shape, np.int64)],
        axis=axis,
        largest=0,
        sorted=1,
    )
    return [graph.add("GatherElements", [one, places], one.shape, one.dtype, axis=axis) for one in arrays]


def _top_k(low: Emitter, equation: Equation, x: OnnxValue) -> list[OnnxValue]:
    axis = equation.params.get("axis", -1) % x.rank
    found, places = (variable.aval for variable in equation.outvars)
    size = low.dimensions.value(found.shape[axis])
    best, where = low.graph.add_many(
        "TopK", [x, size], [(found.shape, x.dtype), (places.shape, np.int64)], axis=axis, largest=1, sorted=1
    )
    return [best, low.graph.cast(where, places.dtype)]


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType({"sort": _sort, "top_k": _top_k})
