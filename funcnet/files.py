"""Write files so that they are either complete or absent, even if the process is killed.

Other functions of this module lock a folder for one process, read JSON files, and check the digests of files.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "DIGESTS",
    "bytes_digest",
    "check_digests",
    "check_json",
    "file_digest",
    "json_digest",
    "lock_folder",
    "parse_json",
    "read_json",
    "replacing",
    "require_folder",
    "require_new",
    "require_other",
    "sync",
    "write_bytes",
    "write_digests",
    "write_json",
    "wrong_json",
]

POLL = 0.2  # seconds between attempts to lock a folder
DIGESTS = "digests.json"
"""The file in a folder that has the SHA-256 of all others."""


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Return a context manager that yields a temporary path in the folder of `path`.

    When the block ends without an error, the file at the temporary path replaces `path`.

    The bytes are on the disk before the file is renamed (fsync, rename, fsync of the directory). After a crash, `path`
    is therefore either the old file or the new one. If `path` is a device or a pipe, the temporary path is `path`
    itself.

    Raises:
        OSError: if the directory does not exist or cannot be written, or the disk is full. `path` is unchanged.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(pathlib.Path(folder, "a.txt")) as part:
        ...         _ = part.write_text("whole")
        ...     [file.name for file in pathlib.Path(folder).iterdir()]
        ['a.txt']
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a device such as /dev/null, or a pipe
        yield path
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.touch()
        mode = part.stat().st_mode  # follows the umask, whereas some writers make files that only the owner can read
        yield part
        part.chmod(mode)
        sync(part)
        os.replace(part, path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def lock_folder(folder: str | Path, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Lock a folder while the block runs. Another process that locks the same folder waits or gets an error.

    The operating system locks the folder itself, so the lock leaves no file and ends with the process. On Windows and
    some network file systems, which do not support such locks, this function locks nothing.

    Args:
        folder: an existing folder.
        waiting: function that is called several times a second while another process holds the lock. If None, an error
            is raised instead of waiting.

    Raises:
        BlockingIOError: if another process holds the lock and `waiting` is None. Its message is the operating system's,
            so the caller should catch the error and raise one with a better message.
        OSError: if the folder does not exist.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, lock_folder(folder), lock_folder(folder):
        ...     pass
        Traceback (most recent call last):
        BlockingIOError: ...
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waiting is None:
                    raise
                waiting()
                time.sleep(POLL)
            except OSError:  # locks are not supported
                break
        yield
    finally:
        os.close(handle)


def require_folder(path: str | Path, where: str) -> None:
    """Check before a long computation that its result can be written to `path`.

    Args:
        path: the file to write.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        OSError: if the folder of `path` does not exist, or `path` is a folder.

    Example:
        >>> require_folder("no/such/file.csv", "predict: --out")
        Traceback (most recent call last):
        FileNotFoundError: predict: --out no/such/file.csv; expected a file in an existing folder. ...
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{where} {path}; expected a file, got a folder.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{where} {path}; expected a file in an existing folder. Create {path.parent} first.")


def require_new(path: str | Path, where: str) -> None:
    """Raise an error if there is a file at `path`, so that no file is replaced.

    Args:
        path: the file to write.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        FileExistsError: if `path` is a file. Folders and devices do not count as files.

    Example:
        >>> require_new(__file__, "export: --out")
        Traceback (most recent call last):
        FileExistsError: export: --out ... exists; expected a new file, got an existing one. Delete it, or choose ...
    """
    if Path(path).is_file():
        raise FileExistsError(
            f"{where} {path} exists; expected a new file, got an existing one. Delete it, or choose another path."
        )


def require_other(path: str | Path, inputs: Iterable[str | Path], where: str) -> None:
    """Raise an error if `path` is one of the files in `inputs`, even under a different name or through a link.

    Args:
        path: the file to write.
        inputs: the files to read. They need not exist.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        ValueError: if `path` is one of `inputs` and is not a device.

    Example:
        >>> require_other(__file__, [__file__], "predict: --out")
        Traceback (most recent call last):
        ValueError: predict: --out ... is also an input file; expected a different file, got the same one.
    """
    if not Path(path).is_file():
        return
    for name in inputs:
        if os.path.exists(name) and os.path.samefile(path, name):
            raise ValueError(f"{where} {path} is also an input file; expected a different file, got the same one.")


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write bytes to `path`. The new file replaces the old one atomically.

    Raises:
        OSError: as `replacing`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_bytes(f"{folder}/model.bin", b"new")
        ...     Path(folder, "model.bin").read_bytes()
        b'new'
    """
    with replacing(path) as part:
        part.write_bytes(content)


def write_json(path: str | Path, value: object) -> None:
    """Write `value` as JSON to `path`. The new file replaces the old one atomically.

    Raises:
        OSError: as `replacing`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(f"{folder}/run.json", {"step": 3})
    ...     read_json(f"{folder}/run.json")
    {'step': 3}
    """
    with replacing(path) as part:
        part.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def check_json(value: object, name: str) -> None:
    """Check that a value is JSON, so that `read_json` returns what `write_json` writes, except for tuples, which become
    lists.

    Args:
        value: the value.
        name: name of the value, for error messages.

    Raises:
        TypeError: if the value contains something else, such as a numpy integer, or a key that is not a string. The
            message has the place in the value.

    Example:
        >>> check_json({"rows": [1, 2], "seed": None}, "position")
        >>> check_json({"rows": {1: 2}}, "position")
        Traceback (most recent call last):
        TypeError: position['rows'] has the key 1; expected strings as the keys of JSON, got int.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(
                    f"{name} has the key {key!r:.60}; expected strings as the keys of JSON, got {type(key).__name__}."
                )
    elif not isinstance(value, list | tuple | str | int | float | None):
        raise TypeError(
            f"{name} is not a JSON value; expected a dict, a list, a string, a number or None, got "
            f"{type(value).__name__}. Convert it."
        )
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, part in parts:
        check_json(part, f"{name}[{key!r}]")


def read_json(path: str | Path) -> Any | None:
    """Return the JSON value in a file, or None if the file is missing or is not JSON.

    >>> read_json(__file__) is None
    True
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # RecursionError for very deep nesting
        return None


def parse_json(path: str | Path, where: str) -> Any:
    """Return the JSON value in a file.

    Args:
        path: the file.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file is not JSON. The message names the file.

    >>> parse_json(__file__, "load")
    Traceback (most recent call last):
    ValueError: load: ...files.py is not valid JSON; expected a JSON object, got ...
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: {path} is not valid JSON; expected a JSON object, got '{error}'.") from None


def wrong_json(error: ValueError | RecursionError, line: int = 1) -> tuple[str, str]:
    """Return the position and the description of an error in JSON text that begins on line `line` of a file. The
    position has no character number if the error is a number that is too long, or nesting that is too deep.

    >>> wrong_json(json.JSONDecodeError("Expecting value", "[,]", 1), 7)
    ('line 7, character 2', 'Expecting value')
    """
    if isinstance(error, json.JSONDecodeError):
        return f"line {line + error.lineno - 1}, character {error.colno}", error.msg
    return f"line {line}", str(error)


def bytes_digest(content: bytes | memoryview) -> str:
    """Return the SHA-256 digest of bytes, as 64 hexadecimal digits.

    >>> bytes_digest(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(content).hexdigest()


def json_digest(value: object) -> str:
    """Return the SHA-256 digest of a JSON value. It does not depend on the order of keys.

    >>> json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})
    True
    """
    return bytes_digest(json.dumps(value, sort_keys=True).encode())


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 digest of a file.

    Raises:
        OSError: if the file cannot be read.

    >>> file_digest(__file__) == bytes_digest(Path(__file__).read_bytes())
    True
    """
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_digests(folder: str | Path, names: Iterable[str]) -> None:
    """Write the file `digests.json` in a folder, with the SHA-256 digests of other files in this folder.

    Args:
        folder: the folder of the files.
        names: names of the files to digest. A file that does not exist gets no entry in `digests.json`.

    Raises:
        OSError: if a file cannot be read, or the folder cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(f"{folder}/config.json", {})
    ...     write_digests(folder, ["config.json", "absent.json"])
    ...     list(read_json(f"{folder}/digests.json"))
    ['config.json']
    """
    folder = Path(folder)
    write_json(folder / DIGESTS, {name: file_digest(folder / name) for name in names if (folder / name).exists()})


def check_digests(folder: str | Path, where: str, names: Iterable[str] | None = None) -> None:
    """Raise an error if a file in the folder no longer has the digest that `write_digests` recorded.

    Args:
        folder: a folder. If the folder has no `digests.json`, nothing is checked.
        where: prefix for error messages, such as the name of the caller.
        names: the files to check. The default is all files in `digests.json`.

    Raises:
        ValueError: if a file is missing or has changed.
        OSError: if a file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(f"{folder}/digests.json", {"config.json": "0a1b"})
    ...     check_digests(folder, "load")
    Traceback (most recent call last):
    ValueError: load: ...config.json is missing; expected it by digests.json, got no file. Restore it.
    """
    folder = Path(folder)
    written = read_json(folder / DIGESTS) if (folder / DIGESTS).exists() else {}
    for name, digest in written.items() if isinstance(written, dict) else ():
        if names is not None and name not in names:
            continue
        if not (folder / name).exists():
            raise ValueError(f"{where}: {folder / name} is missing; expected it by {DIGESTS}, got no file. Restore it.")
        if (found := file_digest(folder / name)) != digest:
            raise ValueError(
                f"{where}: {folder / name} has changed since it was written; expected SHA-256 {digest}, as in "
                f"{DIGESTS}, got {found}. Restore the file. If you changed it yourself, delete {folder / DIGESTS}."
            )


def sync(path: str | Path) -> None:
    """Flush the content of a file, or the file names in a folder, to the disk, so that they survive a power failure.

    >>> sync(Path(__file__).parent)
    """
    if os.name == "nt" and Path(path).is_dir():
        return  # Windows has no handles for directories
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
