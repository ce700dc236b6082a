"""The names of types in the signatures of definitions, such as `Ints`, and what they stand for."""

import ast
from collections.abc import Iterable, Iterator

from scripts.reference.public_names import Definition, definition, parsed

__all__ = ["type_names"]


def type_names(found: Iterable[Definition]) -> dict[str, str]:
    """Return {name of a type: what it stands for} for the annotations of functions, of classes and of their methods.

    A name that stands for other names is followed by these. Classes are left out, as are names from other packages.
    """
    known: dict[str, str] = {}
    for one in found:
        for annotation in _annotations(one):
            _add(one.module, annotation, known)
    return known


def _add(module: str, annotation: ast.expr, known: dict[str, str]) -> None:
    for node in ast.walk(annotation):
        if not isinstance(node, ast.Name) or node.id in known:
            continue
        try:
            named = definition(module, node.id)
        except ValueError:  # of another package, or of Python
            continue
        value = _value(named)
        if value is not None:
            known[node.id] = ast.unparse(value)
            _add(named.module, value, known)


def _value(named: Definition) -> ast.expr | None:
    """Return the type that a name stands for, or None if the name is not the name of a type expression."""
    for node in parsed(named.module).body if named.kind == "Constants" else ():
        is_named = isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [named.name]
        if is_named and not isinstance(node.value, ast.Call | ast.Constant):  # a type variable, a number
            return node.value
    return None


def _annotations(one: Definition) -> Iterator[ast.expr]:
    """Yield the annotations of a function, or of the attributes, the constructor and the public methods of a class."""
    node = next((node for node in parsed(one.module).body if getattr(node, "name", None) == one.name), None)
    if isinstance(node, ast.FunctionDef):
        yield from _of_function(node)
    elif isinstance(node, ast.ClassDef):
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and not ast.unparse(part.target).startswith("_"):
                yield part.annotation
            if isinstance(part, ast.FunctionDef) and (part.name == "__init__" or not part.name.startswith("_")):
                yield from _of_function(part)
        for base in node.bases:  # the reference shows the constructor of a private base as the class's own
            if isinstance(base, ast.Name) and base.id.startswith("_"):
                yield from _annotations(definition(one.module, base.id))


def _of_function(node: ast.FunctionDef) -> Iterator[ast.expr]:
    arguments = node.args
    each = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    yield from (one.annotation for one in each if one is not None and one.annotation is not None)
    if node.returns is not None:
        yield node.returns
