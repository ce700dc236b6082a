"""Reads the files of a torch model as syntax trees, and finds the definitions to which their names refer.

A name refers to a `Target`: a definition in a file of the package, a whole file, or an object outside the package. For
an object outside the package, only the qualified name is known, such as "torch.nn.functional.relu". Imports are
followed through
`__init__.py` files, star imports and relative imports to the file that defines the name. Nothing is imported or
executed.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import re
import sys
from pathlib import Path

import libcst as cst
from libcst.metadata import (
    Assignment,
    GlobalScope,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    Scope,
    ScopeProvider,
)

from funcnet.porting.errors import PortError
from funcnet.porting.expression_facts.fact import Span
from funcnet.porting.reading.global_names import GlobalBinding, aliases_of, global_names
from funcnet.porting.reading.syntax import bound_name, dotted, parsed, root_of, walk

__all__ = ["ModelSource", "Package", "PortError", "Target", "assignments", "qualified", "read"]

Names = tuple[str, ...]

# Imports of these names never refer to files next to the source.
_SHARED = frozenset({"torch", "numpy", "jax", "funcnet"}) | sys.stdlib_module_names
_PROJECT_FILES = (".git", "pyproject.toml", "setup.py", "setup.cfg")


@dataclasses.dataclass(frozen=True)
class Target:
    """The definition, file or outside object to which a name in a source refers.

    Attributes:
        source: the file of the package that contains the definition. None for an object outside the package.
        name: the dotted name of the definition in the file, or "" for the file itself. For an object outside the
            package, its qualified name.
    """

    source: ModelSource | None
    name: str

    @property
    def full_name(self) -> str:
        return self.name if self.source is None else ".".join(s for s in (self.source.module, self.name) if s)


@dataclasses.dataclass(frozen=True, eq=False)
class ModelSource:
    """A Python file with its syntax tree. A `Package` has only one source for each file.

    Attributes:
        path: the file.
        module: the dotted name of the file from the folder `root`, such as "torchvision.models.resnet". For a file
            without a package, this is the file's name without its suffix.
        root: folder that contains the outermost folder of the package. For a file without a package, the folder of this
            file.
        text: the file's content.
        tree: the tree whose nodes have metadata.
        wrapper: libcst's wrapper of the tree, which computes the metadata.
        package: the package of the file, which finds its other files.
    """

    path: Path
    module: str
    root: Path
    text: str = dataclasses.field(repr=False)
    tree: cst.Module = dataclasses.field(repr=False)
    wrapper: MetadataWrapper = dataclasses.field(repr=False)
    package: Package = dataclasses.field(repr=False)

    def span(self, node: cst.CSTNode) -> Span:
        """Return the first and last line and column of a node of `tree`. Lines count from 1, columns from 0."""
        place = self._metadata[PositionProvider][node]
        return place.start.line, place.start.column, place.end.line, place.end.column

    @property
    def is_init(self) -> bool:
        return self.path.name == "__init__.py"

    @functools.cached_property
    def _metadata(self):
        return self.wrapper.resolve_many([PositionProvider, ScopeProvider, ParentNodeProvider])  # in one walk

    @property
    def scopes(self):
        """Mapping from nodes to libcst's scopes."""
        return self._metadata[ScopeProvider]

    @property
    def parents(self):
        """Mapping from nodes to their parents."""
        return self._metadata[ParentNodeProvider]

    @functools.cached_property
    def bindings(self) -> dict[str, tuple[GlobalBinding, ...]]:
        """The global names of the file, as {name: its bindings at the top level, in the order of the file}."""
        return global_names(self.tree)

    @functools.cached_property
    def stars(self) -> tuple[cst.ImportFrom, ...]:
        """The statements `from x import *` of the file."""
        found = (node for node in walk(self.tree) if isinstance(node, cst.ImportFrom))
        return tuple(node for node in found if isinstance(node.names, cst.ImportStar))


def read(path: str | Path) -> ModelSource:
    """Read a torch source as the first file of its package.

    Args:
        path: a Python file.

    Returns:
        The file. Its `package` reads another file when a name refers to that file.

    Raises:
        PortError: if the file does not exist, cannot be parsed, or is not the Python source of a torch model.
    """
    file = Path(path).absolute()
    text, wrapper = parsed(file)
    package = Package(file, wrapper.module)
    return package.adopt(file, package.first, text, wrapper)


def _levels_up(node: cst.ImportFrom, path: Path) -> int:
    """Return how many folders above a file belong to its package, as far as one of its imports shows."""
    if node.relative or node.module is None:
        return len(node.relative)
    first, *rest = dotted(node.module) or ("",)
    names = [] if isinstance(node.names, cst.ImportStar) else [(dotted(one.name) or ("",))[0] for one in node.names]
    around = enumerate(path.parents, 1)
    return next((n for n, one in around if one.name == first and _has(one, rest, names)), 0)


def _has(folder: Path, below: list[str], names: list[str]) -> bool:
    """Return whether an import reads from a folder: it has an `__init__.py`, or the imported file exists in it."""
    home = folder.joinpath(*below)
    files = [home.with_name(f"{home.name}.py")] if below else []
    files += [home / f"{name}.py" for name in names]
    return (folder / "__init__.py").is_file() or any(one.is_file() for one in files)


class Package:
    """The files of the package to which a source belongs. Each file is read once, when a name refers to it.

    The package includes the folders above the first file, as long as each of them has an `__init__.py`. A relative
    import shows that further folders belong to the package, even without an `__init__.py`. So does an absolute import
    that begins with the name of a folder above the file, if this folder has an `__init__.py` or the imported file.
    Modules of the repository next to the first file or above it (`from utils.layers import Block`) also belong to the
    package. Installed packages next to the file do not belong to it.

    Args:
        path: the file to read first.
        tree: its tree.
    """

    def __init__(self, path: Path, tree: cst.Module):
        folder, names = path.parent, [] if path.stem == "__init__" else [_identifier(path.stem)]
        level = max((_levels_up(node, path) for node in walk(tree) if isinstance(node, cst.ImportFrom)), default=0)
        while folder.name.isidentifier() and ((folder / "__init__.py").is_file() or level > 0):
            folder, names, level = folder.parent, [folder.name, *names], level - 1
        self.first = ".".join(names or [_identifier(path.parent.name)])
        self._homes: dict[str, Path] = {self.first.partition(".")[0]: folder}  # {top-level name: folder that has it}
        self._files: dict[Path, ModelSource] = {}

    def adopt(self, path: Path, module: str, text: str, wrapper: MetadataWrapper) -> ModelSource:
        """Add a parsed file to this package, and return it as a source."""
        home = self._homes[module.partition(".")[0]]
        self._files[path] = ModelSource(path, module, home, text, wrapper.module, wrapper, self)
        return self._files[path]

    def source(self, module: str) -> ModelSource | None:
        """Return the file of a module, or None if the module is not a Python file of this package.

        Args:
            module: the absolute dotted name of the module.

        Raises:
            PortError: if the file cannot be parsed or is not the Python source of a torch model.
        """
        base = self._base(module)
        if base is None:
            return None
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if path in self._files:
                return self._files[path]
            if path.is_file():
                return self.adopt(path, module, *parsed(path))
        return None

    def imported_module(self, source: ModelSource, node: cst.ImportFrom) -> str:
        """Return the absolute name of the module in a `from … import`."""
        name = dotted(node.module) or () if node.module is not None else ()
        if not node.relative:
            self.claim(source, name[0])
            return ".".join(name)
        folders = source.module.split(".")
        kept = len(folders) - len(node.relative) + (1 if source.is_init else 0)
        return ".".join([*folders[: max(kept, 0)], *name])

    def follow(self, source: ModelSource, name: str, names: Names = (), aliases: bool = False) -> Target | None:
        """Return the definition or outside object to which a global name of a file refers.

        Args:
            source: the file.
            name: the global name.
            names: the attributes after the name, such as ("relu",) for `F.relu`.
            aliases: whether an assignment `name = other` is followed to `other`. If it is not followed, the assignment
                counts as the definition of `name`.

        Returns:
            The target, or None if the file does not bind the name.
        """
        return _Walk(self, aliases).follow(source, name, names)

    def imported(
        self,
        source: ModelSource,
        node: cst.Import | cst.ImportFrom,
        alias: cst.ImportAlias,
        names: Names = (),
        aliases: bool = False,
    ) -> Target:
        """Return the definition or outside object to which a name refers that a part of an import statement binds.

        Args:
            source: the file.
            node: the import statement.
            alias: the part of the statement that binds the name.
            names: the attributes after the name.
            aliases: as for `follow`.
        """
        return _Walk(self, aliases).imported(source, GlobalBinding(bound_name(alias), node, node, alias), names)

    def owns_folder(self, module: str) -> bool:
        """Return whether a module is a folder of this package that has Python files, with or without `__init__.py`."""
        base = self._base(module)
        return base is not None and any(base.glob("*.py"))

    def _base(self, module: str) -> Path | None:
        home = self._homes.get(module.partition(".")[0])
        return None if home is None else home.joinpath(*module.split("."))

    def claim(self, source: ModelSource, top: str) -> None:
        """Add a top-level module to the package if its file is in the folder of the source, or in a folder above it in
        the same repository.
        """
        if top in self._homes or top in _SHARED:
            return
        for folder in list(source.path.parents)[:6]:
            if folder.name in ("site-packages", "dist-packages") or any(folder.glob("*.dist-info")):
                return
            if (folder / f"{top}.py").is_file() or any((folder / top).glob("*.py")):
                self._homes[top] = folder
                return
            if any((folder / one).exists() for one in _PROJECT_FILES):
                return


class _Walk:
    """One search from a name to its definition. The search records the names that it has followed, because imports may
    be circular.
    """

    def __init__(self, package: Package, aliases: bool):
        self.package, self.aliases = package, aliases
        self.seen: set[tuple[ModelSource, str]] = set()

    def locate(self, module: str, names: Names) -> Target:
        source = self.package.source(module)
        if source is None and not self.package.owns_folder(module):
            return Target(None, ".".join((module, *names)))
        if not names:
            return Target(source, "" if source is not None else module)
        found = self.follow(source, names[0], names[1:]) if source is not None else None
        if found is not None:
            return found
        below = f"{module}.{names[0]}"
        if self.package.source(below) is not None or self.package.owns_folder(below):
            return self.locate(below, names[1:])
        return Target(source, ".".join(names if source is not None else (module, *names)))

    def follow(self, source: ModelSource, name: str, names: Names) -> Target | None:
        if (source, name) in self.seen:
            return None
        self.seen.add((source, name))
        try:
            return self._follow(source, name, names)
        finally:
            self.seen.discard((source, name))

    def _follow(self, source: ModelSource, name: str, names: Names) -> Target | None:
        known = source.bindings.get(name, ())
        tried = [one for one in known if not one.fallback] or list(known)
        if not tried:
            return self._starred(source, name, names)
        if all(one.alias is not None for one in tried):
            ends = [self.imported(source, one, names) for one in tried]
            if len(set(ends)) == 1:
                return ends[0]
        elif self.aliases and len(tried) == 1 and (chain := dotted(tried[0].value or cst.Ellipsis())) is not None:
            end = self.follow(source, chain[0], (*chain[1:], *names))
            if end is not None:
                return end
        return Target(source, ".".join((name, *names)))

    def imported(self, source: ModelSource, binding: GlobalBinding, names: Names) -> Target:
        assert binding.alias is not None
        whole = dotted(binding.alias.name) or ()
        if isinstance(binding.node, cst.ImportFrom):
            return self.locate(self.package.imported_module(source, binding.node), (*whole, *names))
        self.package.claim(source, whole[0])
        if binding.alias.asname is not None:
            return self.locate(".".join(whole), names)
        return self.locate(whole[0], names)

    def _starred(self, source: ModelSource, name: str, names: Names) -> Target | None:
        """Return the definition to which a name refers that a star import of the file binds, or None.

        If no file of the package defines the name, the name is assumed to come from a star import from outside the
        package. The result is None if there is not exactly one such import, or if the name is a builtin.
        """
        outside = []
        for node in source.stars if not name.startswith("_") else ():
            module = self.package.imported_module(source, node)
            other = self.package.source(module)
            if other is None:
                outside.append(module)
            elif (found := self.follow(other, name, names)) is not None:
                return found
        if len(outside) == 1 and not hasattr(builtins, name):
            return Target(None, ".".join((outside[0], name, *names)))
        return None


def qualified(source: ModelSource, node: cst.CSTNode) -> str | None:
    """Return the qualified name to which an expression refers through the imports of its file.

    For a name that is imported under `try`, the import in the `try` block counts. A global name with a single plain
    assignment (`conv = F.conv2d`) is replaced by the assigned name.

    Args:
        source: the file.
        node: a name or an attribute of a name, in the file's tree.

    Returns:
        The qualified name, such as "torch.nn.functional.relu" for `F.relu`. None if the node is any other expression,
        or if the name is not imported.
    """
    chain = dotted(node)
    if chain is None:
        return None
    found = assignments(source, root_of(node))
    if found is None:
        target = source.package.follow(source, chain[0], chain[1:], aliases=True)
    else:
        imports = [one.node for one in found if isinstance(one.node, cst.Import | cst.ImportFrom)]
        if len(imports) != len(found):
            return None
        aliases = [(one, alias) for one in imports for alias in aliases_of(one, chain[0]) if alias is not None]
        ends = {source.package.imported(source, one, alias, chain[1:], True) for one, alias in aliases}
        target = ends.pop() if len(ends) == 1 else None
    return None if target is None or target.source is source else target.full_name


def assignments(source: ModelSource, name: cst.CSTNode) -> list[Assignment] | None:
    """Return the assignments to a local name in the functions or classes that contain it.

    The result is None if the name is global, or if the node is not a name.
    """
    scope = source.scopes.get(name)
    if not isinstance(scope, Scope) or not isinstance(name, cst.Name):
        return None
    found = [one for one in scope[name.value] if isinstance(one, Assignment)]
    return [one for one in found if not isinstance(one.scope, GlobalScope)] or None


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
