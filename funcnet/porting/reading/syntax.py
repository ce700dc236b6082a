"""Reads a Python file as a syntax tree, or reports why it cannot be ported, for example because it is TorchScript or
needs a newer Python.
"""

from __future__ import annotations

import ast
import functools
import io
import sys
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from funcnet.porting.errors import PortError
from funcnet.porting.reading.named_imports import with_plain_imports

__all__ = ["bound_name", "dotted", "is_command_line", "names_in", "parsed", "root_of", "walk"]

Version = tuple[int, int]


def parsed(path: Path) -> tuple[str, MetadataWrapper]:
    """Return the text of a Python file, and a wrapper that has its tree and computes metadata.

    Args:
        path: a file with torch code.

    Returns:
        The text and the wrapper. `wrapper.module` is the tree whose nodes have metadata.

    Raises:
        PortError: if there is no such file, or if it does not parse or is not the Python source of a torch model.
    """
    data = _content(path)
    if b"\0" in data:
        raise PortError(f"{path}: this is not Python source; expected a text file, got binary data.")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise PortError(
            f"{path}: this is not Python source; expected text in the declared encoding, got {error}."
        ) from error
    try:
        module = with_plain_imports(cst.parse_module(data))
    except cst.ParserSyntaxError as error:
        raise _syntax_error(path, text, error) from error
    except RecursionError as error:
        raise PortError(f"{path}: an expression is nested too deeply to be read. Split it.") from error
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)  # safe, because the parser never reuses a node
    _check_version(path, text, wrapper)
    _check_kind(path, wrapper.module)
    return text, wrapper


def dotted(node: cst.CSTNode) -> tuple[str, ...] | None:
    """Return the parts of a dotted name such as `a.b.c`, or None for any other expression.

    >>> dotted(cst.parse_expression("F.relu")), dotted(cst.parse_expression("f().relu"))
    (('F', 'relu'), None)
    """
    if isinstance(node, cst.Name):
        return (node.value,)
    if isinstance(node, cst.Attribute):
        before = dotted(node.value)
        return None if before is None else (*before, node.attr.value)
    return None


def root_of(node: cst.CSTNode) -> cst.CSTNode:
    """Return the node at the beginning of an expression: `a` for `a.b[0].c`."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    return node


def bound_name(alias: cst.ImportAlias) -> str:
    """Return the name that a part of an import binds: `np` for `numpy as np`, `a` for `a.b`."""
    chain = dotted(alias.asname.name if alias.asname is not None else alias.name)
    assert chain is not None
    return chain[0]


def is_command_line(statement: cst.CSTNode) -> bool:
    """Return whether a statement is `if __name__ == "__main__":`."""
    return isinstance(statement, cst.If) and any(
        isinstance(one, cst.Name) and one.value == "__name__" for one in walk(statement.test)
    )


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes below it, in the order of the source."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(_reversed_children(one))


@functools.lru_cache(1 << 20)  # listing children is slow in libcst, and trees are walked many times
def _reversed_children(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    return tuple(reversed(node.children))


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise PortError(f"{path}: this is a folder; expected a Python file. Name the file that has the class.")
    if not path.is_file():
        near = sorted(one.name for one in path.parent.glob("*.py")) if path.parent.is_dir() else []
        has = f" The folder has {', '.join(near[:8])}{' …' if len(near) > 8 else ''}." if near else ""
        raise PortError(f"{path}: there is no such file; expected a Python file.{has}")
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            script = any("/code/" in f"/{name}" for name in archive.namelist())
        raise PortError(
            f"{path}: this is {'a TorchScript archive' if script else 'an archive'}; expected the Python source of the "
            "model. Port the file that defines the class, before torch.jit.script or torch.jit.trace."
        )
    if path.suffix != ".py":
        raise PortError(f"{path}: this is not a Python file; expected a name that ends in .py, got {path.name!r}.")
    return path.read_bytes()


def _syntax_error(path: Path, text: str, error: cst.ParserSyntaxError) -> PortError:
    """Return the error for a file that libcst cannot parse.

    The error has the message of Python's parser, which is clearer than that of libcst. If Python can parse the file,
    the error has libcst's message.
    """
    line, column, message = error.raw_line, error.raw_column, error.message
    try:
        ast.parse(text)
    except SyntaxError as plain:
        line, column, message = plain.lineno or line, plain.offset or column, plain.msg
    except ValueError:
        pass
    return PortError(f"{path}:{line}:{column}: this does not parse; expected Python, got a syntax error: {message}.")


def _check_version(path: Path, text: str, wrapper: MetadataWrapper) -> None:
    """Raise an error if libcst can parse the file but the running Python, which executes the file later, cannot."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        running = f"{sys.version_info[0]}.{sys.version_info[1]}"
        where = wrapper.resolve(PositionProvider)
        needed = max(_features(wrapper.module, where), default=None, key=lambda one: one[0])
        if needed is None or needed[0] <= sys.version_info[:2]:
            raise PortError(
                f"{path}:{error.lineno}:{error.offset}: this does not parse; expected Python {running}, got a syntax "
                f"error: {error.msg}."
            ) from error
        (major, minor), feature, line = needed
        raise PortError(
            f"{path}:{line}: {feature} needs Python {major}.{minor}; expected code for Python {running}. Run "
            f"funcnet with Python {major}.{minor} or newer."
        ) from error


def _features(tree: cst.Module, where: Mapping[cst.CSTNode, Any]) -> Iterator[tuple[Version, str, int]]:
    """Yield (version of Python, what needs it, line) for syntax that was added after Python 3.10."""
    for node in walk(tree):
        found: tuple[Version, str] | None = None
        if isinstance(node, cst.TypeAlias):
            found = (3, 12), "a `type` statement"
        elif isinstance(node, cst.TypeParam) and node.default is not None:
            found = (3, 13), "a type parameter with a default"
        elif isinstance(node, cst.TypeParameters):
            found = (3, 12), "a list of type parameters"
        elif isinstance(node, cst.TryStar):
            found = (3, 11), "`except*`"
        elif isinstance(node, cst.FormattedString) and _is_nested(node):
            found = (3, 12), "an f-string with its own quotes, a backslash or a comment inside the braces"
        elif isinstance(node, cst.TemplatedString):
            found = (3, 14), "a t-string"
        elif isinstance(node, cst.ExceptHandler) and isinstance(node.type, cst.Tuple) and not node.type.lpar:
            found = (3, 14), "`except` with several classes and no parentheses"
        if found is not None:
            place = where.get(node)
            yield (*found, place.start.line if isinstance(place, CodeRange) else 1)


def _is_nested(string: cst.FormattedString) -> bool:
    code = cst.Module([])
    inside = [code.code_for_node(part) for part in string.parts if isinstance(part, cst.FormattedStringExpression)]
    return any(string.quote in part or "\\" in part or "#" in part for part in inside)


def _check_kind(path: Path, tree: cst.Module) -> None:
    for node in walk(tree):
        if isinstance(node, cst.Name) and node.value == "__torch__":
            raise PortError(
                f"{path}: this is code that TorchScript wrote (it names `__torch__`); expected the Python source that "
                "it was made from. Port that file."
            )
        if isinstance(node, cst.ClassDef):
            bases = [".".join(dotted(base.value) or ()) for base in node.bases]
            if any(base.rpartition(".")[2] == "ScriptModule" for base in bases):
                raise PortError(
                    f"{path}: {node.name.value} is a torch.jit.ScriptModule; expected a torch.nn.Module. Use nn.Module "
                    "as the base, without torch.jit.script_method."
                )
        if isinstance(node, cst.Import | cst.ImportFrom) and "funcnet" in _top_names(node):
            raise PortError(f"{path}: this file imports funcnet, so it is a port already; expected torch code.")


def _top_names(node: cst.Import | cst.ImportFrom) -> set[str]:
    """Return the first parts of the module names in an absolute import."""
    if isinstance(node, cst.ImportFrom):
        named = [] if node.relative or node.module is None else [node.module]
    else:
        named = [alias.name for alias in node.names]
    return {(dotted(one) or ("",))[0] for one in named}


def names_in(node: cst.CSTNode) -> frozenset[str]:
    """Return the names in an expression, without the names of attributes and keywords."""
    skipped = {id(one.attr) for one in walk(node) if isinstance(one, cst.Attribute)}
    skipped |= {id(one.keyword) for one in walk(node) if isinstance(one, cst.Arg)}
    return frozenset(one.value for one in walk(node) if isinstance(one, cst.Name) and id(one) not in skipped)
