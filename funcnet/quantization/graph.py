"""A net as a small graph of layers, which calibration observes, training simulates and `convert` quantizes.

A value is a floating-point array, or an integer array such as ids. A constant is a value that depends only on
parameters and buffers. A constant may be a JAX tracer, so that gradients with respect to the parameters can be
computed. Nodes are in the order in which they run. Each node has one of the operations that `evaluation.py` defines.
While `tracing.py` builds the graph, a node may also be a JAX primitive.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

__all__ = ["LayerGraph", "LayerNode", "LayerValue", "as_constant", "channel_constant", "is_concrete", "scalar_constant"]


@dataclass(eq=False)
class LayerValue:
    """An array in a graph.

    Attributes:
        shape: shape of the array.
        dtype: dtype of the array.
        constant: the array itself if it depends on no input, or else None.
        producer: node that computes the array, or None for an input or a constant.
        name: unique name, such as "layer1.0.conv1:conv". Ranges are stored under this name.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    constant: Any = None
    producer: "LayerNode | None" = None
    name: str = ""

    @property
    def real(self) -> bool:
        """Whether the array is floating-point."""
        return bool(jax.numpy.issubdtype(self.dtype, jax.numpy.floating))

    def made_by(self, *ops: str) -> "LayerNode | None":
        """Return the node that computes the value if the operation of this node is one of `ops`, or else None."""
        return self.producer if self.producer is not None and self.producer.op in ops else None


@dataclass(eq=False)
class LayerNode:
    """An operation.

    Attributes:
        op: name of the operation.
        inputs: values that the operation reads.
        output: value that the operation computes.
        settings: static settings of the operation, such as the stride of a convolution.
        layer: dotted name of the module that contains the operation, or "".
    """

    op: str
    inputs: tuple[LayerValue, ...]
    output: LayerValue
    settings: dict[str, Any]
    layer: str

    @property
    def where(self) -> str:
        """Name of the node for messages: its layer, or its operation if the node is outside all layers."""
        return self.layer or f"the operation {self.op!r}"


@dataclass(eq=False)
class LayerGraph:
    """The graph of a net: its inputs, operations and outputs.

    Attributes:
        inputs: values that are the arguments of the net.
        nodes: operations in the order in which they run.
        outputs: values that are the leaves of the net's result.
        structure: tree structure of the net's result.
        layer: dotted name of the module to which `add` assigns new nodes.
    """

    inputs: list[LayerValue] = field(default_factory=list)
    nodes: list[LayerNode] = field(default_factory=list)
    outputs: list[LayerValue] = field(default_factory=list)
    structure: Any = None
    layer: str = ""

    def add(
        self,
        op: str,
        inputs: Sequence[LayerValue],
        shape: Sequence[int],
        dtype: Any = None,
        **settings: Any,
    ) -> LayerValue:
        """Append a node, and return its output, which by default has the dtype of the first input."""
        value = LayerValue(tuple(map(int, shape)), np.dtype(inputs[0].dtype if dtype is None else dtype))
        value.producer = LayerNode(op, tuple(inputs), value, settings, self.layer)
        self.nodes.append(value.producer)
        return value

    def again(self, node: LayerNode, inputs: Sequence[LayerValue] | None = None, **changes: Any) -> LayerValue:
        """Append a copy of a node in the same layer, with other inputs or settings, and return its output."""
        outer, self.layer = self.layer, node.layer
        inputs = node.inputs if inputs is None else inputs
        value = self.add(node.op, inputs, node.output.shape, node.output.dtype, **{**node.settings, **changes})
        self.layer = outer
        return value

    def reshape(self, value: LayerValue, shape: Sequence[int]) -> LayerValue:
        """Return the value reshaped to `shape`. Add a node only if the shape changes."""
        if (before := value.made_by("reshape")) is not None:
            value = before.inputs[0]
        return value if value.shape == tuple(shape) else self.add("reshape", [value], shape)

    def transpose(self, value: LayerValue, order: Sequence[int]) -> LayerValue:
        """Return the value with its dimensions in another order."""
        order = [int(axis) for axis in order]
        if (before := value.made_by("transpose")) is not None:
            value, order = before.inputs[0], [before.settings["order"][axis] for axis in order]
        if order == list(range(len(order))):
            return value
        return self.add("transpose", [value], [value.shape[axis] for axis in order], order=order)

    def finish(self) -> None:
        """Remove the nodes on which no output of the graph depends, and give every value a name.

        Example:
            >>> graph = LayerGraph([LayerValue((2,), np.dtype(np.float32))], layer="fc")
            >>> graph.outputs = [graph.add("relu", graph.inputs, (2,)) for _ in range(2)][1:]
            >>> graph.finish()
            >>> [node.output.name for node in graph.nodes], graph.inputs[0].name
            (['fc:relu'], 'input:0')
        """
        needed, kept = {id(value) for value in self.outputs}, []
        for node in reversed(self.nodes):
            if id(node.output) in needed:
                kept.append(node)
                needed |= {id(value) for value in node.inputs}
        self.nodes = kept[::-1]
        for index, value in enumerate(self.inputs):
            value.name = f"input:{index}"
        counts: dict[str, int] = {}
        for node in self.nodes:
            name = f"{node.layer}:{node.op}"
            counts[name] = counts.get(name, 0) + 1
            node.output.name = name if counts[name] == 1 else f"{name}:{counts[name]}"
            for index, value in enumerate(node.inputs):
                if value.constant is not None and not value.name:
                    value.name = f"{node.output.name}:constant{index}"


def as_constant(array: Any) -> LayerValue:
    """Return an array as a constant of a graph.

    Example:
        >>> as_constant(np.ones((2, 3), np.float32)).shape
        (2, 3)
    """
    return LayerValue(tuple(array.shape), np.dtype(array.dtype), array)


def is_concrete(value: LayerValue) -> bool:
    """Return whether a value is a constant and not a tracer, so that Python code may depend on its entries."""
    return value.constant is not None and not isinstance(value.constant, jax.core.Tracer)


def scalar_constant(value: LayerValue) -> float | None:
    """Return the number that all entries of a constant have, or None if the entries differ or are unknown.

    Example:
        >>> scalar_constant(LayerValue((2,), np.dtype(np.float32), np.full(2, 0.5, np.float32)))
        0.5
    """
    if not is_concrete(value) or math.prod(value.shape) == 0:
        return None
    array = np.asarray(value.constant)
    first = array.flat[0]
    return float(first) if (array == first).all() else None


def channel_constant(value: LayerValue, shape: Sequence[int], axis: int) -> jax.Array | None:
    """Return a constant as one number for each index along `axis`, or None if it varies along another axis of `shape`.

    Example:
        >>> constant = LayerValue((3, 1), np.dtype(np.float32), np.float32([[1], [2], [3]]))
        >>> channel_constant(constant, (2, 3, 5), 1).tolist()
        [1.0, 2.0, 3.0]
    """
    if value.constant is None or len(value.shape) > len(shape):
        return None
    sizes = (*[1] * (len(shape) - len(value.shape)), *value.shape)
    axis %= len(shape)
    if any(size != 1 for index, size in enumerate(sizes) if index != axis):
        return None
    return jax.numpy.broadcast_to(jax.numpy.reshape(value.constant, (-1,)), (shape[axis],))
