"""Fractional max pooling. The windows start at random positions, so that pooling can reduce sizes by any ratio.

Letters: `B batch, C channel, D depth, H height, W width, S input size, n output size, K kernel size`.

Let u be a random number from U(0, 1), and `a = (S - K) / (n - 1)`. Window i starts at
`floor((i + u) · a) - floor(u · a)`, and the last window ends at the end of the input. A separate number u is drawn for
every spatial dimension of every channel of every example.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks, windows
from funcnet.functional.checks import Ints

__all__ = ["fractional_max_pool2d", "fractional_max_pool3d"]

Ratios = float | Sequence[float] | None


def fractional_max_pool2d(
    input: jax.Array,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: Ratios = None,
    return_indices: bool = False,
    _random_samples: jax.Array | None = None,
    *,
    rng: jax.Array | None = None,
) -> Any:
    """Return the maximum of each window of a two-dimensional input. The windows start at random, almost evenly spaced
    positions.

    Args:
        input: floating-point array of shape (B, C, H, W) or (C, H, W).
        kernel_size: size of the window, one number or (height, width).
        output_size: (H', W'), or one number for both sizes.
        output_ratio: ratio of the output size to the input size, as one number or (ratio of H, ratio of W). If
            `output_size` is None, `H' = int(H · ratio)`.
        return_indices: if True, also return the indices of the maxima, in the form that `max_unpool2d` requires.
        _random_samples: random numbers u for (width, height), in torch's order, of shape (B, C, 2). The first dimension
            of the samples may be larger than the batch size B. If `_random_samples` is None, the samples are drawn with
            `rng`.
        rng: random key, required if `_random_samples` is None.

    Returns:
        The maxima, of shape (B, C, H', W') or (C, H', W'). With `return_indices`, a pair (maxima, indices), where the
        indices refer to the flattened spatial dimensions.

    Raises:
        ValueError: if neither `output_size` nor `output_ratio` is given, the sizes do not fit the input, or neither
            `_random_samples` nor `rng` is given.
        TypeError: if the input is not floating-point, or a size is not an integer.

    Differs from torch: randomness comes from `rng`. Indices are int32 unless x64 is enabled.

    Example:
        >>> x = jnp.arange(25.0).reshape(1, 5, 5)
        >>> fractional_max_pool2d(x, 2, output_size=3, rng=jax.random.key(0)).shape
        (1, 3, 3)

    Reference: torch.nn.functional.fractional_max_pool2d; Graham 2014.
    """
    where = "F.fractional_max_pool2d"
    given = (input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return _fractional_max_pool(where, 2, *given, rng)


def fractional_max_pool3d(
    input: jax.Array,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: Ratios = None,
    return_indices: bool = False,
    _random_samples: jax.Array | None = None,
    *,
    rng: jax.Array | None = None,
) -> Any:
    """Apply fractional max pooling over three dimensions, as in `fractional_max_pool2d`.

    The input has shape (B, C, D, H, W) or (C, D, H, W). `_random_samples` has shape (B, C, 3) and holds the random
    numbers u for (depth, height, width).

    Differs from torch: as in `fractional_max_pool2d`. Moreover, torch rejects the largest possible output size,
        `n = S - K + 1`, which is accepted here.

    Example:
        >>> x = jnp.arange(125.0).reshape(1, 5, 5, 5)
        >>> fractional_max_pool3d(x, 2, output_ratio=0.7, rng=jax.random.key(0)).shape
        (1, 3, 3, 3)

    Reference: torch.nn.functional.fractional_max_pool3d.
    """
    where = "F.fractional_max_pool3d"
    given = (input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return _fractional_max_pool(where, 3, *given, rng)


def _fractional_max_pool(
    where: str,
    ndim: int,
    input: jax.Array,
    kernel: Ints,
    output_size: Ints | None,
    output_ratio: Ratios,
    return_indices: bool,
    samples: jax.Array | None,
    rng: jax.Array | None,
) -> Any:
    input = windows.planes(where, input, ndim)
    kernels = checks.as_tuple(where, "kernel_size", kernel, ndim, least=1)
    sizes = _output_sizes(where, input.shape[-ndim:], kernels, output_size, output_ratio)
    lead = input.shape[:-ndim]
    asked = (*(lead if len(lead) == 2 else (1, *lead)), ndim)
    if samples is None:
        samples = jax.random.uniform(checks.key(where, rng), asked, checks.wide_dtype(input))
    else:
        samples = checks.floating(where, "_random_samples", samples)
        if samples.ndim != 3 or samples.shape[0] < asked[0] or samples.shape[1:] != asked[1:]:
            raise ValueError(
                f"{where}: _random_samples has the wrong shape; expected {asked}, or a larger first dimension, got "
                f"{samples.shape}. Pass an array of shape (batch, channel, number of spatial dimensions)."
            )
        samples = samples[: asked[0]]
    order = (1, 0) if ndim == 2 else (0, 1, 2)  # torch's order: in two dimensions, the width comes first
    along = []
    for axis, (size, n, k) in enumerate(zip(input.shape[-ndim:], sizes, kernels, strict=True)):
        starts = _starts(samples[..., order[axis]].reshape(*lead, 1), size, n, k)
        shape = [1] * ndim
        shape[axis] = n
        along.append(windows.Starts(starts.reshape(*lead, *shape), k))
    y, places = windows.first_maxima(input, along)
    return (y, windows.as_index(places)) if return_indices else y


def _starts(u: jax.Array, size: int, n: int, kernel: int) -> jax.Array:
    """Return the start positions (…, n) of n windows along one dimension. The last window ends at the end of the
    dimension.
    """
    last = jnp.full((*u.shape[:-1], 1), size - kernel, jnp.int32)
    if n == 1:
        return last
    step = jnp.asarray((size - kernel) / (n - 1), u.dtype)
    places = jnp.arange(n - 1, dtype=u.dtype)
    starts = jnp.trunc((places + u) * step).astype(jnp.int32) - jnp.trunc(u * step).astype(jnp.int32)
    return jnp.concatenate([starts, last], -1)


def _output_sizes(
    where: str, spatial: Sequence[int], kernels: Sequence[int], output_size: Ints | None, output_ratio: Ratios
) -> tuple[int, ...]:
    ndim = len(spatial)
    if output_size is not None:
        sizes = checks.as_tuple(where, "output_size", output_size, ndim)
    elif output_ratio is None:
        raise ValueError(f"{where}: the output size is missing; expected output_size or output_ratio, got neither.")
    else:
        ratios = checks.entries(output_ratio, ndim)
        if len(ratios) != ndim:
            raise ValueError(
                f"{where}: output_ratio has the wrong length; expected one number or {ndim}, got {output_ratio}. "
                "Pass one number for each spatial dimension."
            )
        sizes = tuple(int(size * ratio) for size, ratio in zip(spatial, ratios, strict=True))
    if any(n < 1 or n + k - 1 > size for n, k, size in zip(sizes, kernels, spatial, strict=True)):
        raise ValueError(
            f"{where}: the output size does not fit the input; expected sizes from 1 to input - kernel + 1, for input "
            f"{tuple(spatial)} and kernel {tuple(kernels)}, got {sizes}."
        )
    return sizes
