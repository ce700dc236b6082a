"""The versions of Python and of packages on which the results of a run depend."""

import importlib.metadata
import platform

from funcnet.operators import native

__all__ = ["versions"]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which the results of a run depend, and its CPU kernels."""
    names = ("flax", "funcnet", "jax", "jaxlib", "numpy", "optax", "orbax-checkpoint")
    found = {"python": platform.python_version()} | {name: _version(name) for name in names}
    return {**found, "kernels": native.describe()}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # funcnet, used from its source without installation
        return "not installed"
