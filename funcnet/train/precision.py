"""Which floating type each part of the computation uses: one policy for a whole run."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import tree

__all__ = ["BFLOAT16", "FLOAT32", "Precision", "at_least_float32"]


@dataclasses.dataclass(frozen=True)
class Precision:
    """The floating types of a run.

    The step differentiates with respect to the parameters as stored (the masters) and hands the objective a copy in
    `compute`; the gradients arrive in the masters' type and the optimizer works there. Everything in
    `funcnet.functional` computes norms, softmax and reductions in at least float32 whatever its input, so `norms`,
    `softmax` and `reductions` are a promise rather than a switch: a narrower type is refused.

    Args:
        params: of the masters, and with them of gradients and optimizer.
        compute: of matrix products and of what flows between layers.
        norms: of the statistics of LayerNorm, BatchNorm and the like.
        softmax: of softmax and the losses on it.
        reductions: of sums over tokens, examples and devices.

    Raises:
        ValueError: `norms`, `softmax` or `reductions` is narrower than float32; or `params` is narrower than `compute`.

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
        for part in ("norms", "softmax", "reductions"):
            _at_least(part, getattr(self, part), jnp.float32)
        _at_least("params", self.params, self.compute)

    def cast(self, arrays: Any) -> Any:
        """Floating leaves in the compute type: parameters (the step does it), or a batch's floats (the objective)."""
        return tree.cast(arrays, self.compute)


def at_least_float32(x: Any) -> jax.Array:
    """`x` as an array of float32, or of what is wider."""
    x = jnp.asarray(x)
    narrow = not jnp.issubdtype(x.dtype, jnp.floating) or _bits(x.dtype) < 32
    return x.astype(jnp.float32) if narrow else x


def _bits(dtype: Any) -> int:
    return jnp.finfo(dtype).bits


def _at_least(part: str, dtype: Any, least: Any) -> None:
    if _bits(dtype) < _bits(least):
        name = jnp.dtype(least).name
        raise ValueError(
            f"train.Precision: {part}; expected {name} or wider, got {jnp.dtype(dtype).name}. Leave {part} at {name}."
        )


FLOAT32 = Precision()
BFLOAT16 = Precision(compute=jnp.bfloat16)
