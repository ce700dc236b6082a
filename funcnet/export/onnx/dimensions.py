"""Compute the values of symbolic sizes at run time.

A symbolic size is an expression such as `2*length + 1`. The variables of the expression are sizes of the graph's
inputs. Integer operators in the graph compute the value of the expression.
"""

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcnet.export.onnx.graph import Graph, OnnxValue

__all__ = ["Dimensions"]

OPERATORS = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul"}


class Dimensions:
    """Computes symbolic sizes with operators in a graph, as int64 values of shape (1,).

    A size that the body of a loop needs is computed in the body itself, because the graph around the loop cannot read
    values of the body.

    Example:
        >>> import jax
        >>> (n,) = jax.export.symbolic_shape("n")
        >>> graph = Graph(inputs=[OnnxValue((n, 3), np.dtype("float32"), name="x")])
        >>> Dimensions("export", graph).vector((2 * n, 3)).op()
        'Concat'
    """

    def __init__(self, where: str, graph: Graph, inputs: Sequence[OnnxValue] | None = None):
        self.where, self.graph = where, graph
        self.known: dict[str, OnnxValue] = {}
        self.inputs = graph.inputs if inputs is None else inputs

    def inside(self, graph: Graph) -> "Dimensions":
        """Return a `Dimensions` that computes sizes in an inner graph, such as the body of a loop."""
        return Dimensions(self.where, graph, self.inputs)

    def vector(self, shape: Sequence[Any]) -> OnnxValue:
        """Return a shape with n sizes as an int64 value of shape (n,)."""
        if all(isinstance(size, int) for size in shape):
            return self.graph.ints(*shape)
        parts: list[OnnxValue] = []
        fixed: list[int] = []  # consecutive ints, which become one constant
        for size in shape:
            if isinstance(size, int):
                fixed.append(size)
                continue
            if fixed:
                parts.append(self.graph.ints(*fixed))
                fixed = []
            parts.append(self.value(size))
        if fixed:
            parts.append(self.graph.ints(*fixed))
        if len(parts) == 1:
            return parts[0]
        return self.graph.add("Concat", parts, (len(shape),), np.int64, axis=0)

    def value(self, size: object) -> OnnxValue:
        """Return a number or a symbolic size as an int64 value of shape (1,)."""
        if isinstance(size, int):
            return self.graph.ints(size)
        written = str(size)
        if written not in self.known:
            # JAX writes powers as `n^2`, which Python reads as an exclusive or with another precedence
            self.known[written] = self._compute(ast.parse(written.replace("^", "**"), mode="eval").body)
        return self.known[written]

    def _compute(self, code: ast.expr) -> OnnxValue:
        if isinstance(code, ast.Constant) and isinstance(code.value, int):
            return self.graph.ints(code.value)
        if isinstance(code, ast.Name):
            return self._variable(code.id)
        if isinstance(code, ast.UnaryOp) and isinstance(code.op, ast.USub):
            return self._add("Neg", self._compute(code.operand))
        if isinstance(code, ast.BinOp) and isinstance(code.op, ast.Pow):
            base, exponent = self._compute(code.left), code.right
            assert isinstance(exponent, ast.Constant) and isinstance(exponent.value, int)
            out = base
            for _ in range(exponent.value - 1):  # onnxruntime computes Pow of int64 in float64
                out = self._add("Mul", out, base)
            return out
        if isinstance(code, ast.BinOp) and type(code.op) in OPERATORS:
            return self._add(OPERATORS[type(code.op)], self._compute(code.left), self._compute(code.right))
        if isinstance(code, ast.Call) and isinstance(code.func, ast.Name):
            arguments = [self._compute(argument) for argument in code.args]
            if code.func.id in ("max", "min"):
                return self._add(code.func.id.capitalize(), *arguments)
            if code.func.id in ("floordiv", "mod"):
                rest = self._add("Mod", *arguments)  # the sign of the divisor, as in Python
                if code.func.id == "mod":
                    return rest
                # ONNX rounds a quotient towards zero, and Python down. Without the rest, the quotient is exact.
                return self._add("Div", self._add("Sub", arguments[0], rest), arguments[1])
        raise ValueError(
            f"{self.where}: a symbolic size has an unknown form; expected sums, products, floordiv, mod, max and min, "
            f"got {ast.unparse(code)}."
        )

    def _add(self, op: str, *inputs: OnnxValue) -> OnnxValue:
        return self.graph.add(op, inputs, (1,), np.int64)

    def _variable(self, name: str) -> OnnxValue:
        for value in self.inputs:
            for axis, size in enumerate(value.shape):
                if str(size) == name:
                    return self.graph.add("Shape", [value], (1,), np.int64, start=axis, end=axis + 1)
        raise ValueError(
            f"{self.where}: the symbolic size {name} cannot be computed; expected an input with a dimension of exactly "
            f"this size, got none. Write {name} alone in dynamic."
        )
