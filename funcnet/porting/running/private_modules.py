"""Imports of a torch source that stay out of the user's `sys.modules`.

The source's own files are the files of its package or, for a file without a package, the files next to it. They are
executed under their real names, but they are in `sys.modules` only while `PrivateModules.active` is open. Packages are
imported without running their `__init__.py`. If a file imports a name from such a package, as little of the
`__init__.py` is run as possible; see `PrivateModules.attribute`.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from funcnet.porting.reading.bindings import binding_import, bound_names, guarded_lines, relative_level, star_imports
from funcnet.porting.running.stubs import Stub, reason_for

__all__ = ["PrivateModules", "Transform"]

Transform = Callable[[Path, ast.Module], ast.Module]

# Top-level modules that are never taken from files next to the source.
_SHARED = frozenset({"torch", "numpy", "jax", "funcnet"}) | sys.stdlib_module_names
_PROJECT_FILES = (".git", "pyproject.toml", "setup.py", "setup.cfg")


class PrivateModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import finder and loader for the modules of one source, which it keeps out of `sys.modules`.

    Attributes:
        file: the file of the source.
        target: the name of the module that executes the file.
        homes: {top-level module or package of the source: the folder that contains it}.
        modules: {name: module} for the source's own modules. While the context `active` is open, `sys.modules` has
            these modules and any new ones.
        sources: {path: syntax tree before the transform} for each of the source's own files that was executed.
        running: whether the torch model is being built or run, so that using a placeholder for a missing import raises
            an error.
    """

    def __init__(
        self,
        file: Path,
        transform: Transform | None = None,
        names: Mapping[str, Any] | None = None,
        also: Iterable[Path] = (),
    ):
        self.file = file
        home, self.target = _locate(file)
        self.homes = {folder.name: folder.parent for folder in also} | {self.target.partition(".")[0]: home}
        self.modules: dict[str, ModuleType] = {}
        self.sources: dict[str, ast.Module] = {}
        self.running = False
        self._transform = transform
        self._guarded: dict[str, frozenset[int]] = {}
        self._bodies: dict[str, list[ast.stmt]] = {}  # {bare package: its statements that have not been run}
        self._failures: dict[str, str] = {}  # {name in a bare package: why its statement failed}
        self._hidden: dict[str, ModuleType] = {}
        self._depth = 0
        self._tolerated = 0  # how many of the running imports are in a `try` that handles their failure
        self._builtins = {**vars(builtins), **(names or {}), "__import__": self._import}

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make a context in which the source's own modules are in `sys.modules`."""
        if not self._depth:
            self._hidden = self._take(self.homes)
            sys.modules.update(self.modules)
            sys.meta_path.insert(0, self)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                sys.meta_path.remove(self)
                self.modules = self._take(self.homes)
                sys.modules.update(self._hidden)

    @staticmethod
    def _take(tops: Mapping[str, Path]) -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in tops}

    # ------------------------------------------------------------------------------------------------ finder, loader

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        parent, _, last = name.rpartition(".")
        if name.partition(".")[0] not in self.homes:
            return None
        if name == self.target:
            folders = [str(self.file.parent)] if self.file.name == "__init__.py" else None
            return importlib.util.spec_from_file_location(
                name, self.file, loader=self, submodule_search_locations=folders
            )
        for folder in [self.homes[name]] if not parent else [Path(one) for one in path or ()]:
            if (package := folder / last / "__init__.py").is_file():
                return importlib.util.spec_from_file_location(
                    name, package, loader=self, submodule_search_locations=[str(folder / last)]
                )
            if (file := folder / f"{last}.py").is_file():
                return importlib.util.spec_from_file_location(name, file, loader=self)
            if _is_extension(folder, last):
                raise ModuleNotFoundError(f"{name} is a compiled extension", name=name)
            if _holds_sources(folder / last):
                spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
                spec.submodule_search_locations = [str(folder / last)]
                return spec
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        bare = spec.submodule_search_locations is not None and spec.name != self.target
        return _BarePackage(spec.name) if bare else None

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._builtins
        origin = module.__spec__.origin if module.__spec__ else None
        if isinstance(module, _BarePackage):
            self._bodies[module.__name__] = list(self._parse(Path(origin)).body) if origin else []
        elif origin:
            exec(_compiled(self._parse(Path(origin)), origin), vars(module))

    def _parse(self, path: Path) -> ast.Module:
        source = path.read_bytes()
        self.sources[str(path)] = ast.parse(source, str(path))
        tree = ast.parse(source, str(path))
        tree.body = [one for one in tree.body if not _asks_for_a_gpu(one)]
        self._guarded[str(path)] = guarded_lines(tree)
        return ast.fix_missing_locations(self._transform(path, tree)) if self._transform else tree

    # ------------------------------------------------------------------------------------------------ import statement

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> Any:
        """Import a module as `__import__` does. This method replaces `__import__` in the private modules.

        A module that is missing becomes a placeholder, unless the `import` is in a `try` that handles its failure.
        """
        frame = inspect.currentframe()
        caller = frame.f_back if frame else None
        guarded = caller is not None and caller.f_lineno in self._guarded.get(caller.f_code.co_filename, ())
        package = (globals or {}).get("__package__") or ""
        full = importlib.util.resolve_name("." * level + name, package) if level else name
        with self.active():
            if not level:
                self._claim(full, [self.file.parent] if "." not in self.target else [])
            self._tolerated += guarded
            try:
                return self._resolve(full, fromlist or (), builtins.__import__(name, globals, locals, fromlist, level))
            except Exception as error:
                own = full.partition(".")[0] in self.homes
                absent = isinstance(error, ModuleNotFoundError) and f"{full}.".startswith(f"{error.name}.")
                if self._tolerated or (own and not absent):
                    raise
                if not own and self._claim(full, self._places()):
                    return self._import(name, globals, locals, fromlist, level)
                return self._stub(full if fromlist else full.partition(".")[0], error)
            finally:
                self._tolerated -= guarded

    def _stub(self, name: str, error: Exception | None = None) -> Stub:
        top = name.partition(".")[0]
        reason = reason_for(name)
        if top in self.homes:
            reason = f"its package has no source of it, so {name} cannot be ported"
        elif error is not None and (not isinstance(error, ModuleNotFoundError) or error.name != top):
            reason = f"{name} cannot be imported here ({error}). Install a version that fits the source"
        return Stub(name, reason, lambda: self.running)

    def _resolve(self, full: str, names: tuple[str, ...], found: Any) -> Any:
        """Return the object from which an import statement takes names, with placeholders for names that it lacks.

        Args:
            full: the full name of the module.
            names: the imported names.
            found: the module.

        Raises:
            ImportError: if one of the source's own modules lacks a name, and a `try` handles the failed import.
        """
        if not names or isinstance(found, Stub):
            return found
        if full.partition(".")[0] in self.homes and self._tolerated:
            # The statement takes the names after this function has returned, when `_tolerated` is lower again.
            lacking = Stub("", "", bool)
            if absent := [one for one in names if one != "*" and isinstance(getattr(found, one, lacking), Stub)]:
                raise ImportError(f"cannot import name {absent[0]!r} from {full!r}")
            return found
        if full.partition(".")[0] in self.homes:
            for name in names:
                if name not in vars(found) and any(
                    _is_extension(Path(p), name) for p in vars(found).get("__path__", ())
                ):
                    setattr(found, name, self._stub(f"{full}.{name}"))
            return found
        absent = [name for name in names if name != "*" and not hasattr(found, name)]
        if not absent or self._tolerated:
            return found
        view = ModuleType(full)
        for name in names:
            error = ImportError(f"{full} has no {name}")
            setattr(view, name, self._stub(f"{full}.{name}", error) if name in absent else getattr(found, name))
        return view

    def _claim(self, full: str, folders: list[Path]) -> bool:
        """Count a top-level module as one of the source's own if one of the given folders contains it, and return
        whether it was counted.
        """
        top = full.partition(".")[0]
        if top in self.homes or top in _SHARED:
            return False
        for folder in folders:
            if (folder / f"{top}.py").is_file() or _holds_sources(folder / top):
                self._hidden |= self._take({top: folder})
                self.homes[top] = folder
                return True
        return False

    def _places(self) -> list[Path]:
        """Return the folders in which modules are searched that the source imports by a top-level name.

        These are the file's folder and the folders above it, up to the first one that looks like a project.
        """
        places = [self.file.parent]
        for folder in self.file.parents[:6]:
            places.append(folder)
            if any((folder / one).exists() for one in _PROJECT_FILES):
                break
        return places

    # ------------------------------------------------------------------------------------------------ bare packages

    def attribute(self, package: ModuleType, name: str) -> Any:
        """Return the value of `name` in a package whose `__init__.py` was not run.

        First, an import statement of the `__init__.py` that binds the name is tried, and then a submodule of this name.
        Only if both fail, the star imports and then all other statements of the `__init__.py` are run.

        Raises:
            AttributeError: if nothing binds the name.
        """
        if name.startswith("__") and name not in ("__version__", "__all__"):
            raise AttributeError(name)
        full = f"{package.__name__}.{name}"
        values = vars(package)
        with self.active():
            for statement in self._bodies[package.__name__]:
                reduced = binding_import(statement, name, package.__name__)
                if reduced is not None and self._run(package, [reduced], name) and name in values:
                    return values[name]
            try:
                values.setdefault(name, importlib.import_module(full))
                return values[name]
            except ModuleNotFoundError as error:
                if error.name != full:
                    raise
            if not self._tolerated and any(_is_extension(Path(folder), name) for folder in package.__path__):
                return self._stub(full)
            stars = [one for one in self._bodies[package.__name__] if star_imports(one)]
            defined = any(name in bound_names(one) for one in self._bodies[package.__name__] if one not in stars)
            for statement in [*stars, *self._bodies[package.__name__]]:
                if statement in self._bodies[package.__name__]:
                    self._bodies[package.__name__].remove(statement)
                    self._run(package, [statement], *sorted(bound_names(statement)))
                if name in values and statement in stars and not defined:
                    return values[name]
        if name in values:
            return values[name]
        if full in self._failures and not self._tolerated:
            return Stub(full, f"{full} cannot be imported ({self._failures[full]})", lambda: self.running)
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")

    def binds_itself(self, package: ModuleType, name: str) -> bool:
        """Return whether the package's `__init__.py` imports this name from a module other than itself."""
        statements = self._bodies.get(package.__name__, ())
        return any(binding_import(one, name, package.__name__) is not None for one in statements)

    def _run(self, package: ModuleType, statements: list[ast.stmt], *names: str) -> bool:
        origin = str(Path(package.__path__[0], "__init__.py"))
        body = ast.fix_missing_locations(ast.Module(statements, []))
        try:
            exec(_compiled(body, origin), vars(package))
        except Exception as error:
            self._failures |= {f"{package.__name__}.{name}": str(error) for name in names}
            return False
        return True


class _BarePackage(ModuleType):
    """A package whose `__init__.py` was not run. `PrivateModules.attribute` finds a name's value when it is read."""

    def __getattr__(self, name: str) -> Any:
        loader = vars(self).get("__loader__")
        if not isinstance(loader, PrivateModules):
            raise AttributeError(name)
        return loader.attribute(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        loader = vars(self).get("__loader__")
        submodule = isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}"
        if submodule and isinstance(loader, PrivateModules) and loader.binds_itself(self, name):
            return  # after `from .resnet import resnet`, the name is the function
        super().__setattr__(name, value)


def _compiled(tree: ast.Module, path: str) -> CodeType:
    return compile(tree, path, "exec", dont_inherit=True)


def _locate(file: Path) -> tuple[Path, str]:
    """Return the folder that contains a file's outermost package, and the file's module name in this folder.

    A folder is a package if it has an `__init__.py`, or if a relative import in the file requires it to be one.
    """
    folder, names = file.parent, [] if file.stem == "__init__" else [re.sub(r"\W", "_", file.stem)]
    level = relative_level(ast.parse(file.read_bytes(), str(file)))
    while folder.name.isidentifier() and ((folder / "__init__.py").is_file() or level > 0):
        folder, names, level = folder.parent, [folder.name, *names], level - 1
    names = names or [re.sub(r"\W", "_", folder.name)]
    return folder, ".".join([f"{names[0]}_" if names[0] in _SHARED else names[0], *names[1:]])


def _is_extension(folder: Path, name: str) -> bool:
    return any(one.suffix in (".so", ".pyd") for one in folder.glob(f"{name}.*"))


def _asks_for_a_gpu(node: ast.stmt) -> bool:
    """Return whether a statement asserts `torch.cuda.is_available()`, which is skipped because a port needs no GPU."""
    return isinstance(node, ast.Assert) and "cuda.is_available()" in ast.unparse(node.test)


def _holds_sources(folder: Path) -> bool:
    return folder.is_dir() and any(folder.glob("*.py"))
