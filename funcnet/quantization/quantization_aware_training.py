"""Quantization-aware training: the net rounds during training wherever the integer net will round."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.nn.core.module_tree import description_of, values
from funcnet.nn.core.parameter import Buffer
from funcnet.nn.module.module import Module
from funcnet.quantization.accumulators import smallest_weight_scale
from funcnet.quantization.evaluation import evaluate, softmax_range
from funcnet.quantization.fake_quantization import fake_quantize
from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue
from funcnet.quantization.placement import (
    check_ranges,
    fixed_qparams,
    keeps_qparams,
    observed,
    qparams_of,
    softmax_inputs,
)
from funcnet.quantization.qparams import QParams, choose_qparams, integer_range
from funcnet.quantization.tracing import layers_of
from funcnet.tree import PyTree

__all__ = ["QuantizationAware"]

_LOW, _HIGH = integer_range("int8")


class QuantizationAware(Module):
    """A net that rounds as the integer net does, but computes gradients as if nothing were rounded.

    The forward pass is the same in training and at inference: BatchNorm uses its running statistics and is folded into
    the layer before it, as in `convert`, and dropout is off. Start from a trained net, with a small learning rate.

    Args:
        net: the floating-point net.
        ranges: result of `calibrate` for this net. Training starts with these ranges.
        averaging_constant: weight of a new batch when training updates the moving averages of the ranges. With 0, the
            ranges stay fixed.
        per_channel: as in `convert`.

    Call: takes the inputs of `net`, and returns its output.

    Raises:
        TypeError: if `ranges` is not a mapping of names to `QParams`. A call raises TypeError if a range has the wrong
            number of scales for its array.
        ValueError: if there are no ranges, the dtype of a range is not int8, or `averaging_constant` is out of range. A
            call also raises ValueError if the ranges belong to another net, or the net cannot be converted; see
            `convert`.

    Example:
        >>> from funcnet import nn
        >>> from funcnet.quantization import calibrate, convert
        >>> net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), jnp.array([[0.5, -1.0]])
        >>> params, state = net.init(jax.random.key(0))
        >>> aware = QuantizationAware(net, calibrate(net, params, state, [x]))
        >>> both, buffers = aware.init(jax.random.key(0))
        >>> both = {"net": params}  # the trained net
        >>> out, buffers = aware.apply(both, buffers, x, training=True)
        >>> quantized = convert(net, both["net"], buffers["net"], aware.ranges(buffers), x)
        >>> bool(jnp.abs(quantized(x) - out).max() < 0.01)
        True

    Reference: Jacob et al. 2017, arXiv:1712.05877
    """

    low: Any
    high: Any

    def __init__(
        self,
        net: Module,
        ranges: Mapping[str, QParams],
        averaging_constant: float = 0.01,
        per_channel: bool = True,
    ):
        super().__init__()
        check_ranges("QuantizationAware", ranges)
        if not ranges:
            raise ValueError("QuantizationAware: there are no ranges; expected the result of calibrate, got none.")
        if not 0 <= averaging_constant <= 1:
            raise ValueError(
                f"QuantizationAware: averaging_constant is out of range; expected 0 to 1, got {averaging_constant!r}."
            )
        self.net = net
        self.start = dict(ranges)
        self.tensors = [name for name, one in ranges.items() if one.axis is None]  # ranges of channels do not change
        self.averaging_constant, self.per_channel = averaging_constant, per_channel
        ends = [
            [ranges[name].scale * (end - ranges[name].zero_point) for name in self.tensors] for end in (_LOW, _HIGH)
        ]
        for name, numbers in zip(("low", "high"), ends, strict=True):
            self.register_buffer(name, Buffer(np.asarray(numbers, np.float32)))

    def forward(self, *inputs: PyTree, **named: PyTree) -> Any:
        """Return the output of the net, computed with rounded weights and arrays."""
        params, state = values(self.net)
        inputs = (*inputs, *named.values())
        graph = layers_of(
            "QuantizationAware", description_of(self.net), params, state, inputs, tuple(named), self.start
        )
        qparams_of("QuantizationAware", graph, self.start)
        places = {name: place for place, name in enumerate(self.tensors)}
        lows, highs = list(self.low), list(self.high)
        scales: dict[int, Any] = {}  # {id of a value: its scale}, for the values so far

        def rounded(value: LayerValue, array: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
            scales[id(value)], zero = _parameters(low, high)
            return fake_quantize(array, scales[id(value)], zero, _LOW, _HIGH)

        # `evaluate` calls this function, after the tables that it reads are made below.
        def tap(value: LayerValue, array: jax.Array) -> jax.Array:
            if id(value) in weights:
                x, _, bias = weights[id(value)].inputs
                return _rounded_weight(array, bias.constant, _scale_of(x, scales), self.per_channel)
            if id(value) in tables:  # a table has the range of its own entries
                still = lax.stop_gradient(array)
                return rounded(value, array, still.min(), still.max())
            if id(value) in fixed:
                scales[id(value)] = fixed[id(value)].scale
                return fake_quantize(array, fixed[id(value)])
            if id(value) in averages:  # no range of its own, so nothing to update
                place = places[averages[id(value)]]
                return rounded(value, array, lows[place], highs[place])
            if id(value) not in watched:
                return array
            place = places[value.name]
            if self.training and self.averaging_constant:
                still = lax.stop_gradient(softmax_range(array) if id(value) in limited else array)
                step = jnp.float32(self.averaging_constant)
                lows[place] += step * (still.min() - lows[place])
                highs[place] += step * (still.max() - highs[place])
            return rounded(value, array, lows[place], highs[place])

        weights, tables = (_constants(graph, *ops) for ops in ((("conv", "linear"), 1), (("embedding",), 0)))
        fixed, averages = _fixed(graph), _averages(graph, places)
        watched, limited = {id(value) for value in observed(graph)}, softmax_inputs(graph)
        leaves = evaluate(graph, inputs, tap)
        if self.training and self.averaging_constant:
            self.low, self.high = jnp.stack(lows), jnp.stack(highs)
        return jax.tree.unflatten(graph.structure, leaves)

    def ranges(self, state: Mapping[str, Any]) -> dict[str, QParams]:
        """Return the ranges that a state of this module holds, as `convert` takes them.

        Args:
            state: the module's buffers.

        Returns:
            {name: parameters of int8}, as `calibrate` returns them.

        Raises:
            ValueError: if the state is that of another module.
        """
        lows, highs = (np.asarray(state.get(name, ())) for name in ("low", "high"))
        if not lows.shape == highs.shape == (len(self.tensors),):
            raise ValueError(
                f"QuantizationAware.ranges: the state is that of another module; expected low and high of the shape "
                f"{(len(self.tensors),)}, got {', '.join(state) or 'no buffers'}."
            )
        return self.start | {
            name: choose_qparams(float(low), float(high), "int8")
            for name, low, high in zip(self.tensors, lows, highs, strict=True)
        }


def _constants(graph: LayerGraph, ops: tuple[str, ...], place: int) -> dict[int, LayerNode]:
    """Return {id of a value: node that reads it}, for input number `place` of all nodes with an operation in `ops`."""
    return {id(node.inputs[place]): node for node in graph.nodes if node.op in ops}


def _fixed(graph: LayerGraph) -> dict[int, QParams]:
    found = ((node.output, fixed_qparams(node)) for node in graph.nodes)
    return {id(value): qparams for value, qparams in found if qparams is not None}


def _averages(graph: LayerGraph, places: Mapping[str, int]) -> dict[int, str]:
    """Return {id of the output of an average pooling: name of its input's range}.

    The integer kernel rounds the averages with this range.
    """
    found = {}
    for node in graph.nodes:
        value = node.inputs[0]
        while value.producer is not None and keeps_qparams(value.producer):
            value = value.producer.inputs[0]
        if node.op == "avg_pool" and value.name in places:
            found[id(node.output)] = value.name
    return found


def _scale_of(value: LayerValue, scales: Mapping[int, Any]) -> Any:
    """Return the scale of a value.

    If operations only moved or selected entries of an earlier value, this is the scale of that value.
    """
    while id(value) not in scales and (node := value.producer) is not None:
        if not keeps_qparams(node) and node.op != "embedding":
            break
        value = node.inputs[0]
    # A weight that is also the table of an embedding is rounded before the scale of its input is known. The infinite
    # scale means that the bias does not limit the scale of the weight.
    return scales.get(id(value), np.inf)


def _rounded_weight(
    weight: jax.Array, bias: jax.Array | None, x_scale: float | jax.Array, per_channel: bool
) -> jax.Array:
    """Round a weight to symmetric int8, with the scale that `convert` will choose."""
    still = jnp.abs(lax.stop_gradient(weight))
    largest = still.max(tuple(range(1, weight.ndim)) if per_channel else None)
    least = smallest_weight_scale(lax.stop_gradient(jnp.asarray(bias, jnp.float32)), x_scale)
    least = jnp.maximum(least if per_channel else least.max(), jnp.float32(np.finfo(np.float32).tiny))
    scale = jnp.maximum(largest / jnp.float32(_HIGH), least)
    zero = jnp.zeros(scale.shape, jnp.int32)
    return fake_quantize(weight, scale, zero, -_HIGH, _HIGH, 0 if per_channel else None)


def _parameters(low: jax.Array, high: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the int8 scale and zero point of a range, which is widened to contain 0, as in `choose_qparams`."""
    low, high = jnp.minimum(low, jnp.float32(0)), jnp.maximum(high, jnp.float32(0))
    scale = jnp.maximum((high - low) / jnp.float32(_HIGH - _LOW), jnp.float32(np.finfo(np.float32).tiny))
    return scale, jnp.clip(jnp.rint(jnp.float32(_LOW) - low / scale), _LOW, _HIGH).astype(jnp.int32)
