"""Turns the in-place changes in a torch source into assignments, to find out whether aliasing matters.

`x += y` changes the tensor that `x` refers to, and therefore the value of every other name of this tensor. After
`rebind`, the statement binds `x` to a new tensor, and other names keep the old one. If an output of the model then
differs, the model reads a changed tensor under another name, so aliasing matters.
"""

from __future__ import annotations

import ast
import copy
import importlib
from typing import Any

from funcnet.porting.proving.parameter_defaults import change_default

__all__ = ["rebind"]

# Functions whose changes in place are kept.
_LEFT_ALONE = frozenset(
    {"__init__", "reset_parameters", "_reset_parameters", "init_weights", "_init_weights", "initialize_weights"}
)
# Methods whose names end in an underscore although they do not write values.
_NOT_WRITING = frozenset({"requires_grad_", "detach_", "share_memory_", "resize_", "resize_as_", "set_", "rename_"})
# {layer or function: position of its argument `inplace`}.
_INPLACE = {
    "ReLU": 0, "ReLU6": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "SELU": 0, "ELU": 1, "CELU": 1,
    "LeakyReLU": 1, "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1, "AlphaDropout": 1, "Threshold": 2,
    "RReLU": 2, "Hardtanh": 2, "relu": 1, "relu6": 1, "silu": 1, "mish": 1, "hardswish": 1, "hardsigmoid": 1, "selu": 1,
    "elu": 2, "celu": 2, "leaky_relu": 2, "dropout": 3, "dropout2d": 3, "threshold": 3, "rrelu": 4, "hardtanh": 3,
}  # fmt: skip
_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def rebind(tree: ast.Module) -> ast.Module:
    """Return the tree of a torch source in which a change in place of a local name no longer affects other names of the
    tensor.

    `inplace=True` becomes `inplace=False`. Before `x += y`, `x.add_(y)` and `x[i] = v`, `x` is bound to a clone of its
    tensor, and so is an attribute before `self.x += y`. So the changed source computes the same values and dtypes,
    unless a changed tensor also has another name. Values that are not tensors, such as lists, are still changed in
    place.

    Constructors and functions that initialise parameters keep their changes in place, apart from `inplace=True`.
    Statements that write into a name of another scope, and calls with `out=`, stay as they are.

    Args:
        tree: a torch source. The tree is changed in place.
    """
    return ast.fix_missing_locations(_Rebind().visit(tree))


class _Rebind(ast.NodeTransformer):
    def __init__(self) -> None:
        self._locals: frozenset[str] = frozenset()
        self._torch: Any = importlib.import_module("torch")

    # ------------------------------------------------------------------------------------------------------- scopes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if node.name in _LEFT_ALONE:
            _OutOfPlace().visit(node)
            return node
        outer, self._locals = self._locals, _local_names(node)
        self.generic_visit(node)
        self._locals = outer
        _OutOfPlace().visit(node.args)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def _closed(self, node: ast.AST) -> ast.AST:
        """Visit a comprehension, a lambda or a class without turning its changes in place into assignments."""
        outer, self._locals = self._locals, frozenset()
        self.generic_visit(node)
        self._locals = outer
        return node

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ClassDef = _closed

    # --------------------------------------------------------------------------------------------------- statements

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        target = node.target
        name = _base_name(target)
        if isinstance(target, ast.Name) or name in self._locals:
            return [self._cloning(ast.Name(name, ast.Load()), node), node]
        return [self._cloning(_read(target), node), node] if isinstance(target, ast.Attribute) else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        targets = [one for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Subscript)]
        stored = [_base_name(one) for one in targets if isinstance(one.ctx, ast.Store)]
        names = [name for name in stored if name in self._locals]
        return [*(self._cloning(ast.Name(name, ast.Load()), node) for name in names), node]

    def _cloning(self, value: ast.Name | ast.Attribute, place: ast.stmt) -> ast.stmt:
        """Return the statement `if hasattr(value, "data_ptr"): value = value.clone()`. Only tensors have `data_ptr`."""
        target = copy.deepcopy(value)
        target.ctx = ast.Store()
        return _placed(ast.If(_is_tensor(value), [ast.Assign([target], _clone(value))], []), place)

    # -------------------------------------------------------------------------------------------------- expressions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        _OutOfPlace().change(node)
        function = node.func
        if not isinstance(function, ast.Attribute):
            return node
        receiver, method = _base_name(function.value), function.attr
        if not isinstance(function.value, ast.Name) or receiver not in self._locals:
            return self._function(node)
        if method[-1:] != "_" or method[:1] == "_" or method in _NOT_WRITING or not hasattr(self._torch.Tensor, method):
            return node
        changed = copy.deepcopy(node)
        changed.func = ast.Attribute(_clone(ast.Name(receiver, ast.Load())), method, ast.Load())
        bound = ast.NamedExpr(ast.Name(receiver, ast.Store()), changed)
        return _placed(ast.IfExp(_is_tensor(ast.Name(receiver, ast.Load())), bound, node), node)

    def _function(self, node: ast.Call) -> ast.AST:
        """Write `(x := F.relu(x))` for `F.relu_(x)`, and likewise for functions of torch."""
        function, functional = node.func, self._torch.nn.functional
        assert isinstance(function, ast.Attribute)
        name, plain = function.attr, function.attr.removesuffix("_")
        known = name != plain and any(hasattr(one, name) and hasattr(one, plain) for one in (self._torch, functional))
        first = node.args[0] if node.args else None
        if not known or not isinstance(first, ast.Name) or first.id not in self._locals:
            return node
        function.attr = plain
        return _placed(ast.NamedExpr(ast.Name(first.id, ast.Store()), node), node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        _OutOfPlace().visit_Dict(node)
        return self.generic_visit(node)


class _OutOfPlace(ast.NodeTransformer):
    """Turns `inplace=True` into `inplace=False` in calls, in dicts and in defaults of arguments."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.change(node)
        return self.generic_visit(node)

    def change(self, node: ast.Call) -> None:
        for keyword in node.keywords:
            if keyword.arg == "inplace":
                keyword.value = _false(keyword.value)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        index = _INPLACE.get(name)
        if index is not None and index < len(node.args):
            node.args[index] = _false(node.args[index])

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        for index, key in enumerate(node.keys):
            if isinstance(key, ast.Constant) and key.value == "inplace":
                node.values[index] = _false(node.values[index])
        return self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        change_default(node, "inplace", _false)
        return self.generic_visit(node)


def _false(node: ast.expr) -> ast.expr:
    true = isinstance(node, ast.Constant) and node.value is True
    return ast.copy_location(ast.Constant(False), node) if true else node


def _is_tensor(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("hasattr", ast.Load()), [value, ast.Constant("data_ptr")], [])


def _clone(value: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(value, "clone", ast.Load()), [], [])


def _read(target: ast.Attribute) -> ast.Attribute:
    found = copy.deepcopy(target)
    found.ctx = ast.Load()
    return found


def _base_name(node: ast.expr) -> str:
    """Return the name before the indices of an expression: "x" for `x`, `x[i]` and `x[i][j]`, and "" for others."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the names that a function binds in its own scope, including its parameters."""
    arguments = function.args
    starred = [one for one in (arguments.vararg, arguments.kwarg) if one]
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]
    names, elsewhere = {one.arg for one in named}, set()
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere |= set(node.names)
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)
    return frozenset(names - elsewhere)


def _placed(node: ast.AST, place: ast.AST) -> Any:
    """Give a new node and its new children the line and column of an old node."""
    ast.copy_location(node, place)
    return ast.fix_missing_locations(node)
