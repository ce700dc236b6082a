"""Max unpooling, which puts the maxima of a max pooling back at their positions in its input. Letters:
`B batch, C channel, S spatial sizes`.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks, windows
from funcnet.functional.checks import Ints
from funcnet.functional.sharding import placed, reshaped, unchanged

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]


def max_unpool1d(
    input: jax.Array,
    indices: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """Put every maximum back at the index that `max_pool1d(…, return_indices=True)` returned, and fill the rest with 0.

    Args:
        input: (B, C, S) or (C, S), floating-point.
        indices: integers of the input's shape, the positions in the flattened spatial dimensions of the result.
        kernel_size: kernel size of the max pooling.
        stride: stride of the max pooling; None means `kernel_size`.
        padding: padding of the max pooling.
        output_size: S', or the full shape (B, C, *S'). None means `(S - 1) · stride - 2 · padding + kernel_size`. Since
            several sizes pool to the same size, any size that differs from the default size by less than one stride is
            accepted.

    Returns:
        (B, C, S') or (C, S'). If an index occurs twice, as with overlapping windows, the last entry with this index is
        kept (on CPU, as in torch), and the gradient flows to all entries with this index.

    Raises:
        ValueError: if the ranks, shapes or sizes do not match. An index out of range is an error too, but under `jit`,
            the entry with this index is dropped.
        TypeError: if the input is not floating-point, the indices are not of an integer dtype, or a size is
            not an integer.

    Example:
        >>> y, indices = jnp.array([[3.0, 2.0]]), jnp.array([[1, 2]])
        >>> max_unpool1d(y, indices, 2)
        Array([[0., 3., 2., 0.]], dtype=float32)

    Reference: torch.nn.functional.max_unpool1d.
    """
    return _max_unpool("F.max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: jax.Array,
    indices: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """Apply `max_unpool1d` over two dimensions. The input is (B, C, H, W) or (C, H, W).

    `kernel_size`, `stride` and `padding` are each an int or a pair (height, width).

    Example:
        >>> max_unpool2d(jnp.array([[[5.0]]]), jnp.array([[[3]]]), 2)
        Array([[[0., 0.],
                [0., 5.]]], dtype=float32)

    Reference: torch.nn.functional.max_unpool2d.
    """
    return _max_unpool("F.max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: jax.Array,
    indices: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> jax.Array:
    """Apply `max_unpool1d` over three dimensions. The input is (B, C, D, H, W) or (C, D, H, W).

    `kernel_size`, `stride` and `padding` are each an int or a tuple of three ints.

    Example:
        >>> max_unpool3d(jnp.full((1, 1, 1, 1), 5.0), jnp.full((1, 1, 1, 1), 7), 2).ravel()
        Array([0., 0., 0., 0., 0., 0., 0., 5.], dtype=float32)

    Reference: torch.nn.functional.max_unpool3d.
    """
    return _max_unpool("F.max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


def _max_unpool(
    where: str,
    ndim: int,
    input: jax.Array,
    indices: jax.Array,
    kernel: Ints,
    stride: Ints | None,
    pad: Ints,
    output_size: Sequence[int] | None,
) -> jax.Array:
    input, indices = windows.planes(where, input, ndim), checks.integers(where, "indices", indices)
    checks.shape_of(where, "indices", indices, input.shape, "Pass one index per entry of the input.")
    kernels = checks.as_tuple(where, "kernel_size", kernel, ndim, least=1)
    strides = kernels if stride is None else checks.as_tuple(where, "stride", stride, ndim, least=1)
    pads = checks.as_tuple(where, "padding", pad, ndim)
    sizes = _sizes(where, input.shape[-ndim:], kernels, strides, pads, output_size)
    checks.ids_in_range(where, "indices", indices, math.prod(sizes))
    planes, entries = math.prod(input.shape[:-ndim]), math.prod(input.shape[-ndim:])
    flat = _put(reshaped(input, (planes, entries)), reshaped(indices, (planes, entries)), math.prod(sizes))
    return reshaped(flat, (*input.shape[:-ndim], *sizes))


def _sizes(
    where: str,
    spatial: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    full = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(spatial, kernels, strides, pads, strict=True)]
    sizes = full
    if output_size is not None:
        given = [checks.as_int(where, "output_size", n) for n in output_size]
        sizes = given[2:] if len(given) == len(full) + 2 else given
        if len(sizes) != len(full) or any(abs(n - m) >= s for n, m, s in zip(sizes, full, strides, strict=True)):
            raise ValueError(
                f"{where}: output_size does not fit; expected {len(full)} spatial sizes (or the full shape) that "
                f"differ from {tuple(full)} by less than the stride {tuple(strides)}, got {tuple(given)}. Pass the "
                "shape of the input of the max pooling."
            )
    if min(sizes) < 1:
        raise ValueError(
            f"{where}: the result would be empty; expected sizes of at least 1, got {tuple(sizes)}. Pass "
            "the kernel_size, stride and padding of the max pooling."
        )
    return tuple(sizes)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _put(x: jax.Array, places: jax.Array, size: int) -> jax.Array:
    """Return an array (P, size) with the entries of x (P, N) at the indices `places` (P, N), and 0 elsewhere.

    P is the number of planes, which are the channels of all examples, and N is the number of entries per plane.
    """
    return _zeros(x, places, size).set(x, mode="drop", wrap_negative_indices=False, out_sharding=unchanged(x))


@_put.defjvp
def _put_jvp(size: int, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    """Compute the tangent as if entries with the same index were added, so that entries that are overwritten get a
    gradient too. torch's backward pass does the same.
    """
    x, places = primals
    dx = tangents[0]
    added = _zeros(x, places, size).add(dx, mode="drop", wrap_negative_indices=False, out_sharding=unchanged(x))
    return _put(x, places, size), added


def _zeros(x: jax.Array, places: jax.Array, size: int) -> Any:
    """Return `zeros.at[planes, places]`, where zeros is a new array (P, size) whose dimension P is sharded like that of
    x.
    """
    planes = jnp.arange(x.shape[0], dtype=places.dtype)[:, None]
    return placed(jnp.zeros((x.shape[0], size), x.dtype), x, (0, None)).at[planes, places]
