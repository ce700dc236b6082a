"""The part of a `Lowering` that the rules of an ONNX export use. They cannot import `lowering.py`, which imports their
files.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from jax.extend.core import ClosedJaxpr

from funcnet.export.onnx.dimensions import Dimensions
from funcnet.export.onnx.graph import Graph, OnnxValue
from funcnet.export.tracing import Equation
from funcnet.export.unsupported import Unsupported

__all__ = ["Emitter"]


class Emitter(Protocol):
    """Adds operators to a graph. `Lowering` explains the methods."""

    graph: Graph
    dimensions: Dimensions

    def inside(self, graph: Graph) -> "Emitter": ...

    def inlined(self, program: ClosedJaxpr, inputs: Sequence[OnnxValue]) -> list[OnnxValue]: ...

    def refusal(self, equation: Equation, unsupported: Unsupported, what: str = "") -> ValueError: ...

    def shape_value(self, shape: Sequence[Any]) -> OnnxValue: ...

    def same(self, size: object, other: object) -> bool: ...

    def emit(self, op: str, equation: Equation, *inputs: OnnxValue | None, **attributes: Any) -> OnnxValue: ...

    def reshape(self, value: OnnxValue, shape: Sequence[Any]) -> OnnxValue: ...

    def expand(self, value: OnnxValue, shape: Sequence[Any]) -> OnnxValue: ...
