"""The precision policy of a run: the floating type of each part of the computation."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from funcnet import tree
from funcnet.arguments import expect
from funcnet.tree import PyTree

__all__ = ["BFLOAT16", "FLOAT32", "Precision", "at_least_float32"]


@dataclasses.dataclass(frozen=True)
class Precision:
    """The floating types of a run.

    The step differentiates with respect to the stored parameters (the master weights) and gives the objective a copy of
    these parameters in the type `compute`. Gradients and optimizer state have the type of the master weights. All
    functions of `funcnet.functional` compute norms, softmax and reductions in at least float32, whatever the type of
    their input. The fields `norms`, `softmax` and `reductions` only document this rule, and refuse a narrower type.

    Args:
        params: type of the master weights, the gradients and the optimizer state.
        compute: type of matrix products and activations.
        norms: type of the statistics of LayerNorm, BatchNorm and similar layers.
        softmax: type of softmax and of losses that use it.
        reductions: type of sums over tokens and examples, and over devices under shard_map and pmap. Under jit, XLA
            sums the gradients of weight matrices over the devices in the type `compute`.

    Raises:
        TypeError: if a type is not a floating dtype.
        ValueError: if `norms`, `softmax` or `reductions` is narrower than float32, or `params` is narrower than
            `compute`.

    Example:
        >>> masters = {"weight": jnp.ones(2), "count": jnp.array(3)}
        >>> BFLOAT16.cast(masters)["weight"].dtype, BFLOAT16.cast(masters)["count"].dtype
        (dtype(bfloat16), dtype('int32'))
    """

    params: Any = jnp.float32
    compute: Any = jnp.float32
    norms: Any = jnp.float32
    softmax: Any = jnp.float32
    reductions: Any = jnp.float32

    def __post_init__(self):
        for field in dataclasses.fields(self):
            _check_float(field.name, getattr(self, field.name))
        for part in ("norms", "softmax", "reductions"):
            _at_least(part, getattr(self, part), jnp.float32)
        _at_least("params", self.params, self.compute)

    def cast(self, arrays: PyTree) -> Any:
        """Cast floating-point arrays to the type `compute`. Other arrays are not changed.

        The step casts the parameters with this method, and the objective casts the floating arrays of its batch.

        Args:
            arrays: a pytree of arrays.
        """
        return tree.cast(arrays, self.compute)


def at_least_float32(x: ArrayLike) -> jax.Array:
    """Cast `x` to float32, unless it already has that type or a wider floating type."""
    x = jnp.asarray(x)
    narrow = not jnp.issubdtype(x.dtype, jnp.floating) or _bits(x.dtype) < 32
    return x.astype(jnp.float32) if narrow else x


def _bits(dtype: DTypeLike) -> int:
    return jnp.finfo(dtype).bits


def _check_float(part: str, dtype: DTypeLike) -> None:
    try:
        is_float = jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    except TypeError:
        is_float = False
    expect(is_float, "train.Precision", part, "a floating dtype, such as jnp.bfloat16", dtype)


def _at_least(part: str, dtype: DTypeLike, least: DTypeLike) -> None:
    if _bits(dtype) < _bits(least):
        name = jnp.dtype(least).name
        raise ValueError(
            f"train.Precision: {part} is too narrow; expected {name} or wider, got {jnp.dtype(dtype).name}."
        )


FLOAT32 = Precision()
"""Parameters, computation and gradients in float32."""

BFLOAT16 = Precision(compute=jnp.bfloat16)
"""Parameters in float32, computation in bfloat16."""
