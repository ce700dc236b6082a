"""Changes the default of one parameter in a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable

__all__ = ["change_default"]


def change_default(arguments: ast.arguments, name: str, change: Callable[[ast.expr], ast.expr]) -> None:
    """Replace the default of the parameter `name` of a function with `change(default)`, if it has a default.

    >>> tree = ast.parse("def f(x, inplace=True): pass")
    >>> change_default(tree.body[0].args, "inplace", lambda default: ast.Constant(False))
    >>> ast.unparse(tree.body[0].args)
    'x, inplace=False'
    """
    named = [*arguments.posonlyargs, *arguments.args]
    for argument, index in zip(reversed(named), reversed(range(len(arguments.defaults))), strict=False):
        if argument.arg == name:
            arguments.defaults[index] = change(arguments.defaults[index])
    for index, argument in enumerate(arguments.kwonlyargs):
        default = arguments.kw_defaults[index]
        if argument.arg == name and default is not None:
            arguments.kw_defaults[index] = change(default)
