"""Files that are there whole or not at all, whatever kills the process that writes them; folders for one at a time."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

__all__ = [
    "lock_folder",
    "parse_json",
    "read_json",
    "replacing",
    "require_folder",
    "require_other",
    "sync",
    "write_json",
    "wrong_json",
]

POLL = 0.2  # seconds between looks at whether a folder is still locked


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`; what was written there takes `path`'s place when the block ends without error.

    The bytes are on the disk before the name points to them (fsync, rename, fsync of the directory): after a crash
    `path` holds the old file or the new one. A device or a pipe is written to as it is.

    Raises:
        OSError: the directory is not there or cannot be written, or the disk is full; `path` is as it was.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(pathlib.Path(folder, "a.txt")) as part:
        ...         _ = part.write_text("whole")
        ...     [file.name for file in pathlib.Path(folder).iterdir()]
        ['a.txt']
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # a device such as /dev/null, or a pipe: written to, never replaced
        yield path
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.touch()
        mode = part.stat().st_mode  # what the umask says; some writers make files for their owner alone
        yield part
        part.chmod(mode)
        sync(part)
        os.replace(part, path)
        sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def lock_folder(folder: str | Path, waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """While the block runs, whoever else locks the folder is refused, or waits.

    The lock is the system's, on the folder itself: it leaves no file, and is gone with the process, however that ends.
    Where the file system has no locks, as some over networks, and on Windows, nothing is locked.

    Args:
        folder: one that is there.
        waiting: called several times a second while another has the lock; without it, that is an error.

    Raises:
        BlockingIOError: another has the lock. The caller knows what it does there, and says so.
        OSError: the folder is not there.

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
            except OSError:  # no locks here
                break
        yield
    finally:
        os.close(handle)


def require_folder(path: str | Path, where: str) -> None:
    """Asked before long work whose outcome goes to `path`, so that none is lost.

    Args:
        path: the file to be.
        where: for the message.

    Raises:
        OSError: the folder is not there, or `path` is one.

    Example:
        >>> require_folder("no/such/file.csv", "predict: --out")
        Traceback (most recent call last):
        FileNotFoundError: predict: --out no/such/file.csv; expected a file in a folder that is there, got none. ...
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{where} {path}; expected a file, got a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{where} {path}; expected a file in a folder that is there, got none. Make {path.parent} first."
        )


def require_other(path: str | Path, inputs: Iterable[str | Path], where: str) -> None:
    """Refuses, before anything is read, to write over what is to be read, under whatever name or link.

    Args:
        path: the file to be.
        inputs: the files to read; one that is not there is no concern here.
        where: for the message.

    Raises:
        ValueError: `path` is one of `inputs`; a device may be both.

    Example:
        >>> require_other(__file__, [__file__], "predict: --out")
        Traceback (most recent call last):
        ValueError: predict: --out ... is the input; expected another file, got the one that is read. Name another.
    """
    if not Path(path).is_file():
        return
    for name in inputs:
        if os.path.exists(name) and os.path.samefile(path, name):
            raise ValueError(
                f"{where} {path} is the input; expected another file, got the one that is read. Name another."
            )


def write_json(path: str | Path, value: Any) -> None:
    """Replace `path` by `value` as JSON, in one step.

    Raises:
        OSError: as `replacing`.
    """
    with replacing(path) as part:
        part.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: str | Path) -> Any | None:
    """What the file holds; None where it is missing or not JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the last of brackets within brackets
        return None


def parse_json(path: str | Path, where: str) -> Any:
    """What a file holds that has to be JSON.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON; the message begins with `where` and names the file.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: {path} is no JSON; expected an object, got '{error}'. Write it again.") from None


def wrong_json(error: ValueError | RecursionError, line: int = 1) -> tuple[str, str]:
    """(where, what) is wrong in JSON that begins on a line; numbers and brackets without end have no place of theirs.

    >>> wrong_json(json.JSONDecodeError("Expecting value", "[,]", 1), 7)
    ('line 7, character 2', 'Expecting value')
    """
    if isinstance(error, json.JSONDecodeError):
        return f"line {line + error.lineno - 1}, character {error.colno}", error.msg
    return f"line {line}", str(error)


def sync(path: str | Path) -> None:
    """Let the content of a file, or the names in a folder, outlive a loss of power."""
    if os.name == "nt" and Path(path).is_dir():
        return  # Windows has no handles for directories
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
