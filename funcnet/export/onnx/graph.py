"""A graph of ONNX operators, in which every value has a shape and a dtype.

    jaxpr --lowering--> Graph --rewriting--> Graph --writing--> .onnx

A size is an int or a symbolic size of `jax.export`. The names of operators and attributes are those of the ONNX
specification, opset 23.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.typing import ArrayLike, DTypeLike

__all__ = ["Graph", "OnnxNode", "OnnxValue", "reshape_target"]

Shape = tuple[Any, ...]
# ONNX Runtime has no Where of these dtypes. {dtype: one that has all its values, or all its bits}
WITHOUT_WHERE: Mapping[str, str] = MappingProxyType(
    {"bool": "int32", "int16": "int32", "uint16": "int32", "uint64": "int64"}
)


@dataclass(eq=False)
class OnnxValue:
    """An array in a graph.

    Attributes:
        shape: sizes, each an int or a symbolic size.
        dtype: dtype of the numbers.
        constant: the numbers, if they are known at export.
        weight: name of the weight in the file of weights, or "" for any other value.
        full: the number to which all entries are equal, if `producer` broadcasts this number to the shape of the value.
        bounds: a lower and an upper bound of the entries, if they are known.
        producer: node that computes the value, or None for inputs and constants.
        name: name of the value in the ONNX file, which `writing.with_names` sets.
    """

    shape: Shape
    dtype: np.dtype
    constant: np.ndarray | None = None
    weight: str = ""
    full: np.ndarray | None = None
    bounds: tuple[Any, Any] | None = None
    producer: "OnnxNode | None" = None
    name: str = ""

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def known(self) -> bool:
        """Whether the value is a constant other than a weight."""
        return self.constant is not None and not self.weight

    @property
    def is_static(self) -> bool:
        """Whether all sizes are integers, and none is symbolic."""
        return all(isinstance(size, int) for size in self.shape)

    def scalar(self) -> float | None:
        """Return the number to which all entries of a known constant are equal. Otherwise return None."""
        if not self.known or self.constant is None or self.constant.size == 0:
            return None
        first = self.constant.flat[0]
        return first.item() if self.constant.size == 1 or (self.constant == first).all() else None

    def op(self) -> str:
        """Return the name of the operator that computes the value, or "" for inputs and constants."""
        return "" if self.producer is None else self.producer.op


@dataclass(eq=False)
class OnnxNode:
    """An operation of a graph.

    Attributes:
        op: name of the operator.
        inputs: inputs of the operator. None means that an optional input is absent.
        outputs: outputs of the operator.
        attributes: attributes of the operator: numbers, strings, dtypes, lists of these, arrays or graphs.
        layer: name of the layer that the operation comes from.
        domain: domain of the operator, which is "" for the standard operators of ONNX.
    """

    op: str
    inputs: list[OnnxValue | None]
    outputs: list[OnnxValue]
    attributes: dict[str, Any] = field(default_factory=dict)
    layer: str = ""
    domain: str = ""

    def graphs(self) -> list["Graph"]:
        """Return the graphs among the node's attributes, such as the body of a loop."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]


@dataclass(eq=False)
class Graph:
    """A graph of ONNX operators. Its nodes are in an order in which they can run.

    Attributes:
        nodes: the nodes.
        inputs: the inputs. The inputs of the body of a loop are those of one iteration.
        outputs: the outputs.
        layer: name of the layer for the nodes that are added next.
    """

    nodes: list[OnnxNode] = field(default_factory=list)
    inputs: list[OnnxValue] = field(default_factory=list)
    outputs: list[OnnxValue] = field(default_factory=list)
    layer: str = ""

    def add(
        self, op: str, inputs: Sequence[OnnxValue | None], shape: Shape, dtype: DTypeLike, **attributes: Any
    ) -> OnnxValue:
        """Add a node with one output, and return the output."""
        domain = attributes.pop("domain", "")
        node = OnnxNode(op, list(inputs), [], attributes, self.layer, domain)
        node.outputs = [OnnxValue(tuple(shape), np.dtype(dtype), producer=node)]
        self.nodes.append(node)
        return node.outputs[0]

    def add_many(
        self, op: str, inputs: Sequence[OnnxValue | None], types: Sequence[tuple[Shape, Any]], **attributes: Any
    ) -> list[OnnxValue]:
        """Add a node with several outputs, given the shape and dtype of each, and return the outputs."""
        node = OnnxNode(op, list(inputs), [], attributes, self.layer)
        node.outputs = [OnnxValue(tuple(shape), np.dtype(dtype), producer=node) for shape, dtype in types]
        self.nodes.append(node)
        return node.outputs

    def constant(self, array: ArrayLike | Sequence[int], dtype: DTypeLike | None = None) -> OnnxValue:
        """Return a constant value that holds the numbers of an array."""
        array = np.asarray(array, dtype)
        return OnnxValue(array.shape, array.dtype, array)

    def ints(self, *numbers: int) -> OnnxValue:
        """Return n numbers as an int64 constant of shape (n,), for example the axes of an operator."""
        return self.constant(numbers, np.int64)

    def like(self, op: str, *inputs: OnnxValue, **attributes: Any) -> OnnxValue:
        """Add a node whose output has the shape and dtype of the first input."""
        return self.add(op, inputs, inputs[0].shape, inputs[0].dtype, **attributes)

    def cast(self, value: OnnxValue, dtype: DTypeLike) -> OnnxValue:
        """Return the value converted to another dtype."""
        dtype = np.dtype(dtype)
        if value.dtype == dtype:
            return value
        if value.known and value.constant is not None:
            return self.constant(value.constant.astype(dtype))
        return self.add("Cast", [value], value.shape, dtype, to=dtype)

    def where(self, which: OnnxValue, yes: OnnxValue, no: OnnxValue, shape: Shape) -> OnnxValue:
        """Return the entries of `yes` where `which` is true, and those of `no` elsewhere, broadcast to a shape."""
        dtype = yes.dtype
        if dtype.name in WITHOUT_WHERE:
            yes, no = (self.cast(value, WITHOUT_WHERE[dtype.name]) for value in (yes, no))
        return self.cast(self.add("Where", [which, yes, no], shape, yes.dtype), dtype)

    def own(self, values: Sequence[OnnxValue]) -> list[OnnxValue]:
        """Return values that can be the outputs of this graph.

        A value that no node of this graph computes, or that occurs twice, is replaced by the output of an Identity.
        """
        made = {output for node in self.nodes for output in node.outputs}
        seen: set[OnnxValue] = set()
        result = []
        for value in values:
            if value not in made or value in seen:
                value = self.like("Identity", value)
            seen.add(value)
            result.append(value)
        return result

    def transpose(self, value: OnnxValue, order: Sequence[int]) -> OnnxValue:
        """Return the value with its dimensions in the order `order`."""
        if list(order) == list(range(value.rank)):
            return value
        if value.known and value.constant is not None:
            return self.constant(value.constant.transpose(order))
        shape = tuple(value.shape[axis] for axis in order)
        return self.add("Transpose", [value], shape, value.dtype, perm=[int(axis) for axis in order])

    def squeeze(self, value: OnnxValue, axes: Sequence[int]) -> OnnxValue:
        """Return the value without the dimensions `axes`, which have size 1."""
        if not axes:
            return value
        if value.known and value.constant is not None:
            return self.constant(value.constant.squeeze(tuple(axes)))
        shape = tuple(size for axis, size in enumerate(value.shape) if axis not in axes)
        return self.add("Squeeze", [value, self.ints(*axes)], shape, value.dtype)

    def unsqueeze(self, value: OnnxValue, axes: Sequence[int]) -> OnnxValue:
        """Return the value with dimensions of size 1 at the positions `axes` of the result."""
        if not axes:
            return value
        sizes = iter(value.shape)
        if value.known and value.constant is not None:
            return self.constant(np.expand_dims(value.constant, tuple(axes)))
        shape = tuple(1 if axis in axes else next(sizes) for axis in range(value.rank + len(axes)))
        return self.add("Unsqueeze", [value, self.ints(*axes)], shape, value.dtype)

    def free(self) -> list[OnnxValue]:
        """Return the values that this graph reads from the graphs around it, and the constants that it reads."""
        own = {output for node in self.nodes for output in node.outputs} | set(self.inputs)
        return [value for value in self.read() if value not in own]

    def read(self) -> Iterator[OnnxValue]:
        """Yield every value that this graph reads: the inputs of its nodes, the free values of inner graphs, and the
        outputs.
        """
        for node in self.nodes:
            yield from (value for value in node.inputs if value is not None)
            for graph in node.graphs():
                yield from graph.free()
        yield from self.outputs


def reshape_target(shape: Shape, wanted: Shape) -> list[int] | None:
    """Return the constant numbers that an operator Reshape takes as its target shape.

    Args:
        shape: shape of the input.
        wanted: shape of the output.

    Returns:
        The size of each dimension. 0 copies the size from the same dimension of the input, and -1 is computed from the
        other sizes. The result is None if more than one symbolic size is not copied, or if `wanted` contains 0.

    Example:
        >>> reshape_target((8, 6), (8, 2, 3))
        [0, 2, 3]
    """
    target: list[Any] = []
    for axis, size in enumerate(wanted):
        copied = axis < len(shape) and type(size) is type(shape[axis]) and size == shape[axis]
        target.append(0 if copied else size)
    symbolic = [axis for axis, size in enumerate(target) if not isinstance(size, int)]
    if len(symbolic) > 1 or 0 in wanted:
        return None
    return [size if isinstance(size, int) else -1 for size in target]
