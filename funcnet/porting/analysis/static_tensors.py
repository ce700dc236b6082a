"""Finds tensors that are converted to Python values, and that depend only on shapes and Python numbers. In the ported
code, these tensors become NumPy arrays.

In torch code, `torch.tensor(x.shape)` is often followed by arithmetic and `.tolist()`. Under `jit`, `.tolist()` fails
for a JAX array, because its value is not known, but works for a NumPy array.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.reading.definitions import Definitions
from funcnet.porting.reading.syntax import walk

__all__ = ["Static"]

_PYTHON = ("int", "float", "bool", "str", "none", "dtype", "device", "slice", "ellipsis", "complex")
_SHAPES = ("shape", "ndim", "dtype", "device", "itemsize")
_SIZES = ("size", "dim", "numel", "nelement", "ndimension", "element_size")
_SINKS = ("tolist", "item", "numpy")
_CASTS = ("int", "float", "bool", "range")
_BUILTINS = (
    "len", "int", "float", "bool", "range", "max", "min", "sum", "abs", "round", "tuple",
    "list", "reversed", "sorted", "zip", "enumerate",
)  # fmt: skip
_RANDOM = ("rand", "normal", "bernoulli", "multinomial", "uniform", "poisson", "exponential")


class Static:
    """Determines which expressions of one file have concrete values while JAX traces the ported code.

    Args:
        tree: the tree of the file.
        definitions: the places in the file that give names their values.
        fact: function that returns what is known about an expression.
        qualified: function that returns the qualified name of a Name or an Attribute, or None.

    Attributes:
        numpys: the calls and the names of tensors that are NumPy arrays in the ported code.
    """

    def __init__(
        self,
        tree: cst.Module,
        definitions: Definitions,
        fact: Callable[[cst.CSTNode], Fact],
        qualified: Callable[[cst.CSTNode], str | None],
    ):
        self.definitions, self.fact, self.qualified = definitions, fact, qualified
        self._known: dict[cst.CSTNode, bool] = {}
        self.numpys: set[cst.CSTNode] = set()
        for node in walk(tree):
            for part in self._sinks(node):
                if self._is_tensor(part) and self.is_static(part):
                    self._mark(part)

    def _is_tensor(self, node: cst.CSTNode) -> bool:
        return bool(self.fact(node).is_tensor)

    def _sinks(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Attribute) and node.func.attr.value in _SINKS:
                return [node.func.value]
            if isinstance(node.func, cst.Name) and node.func.value in _CASTS:
                return [arg.value for arg in node.args]
        if isinstance(node, cst.Slice):
            return [one for one in (node.lower, node.upper, node.step) if one is not None]
        return [node.test] if isinstance(node, cst.If | cst.While | cst.IfExp) else []

    def _mark(self, node: cst.CSTNode) -> None:
        for one in walk(node):
            if one in self.numpys:
                continue
            if isinstance(one, cst.Call):
                self.numpys.add(one)
            if isinstance(one, cst.Name) and self._is_tensor(one):
                self.numpys.add(one)
                for binding in self.definitions.of_name(one):
                    if binding.how in ("value", "item", "each"):
                        self._mark(binding.node)

    def is_static(self, node: cst.CSTNode) -> bool:
        """Return whether the value of an expression depends only on shapes, settings and literals."""
        if node not in self._known:
            self._known[node] = False
            self._known[node] = self._static(node)
        return self._known[node]

    def _all(self, nodes: list[cst.CSTNode]) -> bool:
        return all(map(self.is_static, nodes))

    def _static(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Integer | cst.Float | cst.SimpleString | cst.Ellipsis | cst.Imaginary):
            return True
        if isinstance(node, cst.Name):
            return self._name(node)
        if isinstance(node, cst.Attribute):
            return self._attribute(node)
        if isinstance(node, cst.Call):
            return self._call(node)
        if isinstance(node, cst.Subscript):
            return self.is_static(node.value) and all(self._index(one.slice) for one in node.slice)
        if isinstance(node, cst.BinaryOperation | cst.BooleanOperation):
            return self._all([node.left, node.right])
        if isinstance(node, cst.UnaryOperation):
            return self.is_static(node.expression)
        if isinstance(node, cst.IfExp):
            return self._all([node.test, node.body, node.orelse])
        if isinstance(node, cst.Comparison):
            return self._all([node.left, *(one.comparator for one in node.comparisons)])
        if isinstance(node, cst.Tuple | cst.List):
            return self._all([one.value for one in node.elements])
        return False

    def _index(self, node: cst.BaseSlice) -> bool:
        if isinstance(node, cst.Index):
            return self.is_static(node.value)
        assert isinstance(node, cst.Slice)
        return self._all([one for one in (node.lower, node.upper, node.step) if one is not None])

    def _name(self, node: cst.Name) -> bool:
        if node.value in ("True", "False", "None"):
            return True
        bindings = self.definitions.of_name(node)
        if not bindings or any(one.how == "other" for one in bindings):
            return self.qualified(node) is not None
        return all(
            bool(self.fact(node).is_only(*_PYTHON))
            if one.how in ("parameter", "definition")
            else self.is_static(one.node)
            for one in bindings
        )

    def _attribute(self, node: cst.Attribute) -> bool:
        if node.attr.value in _SHAPES or self.qualified(node) is not None:
            return True
        if self._is_tensor(node.value):
            return node.attr.value in ("T", "mT") and self.is_static(node.value)
        return bool(self.fact(node).is_only(*_PYTHON))

    def _call(self, node: cst.Call) -> bool:
        args: list[cst.CSTNode] = [arg.value for arg in node.args]
        qualified = self.qualified(node.func)
        if qualified is not None:
            known = qualified.startswith(("torch.", "math.", "numpy.")) and not qualified.startswith("torch.nn.")
            return known and not any(word in qualified for word in _RANDOM) and self._all(args)
        if isinstance(node.func, cst.Name):
            return node.func.value in _BUILTINS and self._all(args)
        if isinstance(node.func, cst.Attribute):
            if node.func.attr.value in _SIZES:
                return True
            receiver = node.func.value
            python = bool(self.fact(receiver).is_only(*_PYTHON, "list", "tuple"))
            return (self._is_tensor(receiver) or python) and self._all([receiver, *args])
        return False
