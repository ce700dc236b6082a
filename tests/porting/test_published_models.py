"""Twelve published models, ported by the machine alone from FILE:Class, equal torch's in float64 and float32."""

import ast
import re

import jax
import pytest

from funcnet.porting.port import port
from funcnet.porting.proving.proof import DOUBLE, SINGLE
from tests.porting.published import MODELS


@pytest.fixture(autouse=True)
def promotion():
    """Ported models mix integers and floats as torch does. The other tests of the house are stricter."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_port_equals_torchs_model(name, tmp_path):
    model = MODELS[name]
    result = port(model.path, model.name, tmp_path / "out", construct=model.construct, example=model.example)
    assert result.proof is not None
    assert [one for one in result.proof.checks if not one.ok] == [], (tmp_path / "out" / "PROOF.md").read_text("utf-8")
    assert len(result.proof.checks) == 5  # names, three runs in float64, one in float32
    for check in result.proof.checks[1:-1]:
        assert max(v or 0 for v in (check.forward, check.gradients, check.buffers)) <= DOUBLE
    single = result.proof.checks[-1]  # gradients over the bound are accepted (`ok`) if they agree in float64
    assert single.name.startswith("float32") and single.forward <= SINGLE and (single.buffers or 0) <= SINGLE
    lines, blocked = 0, 0
    for file in result.files:
        assert not imported(file.text) & {"torch", "torchvision", "timm"}
        lines += file.text.count("\n")
        blocked += len(re.findall(r"raise NotImplementedError\('[\w.]+\.py:\d+: ", file.text))
    assert blocked <= lines / 100, f"{blocked} of {lines} lines are in the register"


def imported(text):
    """The packages that a source imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found
