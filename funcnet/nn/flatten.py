"""Flatten and Unflatten, as in torch/nn/modules/flatten.py."""

import math
from collections.abc import Sequence

import jax

from funcnet.functional import checks
from funcnet.nn.module.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merges consecutive dimensions into one.

    Args:
        start_dim: first dimension to merge.
        end_dim: last dimension to merge (inclusive).

    Call: (*, S_start, …, S_end, *) -> (*, S_start · … · S_end, *), with S_i the size of dimension i.

    Raises:
        ValueError: if a dimension is out of range, or `end_dim` comes before `start_dim`.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Flatten().apply({}, {}, jnp.ones((2, 3, 4)))[0].shape
        (2, 12)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Flatten.html
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: jax.Array) -> jax.Array:
        rank = max(input.ndim, 1)
        for dim in (self.start_dim, self.end_dim):
            if not -rank <= dim < rank:
                raise ValueError(
                    f"Flatten: dimension out of range; expected {-rank} to {rank - 1}, got {dim} for an input of shape "
                    f"{input.shape}."
                )
        start, end = self.start_dim % rank, self.end_dim % rank
        if start > end:
            raise ValueError(
                f"Flatten: start_dim cannot come after end_dim; got {self.start_dim} and {self.end_dim} for an input "
                f"of shape {input.shape}."
            )
        return input.reshape(*input.shape[:start], math.prod(input.shape[start : end + 1]), *input.shape[end + 1 :])

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several, the inverse of `Flatten`.

    Args:
        dim: dimension to split.
        unflattened_size: tuple or list of the new sizes. One of the new sizes may be -1, and is then inferred from the
            size of `dim`.

    Call: (*, S, *) -> (*, S_1, …, S_n, *) with S = S_1 · … · S_n.

    Raises:
        TypeError: if `unflattened_size` is not a tuple or list of ints, or `dim` is a name.
        ValueError: if `dim` is out of range, or the product of the sizes is not the size of `dim`.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Unflatten(1, (2, -1)).apply({}, {}, jnp.ones((2, 50, 4)))[0].shape
        (2, 2, 25, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unflatten.html
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]):
        super().__init__()
        if not isinstance(unflattened_size, tuple | list) or any(not isinstance(n, int) for n in unflattened_size):
            raise TypeError(
                "Unflatten: unflattened_size is not a tuple of ints; expected ints, got "
                f"{unflattened_size!r}. Pass sizes without names, because named dimensions are not supported."
            )
        if isinstance(dim, str):
            raise TypeError(
                f"Unflatten: dim is a name; expected an int, got {dim!r}. "
                "Pass the index of the dimension, because named dimensions are not supported."
            )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: jax.Array) -> jax.Array:
        dim, sizes = checks.as_int("Unflatten", "dim", self.dim), list(self.unflattened_size)
        if not -input.ndim <= dim < input.ndim:
            raise ValueError(
                f"Unflatten: dimension out of range; expected {-input.ndim} to {input.ndim - 1}, got {dim} for an "
                f"input of shape {input.shape}."
            )
        dim %= input.ndim
        total, known = input.shape[dim], math.prod(n for n in sizes if n != -1)
        if sizes.count(-1) == 1 and known > 0:
            sizes[sizes.index(-1)] = total // known
        if not sizes or min(sizes) < 0 or math.prod(sizes) != total:
            raise ValueError(
                f"Unflatten: the product of the sizes is not the size of dimension {dim}; expected a product of "
                f"{total}, got {self.unflattened_size}. At most one size may be -1."
            )
        return input.reshape(*input.shape[:dim], *sizes, *input.shape[dim + 1 :])

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
