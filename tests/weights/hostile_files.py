"""Files that mean harm or are broken: {name: Case(suffix, bytes, error, what the message says)}."""

import io
import pickle
import struct
import tarfile
import zipfile

from tests.weights.hostile import (
    BROKEN,
    MAGIC,
    UNSAFE,
    Case,
    described,
    legacy,
    number,
    storage,
    tensor,
    tensors,
    text,
    zipped,
)
from tests.weights.hostile_pickles import MARK, PICKLES, imported, pickled, repeated

ONLY_ZIP: dict[str, tuple[bytes, str]] = {
    "a storage that is not there": (
        zipped(tensor(of=storage("../0")) + b"."),
        r"the storage '../0' is missing; expected it in the file",
    ),
    "a storage too long": (
        zipped(tensor(of=storage(count=5)) + b"."),
        r"too short; expected 5 elements of float32 \(20 bytes\), got 16 bytes",
    ),
    "a storage of 2^62": (
        zipped(tensor(of=storage(count=2**62)) + b"."),
        "too short; expected 4611686018427387904 elements",
    ),
    "more behind the pickle": (zipped(b"N.N."), "does not end with its pickle; expected no more bytes, got 2"),
    "a compressed bomb": (
        zipped(b"N.", {"x/data/1": bytes(10**7)}, zipfile.ZIP_DEFLATED),
        "compressed; expected uncompressed records",
    ),
    "a compressed pickle": (
        zipped(text("x" * 10**6) + b".", method=zipfile.ZIP_LZMA),
        "compressed; expected uncompressed records",
    ),
    "no data.pkl": (
        zipped(b"N.", pkl="x/other.pkl"),
        "expected one record <name>/data.pkl, got 0 such records among x/other.pkl",
    ),
    "data.pkl at the top": (zipped(b"N.", pkl="data.pkl"), "expected one record <name>/data.pkl, got 0"),
    "two data.pkl": (zipped(b"N.", {"y/data.pkl": b"N."}), "expected one record <name>/data.pkl, got 2"),
    "two archives": (
        zipped(b"N.") + zipped(b"N."),
        "is not at the start of the file, because bytes or another archive precede it",
    ),
    "bytes behind": (zipped(b"N.") + b"more", "4 bytes follow the end of the archive"),
    "a byte order of the middle": (
        zipped(b"N.", {"x/byteorder": b"middle"}),
        "byteorder is invalid; expected little or big, got b'middle'",
    ),
    "a gigabyte in the other byte order": (
        zipped(repeated() + b".", {"x/byteorder": b"big"}),
        r"the tensors must be copied .* needs too much memory; .*, got \d+ bytes",
    ),
    "no end of the archive": (zipped(b"N.")[:-22], "the zip archive is truncated or damaged"),
}


def edited(content: bytes, old: bytes, new: bytes, count: int = -1) -> bytes:
    assert old in content and len(old) == len(new)
    return content.replace(old, new, count)


def doubled() -> bytes:
    return edited(zipped(b"N.", {"x/data/1": b"two"}), b"x/data/1", b"x/data/0")


def encrypted() -> bytes:
    content = bytearray(zipped(b"N."))
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(sign) + at] |= 1
    return bytes(content)


def overlapping() -> bytes:
    """A record inside of another: the list points to a header in the middle of x/data/1."""
    plain = zipped(b"N.", {"x/data/2": b"four"})
    header = plain[plain.find(b"x/data/2") - 30 :][: 30 + 8 + 4]
    content = bytearray(zipped(b"N.", {"x/data/1": header, "x/data/2": b"four"}))
    entry = content.rfind(b"PK\x01\x02")
    content[entry + 42 : entry + 46] = struct.pack("<I", content.find(header))
    return bytes(content)


def past_the_end() -> bytes:
    content = bytearray(zipped(b"N."))
    second = content.find(b"PK\x01\x02", content.find(b"PK\x01\x02") + 4)
    content[second + 20 : second + 28] = struct.pack("<II", 2**31, 2**31)
    return bytes(content)


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    return out.getvalue()


CONTAINERS: dict[str, Case] = {
    **{f"zip: {key}": Case(".pt", zipped(content), error, said) for key, (content, error, said) in PICKLES.items()},
    **{
        f"old: {key}": Case(".pth", legacy(content.replace(b"tQ", b"NtQ")), error, said)
        for key, (content, error, said) in PICKLES.items()
        if key not in ("nothing", "no end", "a text that is none") and "2^" not in key
    },
    **{f"zip: {key}": Case(".bin", content, BROKEN, said) for key, (content, said) in ONLY_ZIP.items()},
    **{
        f"zip: a record called {bad!r}": Case(
            ".pt",
            edited(zipped(b"N.", {"#" * len(bad): b""}), b"#" * len(bad), bad.encode()),
            UNSAFE,
            "has a path outside of the archive",
        )
        for bad in ("../../etc/x", "/etc/passwd", "x/../../y", "c:/windows", "x/..\\..\\y")
    },
    "zip: TorchScript": Case(".pt", zipped(b"N.", {"x/constants.pkl": b"N."}), UNSAFE, "a TorchScript program"),
    "zip: two records of one name": Case(".pt", doubled(), BROKEN, "two records have the name 'x/data/0'"),
    "zip: encrypted": Case(".pt", encrypted(), BROKEN, "is encrypted"),
    "zip: overlapping records": Case(
        ".pt", overlapping(), BROKEN, "the record 'x/data/2' overlaps the previous record"
    ),
    "zip: a record past the end": Case(
        ".pt", past_the_end(), BROKEN, "is truncated; expected at least .* bytes, got a file of"
    ),
    "zip: another name inside": Case(
        ".pt", edited(zipped(b"N."), b"x/data/0", b"x/data/1", 1), BROKEN, "a different name in its own header"
    ),
    "zip: no header": Case(".pt", b"PK\x03\x04" + bytes(200), BROKEN, "the zip archive is truncated or damaged"),
    "old: another protocol": Case(
        ".pt", MAGIC.replace(b"M\xe9\x03", b"M\xea\x03"), BROKEN, "an unknown protocol version; expected 1001, got 1002"
    ),
    "old: keys that are no list": Case(
        ".pt", legacy(tensor(of=storage(legacy=True)) + b".", b"N."), BROKEN, "list of storages is invalid"
    ),
    "old: keys twice": Case(
        ".pt",
        legacy(tensor(of=storage(legacy=True)) + b".", b"](" + text("0") * 2 + b"e."),
        BROKEN,
        "list of storages is invalid",
    ),
    "old: keys that call": Case(
        ".pt", legacy(b"N.", imported("os.system", "x")), UNSAFE, "the name 'os.system' is not allowed"
    ),
    "old: another key": Case(
        ".pt",
        legacy(tensor(of=storage(legacy=True)) + b".", b"](" + text("1") + b"e."),
        BROKEN,
        "expected the same keys, got '0' in only one of them",
    ),
    "old: another count": Case(
        ".pt",
        legacy(tensor(of=storage(legacy=True)) + b".", storages=struct.pack("<q", 5) + bytes(20)),
        BROKEN,
        "does not match its pickle; expected 4 elements, got 5",
    ),
    "old: a negative count": Case(
        ".pt",
        legacy(tensor(of=storage(legacy=True)) + b".", storages=struct.pack("<q", -4) + bytes(20)),
        BROKEN,
        "expected 4 elements, got -4",
    ),
    "old: a storage of 2^62": Case(
        ".pt",
        legacy(tensor(of=storage(count=2**62, legacy=True)) + b".", storages=struct.pack("<q", 2**62)),
        BROKEN,
        "truncated in the storage '0'; expected at least",
    ),
    "old: bytes behind": Case(
        ".pt", legacy(tensor(of=storage(legacy=True)) + b".") + b"more", BROKEN, "4 bytes follow the last storage"
    ),
    "old: a view outside": Case(
        ".pt",
        legacy(
            tensor(of=storage(legacy=True).replace(b"NtQ", b"(" + text("v") + number(2) + number(3) + b"ttQ")) + b"."
        ),
        BROKEN,
        "a view of .* is too long; expected it to end at byte 16 at most, got byte 20",
    ),
    "tensors: a header of 2^60": Case(
        ".safetensors", struct.pack("<Q", 2**60) + b"{}" + bytes(100), BROKEN, "header too large"
    ),
    "tensors: a header of 2^39": Case(
        ".safetensors", struct.pack("<Q", 2**39) + b"{}" + bytes(100), BROKEN, "header too large"
    ),
    "tensors: a header past the end": Case(
        ".safetensors", struct.pack("<Q", 1000) + b"{}" + bytes(100), BROKEN, "not a complete safetensors file"
    ),
    "tensors: no JSON": Case(".safetensors", tensors(b"{]"), BROKEN, "invalid JSON in header"),
    "tensors: deep JSON": Case(".safetensors", tensors(b'{"a":' * 10**5), BROKEN, "recursion limit"),
    "tensors: overlapping": Case(
        ".safetensors",
        tensors({"a": described(), "b": described()}, bytes(4)),
        BROKEN,
        "invalid offset for tensor `[ab]`",
    ),
    "tensors: a hole": Case(
        ".safetensors", tensors({"a": described(ends=(4, 8))}, bytes(8)), BROKEN, "invalid offset for tensor `a`"
    ),
    "tensors: outside": Case(
        ".safetensors",
        tensors({"a": described(shape=(9,), ends=(0, 36))}, bytes(4)),
        BROKEN,
        "not fully covered",
    ),
    "tensors: backwards": Case(".safetensors", tensors({"a": described(ends=(4, 0))}, bytes(4)), BROKEN, "offset"),
    "tensors: sizes that do not match": Case(
        ".safetensors", tensors({"a": described(shape=(2,))}, bytes(4)), BROKEN, "invalid shape, data type, or offset"
    ),
    "tensors: sizes that overflow": Case(
        ".safetensors", tensors({"a": described(shape=(2**62, 4))}, bytes(4)), BROKEN, "overflow"
    ),
    "tensors: sizes that overflow around a 0": Case(
        ".safetensors", tensors({"a": described(shape=(2**62, 0), ends=(0, 0))}), BROKEN, "is too large"
    ),
    "tensors: a negative size": Case(
        ".safetensors", tensors({"a": described(shape=(-1,))}, bytes(4)), BROKEN, "invalid value: integer `-1`"
    ),
    "tensors: no such dtype": Case(
        ".safetensors", tensors({"a": described("F12")}, bytes(4)), BROKEN, "unknown variant `F12`"
    ),
    "tensors: half bytes": Case(
        ".safetensors",
        tensors({"a": described("F4", (8,))}, bytes(4)),
        BROKEN,
        "'a' has a dtype that numpy does not support; .* got F4",
    ),
    "tensors: a hundred dimensions": Case(
        ".safetensors", tensors({"a": described(shape=(1,) * 100)}, bytes(4)), BROKEN, "expected at most 64, got 100"
    ),
    "tensors: bytes behind": Case(".safetensors", tensors({"a": described()}, bytes(9)), BROKEN, "not fully covered"),
    "kind: a zip archive": Case(
        ".safetensors",
        zipped(b"N."),
        BROKEN,
        "the content does not match the suffix '.safetensors'; .* got a zip archive of torch.save. Rename it to .pt",
    ),
    "kind: the old format": Case(
        ".safetensors", legacy(b"N."), BROKEN, "got a torch file in the format before torch 1.6. Rename it to .pt"
    ),
    "kind: safetensors": Case(
        ".pt", tensors({"a": described()}, bytes(4)), BROKEN, "got a safetensors file. Rename it to .safetensors"
    ),
    "kind: a tar archive": Case(".pt", tar(), BROKEN, "a tar archive. torch wrote tar archives before version 0.1.10"),
    "kind: nothing": Case(".pt", b"", BROKEN, "got an empty file"),
    "kind: an empty archive": Case(".pt", b"PK\x05\x06" + bytes(18), BROKEN, "an empty zip archive"),
    **{
        f"zip: calls {dotted} beside weights": Case(
            ".pt",
            zipped(b"\x80\x02](" + tensor() + imported(dotted, MARK)[2:-1] + b"e."),
            UNSAFE,
            f"the name '{dotted}' is not allowed",
        )
        for dotted in ("os.mkdir", "posix.system", "builtins.eval", "subprocess.Popen", "torch.hub.load", "torch.load")
    },
    "kind: 123 tensors of GGUF": Case(
        ".safetensors", b"GGUF" + struct.pack("<IQQ", 3, 123, 5) + bytes(99), BROKEN, "a GGUF file, which is llama.cpp"
    ),
    "kind: HDF5 with a brace": Case(".safetensors", b"\x89HDF\r\n\x1a\n{" + bytes(99), BROKEN, "got an HDF5 file"),
    "kind: JSON with a brace": Case(".safetensors", b'{"name":{"a": 1}}', BROKEN, "got JSON text"),
    "kind: another archive": Case(
        ".safetensors", zipped(b"N.", pkl="x/other.pkl"), BROKEN, "a zip archive that torch.save"
    ),
    "kind: numpy's archive": Case(".pt", zipped(b"", pkl="a.npy"), BROKEN, "expected one record <name>/data.pkl"),
    "kind: a bare pickle": Case(".pt", pickle.dumps({"a": 1}), BROKEN, "a pickle that torch.save did not write"),
    "kind: a bare pickle that calls": Case(
        ".bin", pickled(exec, f"open('{MARK}', 'w')"), BROKEN, "a pickle that torch.save did not write"
    ),
    "kind: text": Case(".pth", b"hello", BROKEN, "an unknown format"),
    **{
        f"kind: {said}, {start[:12]!r}": Case(".bin", start + bytes(100), BROKEN, said)
        for start, said in (
            (b"\x1f\x8b", "a gzip file"),
            (b"BZh", "a bzip2 file"),
            (b"GGUF", "a GGUF file"),
            (b"\x89HDF\r\n", "an HDF5 file"),
            (b"\x93NUMPY", "a .npy file"),
            (b"version https://git-lfs", "a Git LFS pointer"),
            (b"<!DOCTYPE", "an HTML page"),
            (b"\n\n<HTML lang=de>", "an HTML page"),
            (b"\xef\xbb\xbf<!doctype html>", "an HTML page"),
            *((pickle.dumps(value, protocol), "pickle.dump") for value in ({"a": 1}, [1]) for protocol in range(6)),
        )
    },
}
