"""weights.load and weights.save: what is written is what is read, here and in torch, and never half of it."""

import os

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from funcnet import weights
from funcnet.weights import safetensors_format


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_arrays_come_back_with_dtype_and_shape(path):
    tree = {
        "fc": {"weight": np.arange(6.0).reshape(2, 3), "bias": jnp.ones(2)},
        "bn": {"num_batches_tracked": np.asarray(7, np.int64), "mask": np.array([True, False])},
        "half": jnp.full((2, 2), 1.5, jnp.bfloat16),
        "empty": np.zeros((0, 4), np.float16),
    }
    weights.save(path, tree)
    back = weights.load(path)
    assert set(back) == {"fc.weight", "fc.bias", "bn.num_batches_tracked", "bn.mask", "half", "empty"}
    assert len(back) == 6 and "6 arrays" in repr(back)
    for name, expected in {"fc.weight": tree["fc"]["weight"], "empty": tree["empty"], "half": tree["half"]}.items():
        assert back[name].dtype == expected.dtype
        np.testing.assert_array_equal(back[name], np.asarray(expected))
    assert back["bn.num_batches_tracked"].shape == () and back["bn.num_batches_tracked"] == 7
    assert back["half"].dtype == ml_dtypes.bfloat16


def test_arrays_that_are_not_contiguous_are_written_as_they_read(path):
    array = np.arange(24.0).reshape(2, 3, 4)
    weights.save(path, {"t": array.T, "s": array[:, ::2], "r": array[::-1], "big": array.astype(">f8")})
    back = weights.load(path)
    for name, expected in {"t": array.T, "s": array[:, ::2], "r": array[::-1], "big": array}.items():
        np.testing.assert_array_equal(back[name], expected)


def test_other_suffixes_are_refused_by_name(tmp_path):
    for name in ("model.gguf", "model"):
        with pytest.raises(ValueError, match=r"suffix that is not supported; expected .*\.safetensors.*, got"):
            weights.load(tmp_path / name)
        with pytest.raises(ValueError, match=r"weights.save: .*suffix that is not supported"):
            weights.save(tmp_path / name, {})


def test_files_that_are_missing_or_broken(path):
    with pytest.raises(FileNotFoundError, match="is not there"):
        weights.load(path)
    weights.save(path, {"w": np.ones(100)})
    whole = path.read_bytes()
    for broken in (b"", b"junk" * 10, whole[:-1], whole[:50]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="no whole safetensors file"):
            weights.load(path)


def test_what_cannot_be_written_leaves_the_old_file(path):
    weights.save(path, {"w": np.ones(2)})
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"'fc.name' is not an array; .* got str"):
        weights.save(path, {"fc": {"name": "x"}})
    with pytest.raises(ValueError, match=r"complex128.*Cast it"):
        weights.save(path, {"w": np.ones(2, np.complex128)})
    with pytest.raises(ValueError, match=r"two leaves are called 'a.b'"):
        weights.save(path, {"a.b": np.ones(1), "a": {"b": np.ones(1)}})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_write_that_dies_leaves_the_old_file(path, monkeypatch):
    weights.save(path, {"w": np.ones(2)})
    before = path.read_bytes()

    def full(arrays, part, metadata):
        part.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors_format.safetensors.numpy, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        weights.save(path, {"w": np.zeros(2)})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_file_has_the_mode_that_the_umask_says_and_a_missing_folder_is_named(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    weights.save(tmp_path / "x.safetensors", {"a": np.zeros(2)})
    assert (tmp_path / "x.safetensors").stat().st_mode == plain.stat().st_mode
    with pytest.raises(OSError, match="nowhere"):
        weights.save(tmp_path / "nowhere" / "x.safetensors", {"a": np.zeros(2)})
