"""Every benchmark runs: the command in its head, on a toy size. What it measures is not judged here."""

import os
import subprocess
import sys

import pytest

from tests.processes import AS_A_USER, ROOT

TOY = {
    "best_rate.py": [
        *["--rates", "0.1", "0.5", "--seeds", "2", "--folds", "2", "--epochs", "2"],
        *["--compare", "--picture", "picture.png"],
    ],
    "compare.py": ["--size", "32"],
    "compile_time.py": ["--rounds", "1"],
    "data_build.py": ["--megabytes", "1", "--processes", "1", "--passes", "1"],
    "data_loading.py": ["--scale", "0.01", "--turns", "1", "--out", "table.md", "--picture", "picture.png"],
    "data_wait.py": ["--steps", "12", "--images", "20"],
    "dispatch.py": ["--calls", "3"],
    "export_onnx.py": ["--rounds", "2", "--tokens", "16"],
    "export_wasm.py": ["--rounds", "2", "--tokens", "16", "--picture", "picture.png"],
    "features.py": ["--sentences", "64", "--blocks", "2"],
    "finetune.py": [
        "--results",
        "results.json",
        "--datasets",
        "r8",
        "--who",
        "step",
        "--seeds",
        "0",
        "--seq-len",
        "16",
    ],
    "gpu_step.py": ["--model", "tiny", "--batch-size", "2", "--seq-len", "16", "--steps", "6", "--dropout", "0.1"],
    "layers.py": ["--only", "LSTM", "--turns", "1"],
    "scaling.py": [
        "--model",
        "tiny",
        "--meshes",
        "data=8",
        "--types",
        "float32",
        "--rows",
        "1",
        "--seq-len",
        "32",
        "--no-published",
    ],
    "nan_trace.py": ["--pairs", "1"],
    "native_kernels.py": ["--only", "512x256", "--turns", "1"],
    "operator_transforms.py": [],
    "search.py": ["--rates", "2", "--epochs", "2", "--rounds", "1"],
    "second_start.py": [
        *["--starts", "1", "--model", "tiny", "--seq-len", "32", "--vocab-size", "300", "--batch-size", "8"],
        *["--corpus", str(ROOT / "README.md")],
    ],
    "start_memory.py": ["--layers", "2", "--width", "128", "--words", "4096"],
    "step.py": ["--pairs", "1"],
    "whole_steps.py": ["gpt", "--turns", "1"],
    "weak_scaling.py": [
        "--model",
        "tiny",
        "--meshes",
        "data=2",
        "--rows",
        "2",
        "--seq-len",
        "32",
        "--steps",
        "1",
        "--turns",
        "1",
    ],
}


def scripts():
    return {path.name: path for path in (ROOT / "scripts" / "benchmarks").glob("*.py")}


def test_every_benchmark_has_a_toy_size_and_names_its_command():
    commands = {name: path.read_text("utf-8") for name, path in scripts().items() if not name.startswith("bare_")}
    assert commands.keys() == TOY.keys()
    assert all(f"    python scripts/benchmarks/{name}" in text for name, text in commands.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", TOY)
def test_the_command_runs(name, tmp_path):
    environment = {key: value for key, value in os.environ.items() if key not in ("XLA_FLAGS", "OMP_NUM_THREADS")}
    environment |= AS_A_USER | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, str(scripts()[name]), *TOY[name]]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert any(character.isdigit() for character in done.stdout), "it prints figures"
