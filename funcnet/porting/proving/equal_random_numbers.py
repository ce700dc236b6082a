"""Random numbers that are the same in torch and in JAX, so that a model in training mode can be compared.

Inside `patterned`, entry i of an array of uniform numbers is the fractional part of (i + 1) * 0.618… in both libraries.
All other random values are computed from these numbers. For example, dropout keeps an entry if its number is at least
the rate, and a normal number is the quantile of the normal distribution at its number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

import funcnet.random
from funcnet.porting.proving.torch_random_functions import normals, replacements, uniforms

__all__ = ["patterned"]


@contextlib.contextmanager
def patterned() -> Iterator[None]:
    """Make a context in which the random functions of torch (if it is installed) and JAX return the same numbers."""
    with contextlib.ExitStack() as stack:
        for target, name, new in [*_of_jax(), *replacements()]:
            stack.enter_context(mock.patch.object(target, name, new))
        yield


def _of_jax() -> list[tuple[Any, str, Any]]:
    def mask(key: jax.Array, shape: Sequence[int], rate: float, *, part: Sequence[Any] | None = None) -> jax.Array:
        kept = uniforms(shape) >= rate
        for axis, index in enumerate(part or ()):
            kept = kept if index is None else np.take(kept, index, axis)
        return jnp.asarray(kept)

    def uniform(
        key: jax.Array,
        shape: int | Sequence[int] = (),
        dtype: DTypeLike = float,
        minval: float = 0.0,
        maxval: float = 1.0,
        **_: object,
    ) -> Any:
        return jnp.asarray(uniforms(_sizes(shape)), dtype) * (maxval - minval) + minval

    def normal(key: jax.Array, shape: int | Sequence[int] = (), dtype: DTypeLike = float, **_: object) -> Any:
        return jnp.asarray(normals(_sizes(shape)), dtype)

    def bernoulli(key: jax.Array, p: ArrayLike = 0.5, shape: int | Sequence[int] | None = None, **_: object) -> Any:
        return jnp.asarray(uniforms(jnp.shape(p) if shape is None else _sizes(shape))) < p

    def randint(
        key: jax.Array,
        shape: int | Sequence[int],
        minval: float,
        maxval: float,
        dtype: DTypeLike = int,
        **_: object,
    ) -> Any:
        return jnp.floor(jnp.asarray(uniforms(_sizes(shape))) * (maxval - minval) + minval).astype(dtype)

    def exponential(key: jax.Array, shape: int | Sequence[int] = (), dtype: DTypeLike = float, **_: object) -> Any:
        return jnp.asarray(-np.log1p(-uniforms(_sizes(shape))), dtype)

    def permutation(key: jax.Array, x: Any, *args: object, **_: object) -> Any:
        count = x if isinstance(x, int) else len(x)
        order = np.argsort(uniforms((count,)))
        return jnp.asarray(order) if isinstance(x, int) else x[order]

    def gumbel(key: jax.Array, shape: int | Sequence[int] = (), dtype: DTypeLike = float, **_: object) -> Any:
        return jnp.asarray(-np.log(-np.log1p(-uniforms(_sizes(shape)))), dtype)

    ours = (uniform, normal, bernoulli, randint, exponential, permutation, gumbel)
    return [(funcnet.random, "dropout_mask", mask), *((jax.random, one.__name__, one) for one in ours)]


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)
