"""The choice of quantization parameters for each array of a graph: from an observed range, from another array, or
fixed. Operations that move, select or average entries keep the parameters of their input. The outputs of some functions
have fixed parameters, which LiteRT's kernels demand. Arrays that stay float32 have no parameters; see `residuals.py`.
The parameters of all other arrays are computed from observed ranges.
"""

from collections.abc import Mapping

import numpy as np

from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue, is_concrete
from funcnet.quantization.qparams import QParams, choose_qparams
from funcnet.quantization.residuals import REAL, channels_name, scaled

__all__ = [
    "check_ranges",
    "fixed_qparams",
    "keeps_qparams",
    "masked_scores",
    "observed",
    "qparams_of",
    "softmax_inputs",
]

_KEEPING = ("avg_pool", "crop", "max_pool", "pad", "reshape", "transpose")


def keeps_qparams(node: LayerNode) -> bool:
    """Return whether the output of a node has the same quantization parameters as the first input of the node."""
    return node.op in _KEEPING


def fixed_qparams(node: LayerNode) -> QParams | None:
    """Return the quantization parameters that LiteRT prescribes for the output of a node, or else None.

    Example:
        >>> import numpy as np
        >>> value = LayerValue((2,), np.dtype(np.float32))
        >>> fixed_qparams(LayerNode("table", (value,), value, {"function": "tanh"}, ""))
        QParams(scale=0.0078125, zero_point=0, dtype='int8', axis=None)
    """
    if node.op == "softmax" or node.settings.get("function") == "sigmoid":
        return QParams(1 / 256, -128, "int8")
    if node.settings.get("function") == "tanh":
        return QParams(1 / 128, 0, "int8")
    return None


def observed(graph: LayerGraph) -> list[LayerValue]:
    """Return the values whose ranges a calibration observes."""
    inputs = [value for value in graph.inputs if value.real]
    shared = {id(value) for value in masked_scores(graph)}
    own = lambda node: (
        not (keeps_qparams(node) or fixed_qparams(node) or node.op in ("embedding", *REAL))
        and id(node.output) not in shared
    )
    outputs = [node.output for node in graph.nodes if own(node)]
    return [*inputs, *(value for value in outputs if value.real)]


def softmax_inputs(graph: LayerGraph) -> set[int]:
    """Return the `id` of each value that a softmax reads."""
    return {id(node.inputs[0]) for node in graph.nodes if node.op == "softmax"}


def check_ranges(where: str, ranges: object) -> None:
    """Check that `ranges` has the types that `calibrate` returns.

    Raises:
        TypeError: if `ranges` is not a mapping, or one of its values is not `QParams`.
        ValueError: if the dtype of a range is not int8.

    Example:
        >>> check_ranges("convert", {"input:0": QParams(1.0, 0, "int8")})
    """
    if not isinstance(ranges, Mapping):
        raise TypeError(
            f"{where}: the ranges are wrong; expected the result of calibrate, got {type(ranges).__name__}."
        )
    for name, one in ranges.items():
        if not isinstance(one, QParams):
            raise TypeError(f"{where}: the range of {name!r} is wrong; expected QParams, got {one!r}.")
        if one.dtype != "int8":
            raise ValueError(f"{where}: the range of {name!r} has the wrong dtype; expected int8, got {one.dtype}.")


def qparams_of(where: str, graph: LayerGraph, ranges: Mapping[str, QParams]) -> dict[int, QParams]:
    """Return {id of a value: its quantization parameters}, for all quantized inputs of the graph and outputs of nodes.

    Raises:
        TypeError: if a range has one scale but its array needs one for each channel, or the reverse.
        ValueError: if the ranges are those of another net.
    """
    wide = {channels_name(value) for value in scaled(graph)}
    names = [*(value.name for value in observed(graph)), *wide]
    if set(names) != set(ranges):
        missing = [name for name in names if name not in ranges]
        other = [name for name in ranges if name not in set(names)]
        raise ValueError(
            f"{where}: the ranges are those of another net; expected {len(names)} names, got {len(ranges)}. Missing: "
            f"{', '.join(missing[:4]) or 'none'}; unexpected: {', '.join(other[:4]) or 'none'}."
        )
    wrong = [name for name, one in ranges.items() if (one.axis is None) == (name in wide)]
    if wrong:
        raise TypeError(
            f"{where}: the range of {wrong[0]!r} is wrong; expected QParams with "
            f"{'a scale for each channel' if wrong[0] in wide else 'one scale'}, got {ranges[wrong[0]]!r}."
        )
    found = {id(value): ranges[value.name] for value in observed(graph)}
    found |= {id(value): found[id(hidden)] for value, hidden in masked_scores(graph).items()}
    for node in graph.nodes:
        if id(node.output) in found or not node.output.real or node.op in REAL:
            continue
        fixed = _table_qparams(node) if node.op == "embedding" else fixed_qparams(node)
        if fixed is not None or id(node.inputs[0]) in found:
            found[id(node.output)] = found[id(node.inputs[0])] if fixed is None else fixed
    return found


def masked_scores(graph: LayerGraph) -> dict[LayerValue, LayerValue]:
    """Return {attention scores: masked scores}, for all scores that only a masking operation reads.

    The scores get the quantization parameters of the masked scores. This is safe because every score outside the range
    of the masked scores is hidden by the mask or negligible.
    """
    readers: dict[int, list[LayerNode]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            readers.setdefault(id(value), []).append(node)
    return {
        node.output: readers[id(node.output)][0].output
        for node in graph.nodes
        if node.op == "batch_matmul" and [one.op for one in readers.get(id(node.output), [])] == ["hide"]
    }


def _table_qparams(node: LayerNode) -> QParams | None:
    """Return the quantization parameters of an embedding and of its table, or None if the table is a tracer."""
    if not is_concrete(node.inputs[0]):  # training traces the table, and rounds it with its current range
        return None
    table = np.asarray(node.inputs[0].constant)
    return choose_qparams(float(table.min()), float(table.max()), "int8")
