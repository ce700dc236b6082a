"""Every entry of torch's databases, for CI.

Where FUNCNET_COVERAGE names a folder, each test leaves its count and its worst difference there, and
`python -m tests.database coverage FOLDER` makes docs/coverage.md of them.
"""

import os

import pytest

from tests.database import functions, modules, refusals
from tests.database.coverage import record

DTYPES = ("float32", "float64")


def check(kind: str, result: modules.Result, dtype: str) -> None:
    folder = os.environ.get("FUNCNET_COVERAGE")
    record(kind, result.name, dtype, result.inputs, result.worst, result.failures, folder)
    assert result.inputs, "the database gave no input"
    assert not result.failures, "\n".join(result.failures)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", sorted(modules.MODULES))
def test_module(name, dtype):
    check("module", modules.run(name, dtype), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(functions.FUNCTIONS))
def test_function(name):
    check("function", functions.run(name, "float32"), "float32")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(refusals.KNOWN))
def test_refusals(name):
    check("refusal", refusals.run(name), "float32")
