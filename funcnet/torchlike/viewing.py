"""Emulate views that are changed in place. JAX arrays do not change, so an array of positions represents a view.

In torch, a view shares the storage of its base. `positions(x)` numbers the elements of x. An operation that makes a
view of x (a slice, `reshape`, `swapaxes`) is applied to these numbers instead. The result contains the positions of the
view's elements in x. The operation runs in NumPy, so it costs nothing on a device. `read` returns and `write` changes
the elements of x at given positions, so a change is visible in all views of x.

Example:
    >>> import jax.numpy as jnp
    >>> import funcnet.torchlike as tl
    >>> x = jnp.zeros((2, 3))
    >>> row = tl.positions(x)[0]
    >>> x = tl.write(x, row[1:], 5.0)
    >>> x.tolist(), tl.read(x, row).tolist()
    ([[0.0, 5.0, 5.0], [0.0, 0.0, 0.0]], [0.0, 5.0, 5.0])
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

__all__ = ["positions", "read", "write"]

Positions = np.ndarray | jax.Array


def positions(x: jax.Array) -> np.ndarray:
    """Number the elements of an array in row-major order.

    Args:
        x: array of any shape.

    Returns:
        A NumPy array of the integers 0, 1, …, x.size - 1 in the shape of x.

    Example:
        >>> positions(jnp.ones((2, 3))).tolist()
        [[0, 1, 2], [3, 4, 5]]
    """
    return np.arange(math.prod(x.shape)).reshape(x.shape)


def read(x: jax.Array, at: Positions) -> jax.Array:
    """Return the elements of the base at the positions `at`. These elements are the value of a view of the base.

    Args:
        x: the base, of any shape.
        at: positions of elements in the base, an array of any shape. See `positions`.

    Returns:
        An array of the shape of `at`.

    Example:
        >>> x = jnp.array([[1, 2], [3, 4]])
        >>> read(x, positions(x).T).tolist()
        [[1, 3], [2, 4]]
    """
    return x.ravel()[at]


def write(x: jax.Array, at: Positions, value: ArrayLike) -> jax.Array:
    """Return the base with new elements at the positions `at`.

    The result is the base after a change of one of its views.

    Args:
        x: the base, of any shape.
        at: positions of elements in the base, an array of any shape. Each position may occur at most once. See
            `positions`.
        value: an array that broadcasts to the shape of `at`, or a number. The value is cast to the dtype of x.

    Returns:
        An array of the shape and dtype of x.

    Example:
        >>> x = jnp.array([[1, 2], [3, 4]])
        >>> write(x, positions(x).T[0], 0).tolist()
        [[0, 2], [0, 4]]
    """
    return x.ravel().at[at].set(jnp.asarray(value).astype(x.dtype)).reshape(x.shape)
