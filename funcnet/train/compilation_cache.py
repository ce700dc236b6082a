"""A cache of compiled programs on disk. When the same run is started again, no program is compiled again."""

import contextlib
import os
import platform
from pathlib import Path

import jax
import platformdirs

from funcnet.files import bytes_digest

__all__ = ["MAX_BYTES", "enable", "limit_size"]

MAX_BYTES = 2 * 1024**3
"""The size that `enable` leaves in the cache, in bytes: some thousands of programs."""


def enable(folder: str | Path | None = None) -> Path | None:
    """Enable the cache of compiled programs on disk, and return the folder of the cache.

    If the folder of the cache cannot be written, the function returns None, and every start of a run compiles all
    programs.

    Call this function before the first compilation. The environment variable `JAX_COMPILATION_CACHE_DIR` takes
    precedence over `folder`. By default, the cache is in the user's cache folder. A program compiled for one CPU runs
    only on CPUs with the same instruction set. Each instruction set has its own folder, because several machines may
    share a home directory. Programs that were not used for the longest time are removed, until the cache has at most
    `MAX_BYTES`.
    """
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    base = Path(folder) if folder is not None else Path(platformdirs.user_cache_dir("funcnet")) / "xla"
    cache = base / f"{platform.machine()}-{_instructions()}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(cache, os.W_OK):
        return None
    limit_size(base, MAX_BYTES)
    jax.config.update("jax_compilation_cache_dir", str(cache))
    for limit in ("min_compile_time_secs", "min_entry_size_bytes"):
        jax.config.update(f"jax_persistent_cache_{limit}", 0)  # also small programs: an initialisation has a hundred
    return cache


def limit_size(folder: str | Path, size: int) -> None:
    """Remove the least recently used programs in a folder and its folders, until the others have at most `size` bytes.

    Only files with JAX's suffix, `-cache`, count and are removed. A file that cannot be removed stays. JAX's own limit,
    `jax_compilation_cache_max_size`, is not used: it reads the list of all files before every write, and the first
    start of a run writes hundreds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for number in range(3):
    ...         _ = Path(folder, f"{number}-cache").write_bytes(bytes(10))
    ...         os.utime(Path(folder, f"{number}-cache"), (number, number))
    ...     limit_size(folder, 20)
    ...     sorted(os.listdir(folder))
    ['1-cache', '2-cache']
    """
    found = []
    for place, _, names in os.walk(folder):
        for path in (os.path.join(place, name) for name in names if name.endswith("-cache")):
            with contextlib.suppress(OSError):  # another run has removed it
                status = os.stat(path)
                found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
    excess = sum(length for _, length, _ in found) - size
    for _, length, path in sorted(found):
        if excess <= 0:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        excess -= length


def _instructions() -> str:
    """Return a short digest of the instruction set of this CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0] if lines else "")
    return bytes_digest(flags.encode())[:8]
