"""Embedding, as in torch/nn/modules/sparse.py."""

from typing import Any

import jax

from funcnet import functional as F
from funcnet.nn import init
from funcnet.nn.module import Module
from funcnet.nn.parameter import Parameter

__all__ = ["Embedding"]


class Embedding(Module):
    """Looks rows up in a table.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of a row.
        padding_idx: this row starts as zeros and gets no gradient; a negative one counts from the end.
        max_norm: rows longer than this are read as if scaled to it.
        norm_type: the p of that norm.
        scale_grad_by_freq: divides a row's gradient by how often the row was looked up in this call.
        sparse: accepted for torch's sake; gradients are dense.
        dtype: of the table, float32 unless told.

    Params: weight (num_embeddings, embedding_dim), N(0, 1).
    Call: (*) integers in [0, num_embeddings) -> (*, embedding_dim).

    Differs from torch: with `max_norm` the table itself does not change in forward; `F.embedding_renorm` gives the one
        that torch would be left with. Under `jit` an id out of range cannot raise: its row is NaN and gets no gradient.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Embedding(10, 3, padding_idx=0)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.array([[0, 1], [2, 3]]))[0].shape
        (2, 2, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """

    weight: Any

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        *,
        dtype: Any = None,
    ):
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(
                f"Embedding: padding_idx must be within num_embeddings; expected {-num_embeddings} to "
                f"{num_embeddings - 1}, got {padding_idx}. Name a row of the table, or None."
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            self.weight = Parameter((num_embeddings, embedding_dim), dtype=dtype, requires_grad=not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise ValueError(
                f"Embedding: the shape of weight does not match num_embeddings and embedding_dim; expected "
                f"{(num_embeddings, embedding_dim)}, got {tuple(_weight.shape)}. Use Embedding.from_pretrained."
            )
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight[self.padding_idx].zero_()

    def forward(self, input: jax.Array) -> jax.Array:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> "Embedding":
        """A layer whose table starts as `embeddings`, an array (rows, size of a row); frozen unless told.

        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Embedding.from_pretrained(jnp.ones((4, 2))).weight.requires_grad
        False
        """
        if len(embeddings.shape) != 2:
            raise ValueError(
                f"{cls.__name__}.from_pretrained: expected a table of 2 dimensions, got {tuple(embeddings.shape)}."
            )
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            _weight=embeddings,
            _freeze=freeze,
        )
