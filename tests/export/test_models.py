"""The 30 models of `models.py` as StableHLO in a fresh process and as ONNX in ONNX Runtime, at several sizes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import onnxruntime
import pytest

from funcnet import export
from funcnet.export.check import compare
from tests.export.models import FAST, MODELS, Model, at_other_sizes

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-5  # of the largest entry; the largest difference found is 1.4e-6, in ResNet-18

FRESH = """
import json, sys
import numpy as np
from funcnet.export import load_stablehlo
import jax
for folder in json.loads(sys.argv[1]):
    for name in ("fixed", "symbolic"):
        with np.load(f"{folder}/{name}.npz") as held:
            inputs = [held[str(number)] for number in range(len(held))]
        outputs = jax.tree.leaves(load_stablehlo(f"{folder}/{name}.stablehlo")(*inputs))
        np.savez(f"{folder}/{name}.out.npz", **{str(number): one for number, one in enumerate(outputs)})
assert not {"funcnet.nn", "funcnet.models", "tests"} & set(sys.modules), "the source of the model was imported"
"""


def in_a_fresh_process(folders: list[Path]) -> None:
    """Load and call the .stablehlo files of the folders without the models' source."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", FRESH, json.dumps([str(folder) for folder in folders])]
    subprocess.run(command, check=True, env=environment, cwd=folders[0])


def exported(model: Model, folder: Path) -> dict[str, tuple[list[np.ndarray], list[np.ndarray]]]:
    """Write both forms of a model, at the fixed and at symbolic sizes. Return {name: (inputs, expected outputs)}."""
    folder.mkdir(exist_ok=True)
    function, arrays, params = model.make()
    cases = {"fixed": (None, arrays), "symbolic": (model.dynamic, at_other_sizes(model, arrays))}
    found = {}
    for name, (dynamic, inputs) in cases.items():
        for form, export_as in (("stablehlo", export.to_stablehlo), ("onnx", export.to_onnx)):
            one = export_as(function, *arrays, dynamic=dynamic, params=params)
            assert one.check.largest <= TOLERANCE, (form, name, str(one.check))
            one.save(folder / f"{name}.{form}")
        np.savez(folder / f"{name}.npz", **{str(number): array for number, array in enumerate(inputs)})
        found[name] = inputs, [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*inputs))]
    assert any(a.shape != b.shape for a, b in zip(cases["fixed"][1], cases["symbolic"][1], strict=True))
    return found


def near(folder: Path, cases: dict[str, tuple[list[np.ndarray], list[np.ndarray]]]) -> None:
    """Compare what the fresh process and ONNX Runtime computed with the JAX function."""
    for name, (inputs, expected) in cases.items():
        with np.load(folder / f"{name}.out.npz") as held:
            fresh = [held[str(number)] for number in range(len(held))]
        session = onnxruntime.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        runtime = session.run(None, dict(zip(names, inputs, strict=True)))
        outputs = [one.name for one in session.get_outputs()]
        for form, got in (("stablehlo", fresh), ("onnx", runtime)):
            check = compare(outputs, got, expected)
            assert check.largest <= TOLERANCE, (form, name, str(check))


@pytest.mark.slow
def test_a_few_models_in_both_forms(tmp_path):
    folders = {name: tmp_path / str(number) for number, name in enumerate(FAST)}
    cases = {model.name: exported(model, folders[model.name]) for model in MODELS if model.name in FAST}
    assert len(cases) == len(FAST)
    in_a_fresh_process(list(folders.values()))
    for name, folder in folders.items():
        near(folder, cases[name])


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_every_model_in_both_forms(model, tmp_path):
    cases = exported(model, tmp_path)
    in_a_fresh_process([tmp_path])
    near(tmp_path, cases)
