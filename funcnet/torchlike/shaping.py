"""Functions that add, remove, join or split dimensions, and sliding windows.

These functions compute no new numbers. They return new arrays instead of views, so a change of the result does not
change the input.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.torchlike.arguments import Dims, axes_of, axis_of, line, sizes_of

__all__ = [
    "as_strided",
    "diag_embed",
    "expand",
    "flatten",
    "squeeze",
    "unflatten",
    "unfold",
    "view_as_complex",
    "view_as_real",
]


def squeeze(input: jax.Array, dim: Dims = None) -> jax.Array:
    """Remove dimensions of size 1.

    Args:
        input: array of any shape.
        dim: dimensions to remove, an int or several. Dimensions whose size is not 1 stay. With None, all dimensions of
            size 1 are removed.

    Returns:
        An array with the entries of the input.

    Raises:
        ValueError: if the input has no such dimension.

    Differs from torch:
        The result is a copy. `jnp.squeeze` raises an error for a dimension whose size is not 1.

    Example:
        >>> squeeze(jnp.ones((1, 2, 1)), 1).shape, squeeze(jnp.ones((1, 2, 1)), -1).shape
        ((1, 2, 1), (1, 2))

    Reference: torch.squeeze.
    """
    given = dim if dim is None or isinstance(dim, int) else tuple(dim)
    dims = () if given == () else axes_of("tl.squeeze", dim, input.ndim)
    return jnp.squeeze(input, tuple(d for d in dims if input.shape[d] == 1))


def expand(input: jax.Array, *sizes: int | Sequence[int]) -> jax.Array:
    """Repeat dimensions of size 1 until the array has the given sizes.

    Args:
        input: array of any shape.
        sizes: new sizes, as numbers or as one tuple. -1 keeps a size. Additional sizes at the front are new dimensions.

    Returns:
        An array of these sizes with the dtype of the input.

    Raises:
        ValueError: if a dimension has neither size 1 nor the new size, or a new dimension has size -1.

    Differs from torch:
        The entries are copied unless XLA avoids the copy.

    Example:
        >>> expand(jnp.ones((3, 1)), 2, -1, 4).shape
        (2, 3, 4)

    Reference: torch.Tensor.expand.
    """
    where, wanted = "tl.expand", sizes_of("tl.expand", sizes)
    new = len(wanted) - input.ndim
    if new < 0 or any(size == -1 for size in wanted[:new]):
        raise ValueError(
            f"{where}: the sizes do not fit the input; expected a size for each dimension of {input.shape}, and no -1 "
            f"in front of them, got {wanted}."
        )
    shape = (*wanted[:new], *(own if size == -1 else size for own, size in zip(input.shape, wanted[new:], strict=True)))
    if any(own not in (1, size) for own, size in zip(input.shape, shape[new:], strict=True)):
        raise ValueError(f"{where}: only a size of 1 can grow; expected sizes that fit {input.shape}, got {wanted}.")
    return jnp.broadcast_to(input, shape)


def flatten(input: jax.Array, start_dim: int = 0, end_dim: int = -1) -> jax.Array:
    """Join neighbouring dimensions into one.

    Args:
        input: array of any shape. A scalar becomes an array of shape (1,).
        start_dim: first dimension to join.
        end_dim: last dimension to join.

    Returns:
        An array with the same entries in the same order.

    Raises:
        ValueError: if `start_dim` comes after `end_dim`, or the input has no such dimension.

    Differs from torch:
        The result is a copy.

    Example:
        >>> flatten(jnp.ones((2, 3, 4)), 1).shape
        (2, 12)

    Reference: torch.flatten.
    """
    where = "tl.flatten"
    start = axis_of(where, start_dim, input.ndim, "start_dim")
    end = axis_of(where, end_dim, input.ndim, "end_dim")
    if start > end:
        raise ValueError(
            f"{where}: the dimensions are in the wrong order; expected start_dim <= end_dim, got {start} and {end}."
        )
    shape = input.shape
    return input.reshape(*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])


def unflatten(input: jax.Array, dim: int, sizes: Sequence[int]) -> jax.Array:
    """Divide a dimension into several.

    Args:
        input: array of at least one dimension.
        dim: dimension to divide.
        sizes: sizes that replace the size of `dim`. One of them may be -1.

    Returns:
        An array with the same entries in the same order.

    Raises:
        ValueError: if the product of the sizes is not the size of the dimension.

    Differs from torch:
        The result is a copy.

    Example:
        >>> unflatten(jnp.ones((2, 12)), -1, (3, -1)).shape
        (2, 3, 4)

    Reference: torch.unflatten.
    """
    where, wanted = "tl.unflatten", tuple(sizes)
    axis = axis_of(where, dim, input.ndim)
    length, known = line(input).shape[axis], math.prod(size for size in wanted if size != -1)
    free = wanted.count(-1)
    fits = free == 1 and known and length % known == 0 if free else known == length
    if not wanted or not fits or free > 1:
        raise ValueError(
            f"{where}: the sizes do not fit dimension {axis}; expected sizes with a product of {length}, got {wanted}."
        )
    full = tuple(length // known if size == -1 else size for size in wanted)
    return input.reshape(*input.shape[:axis], *full, *input.shape[axis + 1 :])


def unfold(input: jax.Array, dimension: int, size: int, step: int) -> jax.Array:
    """Return all windows of `size` entries along a dimension, `step` entries apart.

    Args:
        input: array of any shape.
        dimension: dimension along which the windows slide.
        size: number of entries in a window.
        step: distance between windows, at least 1.

    Returns:
        An array in which the size of `dimension` is the number of windows, with a new last dimension of size `size`.

    Raises:
        ValueError: if a window is larger than the dimension, or `step` is less than 1.

    Differs from torch:
        The result is a copy. Overlapping entries are repeated. `F.unfold` is another function, as in torch.

    Example:
        >>> unfold(jnp.arange(5), 0, 3, 2).tolist()
        [[0, 1, 2], [2, 3, 4]]

    Reference: torch.Tensor.unfold.
    """
    where = "tl.unfold"
    axis = axis_of(where, dimension, input.ndim)
    full = line(input)
    length = full.shape[axis]
    if not 0 <= size <= length or step < 1:
        raise ValueError(
            f"{where}: the windows do not fit dimension {axis}; expected size 0 to {length} and step >= 1, got size "
            f"{size} and step {step}."
        )
    if input.ndim == 0:
        return input.reshape(1)[:size]
    starts = np.arange((length - size) // step + 1) * step
    windows = full[(slice(None),) * axis + (starts[:, None] + np.arange(size),)]
    return jnp.moveaxis(windows, axis + 1, -1)


def as_strided(
    input: jax.Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> jax.Array:
    """Return the array `output[i, j, …] = flat[storage_offset + i · stride[0] + j · stride[1] + …]`.

    Args:
        input: array of any shape. `flat` contains the entries of the input in row-major order.
        size: sizes of the result.
        stride: distance in `flat` between neighbours along each dimension.
        storage_offset: position of the first entry. None means 0.

    Returns:
        An array of these sizes with the dtype of the input.

    Raises:
        ValueError: if an entry is outside the input, or `size` and `stride` differ in length.

    Differs from torch:
        The strides are those of an array in row-major order. In torch, they refer to the tensor's storage, whose order
        is different if the tensor is a view, such as a transpose. The result is a copy.

    Example:
        >>> as_strided(jnp.arange(6), (2, 3), (1, 2)).tolist()
        [[0, 2, 4], [1, 3, 5]]

    Reference: torch.as_strided.
    """
    return input.reshape(-1)[strided_places("tl.as_strided", input.size, size, stride, storage_offset or 0)]


def strided_places(
    where: str, count: int, size: Sequence[int], stride: Sequence[int], storage_offset: int
) -> np.ndarray:
    """Return, for each entry of a strided view, its position in the flat array of `count` entries.

    >>> strided_places("tl.as_strided", 6, (2, 3), (1, 2), 0).tolist()
    [[0, 2, 4], [1, 3, 5]]
    """
    if len(size) != len(stride):
        raise ValueError(f"{where}: size and stride differ in length; expected the same, got {size}, {stride}.")
    places = np.full((1,) * len(size), storage_offset)
    for dim, (length, distance) in enumerate(zip(size, stride, strict=True)):
        places = places + (np.arange(length) * distance).reshape(-1, *(1,) * (len(size) - dim - 1))
    if places.size and not 0 <= places.min() <= places.max() < count:
        raise ValueError(
            f"{where}: entries are outside the input; expected places 0 to {count - 1}, got {places.min()} "
            f"to {places.max()}."
        )
    return places


def diag_embed(input: jax.Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> jax.Array:
    """Make matrices whose diagonals are the last dimension of the input.

    Args:
        input: array of shape (…, N).
        offset: number of the diagonal: 0 for the main diagonal, 1 for the one above it, -1 for the one below it.
        dim1: dimension of the result that counts rows.
        dim2: dimension of the result that counts columns.

    Returns:
        An array with one more dimension, in which `dim1` and `dim2` have size N + |offset|. Other entries are 0.

    Raises:
        ValueError: if `dim1` and `dim2` are the same dimension.

    Example:
        >>> diag_embed(jnp.array([1, 2]), 1).tolist()
        [[0, 1, 0], [0, 0, 2], [0, 0, 0]]

    Reference: torch.diag_embed.
    """
    where, full = "tl.diag_embed", line(input)
    first, second = (axis_of(where, d, full.ndim + 1, n) for d, n in ((dim1, "dim1"), (dim2, "dim2")))
    if first == second:
        raise ValueError(f"{where}: dim1 and dim2 are the same; expected different dimensions, got {dim1}, {dim2}.")
    rows = np.arange(full.shape[-1]) + max(-offset, 0)
    columns = rows + offset
    size = full.shape[-1] + abs(offset)
    square = jnp.zeros((*full.shape[:-1], size, size), full.dtype).at[..., rows, columns].set(full)
    return jnp.moveaxis(square, (-2, -1), (first, second))


def view_as_real(input: jax.Array) -> jax.Array:
    """Return the real and imaginary parts of complex numbers as a new last dimension of size 2.

    Args:
        input: complex array of any shape.

    Returns:
        An array of shape (*input.shape, 2), float32 for complex64.

    Raises:
        TypeError: if the input is not complex.

    Differs from torch:
        The result is a copy.

    Example:
        >>> view_as_real(jnp.array([1 + 2j])).tolist()
        [[1.0, 2.0]]

    Reference: torch.view_as_real.
    """
    if not jnp.iscomplexobj(input):
        raise TypeError(f"tl.view_as_real: input is not complex; expected complex64 or complex128, got {input.dtype}.")
    return jnp.stack((input.real, input.imag), -1)


def view_as_complex(input: jax.Array) -> jax.Array:
    """Combine the last dimension, of size 2, into complex numbers.

    Args:
        input: float32 or float64 array of shape (…, 2).

    Returns:
        An array of shape (…), complex64 for float32.

    Raises:
        ValueError: if the last dimension does not have size 2.

    Differs from torch:
        The result is a copy. JAX has no complex dtype with parts of float16.

    Example:
        >>> view_as_complex(jnp.array([[1.0, 2.0]]))
        Array([1.+2.j], dtype=complex64)

    Reference: torch.view_as_complex.
    """
    if input.ndim == 0 or input.shape[-1] != 2:
        raise ValueError(f"tl.view_as_complex: input has the wrong shape; expected (…, 2), got {input.shape}.")
    return jax.lax.complex(input[..., 0], input[..., 1])
