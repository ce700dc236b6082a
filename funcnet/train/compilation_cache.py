"""Compiled programs that outlive the process: a second start of the same run compiles nothing."""

import hashlib
import os
import platform
from pathlib import Path

import jax
import platformdirs

__all__ = ["enable"]


def enable(folder: str | Path | None = None) -> Path | None:
    """Keep compiled programs on disk. Call it before the first compilation.

    A folder that the user has set (`JAX_COMPILATION_CACHE_DIR`) stays. A program for the CPU is only right on one with
    the same instructions, so each kind has a folder of its own: a home directory may be shared by many machines.

    Args:
        folder: None takes the user's cache folder.

    Returns:
        The folder; None where it cannot be written: then every start compiles.

    Example:
        >>> import tempfile
        >>> before = jax.config.jax_compilation_cache_dir
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     enable(folder).is_relative_to(folder)
        True
        >>> jax.config.update("jax_compilation_cache_dir", before)
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
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return cache


def _instructions() -> str:
    """A short name for the instructions that this CPU has."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), lines[0] if lines else "")
    return hashlib.sha256(flags.encode()).hexdigest()[:8]
