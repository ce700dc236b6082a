"""Rules for elementwise functions of one array: functions that become tables of 256 entries, and clamps."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jax.core import ShapedArray

from funcnet.quantization.graph import LayerGraph, LayerValue, scalar_constant

__all__ = ["FOLDING", "RULES"]

_CLAMPING = ("conv", "linear", "add", "relu")


def _near(value: LayerValue, number: float) -> bool:
    found = scalar_constant(value)
    return found is not None and abs(found - number) <= 1e-6 * abs(number)


def _scaled(value: LayerValue, number: float) -> LayerValue | None:
    """Return x if the value is x times `number`, or else None."""
    node = value.made_by("mul")
    sides = [] if node is None else [node.inputs, node.inputs[::-1]]
    return next((x for x, factor in sides if _near(factor, number)), None)


def _shifted(value: LayerValue | None, number: float) -> LayerValue | None:
    """Return x if the value is x plus `number`, or else None."""
    node = None if value is None else value.made_by("add")
    sides = [] if node is None else [node.inputs, node.inputs[::-1]]
    return next((x for x, term in sides if _near(term, number)), None)


def _tanh(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    return graph.add("table", operands, aval.shape, function="tanh")


def _sigmoid(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    return graph.add("table", operands, aval.shape, function="sigmoid")


def _gelu(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise GELU: x · Φ(x), where Φ(x) is (1 + erf(x / √2)) / 2, or 0 for very negative x."""
    for x, chance in (operands, operands[::-1]):
        half = _scaled(_without_tail(x, chance), 0.5)
        error = _shifted(half, 1.0)
        node = None if error is None else error.made_by("erf")
        if node is not None and _scaled(node.inputs[0], 0.5**0.5) is x and x.shape == aval.shape:
            return graph.add("table", [x], aval.shape, function="gelu")
    return None


def _without_tail(x: LayerValue, chance: LayerValue) -> LayerValue:
    """Return Φ(x) before the selection that replaces it by 0 below some limit, or else `chance` unchanged.

    The limit is at most -5, so the replaced numbers are less than 3e-7.
    """
    node = chance.made_by("select_n")
    test = None if node is None else node.inputs[0].made_by("lt")
    if node is None or test is None or test.inputs[0] is not x or len(node.inputs) != 3:
        return chance
    limit = scalar_constant(test.inputs[1])
    return node.inputs[1] if limit is not None and limit <= -5 and _near(node.inputs[2], 0.0) else chance


def _gelu_tanh(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise the tanh approximation of GELU, written as x · σ(√(8 / π) · (x + 0.044715 · x³))."""
    for x, chance in (operands, operands[::-1]):
        node = chance.made_by("table")
        if node is not None and node.settings["function"] != "sigmoid":
            continue
        inner = None if node is None else _scaled(node.inputs[0], (8 / 3.141592653589793) ** 0.5)
        total = None if inner is None else inner.made_by("add")
        cubes = [] if total is None else [v for v in total.inputs if v is not x]
        if len(cubes) != 1 or x.shape != aval.shape or (product := cubes[0].made_by("mul")) is None:
            continue
        # ((0.044715 · x) · x) · x in any order of the factors
        factors: list[LayerValue] = []
        open_products = [product]
        while open_products:
            for value in open_products.pop().inputs:
                if value is not x and (deeper := value.made_by("mul")) is not None:
                    open_products.append(deeper)
                else:
                    factors.append(value)
        if sum(v is x for v in factors) == 3 and len(factors) == 4 and any(_near(v, 0.044715) for v in factors):
            return graph.add("table", [x], aval.shape, function="gelu_tanh")
    return None


def _clamp(graph: LayerGraph, operands: Sequence[LayerValue], activation: str, aval: ShapedArray) -> LayerValue | None:
    """Return x clamped to the limits of an activation.

    If a layer without another activation computes x, this layer does the clamping.
    """
    x = next((v for v in operands if v.constant is None), None)
    if x is None or x.shape != aval.shape:
        return None
    node = x.producer
    if node is not None and node.op in _CLAMPING and node.settings.get("activation") in (None, activation):
        return graph.again(node, activation=activation)
    return graph.add("relu", [x], x.shape, activation=activation)


def _max(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise max(x, 0) as a ReLU. All other maxima stay in the graph, because `_min` looks for them."""
    return _clamp(graph, operands, "relu", aval) if any(_near(v, 0.0) for v in operands) else None


def _min(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise min(max(x, 0), 6) as a ReLU6, and min(max(x, -1), 1) as a clamp to -1 and 1."""
    x = next((v for v in operands if v.constant is None), None)
    node = None if x is None else x.producer
    if x is None or node is None or x.shape != aval.shape:
        return None
    if any(_near(v, 6.0) for v in operands) and node.settings.get("activation") == "relu":
        return graph.again(node, activation="relu6")
    if node.op == "max" and any(_near(v, 1.0) for v in operands) and any(_near(v, -1.0) for v in node.inputs):
        return _clamp(graph, [v for v in node.inputs if v.constant is None], "relu_n1_to_1", aval)
    return None


Rule = Callable[..., LayerValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {"logistic": (_sigmoid,), "mul": (_gelu, _gelu_tanh), "tanh": (_tanh,)}
)
"""{name of a JAX primitive: rules that the first pass applies to it}; see `recognition.py`."""

FOLDING: Mapping[str, Sequence[Rule]] = MappingProxyType({"max": (_max,), "min": (_min,)})
"""{name of an operation of the graph: rules that the second pass applies to it}; see `recognition.py`."""
