"""Functions with which the rewriting rules examine the nodes that compute a value."""

from collections.abc import Sequence

from funcnet.export.onnx.graph import OnnxNode, OnnxValue

__all__ = ["axes_of", "entry", "made_by", "near", "other", "scaled"]


def made_by(value: OnnxValue | None, *ops: str) -> OnnxNode | None:
    """Return the node that computes a value if its operator is one of `ops`. Otherwise return None."""
    node = None if value is None else value.producer
    return node if node is not None and node.op in ops and not node.domain else None


def entry(node: OnnxNode, index: int) -> OnnxValue:
    """Return the input of a node at a position. The input must not be an absent optional input."""
    value = node.inputs[index]
    assert value is not None
    return value


def near(value: OnnxValue | None, number: float) -> bool:
    """Return whether a value is a constant whose entries are this number, up to the rounding of float32."""
    found = None if value is None else value.scalar()
    return found is not None and abs(found - number) <= 1e-6 * abs(number)


def scaled(node: OnnxNode | None, number: float) -> OnnxValue | None:
    """If one of the two inputs of a node is `number`, return the other input. Otherwise return None."""
    if node is None:
        return None
    for index in (0, 1):
        if near(node.inputs[index], number):
            return node.inputs[1 - index]
    return None


def other(node: OnnxNode | None, value: OnnxValue) -> OnnxValue | None:
    """If one of the two inputs of a node is `value`, return the other input. Otherwise return None."""
    if node is None or len(node.inputs) != 2:
        return None
    for index in (0, 1):
        if node.inputs[index] is value:
            return node.inputs[1 - index]
    return None


def axes_of(node: OnnxNode) -> Sequence[int]:
    """Return the axes of a reduction, a Squeeze or an Unsqueeze. The axes are the node's second input, a constant."""
    axes = entry(node, 1).constant
    assert axes is not None
    return [int(axis) for axis in axes]
