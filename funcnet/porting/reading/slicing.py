"""Keeps the parts of a torch package that one class needs, and lists what was left out.

The class is kept, with its bases, decorators, class attributes, constructor and `forward`. Everything to which these
refer is kept too, in all files of the package. Any other method is kept if it needs nothing from additional files. See
`parts_left_out.py` for what a port never keeps.

A slice contains statements of the original trees, and a set of nodes to remove from these statements (methods,
decorators, parts of imports, entries of `__all__`). The nodes are not copied, so their metadata and facts stay valid.
Code that transforms the tree of `module_tree` removes the nodes of the set when it visits them. `sliced_text` removes
these nodes and changes nothing else.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import libcst as cst

from funcnet.porting.errors import PortError
from funcnet.porting.reading.classes import class_at, is_layer
from funcnet.porting.reading.name_uses import uses_of
from funcnet.porting.reading.needed_parts import Keeper
from funcnet.porting.reading.sources import ModelSource, Target
from funcnet.porting.reading.syntax import dotted, walk
from funcnet.porting.reading.unneeded_imports import left_out, thin_exports, thin_imports

__all__ = ["Slice", "SlicedFile", "module_tree", "slice_of", "sliced_text"]


@dataclasses.dataclass(frozen=True, eq=False)
class SlicedFile:
    """The parts of a file that the port keeps.

    Attributes:
        source: the file.
        statements: the kept statements of the file's body, in order.
        removed: nodes that are left out although the statements around them are kept.
        members_out: {class: names of those of its members that the port leaves out}.
        missing: {expression in a kept statement: why the object to which it refers was left out}. For example, the port
            cannot run `load_pretrained_weights(self)`.
    """

    source: ModelSource
    statements: tuple[cst.CSTNode, ...]
    removed: frozenset[cst.CSTNode]
    members_out: Mapping[str, tuple[str, ...]]
    missing: Mapping[cst.CSTNode, str]


@dataclasses.dataclass(frozen=True, eq=False)
class Slice:
    """The parts of a package that a class needs, with the class itself.

    Attributes:
        files: the kept parts of files, starting with the file of the class.
        left_out: (name, reason) for each definition and member that was left out. Names from other files begin with the
            path of their file in the package.
        roots: names of the requested classes.
    """

    files: tuple[SlicedFile, ...]
    left_out: tuple[tuple[str, str], ...]
    roots: tuple[str, ...]

    @property
    def root(self) -> str:
        """The name of the requested class, or of the first one if there are several."""
        return self.roots[0]

    @property
    def output_names(self) -> dict[ModelSource, str]:
        """The name of each file in the output folder, which has no subfolders."""
        names: dict[ModelSource, str] = {}
        for file in self.files:
            path = file.source.path
            parts = [*path.parts[:-1], *([] if file.source.is_init else [path.stem])]
            parts = [re.sub(r"\W|^(?=\d)", "_", one) for one in parts]  # valid names of modules
            name, before = parts[-1], len(parts) - 1
            while name.lower() in {one.removesuffix(".py").lower() for one in names.values()} and before > 0:
                before -= 1
                name = f"{parts[before]}_{name}"
            names[file.source] = f"{name}.py"
        return names

    def file(self, source: ModelSource) -> SlicedFile:
        return next(one for one in self.files if one.source is source)


def slice_of(source: ModelSource, class_name: str | None = None, also: Iterable[str] = ()) -> Slice:
    """Return the parts of a package that a class needs.

    Args:
        source: the file that has the class, or imports it from another file of its package.
        class_name: the name of the class. None selects the public layers of the file that are not parts of other
            layers. If one of them reaches all layers of the file, only this one is selected.
        also: further names of the file to keep, such as "BasicBlock" or "layers.Norm" of an imported file.

    Returns:
        The slice.

    Raises:
        PortError: if the file has no such class or no layer, or if another file of the package cannot be read.
    """
    roots, parts = ([class_name], []) if class_name is not None else _roots(source)
    keeper = Keeper()
    homes = []
    for name in (*roots, *parts):
        target = source.package.follow(source, name, aliases=True)
        if target is None or target.source is None or class_at(target) is None:
            raise _no_class(source, name)
        homes.append(target.source)
        keeper.keep(target.source, target.name)
    for name in also:
        first, *rest = name.split(".")
        target = source.package.follow(source, first, tuple(rest), aliases=True)
        if target is not None and target.source is not None and target.name in target.source.bindings:
            keeper.keep(target.source, target.name)
    home = homes[0]
    keeper.finish(roots[0])
    thin_imports(keeper)
    thin_exports(keeper)
    files = []
    for one in sorted(keeper.statements, key=lambda one: one is not home):
        statements = _ordered(one, keeper)
        members = {c.name: tuple(c.dropped) for c in keeper.classes.values() if c.source is one and c.dropped}
        missing = {ref.node: why for ref, why in keeper.missing if ref.source is one}
        if statements or one in keeper.modules:
            files.append(SlicedFile(one, statements, frozenset(keeper.removed), members, missing))
    return Slice(tuple(files), tuple(left_out(keeper, home, roots[0]).items()), tuple(roots))


def module_tree(slice_: Slice, source: ModelSource) -> cst.Module:
    """Return the kept parts of a file as a new module, whose statements are nodes of the original tree.

    The module still contains the nodes in `SlicedFile.removed`. The comments at the head of the file are kept even if
    the import below them is not. The first kept line is then a copy to which these comments are added. The copy is not
    a node of the original tree, but the small statements in it are.

    Args:
        slice_: the slice.
        source: a file of the slice.
    """
    file = slice_.file(source)
    body, header = list(file.statements), list(source.tree.header)
    first = next((one for one in source.tree.body if not _is_text(one)), None)
    if first is not None and first not in body and (lines := _comments(first)):
        index = next((n for n, one in enumerate(body) if not _is_text(one)), 0)
        line = body[index]
        if isinstance(line, cst.SimpleStatementLine):
            gap = [] if line.leading_lines and line.leading_lines[0].comment is None else [cst.EmptyLine(indent=False)]
            body[index] = line.with_changes(leading_lines=[*lines, *gap, *line.leading_lines])
        else:
            header += lines
    ends = source.tree.body and source.tree.body[-1] in file.statements
    return source.tree.with_changes(header=header, body=tuple(body), footer=source.tree.footer if ends else ())


def sliced_text(slice_: Slice, source: ModelSource) -> str:
    """Return the kept parts of a file as torch source.

    Args:
        slice_: the slice.
        source: a file of the slice.
    """
    pruned = module_tree(slice_, source).visit(_Pruner(slice_.file(source).removed))
    return pruned.code.lstrip("\r\n")


class _Pruner(cst.CSTTransformer):
    """Removes the nodes in `removed` from a syntax tree."""

    def __init__(self, removed: frozenset[cst.CSTNode]):
        super().__init__()
        self.removed = removed

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        if original_node in self.removed:
            return cst.RemoveFromParent()
        for field in ("names", "elements"):  # of an import or a list: the new last item gets the comma of the old one
            items: Any = getattr(updated_node, field, ())
            before: Any = getattr(original_node, field, ())
            if isinstance(items, tuple | list) and 0 < len(items) < len(before):
                last = items[-1].with_changes(comma=before[-1].comma)
                return updated_node.with_changes(**{field: [*items[:-1], last]})
        return updated_node


def _ordered(source: ModelSource, keeper: Keeper) -> tuple[cst.CSTNode, ...]:
    """Return the kept statements of a file, with its docstring and the strings directly before a kept statement."""
    kept: list[cst.CSTNode] = []
    texts: list[cst.CSTNode] = []
    for index, statement in enumerate(source.tree.body):
        if _is_text(statement):
            (kept if index == 0 else texts).append(statement)
        elif statement in keeper.statements[source]:
            kept += [*texts, statement]
            texts = []
        else:
            texts = []
    return tuple(kept)


def _is_text(statement: cst.CSTNode) -> bool:
    """Return whether a statement is only a string, which is a docstring or a comment in the form of a string."""
    small = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
    return len(small) == 1 and isinstance(small[0], cst.Expr) and isinstance(small[0].value, cst.BaseString)


def _comments(statement: cst.CSTNode) -> list[cst.EmptyLine]:
    """Return the comments and blank lines above a statement, without the blank lines below the last comment."""
    lines = list(getattr(statement, "leading_lines", ()))
    while lines and lines[-1].comment is None:
        lines.pop()
    return lines


def _classes(source: ModelSource) -> list[str]:
    return [name for name in source.bindings if class_at(Target(source, name)) is not None]


def _no_class(source: ModelSource, name: str) -> PortError:
    known = _classes(source)
    near = difflib.get_close_matches(name, known, 3, 0.5)
    says = f"expected one of {', '.join(known)}" if known else "expected a class, got a file without one"
    return PortError(
        f"{source.path}: there is no class {name!r}; {says}, got {name!r}."
        + (f" Nearest: {', '.join(near)}." if near else "")
    )


def _roots(source: ModelSource) -> tuple[list[str], list[str]]:
    """Return (names of the layers to port, names of the other layers that functions of the file pass to these layers).

    The layers to port are the public layers that are not parts of other layers. If one of them reaches all layers of
    the file, only this one is ported.

    Raises:
        PortError: if the file has no layer.
    """
    layers = [name for name in _classes(source) if is_layer(source, name)]
    if not layers:
        known = _classes(source)
        raise PortError(
            f"{source.path}: there is no torch.nn.Module; expected a file with one, got "
            + (f"the classes {', '.join(known)}." if known else "a file without classes.")
        )
    reach = {name: _reached(source, name) for name in layers}
    passed = _passed(source, layers)
    parts = {part for name in layers for part in reach[name] - {name}}
    tops = [name for name in layers if name not in parts and name[0] != "_"] or [layers[-1]]
    whole = [name for name in tops if reach[name] >= set(layers)]
    roots = whole[:1] or [name for name in tops if name not in passed] or tops
    return roots, [name for name in tops if name in passed and name not in roots]


def _reached(source: ModelSource, name: str) -> set[str]:
    """Return the definitions of the same file to which a definition refers, directly or indirectly."""
    found, stack = set(), [name]
    while stack:
        one = stack.pop()
        if one not in found:
            found.add(one)
            for binding in source.bindings.get(one, ()):
                uses = uses_of(source, binding.statement) if binding.alias is None else None
                stack += [
                    ref.target.name.partition(".")[0]
                    for ref in (uses.references if uses else ())
                    if ref.target.source is source and ref.target.name and not ref.lazy
                ]
    return found


def _passed(source: ModelSource, layers: list[str]) -> set[str]:
    """Return the names of the layers that functions of the file pass as arguments: `Head` in `Net(head=Head(3))`."""
    found: set[str] = set()
    for function in (one for one in source.tree.body if isinstance(one, cst.FunctionDef)):
        nodes = list(walk(function.body))
        made = {  # local names of layers that the function makes
            target.target.value: name
            for node in nodes
            if isinstance(node, cst.Assign) and (name := _made(node.value)) in layers
            for target in node.targets
            if isinstance(target.target, cst.Name)
        }
        for call in (one for one in nodes if isinstance(one, cst.Call)):
            for chain in (dotted(one.value) for one in call.args):
                found |= {chain[0]} if chain is not None else set()
            if _made(call) in layers:
                found |= {_made(one.value) for one in call.args}
                given = (one.value.value for one in call.args if isinstance(one.value, cst.Name))
                found |= {made[name] for name in given if name in made}
    return found & set(layers)


def _made(node: cst.CSTNode) -> str:
    """Return the name of the called object, such as "Net" for `Net(3)`, or "" for any other expression."""
    chain = dotted(node.func) if isinstance(node, cst.Call) else None
    return chain[0] if chain is not None and len(chain) == 1 else ""
