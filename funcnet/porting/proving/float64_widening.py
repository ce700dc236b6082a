"""Widens a source from float32 to float64, so that torch and a port can be compared almost without rounding.

Without this, a model that contains `.float()` or `torch.float32` computes in float32, whatever the dtype of its inputs.
The same is true of `jnp.float32` in a port.
"""

from __future__ import annotations

import ast

from funcnet.porting.proving.parameter_defaults import change_default

__all__ = ["widen"]

# {dtype: wider dtype}. These names mean the same in torch, numpy and jax.numpy, and as strings.
_DTYPES = {"float32": "float64", "complex64": "complex128"}
_TORCH = {
    **_DTYPES, "float": "double", "cfloat": "cdouble", "FloatTensor": "DoubleTensor",
}  # fmt: skip
_STRINGS = {**_DTYPES, "torch.FloatTensor": "torch.DoubleTensor"}
_METHODS = {"float": "double", "cfloat": "cdouble"}
_TAKING_DTYPES = {"astype", "dtype", "to", "type", "asarray", "array", "view"}


def widen(tree: ast.Module) -> ast.Module:
    """Return the tree of a source in which float64 and complex128 replace float32 and complex64.

    Half precision and torch's default dtype are not changed.

    Args:
        tree: a torch source, or a port. The tree is changed in place.

    >>> print(ast.unparse(widen(ast.parse("import torch\\ny = x.float() + torch.ones(2, dtype=torch.float32)"))))
    import torch
    y = x.double() + torch.ones(2, dtype=torch.float64)
    """
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = {one.asname or one.name for node in imports for one in node.names if one.name == "torch"}
    return ast.fix_missing_locations(_Widen(names | {"torch"}).visit(tree))


class _Widen(ast.NodeTransformer):
    def __init__(self, torch_names: set[str]):
        self._torch_names = torch_names

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        of_torch = isinstance(node.value, ast.Name) and node.value.id in self._torch_names
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        node.attr = (_TORCH if of_torch else _DTYPES).get(node.attr, node.attr)
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        table = _TORCH if node.module == "torch" else _DTYPES if node.module in ("numpy", "jax.numpy") else {}
        for one in node.names:
            if one.name in table:
                one.name, one.asname = table[one.name], one.asname or one.name
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Attribute):
            # `x.float()` is the method of a tensor or a module, unless `x` is torch itself.
            of_torch = isinstance(function.value, ast.Name) and function.value.id in self._torch_names
            if not of_torch and not node.args:
                function.attr = _METHODS.get(function.attr, function.attr)
            if function.attr in _TAKING_DTYPES:
                node.args = [_widened_string(one) for one in node.args]
        for keyword in node.keywords:
            if keyword.arg == "dtype":
                keyword.value = _widened_string(keyword.value)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if any(isinstance(one, ast.Name) and one.id == "dtype" for one in node.targets):
            node.value = _widened_string(node.value)
        return self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """Replace float32 with float64 in the default of a parameter that is named `dtype`."""
        change_default(node, "dtype", _widened_string)
        return self.generic_visit(node)


def _widened_string(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _STRINGS:
        return ast.copy_location(ast.Constant(_STRINGS[node.value]), node)
    return node
