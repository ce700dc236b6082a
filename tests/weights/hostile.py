"""Writers of pickles and of their containers, byte by byte, for `hostile_pickles.py` and `hostile_files.py`.

    python -m tests.weights.hostile FOLDER

loads every file of a folder under a bound on memory and prints what came of it.
"""

import io
import json
import struct
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

from funcnet import weights

UNSAFE, BROKEN = weights.UnsafeFileError, ValueError
HOOKS = b"\x89ccollections\nOrderedDict\n)R"  # requires_grad, backward_hooks
MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00."


class Case(NamedTuple):
    suffix: str
    content: bytes
    error: type
    text: str  # a regular expression of what the message says


# Writers of pickles


def text(value: str) -> bytes:
    return struct.pack("<cI", b"X", len(value.encode())) + value.encode()


def name(dotted: str) -> bytes:
    module, _, last = dotted.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def number(value: int) -> bytes:
    return b"\x8a\x10" + value.to_bytes(16, "little", signed=True)


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(map(number, values)) + b"t"


def call(dotted: str, *args: bytes) -> bytes:
    return name(dotted) + b"(" + b"".join(args) + b"tR"


def storage(key: str = "0", count: int = 4, kind: str = "torch.FloatStorage", legacy: bool = False) -> bytes:
    return b"(" + text("storage") + name(kind) + text(key) + text("cpu") + number(count) + b"N" * legacy + b"tQ"


def tensor(size=(4,), stride=(1,), offset=0, of: bytes | None = None, rest: bytes = HOOKS) -> bytes:
    of = storage() if of is None else of
    return call("torch._utils._rebuild_tensor_v2", of, number(offset), numbers(*size), numbers(*stride), rest)


# The containers


def zipped(content: bytes, more: dict[str, bytes] | None = None, method: int = 0, pkl: str = "x/data.pkl") -> bytes:
    """A pickle and a storage of 16 bytes; `method` is one of zipfile's."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for record, data in {pkl: content, "x/data/0": bytes(16), **(more or {})}.items():
            archive.writestr(record, data)
    return out.getvalue()


def legacy(content: bytes, keys: bytes = b"](" + text("0") + b"e.", storages: bytes | None = None) -> bytes:
    storages = struct.pack("<q", 4) + bytes(16) if storages is None else storages
    return MAGIC + content + b"\x80\x02" + keys + storages


def tensors(header: object, data: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def described(dtype: str = "F32", shape: tuple = (1,), ends: tuple = (0, 4)) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(ends)}


def outcome(path: Path) -> tuple[str, str]:
    """(the error's class, what it says); its class is '' where the file was loaded."""
    try:
        return "", repr(weights.load(path))[:200]
    except Exception as error:
        return type(error).__name__, str(error)


if __name__ == "__main__":
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**28
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    peak = lambda: int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    before = peak()
    outcomes = {path.name: outcome(path) for path in sorted(Path(sys.argv[1]).iterdir())}
    print(json.dumps({"grown_kilobytes": peak() - before, "outcomes": outcomes}))
