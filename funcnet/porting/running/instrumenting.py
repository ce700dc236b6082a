"""Rewrites the syntax tree of a source so that the source reports the value and the place of each expression that it
evaluates.

An expression `e` becomes `__record__(key, e)`. The rewritten source computes the same as the original: `e` is evaluated
once, in the same frame and at the same time. The place of an expression is its span in libcst's `PositionProvider`.
In such a span, columns count characters, and a tuple or a generator does not include the parentheses around it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable
from pathlib import Path

from funcnet.porting.expression_facts.fact import Span

__all__ = ["REACH", "RECORD", "Places", "instrument", "parameter_span"]

RECORD = "__record__"  # function that is called with a key and a value, and returns the value
REACH = "__reach__"  # function that is called with a key when the body of a function begins

_RECORDED = (
    ast.Attribute, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Dict, ast.DictComp, ast.GeneratorExp, ast.IfExp,
    ast.Lambda, ast.List, ast.ListComp, ast.Name, ast.NamedExpr, ast.Set, ast.SetComp, ast.Subscript, ast.Tuple,
    ast.UnaryOp,
)  # fmt: skip
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Places:
    """Finds the span (first line, first column, last line, last column) of each node of Python's `ast`, as libcst
    defines it.

    >>> source = "f((a, b), (c for c in d))"
    >>> call = ast.parse(source).body[0].value
    >>> [Places(source).span(node) for node in (call, *call.args)]
    [(1, 0, 1, 25), (1, 3, 1, 7), (1, 11, 1, 23)]
    """

    def __init__(self, source: str):
        self._lines = [line.encode() for line in re.split("\r\n|\r|\n", source)]
        self._inner = _insides(source)

    def span(self, node: ast.AST) -> Span:
        """Return the span of an expression, a statement or an argument."""
        first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start, end = self._column(first, node.col_offset), self._column(last, node.end_col_offset)  # type: ignore[attr-defined]
        outer = (first, start, last, end)
        return self._inner.get(outer, outer) if isinstance(node, ast.Tuple | ast.GeneratorExp) else outer

    def _column(self, line: int, offset: int) -> int:
        return len(self._lines[line - 1][:offset].decode())


def _insides(source: str) -> dict[Span, Span]:
    """Return {span of a pair of brackets with their content: span of the content alone} for the text of a source."""
    found: dict[Span, Span] = {}
    open_at: list[int] = []
    blank = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT)
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(source).readline) if one.type not in blank]
    for index, token in enumerate(tokens):
        if token.type == tokenize.OP and token.string in "([{":
            open_at.append(index)
        elif token.type == tokenize.OP and token.string in ")]}":
            first = open_at.pop()
            inner = tokens[first + 1 : index]
            start, end = (inner[0].start, inner[-1].end) if inner else (tokens[first].end, tokens[first].end)
            found[*tokens[first].start, *token.end] = (*start, *end)
    return found


def parameter_span(places: Places, argument: ast.arg) -> Span:
    """Return the span of a parameter's name, without its annotation."""
    line, column, _, _ = places.span(argument)
    return line, column, line, column + len(argument.arg)


def instrument(path: Path, tree: ast.Module, key_of: Callable[[str, Span], int]) -> ast.Module:
    """Return the tree of a source, changed so that each expression reports its value to a recorder.

    Args:
        path: the source's file, whose text is read again to count columns.
        tree: the source's tree. The tree is changed in place.
        key_of: function that returns a number for a path and a span. The expression at the span reports its value with
            this number.
    """
    source = io.TextIOWrapper(io.BytesIO(path.read_bytes()), encoding=_encoding(path), newline="").read()
    _Instrument(str(path), Places(source), key_of).visit(tree)
    return ast.fix_missing_locations(tree)


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        return tokenize.detect_encoding(file.readline)[0]


class _Instrument(ast.NodeTransformer):
    def __init__(self, path: str, places: Places, key_of: Callable[[str, Span], int]):
        self._path, self._places, self._key_of = path, places, key_of

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.JoinedStr | ast.pattern):
            return node  # before Python 3.12, expressions in an f-string have no positions
        recorded = isinstance(node, _RECORDED) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if recorded and isinstance(node, ast.Name):
            recorded = node.id not in ("super", "__class__")
        if recorded and isinstance(node, ast.Tuple):
            recorded = not any(isinstance(one, ast.Slice) for one in node.elts)
        if not recorded:
            return super().visit(node)
        span = self._places.span(node)
        return self._call(RECORD, span, node, super().visit(node))

    def _call(self, function: str, span: Span, place: ast.AST, *values: ast.AST) -> ast.Call:
        key = ast.Constant(self._key_of(self._path, span))
        call = ast.Call(ast.Name(function, ast.Load()), [key, *values], [])  # type: ignore[list-item]
        for node in (key, call.func, call):
            ast.copy_location(node, place)
        return call

    def _statement(self, function: str, span: Span, place: ast.AST, *values: ast.AST) -> ast.Expr:
        return ast.copy_location(ast.Expr(self._call(function, span, place, *values)), place)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.target = self.visit(node.target)  # type: ignore[assignment]
        node.value = self.visit(node.value) if node.value else None  # type: ignore[assignment]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        special = isinstance(node.targets[0], ast.Name) and node.targets[0].id in (
            "__slots__",
            "__all__",
            "__match_args__",
        )
        return node if special else self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        """Add a statement before `x += y` that reports the value of `x`, because a target cannot be the argument of a
        call.
        """
        target = node.target
        plain = isinstance(target, ast.Name) or (
            isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
        )
        if not plain:
            return self.generic_visit(node)
        read = ast.parse(ast.unparse(target), mode="eval").body
        for one in ast.walk(read):
            ast.copy_location(one, target)
        before = self._statement(RECORD, self._places.span(target), target, read)
        self.generic_visit(node)
        return [before, node]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.bases = [self.visit(one) for one in node.bases]  # type: ignore[misc]
        node.keywords = [self.visit(one) for one in node.keywords]  # type: ignore[misc]
        node.body = self._body(node.body)
        return node

    def _body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for one in body:
            visited = self.visit(one)
            found += visited if isinstance(visited, list) else [visited]  # type: ignore[list-item]
        return found

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(one) for one in arguments.defaults]  # type: ignore[misc]
        arguments.kw_defaults = [one and self.visit(one) for one in arguments.kw_defaults]  # type: ignore[misc]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._defaults(node.args)
        node.body = self.visit(node.body)  # type: ignore[assignment]
        return node

    def visit_FunctionDef(self, node: _Function) -> ast.AST:
        self._defaults(node.args)
        head = 1 if ast.get_docstring(node, clean=False) is not None else 0
        first = node.body[0]
        added = [self._statement(REACH, self._places.span(node), first)]
        arguments = node.args
        starred = [one for one in (arguments.vararg, arguments.kwarg) if one]
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred):
            read = ast.copy_location(ast.Name(one.arg, ast.Load()), first)
            added.append(self._statement(RECORD, parameter_span(self._places, one), first, read))
        node.body = [*node.body[:head], *added, *self._body(node.body[head:])]
        return node

    visit_AsyncFunctionDef = visit_FunctionDef
