"""Rewrites the imports of a ported file.

Imports of torch and unused imports are removed. Imports of jax.numpy, funcnet and other modules are added if the result
uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import libcst as cst

from funcnet import functional, nn
from funcnet.porting.reading.expressions import NameCounter, code
from funcnet.porting.rule_engine.template_filling import ROOTS

__all__ = ["names_in", "rewritten"]

_MARK = "__imports_of_the_port__"  # name in the statement that marks where the new imports are inserted

# {module of another package for torch: the module of funcnet that replaces it}.
_MOVED = {"einops.layers.torch": "funcnet.nn.einops"}


class _Names(NameCounter):
    """Counts the names that a tree reads or writes outside of its import statements."""

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        text = node.evaluated_value
        if isinstance(text, str) and text.isidentifier():  # a quoted annotation, or an entry of __all__
            self.found[text] += 1


def names_in(tree: cst.CSTNode) -> set[str]:
    """Return the names that a tree uses outside of its import statements."""
    collector = _Names()
    tree.visit(collector)
    return set(collector.found)


def rewritten(
    tree: cst.Module,
    roots: set[str],
    kept: Mapping[str, str],
    home: Callable[[cst.ImportFrom | cst.Import, str], tuple[str, str] | None],
    here: tuple[str, str] = ("", ""),
) -> cst.Module:
    """Return a ported file with imports of jax.numpy and funcnet in place of those of torch.

    Args:
        tree: the ported file, which still has the imports of its original.
        roots: names of `template_filling.ROOTS` that the rewriter has written into the file.
        kept: {local name: dotted name to import} for names that the file uses and that are not in `ROOTS`.
        home: function that finds where the result defines a name that an import statement binds; see `port.py`. For an
            import from the source's own package, `home(statement, name)` returns (file of the result without its
            suffix, name in this file), or ("", file) if the name is a module. For other imports, it returns None.
        here: (file of the result without its suffix, top-level package of the original file).
    """
    used = names_in(tree)
    pass_ = _Imports(used, home, here, set(kept))
    body = tree.visit(pass_)
    assert isinstance(body, cst.Module)
    lines = _needed(roots & used, {name: path for name, path in kept.items() if name in used}, pass_.bound)
    fresh = [cst.parse_statement(line) for line in lines]
    statements: list[cst.CSTNode] = []
    placed = not pass_.marked
    if placed:
        at = _place(list(body.body))
        statements, body = [*body.body[:at], *fresh], body.with_changes(body=body.body[at:])
    for one in body.body:
        if isinstance(one, cst.SimpleStatementLine) and _MARK in code(one):
            if not placed:
                first = fresh[0].with_changes(leading_lines=one.leading_lines) if fresh else None
                statements += [first, *fresh[1:]] if first is not None else []
            placed = True
        else:
            statements.append(one)
    return body.with_changes(body=statements)


def _needed(roots: set[str], kept: Mapping[str, str], bound: set[str]) -> list[str]:
    lines = []
    for name in ("functools", "math", "operator", "jax", "jnp", "np"):
        if name in roots and name not in bound:
            lines.append(f"import {ROOTS[name]}" + ("" if ROOTS[name] == name else f" as {name}"))
    if "tl" in roots:
        lines.append("import funcnet.torchlike as tl")
    own = ["functional as F"] if "F" in roots else []
    if own or "nn" in roots:
        lines.append("from funcnet import " + ", ".join(own + (["nn"] if "nn" in roots else [])))
    groups: dict[str, list[str]] = {}
    for name, path in sorted(kept.items()):
        if name in bound and path == f"typing.{name}":
            continue  # the source already imports the name
        module, _, last = path.rpartition(".")
        groups.setdefault(module, []).append(last if last == name else f"{last} as {name}")
    return lines + [f"from {module} import {', '.join(names)}" for module, names in sorted(groups.items())]


def _place(statements: list[cst.CSTNode]) -> int:
    """Return the position of new imports in a file that does not import torch at its top level.

    The position is after the docstring and the imports from `__future__`.
    """
    place = 0
    for index, one in enumerate(statements):
        expression = one.body[0] if isinstance(one, cst.SimpleStatementLine) and one.body else None
        is_text = isinstance(expression, cst.Expr) and isinstance(expression.value, cst.SimpleString)
        if (index == 0 and is_text) or "from __future__" in code(one):
            place = index + 1
    return place


class _Imports(cst.CSTTransformer):
    def __init__(
        self,
        used: set[str],
        home: Callable[[cst.ImportFrom | cst.Import, str], tuple[str, str] | None],
        here: tuple[str, str],
        kept: set[str],
    ):
        super().__init__()
        self.used, self.home, self.here, self.kept = used, home, here, kept
        self.bound: set[str] = set()
        self.marked, self.depth = False, 0

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> Any:
        kept: list[cst.ImportAlias] = []
        moved: list[cst.ImportFrom] = []
        for alias in updated_node.names:
            name = alias.asname.name.value if alias.asname else code(alias.name).partition(".")[0]  # type: ignore[union-attr]
            if name not in self.used or code(alias.name).partition(".")[0] == "torch":
                continue
            self.bound.add(name)
            home = self.home(original_node, name)
            if home is not None and not home[0]:
                moved.append(_from(".", [_alias(home[1], name)]))
                continue
            kept.append(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        if kept or moved:
            lines = [*([updated_node.with_changes(names=kept)] if kept else []), *moved]
            return lines[0] if len(lines) == 1 else cst.FlattenSentinel(lines)
        torchs = any(code(alias.name).partition(".")[0] == "torch" for alias in updated_node.names)
        return self._gone() if torchs else cst.RemoveFromParent()

    def _gone(self) -> cst.Expr | cst.RemovalSentinel:
        """Mark the position of a top-level import of torch, because the new imports take its place."""
        if self.depth:
            return cst.RemoveFromParent()
        self.marked = True
        return cst.Expr(cst.Name(_MARK))

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self.depth += 1

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.BaseSuite:
        self.depth -= 1
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        if len(original_node.body) != 1 or len(updated_node.body) < 2:
            return updated_node
        first, *rest = updated_node.body
        return cst.FlattenSentinel(
            [updated_node.with_changes(body=[first]), *(cst.SimpleStatementLine([one]) for one in rest)]
        )

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> Any:
        module = "" if updated_node.module is None else code(updated_node.module)
        if isinstance(updated_node.names, cst.ImportStar):
            if updated_node.relative or module.partition(".")[0] == self.here[1]:
                return self._listed(original_node)
            return updated_node if module.partition(".")[0] != "torch" else self._gone()
        if module == "__future__":
            return updated_node
        if not updated_node.relative and module.partition(".")[0] == "torch":
            return self._of_nn(module, updated_node) if self.depth else self._gone()
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in updated_node.names:
            own = code(alias.name)
            name = own if alias.asname is None else code(alias.asname.name)
            if name not in self.used:
                continue
            self.bound.add(name)
            home = self.home(original_node, name)
            if home is not None:
                key, target = f".{home[0]}", home[1]
            else:
                key, target = _MOVED.get(module, code_of_module(updated_node)), own
            groups.setdefault(key, []).append(_alias(target, name))
        if not groups:
            return cst.RemoveFromParent()
        lines = [_from(key, names, updated_node) for key, names in groups.items()]
        return lines[0] if len(lines) == 1 else cst.FlattenSentinel(lines)

    def _of_nn(self, module: str, node: cst.ImportFrom) -> cst.ImportFrom | cst.RemovalSentinel:
        """Return the replacement of an import from torch inside a block, such as an `except` clause.

        For example, `from torch.nn import LayerNorm as Norm` becomes `from funcnet.nn import LayerNorm as Norm`.
        """
        home = {"torch.nn": nn, "torch.nn.functional": functional}.get(module)
        if module.startswith("torch.nn.modules"):
            home = nn
        names = []
        for alias in node.names if home is not None and not isinstance(node.names, cst.ImportStar) else ():
            own = code(alias.name)
            name = own if alias.asname is None else code(alias.asname.name)
            if name in self.used and name not in self.kept and hasattr(home, own):
                names.append(_alias(own, name))
        return _from(home.__name__, names) if home is not None and names else cst.RemoveFromParent()

    def _listed(self, node: cst.ImportFrom) -> Any:
        """Replace a star import from the source's own package with imports of the used names.

        One star import may become several imports, because the result may define these names in several files.
        """
        groups: dict[str, list[cst.ImportAlias]] = {}
        for name in sorted(self.used - self.bound):
            home = self.home(node, name)
            if home is not None and home[0] not in ("", self.here[0]) and "." not in home[1]:
                self.bound.add(name)
                groups.setdefault(f".{home[0]}", []).append(_alias(home[1], name))
        lines = [_from(key, names) for key, names in sorted(groups.items())]
        return cst.FlattenSentinel(lines) if lines else cst.RemoveFromParent()


def code_of_module(node: cst.ImportFrom) -> str:
    return "." * len(node.relative) + ("" if node.module is None else code(node.module))


def _alias(target: str, name: str) -> cst.ImportAlias:
    return cst.ImportAlias(cst.Name(target), None if target == name else cst.AsName(cst.Name(name)))


def _from(module: str, names: list[cst.ImportAlias], like: cst.ImportFrom | None = None) -> cst.ImportFrom:
    line = cst.parse_statement(f"from {module} import x")
    assert isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.ImportFrom)
    parts = line.body[0]
    if like is None:
        return parts.with_changes(names=names)
    same = not isinstance(like.names, cst.ImportStar) and len(like.names) == len(names)
    if same and like.lpar is not None:
        spaced = [new.with_changes(comma=old.comma) for new, old in zip(names, like.names, strict=True)]  # type: ignore[arg-type]
        return parts.with_changes(names=spaced, lpar=like.lpar, rpar=like.rpar)
    return parts.with_changes(names=names)
