"""Rules that replace elementary operations by one LayerNormalization, BatchNormalization, Conv with bias, Relu, Gelu,
Softmax or LogSoftmax.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from funcnet.export.onnx.graph import Graph, OnnxNode, OnnxValue
from funcnet.export.onnx.matching import axes_of, entry, made_by, near, other, scaled

__all__ = ["RULES"]


def _centred(value: OnnxValue) -> tuple[OnnxValue, Sequence[int]] | None:
    """Return (x, axes) if the value is x minus the mean of x along `axes`. Otherwise return None."""
    node = made_by(value, "Sub")
    mean = None if node is None else made_by(node.inputs[1], "ReduceMean")
    if node is None or mean is None or mean.inputs[0] is not node.inputs[0] or not mean.attributes["keepdims"]:
        return None
    return entry(node, 0), axes_of(mean)


def _layer_norm(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace c / sqrt(mean(c²) + eps), with c = x - mean(x), by LayerNormalization.

    The rule also accepts the form of funcnet's layers, which subtract the mean of c from c once more.
    """
    for centred, factor in (node.inputs, node.inputs[::-1]):
        assert centred is not None
        root = made_by(factor, "Reciprocal")
        root = made_by(root.inputs[0], "Sqrt") if root else None
        total = made_by(root.inputs[0], "Add") if root else None
        if total is None:
            continue
        eps = entry(total, 1).scalar()
        variance = made_by(total.inputs[0], "ReduceMean")
        square = made_by(variance.inputs[0], "Mul") if variance else None
        if eps is None or variance is None or square is None or square.inputs != [centred, centred]:
            continue
        found = _centred(centred)
        if found is None:
            continue
        x, axes = found
        # ONNX Runtime computes the variance as E[x²] - E[x]², which is inaccurate if the mean is large. The input of
        # LayerNormalization is therefore x minus its mean. LayerNormalization does the second subtraction, if any.
        x = x if (before := _centred(x)) is not None and list(before[1]) == list(axes) else centred
        if list(axes) != list(range(x.rank - len(axes), x.rank)) or list(axes_of(variance)) != list(axes):
            continue
        sizes = [x.shape[axis] for axis in axes]
        if not all(isinstance(size, int) for size in sizes):
            continue
        ones = graph.constant(np.ones(sizes, x.dtype))
        return graph.like("LayerNormalization", x, ones, axis=int(axes[0]) - x.rank, epsilon=float(eps))
    return None


def _layer_norm_weight(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace the product of a LayerNormalization and a weight of the normalised shape by one LayerNormalization."""
    for index in (0, 1):
        norm, weight = made_by(node.inputs[index], "LayerNormalization"), entry(node, 1 - index)
        if norm is None or len(norm.inputs) != 2 or not near(norm.inputs[1], 1.0):
            continue
        if weight.constant is not None and weight.shape == entry(norm, 1).shape:
            return graph.like("LayerNormalization", entry(norm, 0), weight, **norm.attributes)
    return None


def _layer_norm_bias(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace the sum of a LayerNormalization and a bias of the normalised shape by one LayerNormalization."""
    for index in (0, 1):
        norm, bias = made_by(node.inputs[index], "LayerNormalization"), entry(node, 1 - index)
        if norm is None or len(norm.inputs) != 2:
            continue
        if bias.constant is not None and bias.shape == entry(norm, 1).shape:
            return graph.like("LayerNormalization", entry(norm, 0), entry(norm, 1), bias, **norm.attributes)
    return None


def _of_channels(value: OnnxValue | None, like: OnnxValue) -> OnnxValue | None:
    """Return the array (C,) that was reshaped to the value (1, C, 1, …), or None if the value has another form."""
    reshape = made_by(value, "Reshape", "Unsqueeze")
    found = value if reshape is None else entry(reshape, 0)
    if value is None or found is None or found.rank != 1 or like.rank < 2:
        return None
    channels = [1] * like.rank
    channels[1] = like.shape[1]
    return found if [*value.shape] in (channels, channels[1:]) else None


def _convolution_bias(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace the sum of a convolution and a bias for each channel by a convolution with a bias."""
    for product, shift in (node.inputs, node.inputs[::-1]):
        convolution = made_by(product, "Conv")
        if convolution is not None and len(convolution.inputs) == 2:
            out = node.outputs[0]
            bias = _of_channels(shift, out)
            if bias is not None and bias.constant is not None:
                return graph.add("Conv", [*convolution.inputs, bias], out.shape, out.dtype, **convolution.attributes)
    return None


def _batch_norm(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace (x - mean) · (1 / sqrt(var + eps) · weight) + bias, with constant statistics, by BatchNormalization."""
    for product, shift in (node.inputs, node.inputs[::-1]):
        scaling = made_by(product, "Mul")
        centred = made_by(scaling.inputs[0], "Sub") if scaling else None
        if scaling is None or centred is None:
            continue
        x = entry(centred, 0)
        bias, mean, factor = (_of_channels(one, x) for one in (shift, centred.inputs[1], scaling.inputs[1]))
        weighted = made_by(factor, "Mul")
        inverse = made_by(weighted.inputs[0], "Div") if weighted else None
        root = made_by(inverse.inputs[1], "Sqrt") if inverse and near(inverse.inputs[0], 1.0) else None
        total = made_by(root.inputs[0], "Add") if root else None
        eps = entry(total, 1).scalar() if total else None
        if bias is None or mean is None or weighted is None or total is None or eps is None:
            continue
        arrays = [entry(weighted, 1), bias, mean, entry(total, 0)]
        if all(array.constant is not None for array in arrays):
            return graph.like("BatchNormalization", x, *arrays, epsilon=float(eps))
    return None


def _relu(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace max(x, 0) by Relu, which ONNX Runtime computes together with a convolution before it."""
    for index in (0, 1):
        x, limit = entry(node, 1 - index), entry(node, index)
        if limit.scalar() == 0.0 and x.shape == node.outputs[0].shape and np.issubdtype(x.dtype, np.floating):
            return graph.like("Relu", x)
    return None


def _shifted(value: OnnxValue) -> tuple[OnnxValue, int] | None:
    """Return (x, axis) if the value is x minus its maximum along one axis."""
    node = made_by(value, "Sub")
    most = None if node is None else node.inputs[1]
    if (limited := made_by(most, "Max")) is not None:  # a limit at the lowest number changes no finite entry
        lowest = [n for n in (0, 1) if entry(limited, n).scalar() == np.finfo(entry(limited, n).dtype).min]
        most = limited.inputs[1 - lowest[0]] if lowest else None
    top = made_by(most, "ReduceMax")
    if node is None or top is None or top.inputs[0] is not node.inputs[0] or not top.attributes["keepdims"]:
        return None
    axes = axes_of(top)
    return (entry(node, 0), axes[0]) if len(axes) == 1 else None


def _softmax(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace the exponentials of x minus its maximum, divided by their sum, by Softmax.

    A product of matrices x is assumed to be finite. The sum of the exponentials is then at least 1, and the rule drops
    a lower limit of 1 for this sum.
    """
    exponentials, total = made_by(node.inputs[0], "Exp"), made_by(node.inputs[1], "ReduceSum", "Max")
    limited = total is not None and total.op == "Max"
    if total is not None and limited:
        sums = [n for n in (0, 1) if near(total.inputs[1 - n], 1.0)]
        total = made_by(total.inputs[sums[0]], "ReduceSum") if sums else None
    if exponentials is None or total is None or total.inputs[0] is not node.inputs[0]:
        return None
    found = _shifted(entry(exponentials, 0))
    if found is None or list(axes_of(total)) != [found[1]] or not total.attributes["keepdims"]:
        return None
    if limited and made_by(found[0], "MatMul") is None:
        return None
    return graph.like("Softmax", found[0], axis=found[1])


def _log_softmax(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace s - log(sum(exp(s))), in which s is x minus its maximum, by LogSoftmax."""
    shifted, log = entry(node, 0), made_by(node.inputs[1], "Log")
    total = made_by(log.inputs[0], "ReduceSum") if log else None
    exponentials = made_by(total.inputs[0], "Exp") if total else None
    found = _shifted(shifted)
    if total is None or exponentials is None or found is None or exponentials.inputs[0] is not shifted:
        return None
    if list(axes_of(total)) != [found[1]] or not total.attributes["keepdims"]:
        return None
    return graph.like("LogSoftmax", found[0], axis=found[1])


def _gelu(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace x · Φ(x) by Gelu. Φ(x) is (1 + erf(x / √2)) / 2, and may be set to 0 below a limit such as -6."""
    for x, chance in (node.inputs, node.inputs[::-1]):
        assert x is not None and chance is not None
        tail = made_by(chance, "Where")
        if tail is not None and near(tail.inputs[1], 0.0):
            below = made_by(tail.inputs[0], "Less")
            limit = entry(below, 1).scalar() if below is not None and below.inputs[0] is x else None
            chance = tail.inputs[2] if limit is not None and limit <= -5.5 else None
        half = scaled(made_by(chance, "Mul"), 0.5)
        error = made_by(scaled(made_by(half, "Add"), 1.0), "Erf")
        if error is not None and scaled(made_by(error.inputs[0], "Mul"), 0.5**0.5) is x:
            return graph.like("Gelu", x)
    return None


def _gelu_erfc(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace x / 2 · erfc(-x / √2), as in `jax.nn.gelu`, by Gelu.

    The graph contains 1 - erf(y) in place of erfc(y).
    """
    for half, tail in (node.inputs, node.inputs[::-1]):
        x = scaled(made_by(half, "Mul"), 0.5)
        rest = made_by(tail, "Sub")
        error = made_by(rest.inputs[1], "Erf") if rest is not None and near(rest.inputs[0], 1.0) else None
        negative = made_by(scaled(made_by(error.inputs[0], "Mul"), 0.5**0.5), "Neg") if error is not None else None
        if x is not None and negative is not None and negative.inputs[0] is x:
            return graph.like("Gelu", x)
    return None


def _gelu_tanh(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace x · σ(√(8 / π) · (x + 0.044715 · x³)) by Gelu with the approximation "tanh"."""
    for x, chance in (node.inputs, node.inputs[::-1]):
        assert x is not None and chance is not None
        sigmoid = made_by(chance, "Sigmoid")
        cubic = made_by(scaled(made_by(sigmoid.inputs[0], "Mul"), (8 / np.pi) ** 0.5), "Add") if sigmoid else None
        cube = other(cubic, x)
        square = other(made_by(cube, "Mul"), x)
        linear = other(made_by(square, "Mul"), x)
        if scaled(made_by(linear, "Mul"), 0.044715) is x:
            return graph.like("Gelu", x, approximate="tanh")
    return None


Rule = Callable[[Graph, OnnxNode], OnnxValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {
        "Mul": (_layer_norm, _layer_norm_weight, _gelu, _gelu_erfc, _gelu_tanh),
        "Add": (_layer_norm_bias, _convolution_bias, _batch_norm),
        "Max": (_relu,),
        "Div": (_softmax,),
        "Sub": (_log_softmax,),
    }
)
