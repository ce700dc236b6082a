"""TensorFlow's checkpoints: every dtype that TensorFlow wrote; and files that are cut, flipped, or made to hurt.

`scripts/fixtures/make_tensorflow_checkpoint.py` wrote the folder that is read here. Indices that TensorFlow would not
write are made by the small writer below.
"""

import shutil
import struct
import tracemalloc
from pathlib import Path

import google_crc32c
import ml_dtypes
import numpy as np
import pyarrow
import pytest

from funcnet import weights

FOLDER = Path(__file__).parent / "tensorflow_checkpoint"
NAME = "every_kind.ckpt"
KINDS = ["float32", "float64", "float16", "bfloat16", "complex64", "complex128", "bool"]
KINDS += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.fixture
def copy(tmp_path):
    for file in FOLDER.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / NAME


def index_of(path):
    return path.with_name(f"{path.name}.index")


def data_of(path):
    return path.with_name(f"{path.name}.data-00000-of-00001")


# ------------------------------------------------------------------------------------------------------ a small writer


def varint(n):
    out = b""
    while n >= 128:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def masked(data):
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def block(entries, kind=0, whole=None):
    """A block of (shared, key's rest, value), with its trailer."""
    body = whole
    if body is None:
        body = b"".join(varint(s) + varint(len(k)) + varint(len(v)) + k + v for s, k, v in entries)
        body += struct.pack("<II", 0, 1)
    if kind == 1:
        body = pyarrow.compress(body, codec="snappy", asbytes=True)
    return body + bytes([kind]) + struct.pack("<I", masked(body + bytes([kind])))


def table(*blocks, places=None):
    """A table of such blocks; `places` in the place of those at which they lie."""
    data, handles = b"".join(blocks), []
    for i in range(len(blocks)):
        start = sum(map(len, blocks[:i]))
        handles.append((start, len(blocks[i]) - 5))
    index = block([(0, bytes([i + 1]), varint(a) + varint(b)) for i, (a, b) in enumerate(places or handles)])
    footer = varint(0) + varint(0) + varint(len(data)) + varint(len(index) - 5)
    return data + index + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def entry(dtype=1, shape=(2,), shard=0, offset=0, size=8, crc=0, more=b""):
    dims = b"".join(field(2, field(1, n)) for n in shape)
    fixed = varint(6 << 3 | 5) + struct.pack("<I", crc)
    return field(1, dtype) + field(2, dims) + field(3, shard) + field(4, offset) + field(5, size) + fixed + more


HEADER = (0, b"", field(1, 1))


def written(tmp_path, index, data=b"\0" * 64):
    path = tmp_path / "made.ckpt"
    index_of(path).write_bytes(index)
    data_of(path).write_bytes(data)
    return path


# ----------------------------------------------------------------------------------------------------- what is read


@pytest.mark.parametrize("kind", KINDS)
def test_every_dtype(kind):
    expected = np.load(FOLDER / "expected.npz")["values"]
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    array = weights.load(FOLDER / NAME)[kind]
    assert array.dtype == dtype and not array.flags.writeable
    np.testing.assert_array_equal(array, (expected % 2 if kind == "bool" else expected).astype(dtype))


def test_a_scalar_an_empty_tensor_and_what_is_not_read():
    file = weights.load(FOLDER / f"{NAME}.index")
    assert file["scalar"].shape == () and file["scalar"] == 2.5
    assert file["empty"].shape == (0, 4)
    assert set(file) == {*KINDS, "scalar", "empty", "texts", "sliced"}
    with pytest.raises(
        ValueError, match=r"every_kind\.ckpt: 'texts' does not contain numbers; expected a numeric dtype, got strings"
    ):
        file["texts"]
    with pytest.raises(ValueError, match=r"'sliced' is stored in 2 slices; expected a complete tensor"):
        file["sliced"]


def test_a_name_is_found_only_where_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.index does not exist"):
        weights.load(tmp_path / "nowhere.index")
    with pytest.raises(KeyError):
        weights.load(FOLDER / NAME)["nothing"]


def test_packed_blocks_shared_beginnings_and_several_data_files(tmp_path):
    """As TensorFlow 1 wrote indices: Snappy, keys told by what they share with the one before."""
    values = [np.arange(2, dtype=np.float32), np.ones(2, np.float32), np.full(2, 7, np.float32)]
    crcs = [masked(v.tobytes()) for v in values]
    first = [(0, b"", field(1, 2)), (0, b"layer/bias", entry(crc=crcs[0]))]
    second = [(0, b"layer/kernel", entry(shard=1, crc=crcs[1])), (6, b"width", entry(shard=1, offset=8, crc=crcs[2]))]
    index = table(block(first, kind=1), block(second, kind=1))
    path = written(tmp_path, index)
    for shard, data in enumerate((values[0].tobytes(), values[1].tobytes() + values[2].tobytes())):
        path.with_name(f"made.ckpt.data-{shard:05}-of-00002").write_bytes(data)
    file = weights.load(path)
    for name, value in zip(("layer/bias", "layer/kernel", "layer/width"), values, strict=True):
        np.testing.assert_array_equal(file[name], value)
    path.with_name("made.ckpt.data-00001-of-00002").unlink()
    np.testing.assert_array_equal(file["layer/bias"], values[0])
    with pytest.raises(
        FileNotFoundError, match=r"data-00001-of-00002 does not exist; expected all data files that the index lists"
    ):
        weights.load(path)["layer/kernel"]


def test_big_endian_data(tmp_path):
    data = np.array([1.5, -2], ">f4").tobytes()
    header = (0, b"", field(1, 1) + field(2, 1))
    path = written(tmp_path, table(block([header, (0, b"x", entry(crc=masked(data)))])), data)
    np.testing.assert_array_equal(weights.load(path)["x"], np.array([1.5, -2], np.float32))


def test_arrays_are_views_and_reading_costs_no_memory(tmp_path):
    data = np.arange(2**22, dtype=np.float32).tobytes()
    crc = masked(data)
    index = table(block([HEADER, (0, b"x", entry(shape=(2**22,), size=len(data), crc=crc))]))
    path = written(tmp_path, index, data)
    tracemalloc.start()
    array = weights.load(path)["x"]
    assert tracemalloc.get_traced_memory()[1] < 2**22  # of 2**24
    tracemalloc.stop()
    assert array[-1] == 2**22 - 1


# --------------------------------------------------------------------------------------------------- what is refused


def test_every_cut_of_the_index_is_refused_by_name(copy):
    whole = index_of(copy).read_bytes()
    for length in range(len(whole)):
        index_of(copy).write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"every_kind\.ckpt: the index has the wrong last eight bytes.*truncated"):
            weights.load(copy)


@pytest.mark.slow
def test_every_flipped_byte_is_noticed(copy):
    """In the index when it is opened, in the data when the tensor is looked up."""
    index, data = index_of(copy).read_bytes(), data_of(copy).read_bytes()
    expected = readable(weights.load(copy))
    unnoticed = []
    for place in range(len(index)):
        index_of(copy).write_bytes(index[:place] + bytes([index[place] ^ 0x40]) + index[place + 1 :])
        try:
            found = readable(weights.load(copy))
        except ValueError:
            continue
        unnoticed.append(place)
        assert all(np.array_equal(found[name], array) for name, array in expected.items())
    assert len(unnoticed) <= 13 + 48  # a block that nobody uses, and the footer's padding
    index_of(copy).write_bytes(index)
    numbers = sum(array.nbytes for array in expected.values())
    noticed = 0
    for place in range(len(data)):
        data_of(copy).write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        file = weights.load(copy)
        for name in expected:
            try:
                file[name]
            except ValueError as error:
                assert "is damaged; expected the" in str(error)
                noticed += 1
    assert noticed == numbers


def readable(file):
    return {name: np.array(file[name]) for name in file if name not in ("texts", "sliced")}


def test_a_cut_data_file(copy):
    whole = data_of(copy).read_bytes()
    data_of(copy).write_bytes(whole[:20])
    with pytest.raises(ValueError, match=r"'float64' lies outside of its data file.*truncated; expected at least"):
        weights.load(copy)["float64"]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (table(block([(0, b"x", entry())])), "has no header; expected the number of data files"),
        (
            table(block([(0, b"", field(1, 0))])),
            "the number of data files is out of range; expected 1 to 100000, got 0",
        ),
        (table(block([(0, b"", field(1, b"x"))])), "field 1 of a message in the index is not a number"),
        (table(block([(0, b"", b"\x0b")])), "the header of the index is damaged; .* got wire type 3"),
        (table(block([(0, b"", b"\x08")])), "the header of the index ends too early; expected 1 more bytes, got 0"),
        (table(block([(0, b"", b"\x08" + b"\xff" * 11)])), "contains a number that is too long; expected at most 10"),
        (
            table(block([HEADER, (0, b"\xff", entry())])),
            "a name that is not UTF-8; expected UTF-8 text, got b'\\\\xff'",
        ),
        (table(block([HEADER, (1, b"x", entry())])), "a name in the index is invalid"),
        (table(block([HEADER, (0, b"x" * 5000, entry())])), "a name in the index is invalid; .* 4096 bytes, got 5000"),
        (table(block([HEADER, (0, b"x", entry(shape=[1] * 255))])), "'x' has too many dimensions; .* 254, got 255"),
        (
            table(block([HEADER, (0, b"x", field(2, 3))])),
            "the entry of 'x' of the index is damaged; expected a nested message",
        ),
        (
            table(block([HEADER, (0, b"b", entry()), (0, b"a", entry())])),
            "names of the index are out of order; .* got b'a' after b'b'",
        ),
        (table(block([HEADER]), places=[(0, 10_000)]), "a block lies outside of the index, .* got one at 0 with 10000"),
        (table(block([HEADER]), places=[(0, 9), (0, 9)]), "got a different one|overlap"),
        (
            table(block([HEADER]), block([HEADER]), places=[(0, len(block([HEADER])) - 5)] * 2),
            "the blocks of the index overlap",
        ),
        (table(block([], whole=b"ab")), "is too short; expected at least 4 bytes, got 2"),
        (
            table(block([], whole=b"\0\0\0\0" + struct.pack("<I", 1))),
            "damaged; expected its entries to end at byte|has no header",
        ),
        (
            table(block([], whole=b"\0\0\7" + struct.pack("<II", 0, 1))),
            "the block at 0 of the index is damaged; expected its entries to end at byte 3",
        ),
        (table(block([HEADER], kind=2)), "an unknown compression; expected 0 or 1, got 2"),
        (table(block([], whole=b"\xff\xff\xff\xff\x0f" + b"x" * 9)[:-5] + b"\1" + b"\0" * 4), "got a different one"),
    ],
    ids=lambda value: value if isinstance(value, str) else "index",
)
def test_indices_that_are_refused(tmp_path, index, message):
    with pytest.raises(ValueError, match=rf"weights\.load: .*made\.ckpt: .*({message})"):
        weights.load(written(tmp_path, index))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (entry(shard=3), "a tensor is in an unknown data file; expected a file number below 1, got 3"),
        (entry(offset=60), "'x' lies outside of its data file"),
        (entry(shape=(3,)), r"'x' has the wrong size; expected 12 bytes for shape \(3,\) of float32, got 8"),
        (entry(shape=(2**40, 2**40), size=8), r"'x' has the wrong size; expected \d+ bytes for shape .*, got 8"),
        (entry(dtype=15), "'x' does not contain numbers; expected a numeric dtype, got TensorFlow's dtype number 15"),
        (entry(crc=1), "'x' is damaged; expected the"),
    ],
)
def test_tensors_that_are_refused(tmp_path, value, message):
    file = weights.load(written(tmp_path, table(block([HEADER, (0, b"x", value)]))))
    with pytest.raises(ValueError, match=rf"weights\.load: .*made\.ckpt: {message}"):
        file["x"]


def test_negative_sizes(tmp_path):
    path = written(tmp_path, table(block([HEADER, (0, b"x", entry(shape=(2**64 - 1,)))])))
    with pytest.raises(ValueError, match=r"the entry of 'x' has invalid sizes; expected numbers from 0"):
        weights.load(path)


def test_small_files_cannot_take_a_large_memory(tmp_path):
    names = [
        (0, b"a" * 4000, b""),
        *((3990, bytes([97 + i // 676, 97 + i // 26 % 26, 97 + i % 26]) * 3, b"") for i in range(1, 9000)),
    ]
    bombs = {
        "names": table(block([HEADER, *names])),
        "Snappy": table(snappy_bomb(2**31)),
        "Snappy, cut": table(snappy_bomb(2**16)),
    }
    tracemalloc.start()
    for kind, index in bombs.items():
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        match = "cannot be decompressed; expected Snappy" if "cut" in kind else "needs far more memory than its size"
        with pytest.raises(ValueError, match=match):
            weights.load(written(tmp_path, index))
        assert tracemalloc.get_traced_memory()[1] - before < 2**24, kind
    tracemalloc.stop()


def snappy_bomb(size):
    """A block that says it unpacks to `size` bytes."""
    body = varint(size) + b"\x00a" + b"\xfe\x01\x00" * 100
    return body + b"\1" + struct.pack("<I", masked(body + b"\1"))


def test_an_index_past_any_length(tmp_path):
    path = written(tmp_path, b"")
    with open(index_of(path), "r+b") as file:
        file.truncate(2**26 + 1)
    with pytest.raises(ValueError, match=r"the index is too long; expected at most 67108864 bytes, got 67108865"):
        weights.load(path)
