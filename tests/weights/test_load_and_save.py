"""weights.load and weights.save: what is written is what is read, here and in torch, and never half of it."""

import json
import os
import zipfile
from collections import OrderedDict

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from funcnet import weights
from funcnet.weights import safetensors_format
from tests.weights.hostile import described, tensors


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
        with pytest.raises(ValueError, match=r"suffix that is not supported; expected .*\.safetensors.*\.pt.*, got"):
            weights.load(tmp_path / name)
        with pytest.raises(ValueError, match=r"weights.save: .*suffix that is not supported"):
            weights.save(tmp_path / name, {})


def test_what_a_file_contains_decides_and_is_named(tmp_path):
    """Whatever its suffix and its first bytes are."""
    array, wrong = np.ones(2, np.float32), "the content does not match the suffix"
    np.savez(tmp_path / "a.npz", x=array)
    np.savez_compressed(tmp_path / "b.npz", x=array)
    np.save(tmp_path / "c.npy", array)
    weights.save(tmp_path / "d.pt", {"x": array})
    weights.save(tmp_path / "e.safetensors", {"x": array})
    with zipfile.ZipFile(tmp_path / "f.keras", "w") as archive:
        archive.writestr("model.weights.h5", b"")
    (tmp_path / "g.gguf").write_bytes(b"GGUF" + bytes(99))
    for file, suffix, text in (
        (
            "a.npz",
            ".npz",
            r"suffix that is not supported; .* got '.npz' and a NumPy archive\. Open it with numpy\.load",
        ),
        ("a.npz", ".safetensors", rf"{wrong}.* got a NumPy archive\. Open it with numpy\.load"),
        ("a.npz", ".pt", r"not an archive of torch.save; .* among x\.npy\. It is a NumPy archive\. Open it with"),
        ("b.npz", ".pt", r"the record 'x\.npy' is compressed"),
        ("c.npy", ".pth", rf"{wrong}.* got a \.npy file\. Open it with numpy\.load"),
        ("d.pt", ".ckpt", r"got '\.ckpt' and a zip archive of torch\.save\. Rename it to \.pt\.$"),
        ("d.pt", ".safetensors", rf"{wrong}.* got a zip archive of torch\.save\. Rename it to \.pt\.$"),
        ("e.safetensors", ".ckpt", r"got '\.ckpt' and a safetensors file\. Rename it to \.safetensors\.$"),
        ("e.safetensors", ".bin", rf"{wrong}.* got a safetensors file\. Rename it to \.safetensors\.$"),
        ("f.keras", ".keras", r"got '\.keras' and a Keras file"),
        ("g.gguf", ".gguf", r"got '\.gguf' and a GGUF file, which is llama\.cpp's format"),
    ):
        path = tmp_path / f"x{suffix}"
        path.write_bytes((tmp_path / file).read_bytes())
        with pytest.raises(ValueError, match=text):
            weights.load(path)


def test_files_that_are_missing_or_broken(path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        weights.load(path)
    weights.save(path, {"w": np.ones(100)})
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[:50]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="not a complete safetensors file"):
            weights.load(path)


def test_headers_of_any_length(path):
    """Their length comes first in the file, and reads as gzip's or pickle's first byte now and then."""
    for length in range(1, 300):
        weights.save(path, {"n" * length: np.ones(1)})
        assert list(weights.load(path)) == ["n" * length]
    content = tensors({"n": described()}, bytes(4))
    for first in (b"\x80\x00", b"\x1f\x8b"):
        header = content[8:-4].ljust(int.from_bytes(first, "little"))
        path.write_bytes(first + bytes(6) + header + bytes(4))
        assert list(weights.load(path)) == ["n"]


def test_arrays_are_views_that_outlive_a_new_file_of_that_name(path):
    weights.save(path, {"w": np.ones(3)})
    old = weights.load(path)["w"]
    with pytest.raises(ValueError, match="read-only"):
        old[0] = 2
    weights.save(path, {"w": 2 * old})
    assert old.tolist() == [1, 1, 1] and weights.load(path)["w"].tolist() == [2, 2, 2]


def test_what_cannot_be_written_leaves_the_old_file(path):
    weights.save(path, {"w": np.ones(2)})
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"'fc.name' is not an array; .* got str"):
        weights.save(path, {"fc": {"name": "x"}})
    with pytest.raises(ValueError, match=r"complex128.*Cast the array"):
        weights.save(path, {"w": np.ones(2, np.complex128)})
    with pytest.raises(ValueError, match=r"two leaves have the same name; .* got 'a.b' twice"):
        weights.save(path, {"a.b": np.ones(1), "a": {"b": np.ones(1)}})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
@pytest.mark.parametrize(
    ("array", "text"),
    [
        (jax.random.key(0), r"is a random key; .* got key<fry>\. Save jax\.random\.key_data\(key\)"),
        (jax.random.split(jax.random.key(0, impl="rbg"), 3), r"is a random key; .* got key<rbg>"),
        (np.ma.masked_equal([1, 2], 2), r"has a mask; expected a plain array, got a MaskedArray"),
    ],
)
def test_arrays_that_would_not_come_back_are_refused(suffix, array, text, tmp_path):
    with pytest.raises(TypeError, match=rf"a(\.|'\]\[')b'?\]? {text}"):
        weights.save(tmp_path / f"x{suffix}", {"a": {"b": array}})
    assert os.listdir(tmp_path) == []


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


@pytest.fixture
def torch_tree():
    shared = np.arange(3, dtype=np.int16)
    return {
        "net": OrderedDict(a=np.arange(6.0).reshape(2, 3).T, b=jnp.full(2, 1.5, jnp.bfloat16), c=np.asarray(7)),
        "list": [
            1,
            -(2**70),
            2.5,
            1 - 2j,
            True,
            None,
            "\u00e9\ud800",
            b"\xff",
            bytearray(b"x"),
            (1, (2,)),
            {3},
        ],
        "dtypes": [np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)],
        "more": {
            1: np.zeros((0, 4), np.float16),
            ("t", 2): np.float64(3),
            None: np.array([True, False]),
            np.dtype(np.int8): 1,
            2j: 2,
        },
        "shared": [shared, shared],
        "others": [
            np.ones(2, ">i4"),
            np.ones(2, np.uint16),
            np.ones(2, np.complex64),
            np.ones(2, ml_dtypes.float8_e5m2),
        ],
    }


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
def test_trees_come_back_from_torchs_format(suffix, tmp_path, torch_tree):
    torch_tree["net"]._metadata = OrderedDict({"": {"version": 2}})
    path = tmp_path / f"x{suffix}"
    weights.save(path, torch_tree)
    back = weights.load(path)
    assert list(back) == list(torch_tree)
    assert back["list"] == torch_tree["list"] and back["dtypes"] == torch_tree["dtypes"]
    assert type(back["net"]) is OrderedDict and back["net"]._metadata == torch_tree["net"]._metadata
    assert not hasattr(back["more"], "_metadata") and list(back["more"]) == list(torch_tree["more"])
    assert np.shares_memory(*back["shared"])
    arrays, expected = (
        jax.tree.leaves([back["net"], back["others"]]),
        jax.tree.leaves([torch_tree["net"], torch_tree["others"]]),
    )
    for ours, array in zip(arrays, expected, strict=True):
        assert (
            ours.dtype == np.asarray(array).dtype.newbyteorder("=") and not ours.flags.writeable and ours.flags.aligned
        )
        np.testing.assert_array_equal(ours, np.asarray(array))
    assert back["more"][("t", 2)].shape == () and back["more"][1].shape == (0, 4)
    weights.save(tmp_path / "again.pt", torch_tree)
    assert (tmp_path / "again.pt").read_bytes() == path.read_bytes()  # equal trees, equal files


def test_what_a_torch_file_cannot_hold(tmp_path):
    path = tmp_path / "x.pt"
    weights.save(path, {"w": 1})
    before = path.read_bytes()
    itself = []
    itself.append(itself)
    for error, tree, text in (
        (TypeError, {"a": [1, object()]}, r"the tree\['a'\]\[1\] is not plain data; .* got object. Omit or convert"),
        (TypeError, {"f": {1: frozenset({2})}}, r"the tree\['f'\]\[1\] is not plain data; .* got frozenset"),
        (TypeError, {frozenset({1}): 1}, r"a key of the tree is not plain data"),
        (TypeError, {"d": np.dtype("S3")}, r"is not plain data"),
        (ValueError, {"a": np.array(["x"])}, r"a dtype that torch does not support; .* got <U1. Cast the array"),
        (ValueError, {"a": itself}, r"nested deeper than 200 levels, or contains itself"),
        (ValueError, {"a": 2**4000}, r"an integer of 501 bytes; expected at most 255"),
    ):
        with pytest.raises(error, match=text):
            weights.save(path, tree)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.pt"]


def test_a_torch_file_whose_write_dies_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    weights.save(path, {"w": np.ones(2)})
    before = path.read_bytes()

    def full(self, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("zipfile._ZipWriteFile.write", full)
        with pytest.raises(OSError, match="No space left"):
            weights.save(path, {"w": np.zeros(2)})
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.pt"]


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_shards(name, tmp_path):
    path = tmp_path / name
    tree = {
        "a": {"w": np.arange(10.0), "b": np.ones(3)},
        "c": np.zeros(20),
        "d": np.ones(2, np.int8),
        "e": np.float64(1),
    }
    weights.save(path, tree)
    weights.save(path, tree, max_shard_size=120)
    stem, suffix = name.split(".")
    shards = [f"{stem}-0000{i}-of-00003.{suffix}" for i in (1, 2, 3)]
    assert sorted(os.listdir(tmp_path)) == sorted([*shards, f"{name}.index.json"])  # the single file is gone
    index = json.loads((tmp_path / f"{name}.index.json").read_text())
    assert index["metadata"] == {"total_size": 8 * 34 + 2}
    assert index["weight_map"] == dict(
        zip(("a.w", "a.b", "c", "d", "e"), [shards[i] for i in (0, 0, 1, 2, 2)], strict=True)
    )
    for place in (tmp_path, tmp_path / f"{name}.index.json"):
        back = weights.load(place)
        assert list(back) == ["a.w", "a.b", "c", "d", "e"]
        np.testing.assert_array_equal(back["a.w"], tree["a"]["w"])
        assert back["d"].dtype == np.int8 and back["e"] == 1
    weights.save(path, tree, max_shard_size=200)
    assert len(os.listdir(tmp_path)) == 3  # the three shards of before are gone
    np.testing.assert_array_equal(weights.load(tmp_path)["c"], tree["c"])
    weights.save(path, tree, max_shard_size=10**6)
    np.testing.assert_array_equal(weights.load(path)["c"], tree["c"])
    with pytest.raises(ValueError, match="max_shard_size is out of range; expected a number of bytes above 0, got 0"):
        weights.save(path, tree, max_shard_size=0)


def test_an_index_that_is_broken_or_leads_away(tmp_path):
    path = tmp_path / "model.safetensors"
    weights.save(path, {"a": np.ones(4), "b": np.ones(4)}, max_shard_size=32)
    index = tmp_path / "model.safetensors.index.json"
    good = json.loads(index.read_text())["weight_map"]
    for error, text, content in (
        (ValueError, "the file is not JSON", "{"),
        (ValueError, "the file is not JSON", "[" * 100_000),
        (ValueError, "the file is not an index of shards", "[]"),
        (ValueError, "the file is not an index of shards", '{"weight_map": {"a": 1}}'),
        (weights.UnsafeFileError, "is outside of the folder", '{"weight_map": {"a": "../x.safetensors"}}'),
        (weights.UnsafeFileError, "is outside of the folder", '{"weight_map": {"a": "/etc/x.safetensors"}}'),
        (
            FileNotFoundError,
            "does not exist; expected all shards that model.safetensors.index.json lists",
            '{"weight_map": {"a": "other.safetensors"}}',
        ),
        (ValueError, r"lacks 'z'", json.dumps({"weight_map": good | {"z": good["a"]}})),
        (ValueError, r"suffix", '{"weight_map": {"a": "model.safetensors.index.json"}}'),
    ):
        index.write_text(content)
        with pytest.raises(error, match=text):
            weights.load(index)
    (tmp_path / good["a"]).write_bytes(b"")
    index.write_text(json.dumps({"weight_map": good}))
    with pytest.raises(ValueError, match=r"shard model-00001-of-00002.safetensors: .* got an empty file"):
        weights.load(index)
    weights.save(tmp_path / "list.pt", [1])
    index.write_text('{"weight_map": {"a": "list.pt"}}')
    with pytest.raises(ValueError, match=r"does not contain named arrays; expected \{name: array\}, got list"):
        weights.load(index)
    with pytest.raises(FileNotFoundError, match=r"contains no weights; expected model.safetensors or"):
        (tmp_path / "empty").mkdir()
        weights.load(tmp_path / "empty")


def test_shards_whose_write_dies_leave_the_old_ones(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    weights.save(path, {"a": np.ones(4), "b": np.ones(4)}, max_shard_size=32)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    write = safetensors_format.safetensors.numpy.save_file

    def full_at_the_second(arrays, part, metadata):
        if "b" in arrays:
            raise OSError(28, "No space left on device")
        write(arrays, part, metadata)

    monkeypatch.setattr(safetensors_format.safetensors.numpy, "save_file", full_at_the_second)
    with pytest.raises(OSError, match="No space left"):
        weights.save(path, {"a": np.zeros(4), "b": np.zeros(4)}, max_shard_size=32)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
