"""Runs the tests that take too long for the gate: see `verify.sh`.

An area is a list of commands. Its tests are all tests of its folders, the quick ones included, with every row of every
table, and with random examples in the property tests (the seed of a failure is printed). What passed is remembered in
the folder `verified` of the git directory, by the tree of the commit, so an interrupted verification continues with the
areas that are left.
"""

import argparse
import ast
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AREAS", "changed", "main", "reached"]

ROOT = Path(__file__).resolve().parents[1]
VENV = Path(os.environ.get("FUNCNET_VENV", ROOT / ".venv"))
# Thousands of small programs take longer to compile well than to run (tests/conftest.py).
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
OLDEST = ["jax==0.10.0", "jaxlib==0.10.0"]
NO_INDEX = "ConnectionError|Name or service|No matching distribution"  # what pip prints without a network
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NEWEST_NEEDS = ["jax", "pytest", "pytest-xdist", "hypothesis", "scikit-learn", "tensorboard", "nbclient"]


class Failed(Exception):
    """A command of an area has failed. The exit code of the verification is 1, or `code`."""

    def __init__(self, message: str, code: int = 1):
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Area:
    """A part of the verification.

    Args:
        what: a line of help.
        reached_by: folders and files, relative to the root; a change in one of them calls for this area.
        run: runs the area, and returns the number of tests that passed.
    """

    what: str
    reached_by: str
    run: Callable[[], int]


def _run(command: list[str], **variables: str) -> int:
    """Run a command in the root, in a process group of its own, and return the number of tests that passed.

    Its output is shown as it comes. If this process is interrupted, the whole group is ended.
    """
    environment = os.environ | {"FUNCNET_REAL_DATA": "required", "HYPOTHESIS_PROFILE": "random"} | variables
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    )
    passed = 0
    try:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := re.search(r"(\d+) passed.* in [\d.]+s", line):
                passed += int(found[1])
        if code := process.wait():
            raise Failed(f"exit code {code} of: {' '.join(command)}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what the command has started and not ended
        process.wait()
    return passed


def _tests(*paths: str, **variables: str) -> int:
    """Run all tests of some folders or files."""
    arguments = ["-n", "2", "--dist", "worksteal", "--disable-warnings", "--durations", "5", *paths]
    return _run(["sh", "scripts/test.sh", *arguments], **variables)


def _databases() -> int:
    with tempfile.TemporaryDirectory() as coverage:
        passed = _tests("tests/database", "tests/nn/test_layers.py", FUNCNET_COVERAGE=coverage, **QUICK)
        _run([str(VENV / "bin/python"), "-m", "tests.database", "coverage", coverage, "--check"])
    return passed


def _fetch(module: str) -> None:
    """Fetch files of others, before the tests that read them."""
    _run(["sh", "scripts/test.sh", "--version"])
    _run([str(VENV / "bin/python"), "-m", module])


def _data() -> int:
    return _tests(*_parts("tests/data", "torch_tests"), "tests/text", "tests/tasks/pretraining_data")


def _loaders() -> int:
    _fetch("tests.data.torch_tests.source")
    return _tests("tests/data/torch_tests")


def _porting() -> int:
    _fetch("tests.porting.packages")
    return _tests("tests/porting", "tests/torchlike", **QUICK)


def _export() -> int:
    if not os.environ.get("FUNCNET_CHROMIUM") and not any(map(shutil.which, BROWSERS)):
        raise Failed(
            "no Chromium was found; expected one of "
            f"{', '.join(BROWSERS)}. Run apt-get install chromium, or set FUNCNET_CHROMIUM to a browser."
        )
    return _tests(*_parts("tests/export", "tflite"), "tests/loops")


def _docs() -> int:
    _fetch("tests.porting.packages")
    passed = _tests(*_files("tests"), "funcnet")
    with tempfile.TemporaryDirectory() as out:  # the tests of `funcnet` have run the examples
        _run(["sh", "scripts/reference.sh", "--no-examples", "--out", f"{out}/reference"])
    return passed


def _files(folder: str, *besides: str) -> list[str]:
    """Return the test files of a folder, without those of its folders, and without some."""
    names = sorted(path.name for path in (ROOT / folder).glob("test_*.py"))
    return [f"{folder}/{name}" for name in names if name not in besides]


def _folders(folder: str, *besides: str) -> list[str]:
    """Return the folders of a folder, without some."""
    names = sorted(path.name for path in (ROOT / folder).iterdir() if path.is_dir())
    return [f"{folder}/{name}" for name in names if name not in (*besides, "__pycache__")]


def _parts(folder: str, *besides: str) -> list[str]:
    return [*_files(folder), *_folders(folder, *besides)]


@contextlib.contextmanager
def _environment(python: str, *installs: list[str]) -> Iterator[Path]:
    """A virtual environment, which is removed in the end: its `bin` folder.

    Raises:
        Failed: if pip cannot install; with exit code 3 if no index answers.
    """
    with tempfile.TemporaryDirectory(prefix="funcnet-verify-") as folder:
        binaries = Path(folder, "bin")
        subprocess.run([python, "-m", "venv", folder], check=True)
        for names in installs:
            pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            made = subprocess.run([*pip, *names], cwd=ROOT, stderr=subprocess.PIPE, text=True)
            if made.returncode:
                if re.search(NO_INDEX, made.stderr):
                    raise Failed(
                        f"pip cannot find {' '.join(names)}; expected a package index that answers. Check the network.",
                        3,
                    )
                raise Failed(f"pip cannot install {' '.join(names)}: {made.stderr.strip()}")
        yield binaries


def _pytest(binaries: Path) -> list[str]:
    return [str(binaries / "python"), "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not slow"]


def _oldest() -> int:
    """Optimized, as users run it: every layer, the parallel step. The other parts call the same functions of JAX."""
    with _environment(sys.executable, ["torch==2.13.0"], [*OLDEST, "-e", ".[test]"]) as binaries:
        return _run([*_pytest(binaries), "tests/nn/test_layers.py", "tests/parallel"])


def _newest() -> int:
    """The newest Python and JAX that install; the tests that need no torch, and a pretraining run."""
    with _environment(_newest_python(), [*NEWEST_NEEDS, "-e", ".[demo]"]) as binaries:
        passed = _run([*_pytest(binaries), "tests/nn", "tests/train"])
        out = str(binaries.parent / "run")
        _run([str(binaries / "funcnet"), "pretrain", "--out", out, "--steps", "40", "--evaluate-every", "20"])
        return passed


def _newest_python() -> str:
    places = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin/python")
    found = {}
    for candidate in [sys.executable, *(f"python3.{minor}" for minor in range(12, 20)), *map(str, places)]:
        if shutil.which(candidate):
            version = "import sys; print(*sys.version_info[:2])"
            answer = subprocess.run([candidate, "-c", version], capture_output=True, text=True).stdout.split()
            if len(answer) == 2:
                found[tuple(map(int, answer))] = candidate
    return found[max(found)]


AREAS = {
    "databases": Area("torch's own databases, and docs/coverage.md", "funcnet/functional funcnet/nn", _databases),
    "layers": Area(
        "the contract of every layer, and of operators",
        "funcnet/functional funcnet/nn funcnet/operators funcnet/random.py funcnet/tree.py",
        lambda: _tests("tests/functional", "tests/nn", "tests/operators", "tests/optim", **QUICK),
    ),
    "plain": Area(
        "layers without the kernels in C++, as XLA computes them",
        "funcnet/functional funcnet/nn funcnet/operators",
        lambda: _tests("tests/functional", "tests/nn/test_layers.py", FUNCNET_NATIVE="0", **QUICK),
    ),
    "data": Area(
        "loaders, corpora, data for pretraining",
        "funcnet/data funcnet/text funcnet/tasks/pretraining_data funcnet/files.py",
        _data,
    ),
    "loaders": Area("torch's test file of loaders", "funcnet/data", _loaders),
    "runs": Area(
        "whole runs: kills in every phase, what is refused, recovery",
        "funcnet/train funcnet/parallel funcnet/optim funcnet/data",
        lambda: _tests("tests/train"),
    ),
    "parallel": Area(
        "meshes and processes: layouts against one device, dead processes",
        "funcnet/parallel funcnet/train funcnet/functional funcnet/nn",
        lambda: _tests("tests/parallel"),
    ),
    "tasks": Area(
        "each task: full runs, kills, interrupts",
        "funcnet/tasks funcnet/heads funcnet/train funcnet/losses.py",
        lambda: _tests(*_folders("tests/tasks", "pretraining_data", "quantizing")),
    ),
    "commands": Area(
        "every command: killed and resumed, on a mesh",
        "funcnet/tasks funcnet/cli funcnet/train funcnet/settings.py funcnet/arguments.py funcnet/files.py "
        "funcnet/figures.py funcnet/table.py",
        lambda: _tests(*_files("tests/cli", "test_replay.py"), *_files("tests/tasks")),
    ),
    "replay": Area(
        "runs with bad batches: skipped, rewound, killed, replayed",
        "funcnet/cli funcnet/train",
        lambda: _tests("tests/cli/test_replay.py"),
    ),
    "models": Area(
        "checkpoints, parity with published models, serving, scikit-learn",
        "funcnet/models funcnet/heads funcnet/weights funcnet/serving funcnet/sklearn funcnet/functional funcnet/nn",
        lambda: _tests("tests/models", "tests/heads", "tests/weights", "tests/serving", "tests/sklearn"),
    ),
    "bridges": Area("flax.nnx and flax.linen", "funcnet/bridges funcnet/nn", lambda: _tests("tests/bridges")),
    "porting": Area(
        "funcnet port: torch's database by its rules, published models",
        "funcnet/porting funcnet/torchlike funcnet/comparison",
        _porting,
    ),
    "export": Area("exports: StableHLO, ONNX, WebAssembly, browsers", "funcnet/export funcnet/loops", _export),
    "integers": Area(
        "integer arithmetic, TFLite",
        "funcnet/quantization funcnet/export/tflite",
        lambda: _tests("tests/quantization", "tests/export/tflite"),
    ),
    "quantizing": Area(
        "funcnet quantize: whole models, and their accuracy",
        "funcnet/quantization funcnet/tasks/quantizing",
        lambda: _tests("tests/tasks/quantizing"),
    ),
    "docs": Area(
        "notebooks, the README, pages, examples, the reference, the heads of the benchmarks",
        "docs notebooks README.md scripts",
        _docs,
    ),
    "oldest": Area("the oldest JAX: layers, parallel steps", "pyproject.toml funcnet/parallel", _oldest),
    "newest": Area("the newest Python and JAX: nn, train, a pretraining run", "pyproject.toml funcnet/train", _newest),
}


def _git(*arguments: str, check: bool = True) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=check, capture_output=True, text=True).stdout.strip()


def changed() -> list[str]:
    """Return the areas that a change since origin/main reaches. A docstring that changed reaches the area `docs`."""
    files = _git("diff", "--name-only", "origin/main").splitlines()
    is_documented = any(
        _docstrings(_git("show", f"origin/main:{file}", check=False)) != _docstrings((ROOT / file).read_text("utf-8"))
        for file in files
        if file.startswith("funcnet/") and file.endswith(".py") and (ROOT / file).is_file()
    )
    return reached({*files, *(["docs"] if is_documented else [])})


def reached(files: Iterable[str]) -> list[str]:
    """Return the areas that files reach. The tests of a folder count as the folder."""
    counted = {file.replace("tests/", "funcnet/", 1) if file.startswith("tests/") else file for file in files}
    is_in = lambda area: any(
        file == place or file.startswith(f"{place}/") for place in area.reached_by.split() for file in counted
    )
    return [name for name, area in AREAS.items() if is_in(area)]


def _docstrings(source: str) -> list[str | None]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [ast.get_docstring(node) for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]


def main(arguments: list[str]) -> int:
    """Verify areas, and return the exit code: 0, 1 if a test has failed, 2 for an unknown area, 3 without a network."""
    width = max(map(len, AREAS))
    areas = "\n".join(
        f"  {name:{width}}  {area.what}\n  {'':{width}}  reached by {area.reached_by}" for name, area in AREAS.items()
    )
    parser = argparse.ArgumentParser(
        prog="verify.sh",
        description="Run the tests that take too long for the gate, by area.",
        epilog=f"areas:\n{areas}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("areas", nargs="*", metavar="AREA", help='areas to verify, or "changed"; all by default')
    parser.add_argument("--again", action="store_true", help="also verify areas that have passed on this commit")
    options = parser.parse_args(arguments)
    chosen = [a for name in options.areas or AREAS for a in (changed() if name == "changed" else [name])]
    if unknown := [name for name in chosen if name not in AREAS]:
        print(f"verify.sh: unknown area {unknown[0]!r}; expected some of: {', '.join(AREAS)}, changed", file=sys.stderr)
        return 2
    tree, is_clean = _git("rev-parse", "HEAD^{tree}"), not _git("status", "--porcelain")
    if not is_clean:
        print("verify.sh: there are uncommitted changes, so what passes is not remembered", file=sys.stderr)
    memory = Path(_git("rev-parse", "--absolute-git-dir"), "verified", tree)
    lines, codes = [], []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: in the background, shells ignore that
    for name in dict.fromkeys(chosen):
        done = memory / name
        if is_clean and done.exists() and not options.again:
            lines.append(f"{done.read_text().strip()} (earlier)")
            continue
        start = time.monotonic()
        print(f"== {name}: {AREAS[name].what}", flush=True)
        try:
            passed = AREAS[name].run()
        except Failed as error:
            codes.append(error.code)
            lines.append(f"{name}: FAILED after {(time.monotonic() - start) / 60:.1f} min: {error}")
            continue
        except KeyboardInterrupt:
            lines.append(f"{name}: interrupted; the same command continues here")
            codes.append(130)
            break
        lines.append(f"{name}: {passed} tests passed in {(time.monotonic() - start) / 60:.1f} min")
        if is_clean:
            done.parent.mkdir(parents=True, exist_ok=True)
            done.write_text(lines[-1] + "\n")
    print(*lines, sep="\n")
    return max(codes, default=0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
