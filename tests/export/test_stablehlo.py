"""StableHLO files: what is in them, loading without funcnet, and wrong files. `test_refusals.py` has more of those."""

import json
import os
import subprocess
import sys
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from funcnet.export.stablehlo import load_stablehlo, to_stablehlo
from tests.export.saved import X, saved


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_it_is_the_function(tmp_path, weights):
    run, _ = saved(to_stablehlo, tmp_path / "net.stablehlo", weights=weights)
    loaded = load_stablehlo(tmp_path / "net.stablehlo")
    more = np.concatenate([X, X])
    np.testing.assert_allclose(loaded(more), run(more), rtol=0, atol=1e-6)
    assert loaded.platforms == ("cpu", "cuda", "tpu") and loaded.placed == weights
    assert str(loaded.arguments[0]) == "input float32 (batch, 3)" and str(loaded.results[0].shape) == "('batch', 2)"
    assert loaded.check.largest < 1e-6
    names = {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert set(loaded.weights) == names and (tmp_path / "net.safetensors").exists() == (weights == "beside")
    if weights == "beside":
        assert set(safetensors.numpy.load_file(tmp_path / "net.safetensors")) == names
    loaded.save(tmp_path / "again.stablehlo")
    np.testing.assert_array_equal(load_stablehlo(tmp_path / "again.stablehlo")(more), loaded(more))


WITHOUT_FUNCNET = """
import json, sys, zipfile, jax, numpy as np, safetensors.numpy
with zipfile.ZipFile("net.stablehlo") as file:
    manifest = json.loads(file.read("manifest.json"))
    weights = safetensors.numpy.load(file.read("weights.safetensors"))
    program = jax.export.deserialize(bytearray(file.read("program.bin")))
out = program.call([weights[name] for name in manifest["weights"]], np.load("x.npy"))
np.save("out.npy", out)
assert not [name for name in sys.modules if name.startswith("funcnet")]
"""


@pytest.mark.slow
def test_a_program_that_has_only_jax_can_read_it(tmp_path):
    run, _ = saved(to_stablehlo, tmp_path / "net.stablehlo")
    np.save(tmp_path / "x.npy", X)
    environment = {**os.environ, "PYTHONPATH": "", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", WITHOUT_FUNCNET], check=True, cwd=tmp_path, env=environment)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), run(X), rtol=0, atol=1e-6)


def test_structures_of_results(tmp_path):
    to_stablehlo(lambda x: {"a": x, "b": [x + 1, x.sum()]}, X).save(tmp_path / "tree")
    out = load_stablehlo(tmp_path / "tree")(X)
    assert sorted(out) == ["a", "b"] and len(out["b"]) == 2 and out["b"][1] == X.sum()


def test_platforms():
    assert to_stablehlo(lambda x: jnp.sin(x), X, platforms=["tpu", "cpu"]).platforms == ("tpu", "cpu")


def test_a_size_out_of_range(tmp_path):
    saved(to_stablehlo, tmp_path / "net.stablehlo", constraints=["batch <= 64"])
    loaded = load_stablehlo(tmp_path / "net.stablehlo")
    with pytest.raises(ValueError, match="a size is out of range; expected batch <= 64, got batch = 65"):
        loaded(np.zeros((65, 3), np.float32))


def test_altered_bytes_are_noticed(tmp_path):
    """A bit of the manifest, of the program or of the weights is another one, here and there."""
    path = tmp_path / "net.stablehlo"
    saved(to_stablehlo, path)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        entries = [(one.header_offset + 30 + len(one.filename), one.file_size) for one in archive.infolist()]
    assert len(entries) == 3
    for start, size in entries:
        for place in range(start, start + size, max(1, size // 15)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(ValueError, match=r"is not a complete export|was altered"):
                load_stablehlo(path)


def rewritten(path, change):
    """Write the archive again, with other entries and right checksums of the zip format."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def test_weights_of_another_model_inside(tmp_path):
    saved(to_stablehlo, tmp_path / "net.stablehlo")
    saved(to_stablehlo, tmp_path / "other.stablehlo", seed=1)
    with zipfile.ZipFile(tmp_path / "other.stablehlo") as archive:
        other = archive.read("weights.safetensors")
    rewritten(tmp_path / "net.stablehlo", lambda entries: entries.update({"weights.safetensors": other}))
    with pytest.raises(ValueError, match=r"was altered; expected SHA-256 .* for weights.safetensors"):
        load_stablehlo(tmp_path / "net.stablehlo")


def test_another_format(tmp_path):
    saved(to_stablehlo, tmp_path / "net.stablehlo")

    def newer(entries):
        manifest = json.loads(entries["manifest.json"])
        entries["manifest.json"] = json.dumps(manifest | {"version": 9}).encode()

    rewritten(tmp_path / "net.stablehlo", newer)
    with pytest.raises(ValueError, match="has another format; expected funcnet StableHLO 1, got funcnet StableHLO 9"):
        load_stablehlo(tmp_path / "net.stablehlo")
    with pytest.raises(FileNotFoundError):
        load_stablehlo(tmp_path / "none.stablehlo")
