"""The public names of funcnet's modules, and where each is defined. The source is parsed, and only the
modules of `MADE_AT_RUNTIME` are imported.
"""

import ast
import functools
import importlib
import inspect
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "MADE_AT_RUNTIME",
    "ROOT",
    "Definition",
    "definition",
    "docstring",
    "file_of",
    "identifier",
    "is_module",
    "modules",
    "parsed",
    "path_of",
    "public_names",
]

ROOT = Path(__file__).resolve().parents[2]
MADE_AT_RUNTIME = ("funcnet.nn.init.initialisers",)  # functions that calls return: `normal_ = _replace(normal, …)`


class Definition(NamedTuple):
    """Where a public name is defined.

    Attributes:
        module: the module whose file has the definition.
        name: its name there, or "" if the public name is a module.
        kind: "Classes", "Functions", "Constants" or "Modules", the titles on a page.
        line: line of the definition, from 1.
    """

    module: str
    name: str
    kind: str
    line: int


def path_of(module: str) -> Path | None:
    """Return the file of a module, or None if there is no such module."""
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


def file_of(module: str) -> str:
    """Return the file of a module, relative to the root of the repository."""
    path = path_of(module)
    if path is None:
        raise ValueError(f"{module}: there is no such module; expected the dotted name of a file of funcnet.")
    return path.relative_to(ROOT).as_posix()


def is_module(module: str) -> bool:
    return path_of(module) is not None


def modules() -> list[str]:
    """Return the dotted names of all modules of the package."""
    files = [path.relative_to(ROOT).with_suffix("").parts for path in sorted((ROOT / "funcnet").rglob("*.py"))]
    return [".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in files]


@functools.cache
def parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / file_of(module)).read_text(encoding="utf-8"), file_of(module))


@functools.cache
def public_names(module: str) -> tuple[str, ...]:
    """Return the names of `__all__`. Without it, these are the names without an underscore that a package imports from
    other modules of funcnet, or that any other module defines.
    """
    found = []
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]:
            return tuple(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom) and [alias.asname for alias in node.names] == ["__all__"]:
            return public_names(node.module or "")
        if isinstance(node, ast.ImportFrom) and _is_package(module) and (node.module or "").startswith("funcnet"):
            found += [alias.asname or alias.name for alias in node.names]
        found += _defined(node)
    return tuple(name for name in found if not name.startswith("_"))


def definition(module: str, name: str) -> Definition:
    """Follow the imports of a name to its definition.

    Raises:
        ValueError: if the module neither defines nor imports the name.
    """
    for node in parsed(module).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _imported(node.module or "", alias.name)
                if alias.name == "*" and name in public_names(node.module or ""):
                    return definition(node.module or "", name)
        if name in _defined(node):
            kind = {ast.ClassDef: "Classes", ast.FunctionDef: "Functions"}.get(type(node), "Constants")
            if module in MADE_AT_RUNTIME and isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                kind = "Functions"
            return Definition(module, name, kind, node.lineno)
    if is_module(f"{module}.{name}"):
        return Definition(f"{module}.{name}", "", "Modules", 1)
    raise ValueError(f"{module}: the name {name!r} is public, but the module neither defines nor imports it.")


def identifier(module: str, name: str) -> str:
    """Return the path of a public name for mkdocstrings: below the module that exports it, if nothing else is there.

    A file with the name of its function hides the function (`funcnet.optim.lamb`), which is then named in the file.
    """
    found = definition(module, name)
    path = f"{module}.{name}"
    return f"{found.module}.{found.name}" if found.name and is_module(path) else path


def docstring(found: Definition) -> str:
    """Return the docstring of a definition, of a constant the string below it, and "" if there is none."""
    body = parsed(found.module).body
    if not found.name:
        return ast.get_docstring(parsed(found.module)) or ""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if found.name in _defined(node):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                return ast.get_docstring(node) or ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return str(after.value.value)
    if found.module in MADE_AT_RUNTIME and found.kind == "Functions":
        return inspect.getdoc(getattr(importlib.import_module(found.module), found.name)) or ""
    return ""


def _is_package(module: str) -> bool:
    path = path_of(module)
    return path is not None and path.name == "__init__.py"


def _imported(module: str, name: str) -> Definition:
    if is_module(f"{module}.{name}"):
        return Definition(f"{module}.{name}", "", "Modules", 1)
    return definition(module, name)


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
