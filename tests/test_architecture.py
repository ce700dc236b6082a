"""The import law: a module imports only from lower ranks or from its own folder; and the house rules that parse."""

import ast
import functools
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.covered_by import COVERED_BY

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "funcnet"
RANKS = {
    "tree": 0,
    "random": 0,
    "files": 0,
    "table": 0,
    "settings": 0,
    "loops": 0,
    "operators": 0,
    "arguments": 0,
    "functional": 1,
    "text": 1,
    "data": 1,
    "optim": 1,
    "figures": 1,
    "losses": 2,
    "nn": 2,
    "torchlike": 2,
    "weights": 2,
    "parallel": 3,
    "bridges": 3,
    "comparison": 3,
    "quantization": 3,
    "heads": 4,
    "models": 4,
    "train": 4,
    "export": 5,
    "porting": 5,
    "serving": 5,
    "sklearn": 5,
    "tasks": 5,
    "cli": 6,
}
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS_ONLY = {"torch", "transformers", "sklearn", "pytest", "hypothesis"}
DIGITS = PACKAGE / "tasks" / "images" / "data.py"  # scikit-learn's digits are what `train-images` learns by default


def part_of(file: Path) -> str:
    """The part of the house that a file belongs to: a folder or a file right under the package."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> set[str]:
    """Every dotted name that the file imports, at any depth of its code."""
    return imported(file, ast.parse(file.read_text(encoding="utf-8")))


def imported(file: Path, code: ast.Module) -> set[str]:
    found = set()
    package = ("funcnet", *file.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(s for s in (base, node.module or "") if s)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def parts(names: set[str]) -> set[str]:
    """The parts of the house among dotted names."""
    dotted = [name.split(".") for name in names]
    return {segments[1] for segments in dotted if segments[0] == "funcnet" and len(segments) > 1}


@pytest.fixture(scope="module")
def parsed() -> dict[str, ast.Module]:
    """{path below the package: the file's code}."""
    return {f.relative_to(PACKAGE).as_posix(): ast.parse(f.read_text(encoding="utf-8")) for f in FILES}


@pytest.fixture(scope="module")
def names(parsed) -> dict[Path, set[str]]:
    """{file: every dotted name that it imports}."""
    return {file: imported(file, code) for file, code in zip(FILES, parsed.values(), strict=True)}


def test_the_import_law(names):
    for file in FILES:
        own = part_of(file)
        if own != "__init__":
            assert own in RANKS, f"{own}: a new part of the house needs a rank, here and in docs/architecture.md"
            for other in parts(names[file]) - {own}:
                assert other in RANKS, f"{file}: imports funcnet.{other}, which has no rank"
                assert RANKS[other] < RANKS[own], f"{file}: {own} ({RANKS[own]}) imports {other} ({RANKS[other]})"


def test_oracles_are_not_dependencies(names):
    for file in FILES:
        allowed = {"sklearn"} if file == DIGITS or part_of(file) == "sklearn" else set()
        assert not {name.split(".")[0] for name in names[file]} & TESTS_ONLY - allowed, file


def test_text_and_data_do_not_know_each_other(names):
    """Equal ranks do not import each other; named, because one may wish to move them apart."""
    for own, other in (("text", "data"), ("data", "text"), ("models", "train"), ("train", "models")):
        assert all(other not in parts(names[file]) for file in FILES if part_of(file) == own)


def test_ranks_are_those_of_the_architecture_page():
    law = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("Import law:")[1].split("`tests/")[0]
    written = {}
    for group, rank in re.findall(r"`([\w, ]+)` \((\d)", law):
        written |= dict.fromkeys(group.split(", "), int(rank))
    assert written == RANKS


# ------------------------------------------------------------------------------------------------ files and functions


def definitions(code: ast.AST, *kinds: type) -> list:
    return [node for node in every_node(code) if isinstance(node, kinds)]


@functools.cache
def every_node(code: ast.AST) -> list[ast.AST]:
    return list(ast.walk(code))


def test_no_file_and_no_function_is_too_long_and_no_folder_is_a_drawer(parsed):
    long = {str(f.relative_to(ROOT)): n for f in FILES if (n := len(f.read_text(encoding="utf-8").splitlines())) > 400}
    assert not long, f"past 400 lines there are two ideas in one file: {long}"
    functions = {
        f"{path}:{node.name}": lines
        for path, code in parsed.items()
        for node in definitions(code, ast.FunctionDef)
        if (lines := length(node)) > LONG.get(f"{path}:{node.name}", 60)
    }
    assert not functions, f"past 60 lines without the docstring there are two ideas in one function: {functions}"
    drawers = {"utils", "utils.py", "helpers", "common", "misc"}
    torchs = ROOT / "funcnet" / "nn" / "utils"  # torch.nn.utils: its name is part of the promise
    assert not [f for f in FILES if f.parent != torchs and drawers & set(f.relative_to(ROOT).parts)]


def length(function: ast.FunctionDef) -> int:
    """The lines of a function, its parameters included, its docstring not."""
    docstring = function.body[0]
    return (
        function.end_lineno
        - function.lineno
        + 1
        - (docstring.end_lineno - docstring.lineno + 1 if ast.get_docstring(function) else 0)
    )


# Functions that may be longer: torch's own parameters, and one parameter for each setting of a run.
LONG = {"functional/multi_head_attention.py:multi_head_attention_forward": 64, "train/fit.py:fit": 89}


def test_arguments_say_what_they_take(parsed):
    """A bare `Any` tells a reader nothing. `object` means that everything is accepted, and checked. The only alias of
    `Any` is `tree.PyTree`.
    """
    bare, count = Counter(), 0
    for path, code in parsed.items():
        taken = [one for node in definitions(code, ast.FunctionDef, ast.AsyncFunctionDef) for one in arguments(node)]
        count += len(taken)
        bare[path.split("/")[0]] += sum(is_any(one.annotation) for one in taken)
    share = bare.total() / count
    assert share <= MOST_ANY, f"{share:.1%} of the arguments are Any, most of them in {bare.most_common(5)}"
    aliases = [
        (path, ast.unparse(node))
        for path, code in parsed.items()
        for node in code.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_any(node.value)
    ]
    assert aliases == [("tree.py", "PyTree = Any")]


MOST_ANY = 0.04  # Equinox has 0.02, Optax 0.03


def arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    """The arguments of a function, without `self` and `cls`."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    if positional and positional[0].arg in ("self", "cls"):
        del positional[0]
    return [one for one in (*positional, given.vararg, *given.kwonlyargs, given.kwarg) if one is not None]


def is_any(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def test_every_module_says_what_is_public(parsed):
    silent = [
        path
        for path, code in parsed.items()
        if any(isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_" for node in code.body)
        and not any("__all__" in ast.unparse(node) for node in code.body if isinstance(node, ast.Assign))
    ]
    assert not silent


def test_no_public_class_name_is_used_twice(parsed):
    """The names in `sklearn/keras` are Keras's."""
    homes: dict[str, list[str]] = {}
    for path, code in parsed.items():
        for node in code.body if not path.startswith("sklearn/keras/") else ():
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                homes.setdefault(node.name, []).append(path)
    twice = {name: paths for name, paths in homes.items() if len(paths) > 1}
    assert twice == {"Identity": ["nn/linear.py", "nn/utils/prune_methods.py"]}, "torch has two of that name"


# What looks private and is public: the methods of named tuples, os._exit, torch's own names, and the one class on which
# the EinMix of every framework is built.
PUBLIC = {"_replace", "_asdict", "_make", "_exit", "_version", "_random_samples", "_EinmixMixin"}


def test_no_module_reads_a_private_name_of_another(parsed):
    found = []
    for path, code in parsed.items():
        both = definitions(code, ast.Import, ast.ImportFrom)
        modules = {alias.asname or alias.name for node in both for alias in node.names}
        found += [
            (path, node.attr)
            for node in definitions(code, ast.Attribute)
            if isinstance(node.value, ast.Name) and node.value.id in modules and is_private(node.attr)
        ]
        found += [
            (path, alias.name)
            for node in definitions(code, ast.ImportFrom)
            for alias in node.names
            if is_private(alias.name)
        ]
        attributes = definitions(code, ast.Attribute)
        own = {node.name for node in definitions(code, ast.FunctionDef, ast.ClassDef)}
        own |= {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
        own |= {node.id for node in definitions(code, ast.Name) if isinstance(node.ctx, ast.Store)}
        read = {node.attr for node in attributes}
        found += [(path, name) for name in read - own if is_private(name)]
    assert not found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


# ------------------------------------------------------------------------------------------------------------ circles


MODULES = {".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f for f in FILES}


def module_of(name: str) -> str | None:
    """The module that has a dotted name, or is named by it."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def is_package(module: str) -> bool:
    return MODULES[module].name == "__init__.py"


def room_of(module: str) -> str:
    """The folder that a module is in. A file right under the package is a room of its own."""
    return module if is_package(module) or module.count(".") == 1 else module.rpartition(".")[0]


def circular(graph: dict[str, set[str]]) -> list[str]:
    """The names of {name: names that it imports} that are in circles, or between two circles."""
    count = len(graph) + 1
    while len(graph) < count:
        count, imported = len(graph), set().union(*graph.values())
        graph = {name: needed & graph.keys() for name, needed in graph.items() if name in imported}
        graph = {name: needed for name, needed in graph.items() if needed}
    return sorted(graph)


@pytest.fixture(scope="module")
def needs(names) -> dict[str, set[str]]:
    """{module: the modules that it imports}. Imports inside functions count: a circle that is hidden is a circle."""
    # `from funcnet import tree`: the package imports nothing until a name is asked for
    return {name: {module_of(one) for one in names[f]} - {name, "funcnet", None} for name, f in MODULES.items()}


def test_no_file_imports_itself_through_others(needs):
    assert not (found := circular(needs)), f"circles among the files {found}"


def test_no_circle_of_folders(needs):
    """Subfolders are folders too. Only an `__init__` may import from the subfolders that import from its folder."""
    graph: dict[str, set[str]] = {room_of(module): set() for module in MODULES}
    for module, needed in needs.items():
        own = {one for one in needed if is_package(module) and one.startswith(f"{module}.")}
        graph[room_of(module)] |= {room_of(one) for one in needed - own} - {room_of(module)}
    assert not (found := circular(graph)), f"circles among the folders {found}"


def test_every_module_has_a_test_file_or_says_which_covers_it():
    modules = {file.relative_to(PACKAGE) for file in FILES if file.name != "__init__.py"}
    own = {path for path in modules if (ROOT / "tests" / path.parent / f"test_{path.name}").exists()}
    covered = {path: tests for row, tests in COVERED_BY.items() for path in modules_of(row)}
    assert covered.keys() <= modules, "tests/covered_by.py names modules that do not exist"
    assert not covered.keys() & own, "tests/covered_by.py names modules that have a test file of their own"
    assert all((ROOT / "tests" / test).exists() for tests in covered.values() for test in tests.split())
    untested = sorted(modules - own - covered.keys())
    assert not untested, "write tests/<the same path>/test_<module>.py, or name what covers it in tests/covered_by.py"


def test_every_module_has_a_quick_test():
    """A change that breaks a module is found by the gate, and not only by its area of the verification."""
    covered = {path: tests.split() for row, tests in COVERED_BY.items() for path in modules_of(row)}
    modules = [file.relative_to(PACKAGE) for file in FILES if file.name != "__init__.py"]
    files = {path: covered.get(path, [f"{path.parent}/test_{path.name}"]) for path in modules}
    slow = [str(path) for path, tests in files.items() if not any(has_quick_test(ROOT / "tests" / t) for t in tests)]
    assert not slow, "expected one test without the mark slow, which takes less than a second, for each"


@functools.cache
def has_quick_test(path: Path) -> bool:
    if path.is_dir():
        return any(map(has_quick_test, path.rglob("test_*.py")))
    code = ast.parse(path.read_text(encoding="utf-8"))
    if any("pytestmark" in (text := ast.unparse(node)) and "slow" in text for node in code.body):
        return False
    tests = (node for node in ast.walk(code) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    return any("pytest.mark.slow" not in map(ast.unparse, test.decorator_list) for test in tests)


def modules_of(row: str) -> list[Path]:
    """The modules of a row of `COVERED_BY`: `a/{b,c}.py` is a/b.py and a/c.py."""
    before, _, names = row.partition("{")
    return [Path(f"{before}{name}.py") for name in names.removesuffix("}.py").split(",")] if names else [Path(row)]


def test_the_law_can_be_broken(tmp_path, monkeypatch):
    """The reader of imports sees them all: absolute, relative, nested."""
    folder = tmp_path / "nn"
    folder.mkdir()
    file = folder / "x.py"
    file.write_text("import funcnet.train.loop\nfrom funcnet import tasks\ndef f():\n    from ..models import bert\n")
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    assert parts(imports(file)) == {"train", "tasks", "models"}
    assert circular({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c"]
