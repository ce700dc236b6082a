"""Rules for operations that move or select entries: reshape, transpose, concatenate, pad and slice."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jax.core import ShapedArray

from funcnet.quantization.graph import LayerGraph, LayerValue, scalar_constant

__all__ = ["FOLDING", "RULES"]


def _reshape(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Add a reshape to the graph, after a transpose if the JAX operation also reorders dimensions."""
    (x,), order = operands, params.get("dimensions")
    if not x.real:
        return None
    return graph.reshape(x if order is None else graph.transpose(x, order), aval.shape)


def _squeeze(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise an operation that adds or removes dimensions of size 1 as a reshape."""
    return graph.reshape(operands[0], aval.shape) if operands[0].real else None


def _broadcast(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise a broadcast that only adds dimensions of size 1 as a reshape."""
    axes = params["broadcast_dimensions"]
    same = math.prod(aval.shape) == math.prod(operands[0].shape) and list(axes) == sorted(axes)
    return graph.reshape(operands[0], aval.shape) if same and operands[0].real else None


def _transpose(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    return graph.transpose(operands[0], params["permutation"]) if operands[0].real else None


def _concatenate(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    if not operands[0].real:
        return None
    return graph.add("concat", operands, aval.shape, axis=int(params["dimension"]))


def _slice(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Return the operand if a slice covers all of it, so that the slice needs no node."""
    return operands[0] if aval.shape == operands[0].shape else None


def _pad(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise padding with zeros, padding of width 0 (no node), and negative padding at the ends (a crop)."""
    x, filler = operands
    config = [tuple(map(int, one)) for one in params["padding_config"]]
    if all(one == (0, 0, 0) for one in config):
        return x
    if x.real and all(low == inside == 0 and high <= 0 for low, high, inside in config):
        return graph.add("crop", [x], aval.shape, begin=[0] * len(config))
    if not x.real or scalar_constant(filler) != 0.0 or any(min(one) < 0 or one[2] for one in config):
        return None
    return graph.add("pad", [x], aval.shape, padding=[list(one[:2]) for one in config])


def _cast(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    return operands[0] if operands[0].dtype == aval.dtype else None


def _crop(
    graph: LayerGraph, operands: Sequence[LayerValue], settings: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise a slice whose strides are all 1 as a crop."""
    params = settings["params"]
    if not operands[0].real or any(step != 1 for step in params["strides"] or ()):
        return None
    return graph.add("crop", operands, aval.shape, begin=[int(start) for start in params["start_indices"]])


Rule = Callable[..., LayerValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {
        "broadcast_in_dim": (_broadcast,),
        "concatenate": (_concatenate,),
        "convert_element_type": (_cast,),
        "expand_dims": (_squeeze,),
        "pad": (_pad,),
        "reshape": (_reshape,),
        "slice": (_slice,),
        "squeeze": (_squeeze,),
        "transpose": (_transpose,),
    }
)
"""{name of a JAX primitive: rules that the first pass applies to it}; see `recognition.py`."""

FOLDING: Mapping[str, Sequence[Rule]] = MappingProxyType({"reshape": (_reshape,), "slice": (_crop,)})
"""{name of an operation of the graph: rules that the second pass applies to it}; see `recognition.py`."""
