"""Conversion of a floating-point net to an integer net."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from funcnet import nn
from funcnet.quantization.accumulators import bias_qparams, smallest_weight_scale
from funcnet.quantization.calibration import as_inputs
from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue
from funcnet.quantization.integer_operations import OPERATIONS
from funcnet.quantization.network import QuantizedNet, QuantizedNode, QuantizedValue
from funcnet.quantization.placement import check_ranges, qparams_of
from funcnet.quantization.qparams import QParams, choose_qparams, quantize
from funcnet.quantization.residuals import REAL
from funcnet.quantization.tracing import layers_of
from funcnet.tree import Params, PyTree, State

__all__ = ["ConvertedValue", "convert", "converted_values", "weight_qparams"]


def convert(
    net: nn.Module,
    params: Params,
    state: State,
    ranges: Mapping[str, QParams],
    example: PyTree,
    kernel: str = "reference",
    *,
    per_channel: bool = True,
) -> QuantizedNet:
    """Return a net with int8 weights whose results equal those of LiteRT's integer kernels bit for bit.

    Convolutions, linear layers and embeddings get int8 weights. BatchNorm is folded into the layer before it, and a
    ReLU after a layer becomes a lower limit of the layer's output integers. In an embedding, an id that is out of range
    selects the nearest row; a negative id does not count from the end.

    Args:
        net: the module.
        params, state: parameters and buffers of the module.
        ranges: result of `calibrate` for this net.
        example: example input, or a tuple of inputs. The converted net takes inputs of the same shapes.
        kernel: "reference" (gemmlowp's arithmetic) or "xnnpack" (LiteRT's default delegate).
        per_channel: whether each output channel of a weight has a separate scale. Embeddings always have one scale.

    Returns:
        A `QuantizedNet`: a pure function of the inputs.

    Raises:
        TypeError: if `ranges` is not a mapping of names to `QParams`, a range has the wrong number of scales for its
            array, or an example is not an array.
        ValueError: if the kernel is unknown, the ranges are those of another net or not of int8, an operation has no
            integer kernel, the net draws random numbers or changes buffers at inference, parameters are outside of a
            kernel's range, or a weight is not finite. If a layer is the cause, the message names it.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> from funcnet.quantization import calibrate
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> params, state = net.init(jax.random.key(0))
        >>> x = jnp.array([[0.5, -1.0]])
        >>> quantized = convert(net, params, state, calibrate(net, params, state, [x]), x)
        >>> quantized.size  # 6 bytes of weights, 3 biases of int32
        18
        >>> bool(jnp.abs(quantized(x) - net.apply(params, state, x)[0]).max() < 0.02)
        True
    """
    if kernel not in ("reference", "xnnpack"):
        raise ValueError(f"convert: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")
    check_ranges("convert", ranges)
    graph = layers_of("convert", net, params, state, as_inputs(example, "convert"), channels=ranges)
    converter = _Converter(graph, qparams_of("convert", graph, ranges), per_channel)
    net_of_integers = converter.converted(kernel)
    _check_kernels(net_of_integers)
    return net_of_integers


def weight_qparams(weight: ArrayLike, bias: ArrayLike | None, x_scale: float, per_channel: bool) -> QParams:
    """Return symmetric int8 parameters of a weight, with one scale for the array or for each channel of axis 0.

    If the bias would not fit in int32 with the scale that the weight alone needs, a larger scale is chosen; see
    `smallest_weight_scale`.

    Example:
        >>> weight_qparams(np.float32([[1.27], [-2.54]]), np.zeros(2), 0.1, True).scale
        (0.009999999776482582, 0.019999999552965164)
    """
    array = np.asarray(weight)
    rest = tuple(range(1, array.ndim)) if per_channel else None
    ends = array.min(rest), array.max(rest)
    qparams = choose_qparams(*ends, "int8", symmetric=True, axis=0 if per_channel else None)
    least = smallest_weight_scale(np.asarray(bias, np.float64), x_scale)
    scale = np.maximum(qparams.scale, least if per_channel else least.max())
    return QParams(scale, qparams.zero_point, qparams.dtype, qparams.axis)


@dataclass(frozen=True)
class ConvertedValue:
    """A value of a layer graph, and its place in the integer net.

    Attributes:
        value: the floating-point input of the graph, or the output of one of its nodes.
        number: number of the integer net's value.
        nodes: operations of the integer net that compute this value from the values that `value.producer` reads.
    """

    value: LayerValue
    number: int
    nodes: tuple[QuantizedNode, ...]


def converted_values(where: str, graph: LayerGraph, net: QuantizedNet) -> list[ConvertedValue]:
    """Return the place of each floating-point value of a layer graph in the integer net that `convert` made from it.

    Args:
        where: name of the caller, for error messages.
        graph: the layer graph, with the same scales of channels as in `convert`; see `residuals.py`.
        net: the integer net.

    Raises:
        ValueError: if the operations or the scales of channels differ, so that the integer net is that of another net.

    Example:
        >>> from funcnet import nn
        >>> from funcnet.quantization import calibrate
        >>> net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), np.ones((1, 2), np.float32)
        >>> params, state = net.init(jax.random.key(0))
        >>> quantized = convert(net, params, state, calibrate(net, params, state, [x]), x)
        >>> graph = layers_of("test", net, params, state, [x])
        >>> [(one.value.name, one.number) for one in converted_values("test", graph, quantized)]
        [('input:0', 1), ('0:linear', 4)]
    """
    real = [value for value in graph.inputs if value.real]
    if len(graph.inputs) != len(net.inputs):
        raise _other_net(where, f"{len(graph.inputs)} inputs", f"{len(net.inputs)}")
    first = [node for node in net.nodes[: len(real)] if node.op == "quantize"]
    if len(first) != len(real):
        raise _other_net(where, f"{len(real)} floating-point inputs", f"{len(first)}")
    found = [ConvertedValue(value, node.output, (node,)) for value, node in zip(real, first, strict=True)]
    place = len(real)
    for node in graph.nodes:
        begin, op = place, "add" if node.op == "hide" else node.op
        added = ("dequantize", "requantize", *(("embedding", "reshape") if node.op == "hide" else ()))
        while place < len(net.nodes) and net.nodes[place].op in added:
            place += 1
        expected = f"{op!r} in {node.layer or 'the net itself'} with the shape {node.output.shape}"
        if place == len(net.nodes):
            raise _other_net(where, expected, f"{len(net.nodes)} operations without it")
        last = net.nodes[place]
        shape = net.values[last.output].shape
        if (last.op, last.layer, shape) != (op, node.layer, node.output.shape):
            raise _other_net(where, expected, f"{last.op!r} in {last.layer or 'the net itself'} with the shape {shape}")
        if op == "scale" and not np.array_equal(net.constants.get(last.inputs[1], ()), node.inputs[1].constant):
            raise _other_net(where, f"the scales of channels of {node.layer} in the ranges", "others")
        place += 1
        if node.output.real:
            found.append(ConvertedValue(node.output, last.output, net.nodes[begin:place]))
    if more := [node for node in net.nodes[place:] if node.op != "dequantize"]:
        raise _other_net(where, f"{len(graph.nodes)} operations", f"also {more[0].op!r} in {more[0].layer}")
    return found


def _other_net(where: str, expected: str, got: str) -> ValueError:
    return ValueError(f"{where}: the int8 net is that of another net or other ranges; expected {expected}, got {got}.")


class _Converter:
    """Converts the nodes of a layer graph to nodes of an integer net."""

    def __init__(self, graph: LayerGraph, qparams: dict[int, QParams], per_channel: bool):
        self.graph, self.qparams, self.per_channel = graph, qparams, per_channel
        self.values: list[QuantizedValue] = []
        self.nodes: list[QuantizedNode] = []
        self.constants: dict[int, np.ndarray] = {}
        self.made: dict[int, int] = {}  # {id of a value of the layer graph: number of the integer net's value}
        self.layer = ""

    def converted(self, kernel: str) -> QuantizedNet:
        """Convert all nodes, and return the integer net."""
        inputs = []
        for value in self.graph.inputs:
            number = self.value(value.shape, value.dtype.name)
            inputs.append(number)
            if value.real:
                out = self.value(value.shape, "int8", self.qparams[id(value)])
                number = self.node("quantize", [number], out)
            self.made[id(value)] = number
        for node in self.graph.nodes:
            self.layer = node.layer
            try:
                self.convert(node)
            except ValueError as error:
                raise ValueError(f"convert: {node.where} cannot be converted; {error}") from None
        outputs, self.layer = [], ""
        for value in self.graph.outputs:
            outputs.append(self.real(value))
        places = jax.tree.unflatten(self.graph.structure, range(len(outputs)))
        ends = tuple(inputs), tuple(outputs)
        return QuantizedNet(kernel, tuple(self.values), tuple(self.nodes), *ends, self.constants, places)

    def convert(self, node: LayerNode) -> None:
        """Convert one node of the layer graph, and add the resulting nodes to the integer net."""
        settings = dict(node.settings)
        if node.op in REAL:
            inputs = [self.real(value) for value in node.inputs]
            out = self.value(node.output.shape, "float32")
            self.made[id(node.output)] = self.node(node.op, inputs, out, settings)
            return
        if node.op in ("add", "conv", "linear"):
            settings.setdefault("activation", None)
        out_qparams = self.qparams[id(node.output)]
        op, inputs = node.op, self.operands(node, out_qparams)
        if op == "hide":
            op, settings = "add", {"activation": None}
        if node.op == "concat":
            inputs = [self.requantized(number, out_qparams) for number in inputs]
        out = self.value(node.output.shape, "int8", out_qparams)
        self.made[id(node.output)] = self.node(op, inputs, out, settings)

    def operands(self, node: LayerNode, out_qparams: QParams) -> list[int]:
        """Return the numbers of the integer net's values that the converted node reads."""
        if node.op in ("conv", "linear"):
            return self.product(node)
        if node.op == "embedding":
            table, ids = node.inputs
            return [self.constant(table.constant, out_qparams), self.of(ids)]
        if node.op == "quantize":
            return [self.real(node.inputs[0])]
        if node.op == "hide":
            return [self.of(node.inputs[0]), self.mask(node, out_qparams)]
        return [self.of(value) for value in node.inputs]

    def mask(self, node: LayerNode, out_qparams: QParams) -> int:
        """Add nodes that compute what is added to attention scores: 0 where the mask is 1, and -255 steps where it is
        0. Return the number of this value.
        """
        qparams, ids = QParams(out_qparams.scale, 127, "int8"), self.of(node.inputs[1])
        table = self.value((2, 1), "int8", qparams)
        self.constants[table] = np.array([[-128], [127]], np.int8)
        rows = self.value((*node.inputs[1].shape, 1), "int8", qparams)
        self.node("embedding", [table, ids], rows)
        return self.node("reshape", [rows], self.value(node.settings["mask_shape"], "int8", qparams))

    def real(self, value: LayerValue) -> int:
        """Return the number of the float32 form of a value.

        If the integer net has the value only in integers, dequantize it.
        """
        if value.constant is not None:
            number = self.value(value.shape, "float32")
            self.constants[number] = np.asarray(value.constant, np.float32)
            return number
        number = self.made[id(value)]
        if self.values[number].dtype == "float32":
            return number
        return self.node("dequantize", [number], self.value(value.shape, "float32"))

    def product(self, node: LayerNode) -> list[int]:
        """Return the numbers of the input, the int8 weight and the int32 bias of a convolution or a linear layer."""
        x, weight, bias = node.inputs
        number = self.of(x)
        x_qparams = self.values[number].qparams
        assert x_qparams is not None
        qparams = weight_qparams(weight.constant, bias.constant, x_qparams.scale, self.per_channel)
        return [
            number,
            self.constant(weight.constant, qparams),
            self.constant(bias.constant, bias_qparams(x_qparams, qparams)),
        ]

    def requantized(self, number: int, qparams: QParams) -> int:
        """Return `number` if the value with this number has the parameters `qparams`.

        Otherwise, requantize the value, and return the new number.
        """
        value = self.values[number]
        if value.qparams == qparams:
            return number
        return self.node("requantize", [number], self.value(value.shape, "int8", qparams))

    def of(self, value: LayerValue) -> int:
        """Return the number of a value in the integer net.

        A new constant is quantized with the range of its entries.
        """
        if id(value) not in self.made:
            array = np.asarray(value.constant)
            qparams = choose_qparams(float(array.min()), float(array.max()), "int8")
            self.made[id(value)] = self.constant(array, qparams)
        return self.made[id(value)]

    def constant(self, array: ArrayLike, qparams: QParams) -> int:
        """Quantize a constant, add it to the integer net, and return its number."""
        integers = np.asarray(quantize(jax.numpy.asarray(array), qparams))
        number = self.value(integers.shape, integers.dtype.name, qparams)
        self.constants[number] = integers
        return number

    def value(self, shape: Sequence[int], dtype: str, qparams: QParams | None = None) -> int:
        """Add a value to the integer net, and return its number."""
        self.values.append(QuantizedValue(tuple(map(int, shape)), dtype, qparams))
        return len(self.values) - 1

    def node(self, op: str, inputs: Sequence[int], out: int, settings: Mapping[str, Any] | None = None) -> int:
        """Add a node to the integer net, and return the number of the node's output."""
        self.nodes.append(QuantizedNode(op, tuple(inputs), out, settings or {}, self.layer))
        return out


def _check_kernels(net: QuantizedNet) -> None:
    """Trace every operation without computing it, so that parameters outside of a kernel's range raise an error now."""
    shape = lambda index: jax.ShapeDtypeStruct(net.values[index].shape, net.values[index].dtype)
    for node in net.nodes:
        qparams = [net.values[index].qparams for index in node.inputs]
        out = net.values[node.output]

        def run(
            arrays: Sequence[jax.Array],
            node: QuantizedNode = node,
            qparams: Sequence[QParams | None] = qparams,
            out: QuantizedValue = out,
        ) -> Any:
            return OPERATIONS[node.op](arrays, qparams, out, node.settings, net.kernel)

        try:
            got = jax.eval_shape(run, [shape(index) for index in node.inputs])
        except ValueError as error:
            raise ValueError(
                f"convert: {node.layer or 'the operation ' + repr(node.op)} is outside of the kernel's range; {error}"
            ) from None
        assert (got.shape, got.dtype) == (out.shape, out.dtype), (node, got)
