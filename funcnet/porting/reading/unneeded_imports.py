"""Removes unneeded imports and entries of `__all__` after the search of `needed_parts.py`; lists what was left out."""

from __future__ import annotations

import libcst as cst

from funcnet.porting.reading.needed_parts import Keeper, is_import, is_typing
from funcnet.porting.reading.parts_left_out import is_dropped_decorator
from funcnet.porting.reading.sources import ModelSource, qualified
from funcnet.porting.reading.syntax import dotted, is_command_line

__all__ = ["left_out", "thin_exports", "thin_imports"]


def thin_imports(keeper: Keeper) -> None:
    """Remove the parts of import statements whose names no kept code uses."""
    for source, kept in keeper.statements.items():
        for statement in source.tree.body:
            if is_import(statement):
                _thin(keeper, statement)
            elif is_typing(statement) and isinstance(statement, cst.If) and statement in kept:
                for line in statement.body.body:
                    _thin(keeper, line)
                if all(line in keeper.removed for line in statement.body.body):
                    keeper.removed.add(statement)
            if statement in keeper.removed:
                kept.discard(statement)
            elif _is_future(statement):
                kept.add(statement)


def _thin(keeper: Keeper, line: cst.CSTNode) -> None:
    small = line.body if isinstance(line, cst.SimpleStatementLine) and not _is_future(line) else ()
    for node in small:
        if isinstance(node, cst.Import | cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            unused = [one for one in node.names if one not in keeper.aliases]
            keeper.removed |= set(unused) if len(unused) < len(node.names) else {node}
    if small and all(one in keeper.removed for one in small):
        keeper.removed.add(line)


def _is_future(line: cst.CSTNode) -> bool:
    node = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return isinstance(node, cst.ImportFrom) and node.module is not None and dotted(node.module) == ("__future__",)


def thin_exports(keeper: Keeper) -> None:
    """Remove from `__all__` the names of definitions that the port does not keep. If no name is left, remove `__all__`
    itself.
    """
    for source, kept in keeper.statements.items():
        for binding in source.bindings.get("__all__", ()):
            listed = binding.value.elements if isinstance(binding.value, cst.List | cst.Tuple) else ()
            gone = [one for one in listed if not _is_kept_name(keeper, source, one)]
            if len(gone) < len(listed) and isinstance(binding.statement, cst.SimpleStatementLine):
                kept.add(binding.statement)
                keeper.removed |= set(gone)


def _is_kept_name(keeper: Keeper, source: ModelSource, element: cst.BaseElement) -> bool:
    name = element.value.evaluated_value if isinstance(element.value, cst.SimpleString) else None
    aliases = {one.alias for one in source.bindings.get(str(name), ())} - {None}
    return name in keeper.names.get(source, ()) or bool(aliases & keeper.aliases)


def left_out(keeper: Keeper, home: ModelSource, root: str) -> dict[str, str]:
    """Return {name of a definition or class member: why the port leaves it out}.

    Unneeded definitions of another file are only counted, in one entry for the file.

    Args:
        keeper: a finished search.
        home: the file of the class. Names from other files begin with the path of their file in the package.
        root: the name of the class.
    """
    found: dict[str, str] = {}
    for of in keeper.classes.values():
        before = "" if of.source is home else f"{_name(of.source)}: "
        found |= {f"{before}{of.name}.{name}": reason for name, reason in of.dropped.items()}
    for reference, reason in keeper.missing:
        source = reference.target.source
        if source is not None and source is not home:
            found[f"{_name(source)}: {reference.target.name}"] = reason
    for source, kept in keeper.statements.items():
        gone = [
            name
            for name, known in source.bindings.items()
            if name != "__all__" and not any(one.statement in kept or one.alias is not None for one in known)
        ]
        if source is home:
            found |= {name: _reason(keeper, source, name) or f"{root} does not need it" for name in gone}
            if any(is_command_line(one) for one in source.tree.body):
                found['if __name__ == "__main__"'] = "a command line"
        elif gone:
            found[f"{_name(source)}: {len(gone)} more"] = f"{root} does not need them"
    return found


def _name(source: ModelSource) -> str:
    return source.path.relative_to(source.root).as_posix()


def _reason(keeper: Keeper, source: ModelSource, name: str) -> str | None:
    reason = keeper.reason(source, name)
    for binding in source.bindings[name] if reason is None else ():
        for one in getattr(binding.node, "decorators", ()):
            called = one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator
            if is_dropped_decorator(qualified(source, called) or ".".join(dotted(called) or ())):
                return "an entry of a registry"
    return reason
