"""The losses of a quantized net, operation by operation: how far the integers are from the floating-point net, and why.

The loss of an array is its signal-to-quantization-noise ratio, `10 · log10(Σ x² / Σ (q - x)²)` in decibels. Here, `x`
is the array of the floating-point net, and `q` is the real numbers that the integers represent. Each halving of the
errors adds 6 dB.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import nn
from funcnet.quantization.calibration import as_batches
from funcnet.quantization.conversion import ConvertedValue, converted_values
from funcnet.quantization.evaluation import evaluate, softmax_limit
from funcnet.quantization.graph import LayerGraph, LayerValue
from funcnet.quantization.loss_report import LayerLoss, LayerLosses
from funcnet.quantization.network import QuantizedNet
from funcnet.quantization.observers import PercentileObserver
from funcnet.quantization.placement import check_ranges, keeps_qparams, masked_scores, softmax_inputs
from funcnet.quantization.qparams import QParams, dequantize, integer_range, quantize
from funcnet.quantization.tracing import layers_of
from funcnet.tree import Params, State

__all__ = ["layer_losses"]

_WHERE = "layer_losses"
_OBSERVER = PercentileObserver()  # its state is a histogram


class _Sums(NamedTuple):
    """Sums over the entries of one array.

    Attributes:
        signal: squares of the floating-point values.
        net, alone, rounding: squares of the errors of the three ratios of `LayerLoss`.
        clipped: number of values outside of the range.
        size: number of values.
    """

    signal: float
    net: float
    alone: float
    rounding: float
    clipped: float
    size: float


def layer_losses(
    net: nn.Module,
    params: Params,
    state: State,
    quantized: QuantizedNet,
    batches: Iterable[Any],
    ranges: Mapping[str, QParams] | None = None,
) -> LayerLosses:
    """Compare each array of a quantized net with the same array of the floating-point net.

    Args:
        net: the floating-point module.
        params, state: parameters and buffers of the module, as `convert` got them.
        quantized: the integer net that `convert` made from this module.
        batches: batches of inputs, as `calibrate` takes them. Each batch has the shapes of the example that `convert`
            got. Batches that the calibration did not see also show values that its ranges clip.
        ranges: the ranges that `convert` got. Only nets with layer normalisation need them; see `residuals.py`.

    Returns:
        The losses of the floating-point inputs and of every operation, in the order in which the operations run. A
        terminal and a notebook show them as a table. Attention scores that a mask hides have no row, because the next
        row has the masked scores.

    Raises:
        TypeError: if `quantized` is not a `QuantizedNet`, `batches` is a single array or is not iterable, or the number
            or the dtype of a batch's arrays is wrong.
        ValueError: if there is no batch, a batch has the wrong shape, the integer net is that of another net, or an
            array of the floating-point net holds infinity or NaN.

    Example:
        >>> from funcnet import nn
        >>> from funcnet.quantization import calibrate, convert
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> params, state = net.init(jax.random.key(0))
        >>> x = jax.random.normal(jax.random.key(1), (16, 4))
        >>> quantized = convert(net, params, state, calibrate(net, params, state, [x]), x)
        >>> losses = layer_losses(net, params, state, quantized, [x])
        >>> [(row.name, row.operation, row.net > 30) for row in losses.rows]
        [('input:0', 'input', True), ('0:linear', 'linear + relu', True), ('2:linear', 'linear', True)]
        >>> len(losses.worst(1))
        1
    """
    if not isinstance(quantized, QuantizedNet):
        raise TypeError(
            f"{_WHERE}: the quantized net is wrong; expected the QuantizedNet that convert returns, got "
            f"{type(quantized).__name__}."
        )
    check_ranges(_WHERE, ranges or {})
    comparison = None
    for batch in as_batches(batches, _WHERE):
        inputs = quantized.checked(batch, _WHERE)
        if comparison is None:
            graph = layers_of(_WHERE, net, params, state, batch, channels=ranges)
            _require_ranges(graph, ranges)
            comparison = _Comparison(graph, quantized)
        comparison.update(inputs)
    if comparison is None:
        raise ValueError(f"{_WHERE}: there is no batch; expected at least one, got none.")
    return LayerLosses(comparison.rows(), quantized.kernel, comparison.histograms)


def _require_ranges(graph: LayerGraph, ranges: Mapping[str, QParams] | None) -> None:
    if not ranges and any(node.op == "scale" for node in graph.nodes):
        raise ValueError(
            f"{_WHERE}: the net has layer normalisation, whose channels have scales from the calibration; expected "
            "the ranges that convert got as the argument `ranges`, got none."
        )


class _Arrays(NamedTuple):
    """The floating-point form of one array.

    Attributes:
        exact: the array of the floating-point net.
        net, alone, rounding: the arrays with the errors of the three ratios of `LayerLoss`.
    """

    exact: jax.Array
    net: jax.Array
    alone: jax.Array
    rounding: jax.Array


class _Comparison:
    """The comparison of a layer graph with the integer net that was made from it.

    Attributes:
        shown: the values that get a row.
        sums: {name of a row: array of the sums of `_Sums` over the batches so far}.
        histograms: {name of a row: histogram of the floating-point values of the batches so far}.
    """

    def __init__(self, graph: LayerGraph, quantized: QuantizedNet):
        self.graph, self.quantized = graph, quantized
        places = converted_values(_WHERE, graph, quantized)
        masked = {id(value) for value in masked_scores(graph)}
        self.shown = [one for one in places if id(one.value) not in masked]
        self.limited = softmax_inputs(graph)
        # The channels of these outputs of linear layers are scaled. Their errors count as they are after `scale`.
        scales = [node.inputs for node in graph.nodes if node.op == "scale"]
        self.factors = {id(x): np.asarray(factors.constant) for x, factors in scales if x.made_by("linear")}
        self.numbers = {id(one.value): one.number for one in places}
        for value, number in zip(graph.inputs, quantized.inputs, strict=True):
            self.numbers.setdefault(id(value), number)  # an integer input
        self.sums: dict[str, np.ndarray] = {}
        self.histograms = {one.value.name: _OBSERVER.init() for one in self.shown}
        self.run, self.count = jax.jit(self._run), jax.jit(_OBSERVER.update)

    def update(self, inputs: Sequence[jax.Array]) -> None:
        """Compare the arrays of one batch. NumPy computes the sums, because one program with all of them takes much
        longer to compile.
        """
        found = self.run(self.quantized.constants, inputs)
        for one in self.shown:
            name, arrays = one.value.name, found[one.value.name]
            self.histograms[name] = self.count(self.histograms[name], arrays.exact)
            exact, *others = (np.asarray(array, np.float64) for array in arrays)
            factors = self.factors.get(id(one.value), 1.0)
            squares = (np.sum((array * factors) ** 2) for array in (exact, *(array - exact for array in others)))
            clipped = _outside(exact, self.quantized.values[one.number].qparams)
            self.sums[name] = self.sums.get(name, 0.0) + np.array([*squares, clipped, exact.size], np.float64)

    def rows(self) -> tuple[LayerLoss, ...]:
        """Return the rows of the batches so far."""
        return tuple(_row(one, self.quantized, _Sums(*self.sums[one.value.name])) for one in self.shown)

    def _run(self, constants: Mapping[int, Any], inputs: Sequence[jax.Array]) -> dict[str, _Arrays]:
        """Return {name of a row: its arrays} for one batch."""
        exact = {id(value): array for value, array in zip(self.graph.inputs, inputs, strict=True)}

        def tap(value: LayerValue, array: jax.Array) -> jax.Array:
            exact[id(value)] = array
            return array

        evaluate(self.graph, inputs, tap)
        known = {**constants, **dict(zip(self.quantized.inputs, inputs, strict=True))}
        net = self.quantized.compute(self.quantized.nodes, known)
        found = {}
        for one in self.shown:
            x = exact[id(one.value)].astype(jnp.float32)
            outputs = net[one.number], self._alone(one, constants, exact), self._rounded(one.number, x)
            arrays = _Arrays(x, *(self._real(one.number, array) for array in outputs))
            if id(one.value) in self.limited:
                # The nets lower hidden scores by different amounts, but softmax makes all scores below the limit 0.
                arrays = _Arrays(*(jnp.maximum(array, softmax_limit(x)) for array in arrays))
            found[one.value.name] = arrays
        return found

    def _alone(self, one: ConvertedValue, constants: Mapping[int, Any], exact: Mapping[int, jax.Array]) -> jax.Array:
        """Return an output in the integer net's dtype, computed from the rounded arrays of the floating-point net."""
        if one.value.producer is None:
            return self._rounded(one.number, exact[id(one.value)])
        read = [value for value in one.value.producer.inputs if id(value) in self.numbers]
        known = {self.numbers[id(value)]: self._rounded(self.numbers[id(value)], exact[id(value)]) for value in read}
        return self.quantized.compute(one.nodes, {**constants, **known})[one.number]

    def _real(self, number: int, array: jax.Array) -> jax.Array:
        qparams = self.quantized.values[number].qparams
        return array if qparams is None else dequantize(array, qparams)

    def _rounded(self, number: int, array: jax.Array) -> jax.Array:
        qparams = self.quantized.values[number].qparams
        return array if qparams is None else quantize(array, qparams, self.quantized.kernel)


def _outside(x: np.ndarray, qparams: QParams | None) -> int:
    """Return how many values are more than half a step outside of the range, and are therefore clipped."""
    if qparams is None:
        return 0
    low, high = integer_range(qparams.dtype)
    steps = x / qparams.scale + qparams.zero_point
    return int(np.sum((steps < low - 0.5) | (steps > high + 0.5)))


def _row(one: ConvertedValue, quantized: QuantizedNet, sums: _Sums) -> LayerLoss:
    value, place = one.value, quantized.values[one.number]
    if not math.isfinite(sums.signal):
        raise ValueError(
            f"{_WHERE}: the floating-point net has a bad array {value.name!r}; expected finite numbers, got infinity "
            "or NaN."
        )
    node, low, high = value.producer, None, None
    if place.qparams is not None:
        ends = integer_range(place.dtype)
        low, high = (place.qparams.scale * (end - place.qparams.zero_point) for end in ends)
    operation = "input" if node is None else node.settings.get("function", node.op)
    if node is not None and (activation := node.settings.get("activation")):
        operation = activation if node.op == "relu" else f"{node.op} + {activation}"
    moves = node is not None and keeps_qparams(node) and node.op != "avg_pool"
    return LayerLoss(
        name=value.name,
        module="" if node is None else node.layer,
        operation=operation,
        dtype=place.dtype,
        low=low,
        high=high,
        net=_decibels(sums.signal, sums.net),
        alone=_decibels(sums.signal, sums.alone),
        rounding=_decibels(sums.signal, sums.rounding),
        clipped=float(sums.clipped / max(sums.size, 1)),
        lossless=moves or place.qparams is None,
    )


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    if not math.isfinite(noise):
        return -math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
