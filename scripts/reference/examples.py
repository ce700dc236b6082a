"""Run the examples in the docstrings of modules, in several processes, and return those that fail, with their lines."""

import contextlib
import doctest
import importlib
import io
import os
import sys
import tempfile
import traceback
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from scripts.reference.public_names import ROOT, path_of

__all__ = ["Outcome", "examples_of", "run_examples"]

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS  # as in pyproject.toml, for pytest
# As in scripts/test.sh and tests/conftest.py. Compiled programs are kept in the cache of the tests.
SETTINGS = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_PLATFORMS": "cpu",
    "JAX_NUMPY_DTYPE_PROMOTION": "strict",
    "JAX_DEFAULT_MATMUL_PRECISION": "highest",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_COMPILATION_CACHE_DIR": str(
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "funcnet", "test-programs")
    ),
}
FLAGS_OF_XLA = (
    "--xla_force_host_platform_device_count=8",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
NOT_INSTALLED = {"torch"}  # what examples import that the extra `reference` does not install


class Outcome(NamedTuple):
    """What became of the examples of a module.

    Attributes:
        passed: number of docstrings whose examples passed.
        failed: for each that failed, "file:line: " and the reason.
        left_out: for each that needs a library that is not installed, "file:line: " and the library.
    """

    passed: int
    failed: list[str]
    left_out: list[str]


class _Failure(Exception):
    """An example has failed: (line of the example in its docstring, from 0; the reason)."""


class _Missing(Exception):
    """An example imports what is not installed: (line of the example in its docstring, from 0; the library)."""


class _Runner(doctest.DocTestRunner):
    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        raise _Failure(example.lineno, self._checker.output_difference(example, got, self.optionflags))

    def report_unexpected_exception(self, out: Any, test: doctest.DocTest, example: doctest.Example, exc_info: Any):
        if isinstance(exc_info[1], ModuleNotFoundError) and exc_info[1].name in NOT_INSTALLED:
            raise _Missing(example.lineno, exc_info[1].name)
        raise _Failure(example.lineno, "".join(traceback.format_exception_only(exc_info[1])))


def run_examples(modules: Iterable[str], processes: int | None = None) -> Outcome:
    """Run the examples of modules.

    Args:
        modules: dotted names.
        processes: number of processes; by default, one for each core.
    """
    waiting = list(dict.fromkeys(modules))
    processes = min(processes or os.cpu_count() or 1, len(waiting))
    with (
        tempfile.TemporaryDirectory(prefix="funcnet-examples-") as folder,
        ProcessPoolExecutor(processes, get_context("spawn"), _begin, (folder,)) as pool,
    ):
        outcomes = list(pool.map(_examples_of_one, waiting))
    return Outcome(
        sum(one.passed for one in outcomes),
        [line for one in outcomes for line in one.failed],
        [line for one in outcomes for line in one.left_out],
    )


def examples_of(name: str) -> Outcome:
    """Run the examples of a module in this process."""
    module = importlib.import_module(name)
    file = str((path_of(name) or Path(module.__file__ or name)).resolve())
    shown = Path(file).relative_to(ROOT) if Path(file).is_relative_to(ROOT) else Path(file)
    passed, failed, left_out = 0, [], []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, name, module=module):
        if not test.examples:
            continue
        start = test.lineno if test.lineno is not None else _line_of(file, test)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                _Runner(verbose=False, optionflags=FLAGS).run(test)
            passed += 1
        except _Failure as failure:
            line, reason = failure.args
            failed.append(f"{shown}:{start + line + 1}: example of {test.name} failed\n{reason.rstrip()}")
        except _Missing as missing:
            line, library = missing.args
            left_out.append(f"{shown}:{start + line + 1}: example of {test.name} needs {library}")
    return Outcome(passed, failed, left_out)


def _line_of(file: str, test: doctest.DocTest) -> int:
    """Return the line, from 0, of a docstring that doctest does not find, by its first example."""
    first = test.examples[0]
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    source = f">>> {first.source.splitlines()[0]}"
    return next((i - first.lineno for i, line in enumerate(lines) if line.strip() == source), 0)


def _examples_of_one(name: str) -> Outcome:
    """Run the examples of a module, and free the programs that they have compiled: together they need gigabytes."""
    outcome = examples_of(name)
    if jax := sys.modules.get("jax"):
        jax.clear_caches()
    return outcome


def _begin(folder: str) -> None:
    """Set the environment of a process before it imports JAX, and leave the folder of the repository."""
    os.environ.update(SETTINGS)
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *FLAGS_OF_XLA])
    os.chdir(folder)
