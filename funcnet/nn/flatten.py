"""Flatten, as in torch/nn/modules/flatten.py."""

import math

import jax

from funcnet.nn.module import Module

__all__ = ["Flatten"]


class Flatten(Module):
    """Makes one dimension of a run of them.

    Args:
        start_dim: the first dimension of the run.
        end_dim: the last one, itself included.

    Call: (*, S_start, …, S_end, *) -> (*, S_start · … · S_end, *).

    Raises:
        ValueError: a dimension that is not there, or a run that ends before it starts.

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
                    f"Flatten: dimension out of range; expected {-rank} to {rank - 1}, got {dim}. The input is "
                    f"{input.shape}."
                )
        start, end = self.start_dim % rank, self.end_dim % rank
        if start > end:
            raise ValueError(
                f"Flatten: start_dim cannot come after end_dim; got {self.start_dim} and {self.end_dim} for an input "
                f"of shape {input.shape}. Swap them."
            )
        return input.reshape(*input.shape[:start], math.prod(input.shape[start : end + 1]), *input.shape[end + 1 :])

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
