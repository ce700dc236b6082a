"""Decide whether a call uses a kernel in C++. It does so on CPU, for float32, if the kernels could be built, unless
FUNCNET_NATIVE=0.
"""

import ctypes
import functools
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

from funcnet.operators.native.build import Built, Library, build

__all__ = ["allowed", "describe", "is_on", "is_used", "once", "targets"]

P = ParamSpec("P")
R = TypeVar("R")

# A part of the key of JAX's caches of traced programs: a program that was traced with kernels is not used without them.
allowed = jax.make_user_context(os.environ.get("FUNCNET_NATIVE") != "0")
"""Whether programs may use kernels: `with allowed(False):` forbids them in programs that are traced inside it."""

LIBRARIES = {
    "kernels": Library(
        ("normalization.cc", "recurrence.cc", "softmax.cc"), "normalisation, softmax and recurrent layers"
    ),
    "convolution": Library(
        ("convolution.cc",), "convolutions", "onednn-devel-cpu-gomp", "oneapi/dnnl/dnnl.hpp", "dnnl"
    ),
}
KERNELS = ("layer_norm", "rms_norm", "group_norm", "softmax", "log_softmax")
TARGETS = {
    "kernels": [
        *(f"{name}{suffix}" for name in KERNELS for suffix in ("", "_backward")),
        *("row_moments", "row_products"),
        *(f"{name}{suffix}" for name in ("lstm", "gru") for suffix in ("", "_kept", "_backward")),
    ],
    "convolution": ["convolution", "convolution_input", "convolution_weight"],
}


def once(function: Callable[P, R]) -> Callable[P, R]:
    """Cache the results of a function, and let one thread at a time compute them."""
    guard, cached = threading.RLock(), functools.cache(function)

    @functools.wraps(function)
    def found(*args: P.args, **kwargs: P.kwargs) -> R:
        with guard:
            return cached(*args, **kwargs)  # type: ignore[arg-type]  # unhashable arguments fail

    return found


def is_used(name: str, *arrays: jax.Array) -> bool:
    """Return whether a call with these arrays uses a kernel of a library: on CPU, if all are float32.

    Args:
        name: "kernels", for normalisation and softmax, or "convolution".
        *arrays: arrays or their types.

    Example:
        >>> is_used("kernels", jax.numpy.ones(2, "float16"))
        False
    """
    return all(array.dtype == "float32" for array in arrays) and is_on(name)


def is_on(name: str) -> bool:
    """Return whether there are kernels of a library for the default device. The first call builds them.

    Args:
        name: "kernels", for normalisation and softmax, or "convolution".

    Example:
        >>> with allowed(False):
        ...     is_on("kernels")
        False
    """
    return bool(allowed.value) and jax.default_backend() == "cpu" and bool(targets(name))


@once
def _built(name: str) -> Built:
    return build(LIBRARIES[name])


@once
def targets(name: str) -> frozenset[str]:
    """Register the kernels of a library with XLA, and return the names of their targets. If the kernels are off, there
    are no names.
    """
    path = _built(name).library
    if path is None:
        return frozenset()
    library = ctypes.CDLL(str(path))
    names = [f"funcnet_{target}" for target in TARGETS[name]]
    for target in names:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(getattr(library, target)), platform="cpu")
    return frozenset(names)


def describe() -> str:
    """Return a text for the record of a run: the digests and compilers of the kernels that this process uses, or why it
    uses none.

    Example:
        >>> isinstance(describe(), str)
        True
    """
    if not allowed.value:
        return "off"
    if jax.default_backend() != "cpu":
        return "none, because the default device is not a CPU"
    return "; ".join(_built(name).what for name in LIBRARIES)
