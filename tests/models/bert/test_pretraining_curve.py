"""Fifty steps of pretraining give transformers' losses; `scripts/parity/pretraining_curves.py` draws two hundred."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "parity" / "pretraining_curves.py"


@pytest.mark.slow
def test_fifty_steps_in_float64():
    spec = importlib.util.spec_from_file_location("pretraining_curves", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with jax.enable_x64(True):
        ours, theirs = module.curves(50, "float64")
    assert theirs[-1] < theirs[0] - 1  # it learns
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-7)
