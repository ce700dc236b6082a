"""Eight CPU devices before JAX starts, strict promotion, no precision lost silently.

Where torch is not installed (its CPU build exists for Python 3.11 alone), the files that need it are left out; the
head of the run says how many.
"""

import ast
import gc
import importlib.util
import os
import random
import sys
import threading
import zlib
from collections import defaultdict
from pathlib import Path

import platformdirs
import pytest

# Under JAX_DISABLE_MOST_OPTIMIZATIONS thousands of programs of a few numbers each are compiled: half of the time went
# into kernels that are fast on large ones.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_force_host_platform_device_count=8",
        *["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
        * (os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1"),
    ]
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Variables, because the processes that tests start have them too.
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"  # a tenth of the time of the tests went into line numbers
# Kernels are compiled once, and not by each process with a cache of its own: this takes 25 seconds.
os.environ.setdefault("FUNCNET_CACHE", platformdirs.user_cache_dir("funcnet"))
# torch's threads: the workers have the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1" if "PYTEST_XDIST_WORKER" in os.environ else str(os.cpu_count()))

import hypothesis
import jax
import numpy as np

# The gate draws the same examples in every run, scripts/verify.sh others (it prints the seed), and a search many more:
# HYPOTHESIS_PROFILE=long sh scripts/test.sh tests/data/test_collate_search.py
_CHECKS = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large]  # the first call of a shape compiles
_SETTINGS = {"deadline": None, "suppress_health_check": _CHECKS}
hypothesis.settings.register_profile("fixed", derandomize=True, database=None, max_examples=40, **_SETTINGS)
hypothesis.settings.register_profile("random", print_blob=True, **_SETTINGS)
hypothesis.settings.register_profile("long", print_blob=True, max_examples=3000, **_SETTINGS)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

if os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1":  # the many small programs of the gate
    # JAX makes an MLIR context for every program that it lowers. One for each thread saves a third of the time, and two
    # thirds of the memory. A program that is lowered while another one is being lowered still gets its own.
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    make_context, own = mlir.make_ir_context, threading.local()

    def _context_of_this_thread() -> ir.Context:
        if ir.Context.current is not None:
            return make_context()
        if not hasattr(own, "context"):
            own.context = make_context()
        return own.context

    mlir.make_ir_context = _context_of_this_thread
assert len(jax.devices("cpu")) == 8, "a multi-device test never skips: 8 CPU devices must be there"

HERE = Path(__file__).parent
XLA_FLAGS = os.environ["XLA_FLAGS"]


def _imported(path: Path) -> set[str]:
    """Every dotted name, with those it begins with, that a file of the tests imports at its head, and its packages'."""
    package = ("tests", *path.parent.relative_to(HERE).parts)
    found = {".".join(package)}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(
                (*package[: len(package) + 1 - node.level], node.module or "") if node.level else [node.module]
            )
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[:n]) for name in found for n in range(1, name.count(".") + 2)}


def _needing_torch() -> list[str]:
    """The test files that import torch or transformers, or a file of the tests that does."""
    files = {path: _imported(path) for path in HERE.rglob("*.py") if path != Path(__file__)}
    named = {path: ".".join(("tests", *path.relative_to(HERE).with_suffix("").parts)) for path in files}
    needed = {"torch", "transformers"}
    while more := {named[path].removesuffix(".__init__") for path, names in files.items() if names & needed} - needed:
        needed |= more
    return sorted(str(path) for path, names in files.items() if names & needed)


collect_ignore = [] if importlib.util.find_spec("torch") else _needing_torch()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the 20,000 rows of torch's databases, all of which are slow, where slow tests do not run."""
    return True if collection_path == HERE / "database" and config.getoption("markexpr") == "not slow" else None


_generators: dict[str, tuple[np.random.Generator, dict]] = {}  # those of test modules, with their state after import


def pytest_collection_finish() -> None:
    """Check that no module of the tests changes XLA's flags when it is imported, because processes that tests start
    inherit them: with other flags, a run may have other bits, on some processors only.

    What torch, JAX and the tests brought stays: looking through it again and again took a fourteenth of the time."""
    assert os.environ["XLA_FLAGS"] == XLA_FLAGS, "a module changed XLA_FLAGS; expected it to set them in a process"
    for name, module in list(sys.modules.items()):
        if name.startswith("tests."):
            for variable, value in vars(module).items():
                if isinstance(value, np.random.Generator):
                    _generators[f"{name}.{variable}"] = value, value.bit_generator.state
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)  # JAX keeps a million objects in its caches; half a second to look through them


def pytest_sessionfinish() -> None:
    """At the end pytest collects five times: if a worker takes more than five seconds for it, xdist interrupts it."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _the_same_numbers_in_every_order() -> None:
    """Every random generator starts a test in the same state, so its numbers do not depend on the tests before it."""
    for generator, state in _generators.values():
        generator.bit_generator.state = state
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)  # not also of CUDA, which keeps the stack of each call


@pytest.hookimpl(trylast=True)  # after -m and -k
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With FUNCNET_ROWS=N, run one in N of the rows of each parametrized test, and of the examples of each module, and
    at least one.

    The rows with the smallest checksums of their names are chosen, so every commit and every machine tests the same
    ones. Tests with the mark `every_row` run whole.
    """
    share = int(os.environ.get("FUNCNET_ROWS", 1))
    rows = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("every_row"):
            is_example = isinstance(item, pytest.DoctestItem)
            rows[item.nodeid.partition("::" if is_example else "[")[0]].append(item.nodeid)
    left = set()
    for names in rows.values():
        left |= set(sorted(names, key=lambda name: zlib.crc32(name.encode()))[-(-len(names) // share) :])
    if share > 1:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
        items[:] = [item for item in items if item.nodeid not in left]


def pytest_report_header() -> str:
    without = f"torch is not installed: {len(collect_ignore)} files of parity tests are left out"
    return f"JAX {jax.__version__}, {jax.device_count()} devices" + (f"; {without}" if collect_ignore else "")
