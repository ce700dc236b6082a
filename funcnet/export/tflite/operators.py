"""Write each operation of an integer net in LiteRT's operators."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.tflite.layout import Tensors
from funcnet.export.tflite.normalisation import write_layer_norm
from funcnet.export.tflite.writing import TfliteFile
from funcnet.quantization import QuantizedNet, QuantizedNode

__all__ = ["WRITERS", "model_of"]

_ACTIVATIONS: Mapping[Any, int] = MappingProxyType({None: 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3})
_SAME, _VALID = 0, 1
_LAST = (0, 2, 3, 1)


def model_of(net: QuantizedNet, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> bytes:
    """Return the bytes of a `.tflite` file that computes the same outputs as the net.

    Args:
        net: the net.
        inputs, outputs: names of the net's inputs and outputs. The default is "input_0", "output_0" and so on.

    Raises:
        ValueError: if LiteRT has no operator for an operation with its settings.
    """
    file = TfliteFile("to_tflite")
    tensors = Tensors(file, net)
    arguments = [tensors.new(number) for number in net.inputs]
    for node in net.nodes:
        WRITERS[node.op](file, tensors, node)
    results = [tensors.plain(number) for number in net.outputs]
    inputs = inputs or [f"input_{place}" for place in range(len(arguments))]
    outputs = outputs or [f"output_{place}" for place in range(len(results))]
    return file.finish(dict(zip(inputs, arguments, strict=True)), dict(zip(outputs, results, strict=True)))


def _conv(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    x, weight, bias = node.inputs
    settings, net = node.settings, tensors.net
    kernel, qparams = net.constants[weight], net.values[weight].qparams
    assert qparams is not None
    source, padding = _padded(file, tensors, node, kernel.shape[2:], settings["dilation"])
    stride, dilation = settings["stride"], settings["dilation"]
    fields = {
        "padding": padding,
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
        "fusedActivationFunction": _ACTIVATIONS[settings["activation"]],
    }
    depthwise = settings["groups"] == net.values[x].shape[1] > 1
    if depthwise:
        kernel = kernel[:, 0].transpose(1, 2, 0)[None]  # (1, kH, kW, O)
        fields["depthMultiplier"] = kernel.shape[3] // settings["groups"]
    else:
        kernel = kernel.transpose(_LAST)  # (O, kH, kW, C / groups)
    axis = None if qparams.axis is None else 3 if depthwise else 0
    constant = file.tensor(f"{node.layer}.weight", kernel.shape, "int8", qparams, np.ascontiguousarray(kernel), axis)
    name, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    out = tensors.new(node.output, last=True)
    file.operator(name, [source, constant, tensors.plain(bias)], [out], options, 3, **fields)


def _pool(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    settings = node.settings
    size, stride = settings["kernel_size"], settings["stride"]
    source, padding = _padded(file, tensors, node, size, [1, 1])
    fields = {"filterHeight": size[0], "filterWidth": size[1], "strideH": stride[0], "strideW": stride[1]}
    name = "MAX_POOL_2D" if node.op == "max_pool" else "AVERAGE_POOL_2D"
    out = tensors.new(node.output, last=True)
    file.operator(name, [source], [out], "Pool2DOptions", 2, padding=padding, **fields)


def _padded(
    file: TfliteFile, tensors: Tensors, node: QuantizedNode, kernel: Sequence[int], dilation: Sequence[int]
) -> tuple[int, int]:
    """Return the input of a convolution or pooling as a tensor (N, H, W, C), and LiteRT's kind of padding.

    If LiteRT's kinds VALID and SAME both differ from the padding of the operation, add an operator that pads the input.
    """
    x, pads = node.inputs[0], [tuple(pair) for pair in node.settings["padding"]]
    value, source = tensors.net.values[x], tensors.last(x)
    if not any(map(any, pads)):
        return source, _VALID
    sizes = zip(value.shape[2:], kernel, node.settings["stride"], dilation, strict=True)
    if pads == [_same(*one) for one in sizes]:
        return source, _SAME
    if node.op == "avg_pool":
        raise ValueError(
            f"to_tflite: {node.layer or 'an average pooling'} excludes padding from the average; expected no padding, "
            f"or that of LiteRT's SAME, got {pads}. Use count_include_pad=True."
        )
    rows = [(0, 0), *pads, (0, 0)]
    shape = [n + low + high for n, (low, high) in zip((value.shape[a] for a in _LAST), rows, strict=True)]
    padded = file.tensor(f"value{x}.padded", shape, value.dtype, value.qparams)
    inputs = [source, tensors.ints(np.asarray(rows))]
    if node.op == "max_pool":
        lowest = np.full((1,), np.iinfo(value.dtype).min, value.dtype)
        inputs.append(file.tensor("lowest", (1,), value.dtype, value.qparams, lowest))
        file.operator("PADV2", inputs, [padded], "PadV2Options", 2)
    else:
        file.operator("PAD", inputs, [padded], "PadOptions", 2)
    return padded, _VALID


def _same(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the padding (before, after) of LiteRT's kind SAME for one dimension. If the total is odd, the smaller half
    is before.
    """
    total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2, total - total // 2


def _linear(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    x, weight, bias = node.inputs
    inputs = [tensors.plain(x), tensors.plain(weight), tensors.plain(bias)]
    fields = {
        "fusedActivationFunction": _ACTIVATIONS[node.settings["activation"]],
        "keepNumDims": len(tensors.net.values[x].shape) > 2,
    }
    file.operator("FULLY_CONNECTED", inputs, [tensors.new(node.output)], "FullyConnectedOptions", 5, **fields)


def _add(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    last = tensors.is_last(node.inputs) and len(tensors.net.values[node.output].shape) == 4
    last = last and all(n in tensors.net.constants or len(tensors.net.values[n].shape) == 4 for n in node.inputs)
    inputs = [tensors.either(number, last) for number in node.inputs]
    fields = {"fusedActivationFunction": _ACTIVATIONS[node.settings.get("activation")], "potScaleInt16": False}
    file.operator("ADD", inputs, [tensors.new(node.output, last)], "AddOptions", 2, **fields)


def _scale(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    inputs = [tensors.plain(number) for number in node.inputs]
    file.operator("MUL", inputs, [tensors.new(node.output)], "MulOptions")


def _concat(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    last, axis = tensors.is_last(node.inputs), node.settings["axis"]
    inputs = [tensors.either(number, last) for number in node.inputs]
    axis = _LAST.index(axis) if last else axis
    file.operator("CONCATENATION", inputs, [tensors.new(node.output, last)], "ConcatenationOptions", 2, axis=axis)


def _pad(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    last, rows = tensors.is_last(node.inputs), node.settings["padding"]
    rows = [rows[axis] for axis in _LAST] if last else rows
    inputs = [tensors.either(node.inputs[0], last), tensors.ints(rows)]
    file.operator("PAD", inputs, [tensors.new(node.output, last)], "PadOptions", 2)


def _reshape(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    shape = tensors.net.values[node.output].shape
    inputs = [tensors.plain(node.inputs[0]), tensors.ints(shape)]
    file.operator("RESHAPE", inputs, [tensors.new(node.output)], "ReshapeOptions", newShape=list(shape))


def _transpose(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    inputs = [tensors.plain(node.inputs[0]), tensors.ints(node.settings["order"])]
    version = 2 if len(node.settings["order"]) < 5 else 4
    file.operator("TRANSPOSE", inputs, [tensors.new(node.output)], "TransposeOptions", version)


def _elementwise(name: str, options: str | None = None, version: int = 1, **fields: Any) -> "Writer":
    """Return the function that writes an operator with one input, which may have either order of dimensions."""

    def write(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
        last = tensors.is_last(node.inputs)
        inputs = [tensors.either(node.inputs[0], last)]
        file.operator(name, inputs, [tensors.new(node.output, last)], options, version, **fields)

    return write


_TABLES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "gelu": ("GELU", "GeluOptions", 2, False),
        "gelu_tanh": ("GELU", "GeluOptions", 2, True),
        "sigmoid": ("LOGISTIC", None, 2),
        "tanh": ("TANH", None, 2),
    }
)


def _table(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    name, options, version, *approximate = _TABLES[node.settings["function"]]
    fields = {"approximate": approximate[0]} if approximate else {}
    _elementwise(name, options, version, **fields)(file, tensors, node)


def _relu(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    name = {"relu": "RELU", "relu6": "RELU6", "relu_n1_to_1": "RELU_N1_TO_1"}[node.settings["activation"]]
    _elementwise(name, None, 1 if name == "RELU_N1_TO_1" else 2)(file, tensors, node)


def _embedding(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    inputs = [tensors.plain(number) for number in node.inputs]
    file.operator("GATHER", inputs, [tensors.new(node.output)], "GatherOptions", 2, axis=0)


def _batch_matmul(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    inputs = [tensors.plain(number) for number in node.inputs]
    out = tensors.new(node.output)
    file.operator("BATCH_MATMUL", inputs, [out], "BatchMatMulOptions", 3, adjX=False, adjY=True)


def _softmax(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    out = tensors.new(node.output)
    file.operator("SOFTMAX", [tensors.plain(node.inputs[0])], [out], "SoftmaxOptions", 2, beta=1.0)


def _crop(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    sizes = tensors.net.values[node.output].shape
    inputs = [tensors.plain(node.inputs[0]), tensors.ints(node.settings["begin"]), tensors.ints(sizes)]
    file.operator("SLICE", inputs, [tensors.new(node.output)], "SliceOptions", 2)


Writer = Callable[[TfliteFile, Tensors, QuantizedNode], None]
WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        "add": _add,
        "avg_pool": _pool,
        "batch_matmul": _batch_matmul,
        "concat": _concat,
        "conv": _conv,
        "crop": _crop,
        "dequantize": _elementwise("DEQUANTIZE", None, 2),
        "embedding": _embedding,
        "layer_norm": write_layer_norm,
        "linear": _linear,
        "max_pool": _pool,
        "pad": _pad,
        "quantize": _elementwise("QUANTIZE"),
        "real_add": _add,
        "relu": _relu,
        "requantize": _elementwise("QUANTIZE"),
        "reshape": _reshape,
        "scale": _scale,
        "softmax": _softmax,
        "table": _table,
        "transpose": _transpose,
    }
)
"""{name of an operation of the integer net: function that writes it in LiteRT's operators}."""
