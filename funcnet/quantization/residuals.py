"""The residual stream of a transformer, which stays float32 in an integer net.

In the residual stream, a few channels are a hundred times as large as the others. With one int8 scale for all channels,
the small channels would be rounded to only a few integers. Layer normalisations, and the additions whose sums they
read, therefore stay float32. The linear layers that read the residual stream or add to it compute in integers, with
channels of similar size:

    linear -> scale -> real_add -> layer_norm -> scale -> quantize -> linear

`scale` multiplies each channel by a constant. The weights of the linear layer before or after `scale` are divided by
the same constants, so that the result of the net stays the same. The constants are computed from the largest entry of
each channel in the first batch of the calibration and, after a layer normalisation, also from the weights. The
constants are powers of two, so that multiplying by them does not round.

Reference: Xiao et al. 2022, arXiv:2211.10438 (the scale before a linear layer)
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue, as_constant, is_concrete
from funcnet.quantization.qparams import QParams

__all__ = ["REAL", "channels_name", "scaled", "with_real_residuals"]

REAL = ("layer_norm", "real_add", "scale")
"""Operations whose outputs stay float32."""


def with_real_residuals(first: LayerGraph, channels: Mapping[str, QParams] | None = None) -> LayerGraph:
    """Return a graph whose residual stream is float32, or the same graph if it has no layer normalisation.

    Args:
        first: the graph.
        channels: {result of `channels_name`: parameters with a scale for each channel}. If `channels` has no entry for
            a value, all channels of the value are treated as equally large.

    Example:
        >>> x, numbers = LayerValue((2, 3), np.dtype(np.float32)), LayerValue((3,), np.dtype(np.float32), np.ones(3))
        >>> graph = LayerGraph([x])
        >>> graph.outputs = [graph.add("layer_norm", [graph.add("add", [x, x], (2, 3)), numbers, numbers], (2, 3))]
        >>> [node.op for node in with_real_residuals(graph).nodes]
        ['real_add', 'layer_norm']
    """
    readers: dict[int, list[LayerNode]] = {}
    for node in first.nodes:
        for value in node.inputs:
            readers.setdefault(id(value), []).append(node)
    stream = _stream(first, readers)
    return _Rewriter(first, readers, stream, channels or {}).rewritten() if stream else first


def scaled(graph: LayerGraph) -> list[LayerValue]:
    """Return the values that the `scale` operations of a graph read."""
    return [node.inputs[0] for node in graph.nodes if node.op == "scale"]


def channels_name(value: LayerValue) -> str:
    """Return the name under which `calibrate` returns the range of each channel of a value."""
    return f"{value.name}:channels"


def _stream(graph: LayerGraph, readers: dict[int, list[LayerNode]]) -> set[int]:
    """Return the `id` of each value of the residual stream, which stays float32."""
    found: set[int] = set()
    for node in reversed(graph.nodes):
        after = readers.get(id(node.output), [])
        sums = node.op == "add" and not node.settings.get("activation")
        read = any(one.op == "layer_norm" or (one.op == "add" and id(one.output) in found) for one in after)
        if node.op == "layer_norm" or (sums and read):
            found.add(id(node.output))
    return found


class _Rewriter:
    """Copies a graph node by node, and keeps the values of `stream` in float32."""

    def __init__(
        self,
        first: LayerGraph,
        readers: dict[int, list[LayerNode]],
        stream: set[int],
        channels: Mapping[str, QParams],
    ):
        self.first, self.readers, self.stream, self.channels = first, readers, stream, channels
        self.graph = LayerGraph(first.inputs, structure=first.structure)
        self.now: dict[int, LayerValue] = {}
        self.quantized: dict[tuple[int, bool], LayerValue] = {}
        self.factors: dict[int, jax.Array] = {}

    def rewritten(self) -> LayerGraph:
        """Return the new graph."""
        for node in self.first.nodes:
            if id(node.output) in self.stream:
                inputs = [self.now.get(id(value), _once(value, node)) for value in node.inputs]
                op, settings = ("real_add", {}) if node.op == "add" else (node.op, node.settings)
                self.graph.layer = node.layer
                out = self.graph.add(op, inputs, node.output.shape, node.output.dtype, **settings)
            elif node.op == "linear":
                out = self.linear(node)
            else:
                out = self.graph.again(node, [self.integers(value) for value in node.inputs])
            self.now[id(node.output)] = out
        self.graph.outputs = [self.now.get(id(value), value) for value in self.first.outputs]
        self.graph.finish()
        return self.graph

    def linear(self, node: LayerNode) -> LayerValue:
        """Add a linear layer with its weights adapted to the scaled channels of its input and its output."""
        x, weight, bias = node.inputs
        numbers, added = jnp.asarray(weight.constant), jnp.asarray(bias.constant)
        source = self.integers(x, linear=True)
        if id(x) in self.factors:
            numbers = numbers * self.factors[id(x)]
        after = self.readers.get(id(node.output), [])
        outside = any(value is node.output for value in self.first.outputs)
        if outside or node.settings.get("activation") or not all(id(one.output) in self.stream for one in after):
            return self.graph.again(node, [source, as_constant(numbers), bias])
        factors = _power_of_two(self.sizes(node.output))
        inputs = [source, as_constant(numbers / factors[:, None]), as_constant(added / factors)]
        out = self.graph.again(node, inputs)
        self.graph.layer = node.layer
        return self.graph.add("scale", [out, as_constant(factors)], out.shape)

    def integers(self, value: LayerValue, linear: bool = False) -> LayerValue:
        """Return the value of the new graph that an integer operation reads for `value`.

        Quantize `value` if it is float32. If a linear layer reads the output of a layer normalisation (`linear=True`),
        scale the channels of this output first.
        """
        if id(value) not in self.stream:
            return self.now.get(id(value), value)
        key = id(value), linear and value.made_by("layer_norm") is not None
        if key not in self.quantized:
            real = self.now[id(value)]
            assert value.producer is not None
            self.graph.layer = value.producer.layer
            if key[1]:
                self.factors[id(value)] = factors = self.input_factors(value)
                real = self.graph.add("scale", [real, as_constant(1 / factors)], real.shape)
            self.quantized[key] = self.graph.add("quantize", [real], real.shape)
        return self.quantized[key]

    def input_factors(self, value: LayerValue) -> jax.Array:
        """Return a factor for each channel of a linear layer's input.

        The channel is divided by the factor, and the weights that read the channel are multiplied by it.
        """
        weights = [node.inputs[1].constant for node in self.readers[id(value)] if node.op == "linear"]
        columns = jnp.stack([jnp.abs(jnp.asarray(one)).max(0) for one in weights]).max(0)
        return _power_of_two(jnp.sqrt(self.sizes(value) / columns))

    def sizes(self, value: LayerValue) -> jax.Array:
        """Return an array that is proportional to the largest absolute entry of each channel of a value."""
        qparams = self.channels.get(channels_name(value))
        return jnp.ones(value.shape[-1]) if qparams is None else jnp.asarray(qparams.scale, jnp.float32)


def _power_of_two(numbers: jax.Array) -> jax.Array:
    """Return a power of two near each number, or 1 for NaN and for numbers outside 2⁻³⁰ to 2³⁰. It has no gradient."""
    numbers = lax.stop_gradient(numbers)
    usable = jnp.isfinite(numbers) & (numbers > jnp.float32(2.0**-30)) & (numbers < jnp.float32(2.0**30))
    exponents = jnp.frexp(jnp.where(usable, numbers, jnp.float32(1)))[1]
    return jnp.where(usable, jnp.ldexp(jnp.float32(1), exponents.astype(jnp.int32)), jnp.float32(1))


def _once(value: LayerValue, node: LayerNode) -> LayerValue:
    """Return the first row of a constant if all rows are equal, which saves space, or else the value itself."""
    others = [one.shape for one in node.inputs if one is not value]
    if not is_concrete(value) or len(value.shape) < 2 or node.output.shape not in others:
        return value
    array = np.asarray(value.constant)
    return as_constant(array[:1]) if (array == array[:1]).all() else value
