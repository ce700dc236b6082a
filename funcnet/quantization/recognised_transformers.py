"""Rules for the parts of transformers: embeddings, layer normalisation, softmax, and attention masks."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive

from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue, as_constant, scalar_constant

__all__ = ["RULES"]

_ELEMENTWISE = ("convert_element_type", "eq", "ge", "gt", "le", "lt", "ne", "or", "and", "not", "select_n")
_LOWEST = -1e4  # a mask adds this number, or a lower one, to hidden scores
_OTHERS = (-(2**31), -100, -2, -1, 2, 3, 4, 100, 2**31 - 1)  # numbers that a mask should not have


def _before(value: LayerValue, *ops: str) -> LayerValue | None:
    """Return the input of the operation that computes a value, or None.

    The operation must be one of `ops`, or keep the order of the entries, as a reshape does.
    """
    node = value.made_by("reshape", "broadcast_in_dim", "squeeze", "expand_dims", *ops)
    return None if node is None or _reorders(node) else node.inputs[0]


def _reorders(node: LayerNode) -> bool:
    """Return whether a node is a reshape that transposes its input first."""
    return node.op == "reshape" and node.settings.get("params", {}).get("dimensions") is not None


def _limited(value: LayerValue, most: float) -> LayerValue | None:
    """Return x if the value is max(x, c) with a constant c of at most `most`, or else None."""
    node = value.made_by("max")
    for x, number in () if node is None else (node.inputs, node.inputs[::-1]):
        least = scalar_constant(number)
        if x.constant is None and x.shape == value.shape and least is not None and least <= most:
            return x
    return None


def _reduced(value: LayerValue, op: str, most: float | None = None) -> LayerValue | None:
    """Return x if the value is the reduction `op` of x over the last dimension, which stays with size 1, or else None.

    If `most` is not None, the value may also be max(reduction, c) with a constant c of at most `most`.
    """
    shape = value.shape
    while (before := _before(value) or (None if most is None else _limited(value, most))) is not None:
        value = before
    node = value.made_by(op)
    if node is None:
        return None
    x = node.inputs[0]
    last = tuple(node.settings["params"]["axes"]) == (len(x.shape) - 1,)
    return x if last and shape == (*x.shape[:-1], 1) else None


def _mean_of(value: LayerValue) -> LayerValue | None:
    """Return x if the value is the mean of x over the last dimension, which stays with size 1, or else None."""
    node = value.made_by("div")
    x = None if node is None else _reduced(node.inputs[0], "reduce_sum")
    return x if node is not None and x is not None and scalar_constant(node.inputs[1]) == x.shape[-1] else None


def _centred(value: LayerValue) -> LayerValue | None:
    """Return x if the value is x minus its mean over the last dimension, or None."""
    node = value.made_by("sub")
    return node.inputs[0] if node is not None and _mean_of(node.inputs[1]) is node.inputs[0] else None


def _squared(value: LayerValue) -> LayerValue | None:
    """Return x if the value is x², or else None."""
    node = value.made_by("mul", "square", "integer_pow")
    if node is None or any(one is not node.inputs[0] for one in node.inputs):
        return None
    power = node.settings["params"].get("y", 2)
    return node.inputs[0] if power == 2 else None


def _root(value: LayerValue) -> tuple[LayerValue, float] | None:
    """Return (variance, eps) if the value is 1 / √(variance + eps), or None."""
    node = value.made_by("rsqrt")
    if node is None and (inverse := value.made_by("div")) is not None and scalar_constant(inverse.inputs[0]) == 1.0:
        node = inverse.inputs[1].made_by("sqrt")
    total = None if node is None else node.inputs[0].made_by("add")
    if total is None:
        return None
    for variance, eps in (total.inputs, total.inputs[::-1]):
        if (number := scalar_constant(eps)) is not None:
            return variance, number
    return None


def _layer_norm(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise c / √(mean(c²) + eps) with c = x - mean(x) as a layer normalisation of x.

    Layers of `nn` subtract the mean twice.
    """
    for c, factor in (operands, operands[::-1]):
        found = _root(factor)
        square = None if found is None else _mean_of(found[0])
        if found is None or square is None or _squared(square) is not c or c.shape != aval.shape:
            continue
        if (x := _centred(c)) is None:
            continue
        x = _centred(x) or x
        constants = (as_constant(np.full(x.shape[-1:], number, np.float32)) for number in (1, 0))
        return graph.add("layer_norm", [x, *constants], aval.shape, eps=found[1])
    return None


def _softmax(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise e / sum(e) or e / max(sum(e), 1) with e = exp(x - max(x)) as a softmax of x."""
    numerator, divisor = operands
    exponentials = numerator.made_by("exp")
    shifted = None if exponentials is None else exponentials.inputs[0].made_by("sub")
    if shifted is None or numerator.shape != aval.shape:
        return None
    x, top = shifted.inputs
    # The largest exponential is 1, so that a limit of the sum up to 1 changes nothing.
    lowest = float(np.finfo(np.float32).min)
    if _reduced(divisor, "reduce_sum", 1.0) is not numerator or _reduced(top, "reduce_max", lowest) is not x:
        return None
    return graph.add("softmax", [x], aval.shape)


def _source(value: LayerValue, rows: int) -> LayerValue | None:
    """Return the ids from which row indices are computed, or None if the computation changes valid ids.

    The computation may replace negative ids, which count from the end, and ids that are out of range.
    """
    while (node := value.producer) is not None:
        before = _before(value)
        if node.op == "convert_element_type" and value.dtype in (np.int32, np.int64):
            before = node.inputs[0]
        elif node.op == "clamp" and list(map(scalar_constant, node.inputs[::2])) == [0, rows - 1]:
            before = node.inputs[1]
        elif node.op == "select_n":
            before = _replaced(node, rows)
        if before is None:
            return None
        value = before
    return value


def _replaced(node: LayerNode, rows: int) -> LayerValue | None:
    """Return the ids if a `select_n` node replaces only ids that are out of range, or else None.

    The replacement must be a number of at least `rows`, or the id plus `rows`.
    """
    if len(node.inputs) != 3:
        return None
    test, first, second = node.inputs
    for ids, other, outside in ((first, second, True), (second, first, False)):
        if ids.constant is not None or _is_outside(test, ids, rows) is not outside:
            continue
        number, total = scalar_constant(other), other.made_by("add")
        sides = [] if total is None else [total.inputs, total.inputs[::-1]]
        shifted = any(one is ids and scalar_constant(term) == rows for one, term in sides)
        if shifted or (number is not None and number >= rows):
            return ids
    return None


def _is_outside(test: LayerValue, ids: LayerValue, rows: int) -> bool | None:
    """Return True if a test is true only for ids out of range, False if it is false only for such ids, or else None."""
    if (both := test.made_by("and", "or")) is not None:
        outside = both.op == "or"
        return outside if all(_is_outside(one, ids, rows) is outside for one in both.inputs) else None
    node = test.made_by("lt", "ge")
    if node is None or node.inputs[0] is not ids:
        return None
    limits = {("lt", 0): True, ("ge", rows): True, ("ge", 0): False, ("lt", rows): False}
    return limits.get((node.op, scalar_constant(node.inputs[1])))  # type: ignore[arg-type]


def _embedding(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise a look-up of rows of a constant matrix as an embedding."""
    table, indices = operands
    numbers = params["dimension_numbers"]
    if table.constant is None or len(table.shape) != 2 or not table.real:
        return None
    first = all(tuple(axes) == (0,) for axes in (numbers.collapsed_slice_dims, numbers.start_index_map))
    rows = first and tuple(params["slice_sizes"]) == (1, table.shape[1])
    ids = _source(indices, table.shape[0])
    if not rows or ids is None or ids.constant is not None or tuple(numbers.offset_dims) != (len(aval.shape) - 1,):
        return None
    if ids.shape != aval.shape[:-1] or ids.dtype != np.int32:
        return None
    return graph.add("embedding", [table, ids], aval.shape, table.dtype)


def _hide(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise masking: scores plus numbers that are 0 if the mask is 1 or True, and very low if it is 0 or False.

    The integer net uses the entries of the mask as row numbers of a table. A row number that is out of range selects
    the nearest row.
    """
    for scores, added in (operands, operands[::-1]):
        if not scores.real or scores.constant is not None or scores.shape != aval.shape:
            continue
        mask = _mask_of(added)
        if mask is None or len(added.shape) != len(aval.shape) or len(aval.shape) != 4:
            continue
        if (added.shape[0], added.shape[-1]) != mask.shape or math.prod(added.shape) != math.prod(mask.shape):
            continue
        with np.errstate(all="ignore"):
            numbers = {number: _numbers(added, mask, number) for number in (0, 1)}
            others = {number: _numbers(added, mask, number) for number in _OTHERS if mask.dtype != np.bool_}
        right = lambda number, found: found == 0 if number > 0 else found <= _LOWEST
        usual = all(right(number, found).all() for number, found in numbers.items())
        if usual and all((right(number, found) | np.isnan(found)).all() for number, found in others.items()):
            return graph.add("hide", [scores, mask], aval.shape, mask_shape=list(added.shape))
    return None


def _mask_of(value: LayerValue) -> LayerValue | None:
    """Return the two-dimensional mask from which a value is computed elementwise.

    Return None if the value depends on another input.
    """
    sources: dict[int, LayerValue] = {}
    steps, waiting = 0, [value]
    while waiting and steps < 64:
        one, steps = waiting.pop(), steps + 1
        if one.constant is not None:
            continue
        if one.producer is None:
            sources[id(one)] = one
        elif one.producer.op in (*_ELEMENTWISE, "reshape", "broadcast_in_dim") and not _reorders(one.producer):
            waiting += one.producer.inputs
        else:
            return None
    found = list(sources.values())
    whole = not waiting and len(found) == 1 and found[0] is not value
    return found[0] if whole and len(found[0].shape) == 2 and found[0].dtype in (np.int32, np.bool_) else None


def _numbers(value: LayerValue, mask: LayerValue, number: int) -> np.ndarray:
    """Return the entries that a value would have if all entries of the mask were `number`."""
    if value is mask:
        return np.full(mask.shape, number, mask.dtype)
    if value.constant is not None:
        return np.asarray(value.constant)
    node = value.producer
    assert node is not None
    arrays = [_numbers(one, mask, number) for one in node.inputs]
    if node.op == "reshape":
        return np.reshape(arrays[0], value.shape)
    primitive, params = node.settings["primitive"], node.settings["params"]
    return np.asarray(_bound(primitive, arrays, params))


def _bound(primitive: Primitive, arrays: Sequence[Any], params: Mapping[str, Any]) -> Any:
    with jax.ensure_compile_time_eval():
        return primitive.bind(*map(jnp.asarray, arrays), **params)


Rule = Callable[..., LayerValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {"add": (_hide,), "div": (_softmax,), "gather": (_embedding,), "mul": (_layer_norm,)}
)
"""{name of a JAX primitive: rules that the first pass applies to it}; see `recognition.py`."""
