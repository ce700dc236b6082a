"""Rules for convolutions, linear layers and matrix products, and for the constants that are folded into them.

At inference, BatchNorm multiplies each channel by a number, and adds another number. After a convolution, a linear
layer or a layer normalisation, such an operation is folded into the weight and the bias of that layer. If the array has
four dimensions and comes from any other operation, the multiplication or addition becomes a depthwise convolution with
kernels of size 1.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue, as_constant, channel_constant

__all__ = ["FOLDING", "RULES"]


def _conv(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    x, weight = operands
    numbers, spatial = params["dimension_numbers"], len(x.shape) - 2
    plain = tuple(range(spatial + 2))
    if weight.constant is None or numbers != type(numbers)(plain, plain, plain):
        return None
    if spatial not in (1, 2) or any(n != 1 for n in params["lhs_dilation"]) or params["batch_group_count"] != 1:
        return None
    settings: dict[str, Any] = {
        "stride": [int(n) for n in params["window_strides"]],
        "padding": [[int(a), int(b)] for a, b in params["padding"]],
        "dilation": [int(n) for n in params["rhs_dilation"]],
    }
    shape, kernel = aval.shape, weight.constant
    if spatial == 1:  # LiteRT's convolutions have two dimensions
        settings = {key: [[0, 0] if key == "padding" else 1, *value] for key, value in settings.items()}
        x, kernel = graph.reshape(x, (*x.shape[:2], 1, x.shape[2])), jnp.expand_dims(jnp.asarray(kernel), 2)
        shape = (*shape[:2], 1, shape[2])
    bias = as_constant(jnp.zeros(shape[1], aval.dtype))
    settings["groups"] = int(params["feature_group_count"])
    out = graph.add("conv", [x, as_constant(kernel), bias], shape, **settings)
    return graph.reshape(out, aval.shape)


def _dot(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise a product as a linear layer if the right operand is constant, or as `batch_matmul` if none is."""
    (left, right), ((left_sum, right_sum), (left_batch, right_batch)) = operands, params["dimension_numbers"]
    if not left.real or len(left_sum) != 1:
        return None
    if right.constant is not None:
        if len(right.shape) != 2 or left_batch or left_sum[0] != len(left.shape) - 1 or len(left.shape) < 2:
            return None
        weight = right.constant if right_sum[0] == 1 else jnp.asarray(right.constant).T
        bias = as_constant(jnp.zeros(weight.shape[0], aval.dtype))
        return graph.add("linear", [left, as_constant(weight), bias], aval.shape)
    if left.constant is not None:
        return None
    sides = []
    for value, batch, summed in ((left, left_batch, left_sum), (right, right_batch, right_sum)):
        free = [axis for axis in range(len(value.shape)) if axis not in (*batch, *summed)]
        if len(free) != 1:
            return None
        sides.append(graph.transpose(value, [*batch, *free, *summed]))
    return graph.add("batch_matmul", sides, aval.shape)


def _layer_before(value: LayerValue) -> tuple[LayerNode, tuple[int, ...]] | None:
    """Return the layer that computes a value, and the shape of the layer's output before a reshape.

    Return None if no constants can be folded into this layer.
    """
    node = value.made_by("reshape")
    layer = (node.inputs[0] if node else value).made_by("conv", "linear", "layer_norm")
    return None if layer is None or layer.settings.get("activation") else (layer, layer.output.shape)


def _affine(
    graph: LayerGraph, x: LayerValue, constant: LayerValue, fold: Callable[[Any, Any, Any], tuple[Any, Any]]
) -> LayerValue | None:
    """Fold a constant into the layer that computes x, or else into a new depthwise convolution.

    Return the output of this layer, or None if neither is possible. `fold` maps a weight, a bias and the numbers per
    channel to the new weight and bias.
    """
    found = _layer_before(x)
    if found is not None:
        layer, shape = found
        axis = 1 if layer.op == "conv" else len(shape) - 1  # of the channels in the layer's output
        if x.shape == shape:
            numbers = channel_constant(constant, shape, axis)
        elif layer.op == "conv" and len(x.shape) == 3 and x.shape == (shape[0], shape[1], shape[3]):
            numbers = channel_constant(constant, x.shape, 1)  # one dimension: (B, C, 1, T) was reshaped to (B, C, T)
        else:  # any other reshape mixes the channels with other axes, so all of them need the same number
            one = channel_constant(constant, (1,), 0) if np.prod(constant.shape) == 1 else None
            numbers = None if one is None else jnp.broadcast_to(one, (shape[axis],))
        if numbers is not None:
            inputs, weight, bias = layer.inputs
            changed = fold(jnp.asarray(weight.constant), jnp.asarray(bias.constant), numbers)
            # a copy, because other operations may read the layer's own output
            new = graph.again(layer, [inputs, *map(as_constant, changed)])
            return graph.reshape(new, x.shape)
    numbers = channel_constant(constant, x.shape, 1) if len(x.shape) == 4 else None
    if numbers is None:
        return None
    channels = x.shape[1]
    # folded into the identity: the weight (channels, 1, 1, 1) of a depthwise convolution
    changed = fold(jnp.ones((channels, 1, 1, 1), x.dtype), jnp.zeros(channels, x.dtype), numbers)
    settings = {"stride": [1, 1], "padding": [[0, 0], [0, 0]], "dilation": [1, 1], "groups": channels}
    return graph.add("conv", [x, *map(as_constant, changed)], x.shape, **settings)


def _scaled(weight: Any, bias: Any, numbers: Any) -> tuple[Any, Any]:
    return weight * numbers.reshape(-1, *[1] * (weight.ndim - 1)), bias * numbers


def _sides(operands: Sequence[LayerValue]) -> tuple[LayerValue, LayerValue, bool] | None:
    """Return (array, constant, whether the constant is the first operand), or None unless one operand is constant."""
    a, b = operands
    if not (a.real and b.real) or (a.constant is None) == (b.constant is None):
        return None
    return (a, b, False) if b.constant is not None else (b, a, True)


def _mul(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    sides = _sides(operands)
    if sides is None or sides[0].shape != aval.shape:
        return None
    return _affine(graph, sides[0], sides[1], _scaled)


def _div(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    sides = _sides(operands)
    if sides is None or sides[2] or sides[0].shape != aval.shape:
        return None
    return _affine(graph, sides[0], sides[1], lambda weight, bias, numbers: _scaled(weight, bias, 1 / numbers))


def _add(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    if not operands[0].real or not aval.shape:
        return None
    sides = _sides(operands)
    if sides is not None and sides[0].shape == aval.shape:
        found = _affine(graph, sides[0], sides[1], lambda weight, bias, numbers: (weight, bias + numbers))
        if found is not None:
            return found
    return graph.add("add", operands, aval.shape)


def _sub(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    sides = _sides(operands)
    if sides is None or sides[0].shape != aval.shape:
        return None
    if sides[2]:  # constant - x
        return _affine(graph, sides[0], sides[1], lambda weight, bias, numbers: (-weight, numbers - bias))
    return _affine(graph, sides[0], sides[1], lambda weight, bias, numbers: (weight, bias - numbers))


Rule = Callable[..., LayerValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType({"conv_general_dilated": (_conv,), "dot_general": (_dot,)})
"""{name of a JAX primitive: rules that the first pass applies to it}; see `recognition.py`."""

FOLDING: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {"add": (_add,), "div": (_div,), "mul": (_mul,), "sub": (_sub,)}
)
"""{name of an operation of the graph: rules that the second pass applies to it}; see `recognition.py`."""
