"""Finds the names that the statements of a Python module bind. The statements are nodes of Python's `ast`, not of
libcst.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["binding_import", "bound_names", "guarded_lines", "relative_level", "star_imports"]

_EXPECTED = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def guarded_lines(tree: ast.Module) -> frozenset[int]:
    """Return the line numbers of the imports in a `try` whose `except` clause handles a failed import.

    >>> guarded_lines(ast.parse("try:\\n  import a\\nexcept ImportError:\\n  a = None"))
    frozenset({2})
    >>> guarded_lines(ast.parse("try:\\n  import a\\nexcept ImportError:\\n  raise RuntimeError('install a')"))
    frozenset()
    """
    lines: set[int] = set()
    for node in ast.walk(tree):
        body: list[ast.stmt] = []
        if isinstance(node, ast.Try):
            caught = [one for one in node.handlers if one.type is None or _last_names(one.type) & _EXPECTED]
            body = node.body if caught and not isinstance(caught[0].body[-1], ast.Raise) else []
        elif isinstance(node, ast.With):
            calls = [one.context_expr for one in node.items if isinstance(one.context_expr, ast.Call)]
            suppressed = [arg for call in calls if "suppress" in _last_names(call.func) for arg in call.args]
            body = node.body if any(_last_names(arg) & _EXPECTED for arg in suppressed) else []
        for statement in body:
            lines |= {one.lineno for one in ast.walk(statement) if isinstance(one, ast.Import | ast.ImportFrom)}
    return frozenset(lines)


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds in its own scope. Names from `import *` are not included.

    >>> sorted(bound_names(ast.parse("try:\\n  from a import b as c\\nexcept ImportError:\\n  d = 1").body[0]))
    ['c', 'd']
    """
    names: set[str] = set()
    for node in _own_nodes(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {one.asname or one.name.partition(".")[0] for one in node.names}
    return names - {"*"}


def binding_import(statement: ast.stmt, name: str, package: str) -> ast.ImportFrom | None:
    """Return the import of one name alone, if a statement of a package's `__init__.py` imports it from another module.

    For any other statement, return None. `from . import a` does not count, because it binds a submodule of the package.

    >>> ast.unparse(binding_import(ast.parse("from .a import b, c as d").body[0], "d", "pkg"))
    'from .a import c as d'
    """
    for node in _own_nodes(statement):
        if isinstance(node, ast.ImportFrom) and not (
            (node.level == 1 and not node.module) or (node.level == 0 and node.module == package)
        ):
            for one in node.names:
                if name == (one.asname or one.name):
                    return ast.copy_location(ast.ImportFrom(node.module, [one], node.level), node)
    return None


def relative_level(tree: ast.Module) -> int:
    """Return the largest number of dots at the beginning of a relative import in the source, or 0.

    >>> relative_level(ast.parse("from ..layers import Block"))
    2
    """
    return max((node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)), default=0)


def star_imports(statement: ast.stmt) -> bool:
    """Return whether a statement is a star import, `from module import *`."""
    return isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"


def _last_names(node: ast.expr) -> set[str]:
    """Return the last part of a dotted name, or of each dotted name in a tuple."""
    if isinstance(node, ast.Tuple):
        return set().union(*(_last_names(one) for one in node.elts))
    return {node.id} if isinstance(node, ast.Name) else {node.attr} if isinstance(node, ast.Attribute) else set()


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without the nodes inside functions and classes."""
    yield statement
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for child in ast.iter_child_nodes(statement):
            yield from _own_nodes(child)  # type: ignore[arg-type]
