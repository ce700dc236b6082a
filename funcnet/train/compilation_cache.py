"""A cache of compiled programs on disk. When the same run is started again, no program is compiled again."""

import os
import platform
from pathlib import Path

import jax
import platformdirs

from funcnet.files import bytes_digest

__all__ = ["enable"]


def enable(folder: str | Path | None = None) -> Path | None:
    """Enable the cache of compiled programs on disk, and return the folder of the cache.

    If the folder of the cache cannot be written, the function returns None, and every start of a run compiles all
    programs.

    Call this function before the first compilation. The environment variable `JAX_COMPILATION_CACHE_DIR` takes
    precedence over `folder`. By default, the cache is in the user's cache folder. A program compiled for one CPU runs
    only on CPUs with the same instruction set. Each instruction set has its own folder, because several machines may
    share a home directory.
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
    jax.config.update("jax_compilation_cache_dir", str(cache))
    for limit in ("min_compile_time_secs", "min_entry_size_bytes"):
        jax.config.update(f"jax_persistent_cache_{limit}", 0)  # also small programs: an initialisation has a hundred
    return cache


def _instructions() -> str:
    """Return a short digest of the instruction set of this CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0] if lines else "")
    return bytes_digest(flags.encode())[:8]
