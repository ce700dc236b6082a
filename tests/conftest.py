"""Eight CPU devices before JAX starts, strict promotion, no precision lost silently.

Where torch is not installed (its CPU build exists for Python 3.11 alone), the files that need it are left out; the
head of the run says how many.
"""

import importlib.util
import os
import re
from pathlib import Path

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_default_matmul_precision", "highest")
assert jax.device_count() == 8, "a multi-device test never skips: 8 CPU devices must be there"

HERE = Path(__file__).parent
_IMPORTS = re.compile(r"^(?:from|import) +(\.?[\w.]+)", re.MULTILINE)


def _needing_torch() -> list[str]:
    """The test files that import torch or transformers, or a file of the tests that does."""
    files = {
        path: {
            part for name in _IMPORTS.findall(path.read_text()) for part in (name.split(".")[0], name.split(".")[-1])
        }
        for path in HERE.rglob("*.py")
    }
    needed = {"torch", "transformers"}
    while more := {path.stem for path, names in files.items() if names & needed} - needed:
        needed |= more
    return sorted(str(path) for path, names in files.items() if names & needed and path.name != "conftest.py")


collect_ignore = [] if importlib.util.find_spec("torch") else _needing_torch()


def pytest_report_header() -> str:
    without = f"torch is not installed: {len(collect_ignore)} files of parity tests are left out"
    return f"JAX {jax.__version__}, {jax.device_count()} devices" + (f"; {without}" if collect_ignore else "")
