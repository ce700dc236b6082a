"""Files of torch read here and files of here read by torch: byte for byte, in both of torch's formats."""

import functools
import io
import pathlib
import struct
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from funcnet import weights
from funcnet.models import resnet
from tests.models import torch_resnet

FORMATS = {
    "zip": {},
    "old": {"_use_new_zipfile_serialization": False},
    **{f"protocol {n}": {"pickle_protocol": n} for n in (0, 1, 3, 4, 5)},
    **{f"old, protocol {n}": {"pickle_protocol": n, "_use_new_zipfile_serialization": False} for n in (0, 1, 3, 4, 5)},
}
DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
]


def raw(tensor):
    """The bytes of a tensor's elements in order."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def assert_equal(array, tensor):
    assert array.shape == tuple(tensor.shape) and str(tensor.dtype) == f"torch.{array.dtype}"
    assert np.ascontiguousarray(array).tobytes() == raw(tensor)


@pytest.fixture(params=FORMATS)
def save(request, tmp_path):
    """torch.save in one of its formats, then our load."""

    def write_and_read(tree):
        torch.save(tree, tmp_path / "x.pt", **FORMATS[request.param])
        return weights.load(tmp_path / "x.pt")

    return write_and_read


NETWORKS = {
    "two layers of LSTM in both directions": lambda: torch.nn.LSTM(5, 7, num_layers=2, bidirectional=True),
    "ResNet-18": torch_resnet.resnet18,
    "ResNet-50": torch_resnet.resnet50,
    "attention, half": lambda: torch.nn.TransformerEncoderLayer(8, 2).bfloat16(),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", NETWORKS)
@pytest.mark.parametrize("form", ["zip", "old"])
def test_state_dicts_go_there_and_back(which, form, tmp_path):
    torch.manual_seed(0)
    net = NETWORKS[which]()
    torch.save(net.state_dict(), tmp_path / "theirs.pth", **FORMATS[form])
    read = weights.load(tmp_path / "theirs.pth")
    assert list(read) == list(net.state_dict()) and read._metadata == net.state_dict()._metadata
    for name, tensor in net.state_dict().items():
        assert_equal(read[name], tensor)
    weights.save(tmp_path / "ours.pth", read)
    back = torch.load(tmp_path / "ours.pth", weights_only=True)
    assert back._metadata == net.state_dict()._metadata
    fresh = NETWORKS[which]()
    fresh.load_state_dict(back, strict=True)
    for (name, ours), theirs in zip(fresh.state_dict().items(), net.state_dict().values(), strict=True):
        assert raw(ours) == raw(theirs) and ours.dtype == theirs.dtype, name


@pytest.mark.parametrize("suffix", [".pt", ".bin"])
def test_a_net_of_ours_takes_torchs_file_and_torch_takes_its(suffix, tmp_path):
    theirs, ours = torch_resnet.resnet18(), resnet.resnet18()
    torch.save(theirs.state_dict(), tmp_path / f"theirs{suffix}", **FORMATS["old"])  # whose arrays are not aligned
    params, state = ours.load_state_dict(weights.load(tmp_path / f"theirs{suffix}"))
    weights.save(tmp_path / f"ours{suffix}", ours.state_dict(params, state))
    fresh = torch_resnet.resnet18()
    fresh.load_state_dict(torch.load(tmp_path / f"ours{suffix}", weights_only=True), strict=True)
    for a, b in zip(fresh.state_dict().values(), theirs.state_dict().values(), strict=True):
        assert raw(a) == raw(b) and a.dtype == b.dtype


def test_every_dtype_there(save):
    bits = torch.arange(32, dtype=torch.uint8)
    of = lambda dtype: (bits % 2 if dtype == torch.bool else bits).clone().view(dtype)  # torch saves bytes in one dtype
    tree = {str(dtype): of(dtype) for dtype in DTYPES}
    tree |= {f"{dtype} empty": torch.zeros(0, 3, dtype=dtype) for dtype in DTYPES}
    tree |= {f"{dtype} of no dimension": of(dtype)[1] for dtype in DTYPES}
    read = save(tree)
    for name, tensor in tree.items():
        assert_equal(read[name], tensor)
    assert read["torch.bfloat16"].dtype == ml_dtypes.bfloat16


def test_every_dtype_back(tmp_path):
    bits = np.arange(32, dtype=np.uint8)
    kinds = [getattr(ml_dtypes, str(d)[6:], None) or np.dtype(str(d)[6:]) for d in DTYPES]
    tree = {str(np.dtype(k)): (bits % 2 if k == np.bool_ else bits).view(k) for k in kinds}
    tree |= {f"{np.dtype(k)} empty": np.zeros((2, 0), k) for k in kinds}
    tree |= {f"{np.dtype(k)} of no dimension": (bits[16:] % 2).view(k)[0] for k in kinds}
    weights.save(tmp_path / "x.pt", tree)
    for mmap in (False, True):
        read = torch.load(tmp_path / "x.pt", weights_only=True, mmap=mmap)
        assert list(read) == list(tree)
        for name, array in tree.items():
            assert_equal(np.asarray(array), read[name])


def test_views_strides_and_what_is_shared(save):
    whole = torch.arange(120.0).reshape(4, 5, 6)
    tree = [
        *(whole, whole[1], whole[:, 2, 1:5:2], whole.permute(2, 0, 1), whole[3, 4, 5], whole[2:, 3:3], whole.mT),
        *(torch.ones(1, 3).expand(5, 3), torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last), whole[::2]),
    ]
    read = save(tree)
    for array, tensor in zip(read, tree, strict=True):
        assert_equal(array, tensor)
        assert not array.size or array.strides == tuple(s * tensor.itemsize for s in tensor.stride())
    assert np.shares_memory(read[0], read[1]) and np.shares_memory(read[0], read[3])
    assert not any(array.flags.writeable for array in read)


def test_tensors_with_flags_and_attributes(save):
    parameter = torch.nn.Parameter(torch.ones(2))
    with_state = torch.nn.Parameter(torch.arange(3.0))
    with_state.tag = "kept in torch alone"
    tagged = torch.zeros(2)
    tagged.tag = 1
    numbers = torch.tensor([1 + 2j, 3 - 1j])
    for tensor in (parameter, with_state, tagged, numbers.conj(), numbers.conj().imag, numbers.imag):
        assert_equal(save(tensor), tensor)


def test_plain_data(save):
    tree = {
        "numbers": [0, 1, 255, 256, 65536, -1, 2**31, -(2**70), 0.5, float("inf"), 1 - 2j, True, False, None],
        "texts": ["", "é", "x" * 300, b"", b"\xff\x00", bytearray(b"ab"), bytearray()],
        "many": list(range(2500)),
        "nested": {"t": (), "u": (1, (2, [3])), 3: {"l": []}, ("k", 1): {1, 2}, "f": frozenset({1})},
        "ordered": OrderedDict(b=1, a=OrderedDict()),
        "counter": Counter("aab"),
        "twice": [same := [1, 2], same],
    }
    read = save(tree)
    assert read == tree and type(read["counter"]) is Counter and list(read["ordered"]) == ["b", "a"]
    assert read["twice"][0] is read["twice"][1]
    kinds = save({"d": torch.float16, "b": torch.bfloat16, "s": torch.Size([2, 3]), "v": torch.device("cuda", 1)})
    assert kinds == {"d": np.float16, "b": ml_dtypes.bfloat16, "s": (2, 3), "v": "cuda:1"}


def test_plain_data_back(tmp_path):
    tree = {
        "numbers": [0, -1, 2**31, -(2**70), 0.5, 1 - 2j, True, None],
        "texts": ["é\ud800", b"\xff", bytearray(b"x")],
        "nested": [(1, (2,)), {3}, {("k", 1): {}}, OrderedDict(a=[])],
        "d": np.dtype(np.float16),
        "keys": {None: 0, 2j: 1, b"k": 2},
    }
    weights.save(tmp_path / "x.pt", tree)
    read = torch.load(tmp_path / "x.pt", weights_only=True)
    assert read["d"] == torch.float16
    assert {**read, "d": 0} == {**tree, "d": 0} and type(read["nested"][3]) is OrderedDict


def test_tied_weights_stay_one_storage(tmp_path):
    array = jnp.ones(3)
    weights.save(tmp_path / "x.pt", {"a": array, "b": array, "c": jnp.ones(3)})
    read = torch.load(tmp_path / "x.pt", weights_only=True)
    assert read["a"].data_ptr() == read["b"].data_ptr() != read["c"].data_ptr()
    back = weights.load(tmp_path / "x.pt")
    assert np.shares_memory(back["a"], back["b"]) and not np.shares_memory(back["a"], back["c"])


def test_the_other_byte_order(tmp_path):
    """As a big-endian machine writes: its own bytes, and a record that says so."""
    tree = {str(d): torch.arange(1, 17, dtype=torch.uint8).view(d) for d in DTYPES[:6]}
    plain, turned = io.BytesIO(), tmp_path / "x.pt"
    torch.save(tree, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(turned, "w") as target:
        for record in source.namelist():
            data = b"big" if record.endswith("byteorder") else source.read(record)
            if "/data/" in record:
                size = [8, 4, 2, 2, 4, 8][int(record.rpartition("/")[2])]
                data = np.frombuffer(data, f">u{size}").astype(f"<u{size}").tobytes()
            target.writestr(record, data)
    read, theirs = weights.load(turned), torch.load(turned, weights_only=True)
    for name, tensor in tree.items():
        assert_equal(read[name], tensor)
        assert_equal(read[name], theirs[name])


def test_tensors_of_old_pytorch(tmp_path):
    """_rebuild_tensor of 0.3 and before, with views of storages and texts of Python 2."""
    from tests.weights.hostile import call, legacy, number, numbers

    old = lambda view: b"(U\x07storagectorch.cuda\nFloatStorage\nU\x010U\x06cuda:0" + number(4) + view + b"tQ"
    view = b"(U\x01v" + number(1) + number(3) + b"t"
    pickled = b"\x80\x02](" + b"".join(
        call("torch._utils._rebuild_tensor", old(part), number(start), numbers(n), numbers(1))
        for part, start, n in ((b"N", 0, 4), (view, 0, 3), (view, 1, 2))
    ) + b"e."  # fmt: skip
    storages = struct.pack("<q4f", 4, 0, 1, 2, 3)
    (tmp_path / "x.pth").write_bytes(legacy(pickled, storages=storages))
    assert [array.tolist() for array in weights.load(tmp_path / "x.pth")] == [[0, 1, 2, 3], [1, 2, 3], [2, 3]]
    theirs = torch.load(tmp_path / "x.pth", weights_only=True, map_location="cpu")
    assert [tensor.tolist() for tensor in theirs] == [[0, 1, 2, 3], [1, 2, 3], [2, 3]]


@pytest.mark.parametrize("form", ["zip", "old"])
def test_what_torch_saves_beyond_plain_data_is_refused(form, tmp_path):
    path = tmp_path / "x.pt"
    quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    for value, text in (
        (torch.nn.Linear(2, 2), r"'torch.nn.modules.linear.Linear'.*save its state_dict\(\)"),
        (torch.eye(2).to_sparse(), r"_rebuild_sparse_tensor.*numpy does not support. Save x.to_dense"),
        (quantized, "quantized"),
        (torch.ones(2, device="meta"), "no values"),
        (torch.ones(2, dtype=torch.complex32), "half-precision complex numbers"),
        (np.ones(2), "a pickled numpy object"),
        (np.float64(1), "a pickled numpy object"),
        (functools.partial(int), "functools.partial"),
        (slice(1), "builtins.slice"),
        (pathlib.PurePosixPath("x"), "pathlib.PurePosixPath"),
    ):
        torch.save({"x": value}, path, **FORMATS[form])
        with pytest.raises(weights.UnsafeFileError, match=text):
            weights.load(path)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    with pytest.raises(weights.UnsafeFileError, match="a TorchScript program"):
        weights.load(path)


def test_bins_of_shards_as_transformers_wrote_them(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    sd = net.state_dict()
    names = {name: f"pytorch_model-0000{1 + int(name[0])}-of-00002.bin" for name in sd}
    for file in set(names.values()):
        torch.save({name: sd[name] for name in sd if names[name] == file}, tmp_path / file)
    (tmp_path / "pytorch_model.bin.index.json").write_text(
        f'{{"metadata": {{"total_size": 52}}, "weight_map": {str(names).replace(chr(39), chr(34))}}}'
    )
    read = weights.load(tmp_path)
    assert list(read) == list(sd)
    for name, tensor in sd.items():
        assert_equal(read[name], tensor)


MEASURE = """
import sys
import numpy as np
from pathlib import Path
from funcnet import weights

def resident(which="VmRSS:"):
    return int(Path("/proc/self/status").read_text().split(which)[1].split()[0]) / 1024

before = resident()
tree = weights.load(sys.argv[1])
opened = resident()
assert tree["3"].sum() == 3 * tree["3"].size
one = resident()
assert all(tree[str(i)].sum() == i * tree[str(i)].size for i in range(20))
print(opened - before, one - before, resident() - before, resident("VmHWM:") - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zip", "old", "safetensors", "shards"])
def test_a_gigabyte_is_not_copied(form, tmp_path):
    """20 tensors of 50 MB. Opening and reading one takes less than 100 MB, reading all less than 1.2 times the file."""
    tensors = {str(i): torch.full((5, 2_621_440), float(i)) for i in range(20)}
    path = tmp_path / ("x.safetensors" if form in ("safetensors", "shards") else "x.pt")
    if path.suffix == ".pt":
        torch.save(tensors, path, **FORMATS[form])
    else:
        limit = 2 * 10**8 if form == "shards" else None
        weights.save(path, {name: tensor.numpy() for name, tensor in tensors.items()}, max_shard_size=limit)
    target = path if path.exists() else path.with_name("x.safetensors.index.json")
    done = subprocess.run([sys.executable, "-c", MEASURE, str(target)], capture_output=True, text=True, check=True)
    opened, one, whole, peak = map(float, done.stdout.split())
    assert opened < 20 and one < 100 and whole < 1.2 * 1000 and peak < 1.2 * 1000, done.stdout


@pytest.mark.slow
def test_records_of_more_than_four_gigabytes(tmp_path):
    """Where zip archives change their headers (zip64)."""
    path = tmp_path / "x.pt"
    large = np.zeros((2**32 // 4 + 5,), np.float32)
    large[[0, -1]] = 1, 2
    weights.save(path, {"large": large, "behind": np.arange(3.0)})
    for read in (weights.load(path), torch.load(path, weights_only=True, mmap=True)):
        assert len(read["large"]) == len(large) and float(read["large"][-1]) == 2 and float(read["large"][0]) == 1
        assert read["behind"].tolist() == [0, 1, 2]
    del large
    del read


def test_torch_is_not_needed(tmp_path):
    """The whole way with torch made unimportable."""
    path = str(tmp_path / "x.pt")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np; from funcnet import weights\n"
        f"weights.save({path!r}, {{'a': np.ones(2)}}); print(weights.load({path!r}))"
    )
    assert (
        "array([1., 1.])"
        in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def test_random_trees_go_there_and_back(tmp_path):
    rng = np.random.default_rng(0)

    def draw(depth):
        kind = rng.integers(0, 7 if depth else 4)
        if kind == 0:
            shape = tuple(rng.integers(0, 4, rng.integers(0, 4)))
            return torch.from_numpy(rng.normal(size=shape)).to(DTYPES[rng.integers(0, 4)])
        if kind < 4:
            return [int(rng.integers(-(2**62), 2**62)), "é" * int(rng.integers(0, 400)), float(rng.normal())][kind - 1]
        items = [draw(depth - 1) for _ in range(rng.integers(0, 5))]
        return [items, tuple(items), {f"k{i}": item for i, item in enumerate(items)}][kind - 4]

    def same(array, tensor):
        if isinstance(tensor, torch.Tensor):
            assert_equal(array, tensor)
        elif isinstance(tensor, list | tuple):
            assert type(array) is type(tensor) and len(array) == len(tensor)
            for a, b in zip(array, tensor, strict=True):
                same(a, b)
        elif isinstance(tensor, dict):
            same(list(array.items()), list(tensor.items()))
        else:
            assert array == tensor

    for number in range(40):
        tree = draw(4)
        torch.save(tree, tmp_path / "a.pt", **list(FORMATS.values())[number % len(FORMATS)])
        read = weights.load(tmp_path / "a.pt")
        same(read, tree)
        weights.save(tmp_path / "b.pt", read)
        same(read, torch.load(tmp_path / "b.pt", weights_only=True))
