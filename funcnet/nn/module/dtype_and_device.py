"""torch's methods that change the device and the dtype of a module: `to`, `cpu`, `cuda`, `half` and the like.

A description has no arrays, so passing a device has no effect. If a dtype is passed, `init` makes the floating leaves
in that dtype. Constructors written for torch call these methods on `self` and on their layers.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from funcnet.nn.core import stale_traces
from funcnet.nn.core.module_tree import LeafPlace, frame_of, walk

__all__ = ["Placed"]


class Placed:
    """A base class of `Module` with torch's methods for devices and dtypes. Each method returns the module itself."""

    def to(self, *args: object, **kwargs: object) -> Any:
        """Change the dtype of the floating and complex leaves, if an argument gives a dtype. A device has no effect.

        Args:
            *args, **kwargs: a device, a dtype, both, or an array whose dtype is used, as in torch.

        Raises:
            TypeError: if there is no argument; if an argument is neither a device nor a dtype nor an array; if the
                dtype is neither floating nor complex; or if the call is inside `forward` and would change the dtype of
                a leaf.

        Differs from torch: the values that `init` has already made do not change. Use `tree.cast(params, dtype)`.

        Example:
            >>> from funcnet import nn
            >>> nn.Linear(2, 2).to("cuda").to(jax.numpy.bfloat16).weight
            Parameter((2, 2), dtype=bfloat16)
        """
        where = f"{type(self).__name__}.to"
        unknown = [name for name in kwargs if name not in ("device", "dtype", "tensor", *_IGNORED)]
        if unknown or len(args) + len(kwargs) == 0:
            got = f"an argument {unknown[0]!r}" if unknown else "no argument"
            raise TypeError(f"{where}: expected a device, a dtype or an array, got {got}.")
        given = [*args[:2], *(kwargs[name] for name in ("device", "dtype", "tensor") if name in kwargs)]
        dtypes = [dtype for value in given if (dtype := _dtype_of(value, where)) is not None]
        if dtypes:
            if not jnp.issubdtype(dtypes[-1], jnp.inexact):
                raise TypeError(f"{where}: expected a floating or complex dtype, got {dtypes[-1]}.")
            _cast(self, where, dtypes[-1], jnp.inexact)
        return self

    def cpu(self) -> Any:
        """Return the module itself. A description has no device."""
        return self

    def cuda(self, device: object = None) -> Any:
        """Return the module itself. A description has no device."""
        return self

    def half(self) -> Any:
        """Change the dtype of the floating leaves to float16. See `to`."""
        return _cast(self, f"{type(self).__name__}.half", jnp.dtype(jnp.float16))

    def bfloat16(self) -> Any:
        """Change the dtype of the floating leaves to bfloat16. See `to`."""
        return _cast(self, f"{type(self).__name__}.bfloat16", jnp.dtype(jnp.bfloat16))

    def float(self) -> Any:
        """Change the dtype of the floating leaves to float32. See `to`."""
        return _cast(self, f"{type(self).__name__}.float", jnp.dtype(jnp.float32))

    def double(self) -> Any:
        """Change the dtype of the floating leaves to float64. If x64 is disabled in JAX, `init` makes float32 arrays.
        See `to`.
        """
        return _cast(self, f"{type(self).__name__}.double", jnp.dtype(jnp.float64))


_IGNORED = ("non_blocking", "memory_format", "copy")


def _dtype_of(value: Any, where: str) -> Any:
    """Return the dtype that an argument of `to` specifies, or None if the argument is a device.

    >>> [_dtype_of(value, "Linear.to") for value in ("cuda:0", jnp.float16, jnp.ones(2))]
    [None, dtype('float16'), dtype('float32')]
    """
    if value is None or isinstance(value, bool | int | jax.Device | jax.sharding.Sharding):
        return None
    if isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda", "gpu", "tpu", "meta", "mps", "xpu"):
        return None
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return jnp.dtype(value.dtype)
    name = f"{type(value).__module__}.{type(value).__name__}"
    if name == "torch.device":
        return None
    try:
        return jnp.dtype(str(value).removeprefix("torch.") if name == "torch.dtype" else value)
    except TypeError:
        raise TypeError(f"{where}: expected a device, a dtype or an array, got {value!r:.60}.") from None


def _cast(module: Any, where: str, dtype: np.dtype[Any], kind: type = jnp.floating) -> Any:
    """Set `dtype` on all leaves of a module whose present dtype is a subtype of `kind`, such as floating. Inside
    `forward`, raise TypeError if the dtype of any leaf would change.
    """
    places = [place for place in walk(module) if jnp.issubdtype(place.leaf.dtype, kind)]
    if frame_of(module) is not None:
        _refuse_change(places, where, jax.dtypes.canonicalize_dtype(dtype))
        return module
    changed = [place.leaf for place in places if place.leaf.dtype != dtype]
    if any(leaf in stale_traces.STARTED for leaf in changed):
        warnings.warn(
            f"{where}: values were already made, and they keep their dtype. Cast them: params = tree.cast(params, "
            f"{dtype.name!r}).",
            stacklevel=3,
        )
    for leaf in changed:
        leaf.dtype = dtype
    return module


def _refuse_change(places: list[LeafPlace], where: str, dtype: DTypeLike) -> None:
    for place in places:
        if place.value.dtype != dtype:
            raise TypeError(
                f"{where}: forward cannot change the dtype of a parameter or buffer; expected {place.path!r} in "
                f"{dtype}, got {place.value.dtype}. Cast params before apply: tree.cast(params, {str(dtype)!r})."
            )
