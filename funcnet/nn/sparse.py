"""Embedding and EmbeddingBag, as in torch/nn/modules/sparse.py."""

from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.nn import init
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.inspection.checked import IndexRange
from funcnet.nn.module.module import Module
from funcnet.nn.module.sharding import rules

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """Returns the row of a learnable table for each integer id.

    Args:
        num_embeddings: number of rows of the table.
        embedding_dim: size of each row.
        padding_idx: index of a row that starts as zeros and receives no gradient. A negative index counts from the end.
        max_norm: rows with a larger norm are scaled down to this norm when they are read.
        norm_type: order p of the norm that max_norm limits.
        scale_grad_by_freq: if True, divide each row's gradient by the number of times the row was looked up in this
            call.
        sparse: accepted for compatibility with torch. Gradients are always dense.
        dtype: dtype of the table, float32 by default.

    Params: weight (num_embeddings, embedding_dim), initialised from N(0, 1).
    Call: integer ids (*) in [0, num_embeddings) -> (*, embedding_dim).

    Differs from torch: with `max_norm`, forward does not change the table itself. `F.embedding_renorm` returns the
        table as torch would update it. Under `jit`, an id that is out of range does not raise an error. The output for
        such an id is NaN, and no row of the table receives a gradient from the id.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Embedding(10, 3, padding_idx=0)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.array([[0, 1], [2, 3]]))[0].shape
        (2, 2, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """

    sharding_rules = rules({"weight": (("tensor", "fsdp"),)})
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
        _weight: jax.Array | np.ndarray | None = None,
        _freeze: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row(self, padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.weight = _table(self, _weight, dtype)
        self.weight.requires_grad = not _freeze
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        _start(self)

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

    def index_range(self, *inputs: jax.Array) -> IndexRange | None:
        """Return the ids and the range that they must lie in, so that `nn.checked` can check them."""
        return IndexRange("ids", inputs[0], self.num_embeddings) if inputs else None

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        parts += _options(self)
        if self.sparse:
            parts.append("sparse=True")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: jax.Array | np.ndarray,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> "Embedding":
        """Return a layer whose table starts as the array `embeddings` (rows, row size). The table is frozen by default.

        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Embedding.from_pretrained(jnp.ones((4, 2))).weight.requires_grad
        False
        """
        rows, columns = _shape(cls.__name__, embeddings)
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


class EmbeddingBag(Module):
    """Looks up rows of a table and reduces the rows of each bag of ids to their sum, mean or maximum.

    Args:
        num_embeddings: number of rows of the table.
        embedding_dim: size of each row.
        max_norm: rows with a larger norm are scaled down to this norm when they are read.
        norm_type: order p of the norm that max_norm limits.
        scale_grad_by_freq: if True, divide each row's gradient by the number of times the row was looked up in this
            call. The mode 'max' does not support scale_grad_by_freq.
        mode: how the rows of each bag are reduced: 'sum', 'mean' or 'max'.
        sparse: accepted for compatibility with torch, except if `mode` is 'max'. Gradients are always dense.
        include_last_offset: if True, the last entry of `offsets` is the end of the last bag.
        padding_idx: index of a row that starts as zeros and that every bag ignores. A negative index counts from the
            end.
        dtype: dtype of the table, float32 by default.

    Params: weight (num_embeddings, embedding_dim), initialised from N(0, 1).
    Call: input (B, N) -> (B, embedding_dim), or input (N,) and offsets (B,) -> (B, embedding_dim). With mode='sum', an
        optional third input, per_sample_weights, contains one weight for each id. B is the number of bags. In an input
        (B, N), each row is a bag of N ids. In an input (N,), the bags are concatenated, and `offsets` contains the
        start of each bag. The output for an empty bag is 0.

    Differs from torch: see `F.embedding_bag`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.EmbeddingBag(10, 3, mode="sum")
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.array([1, 2, 4, 5, 4]), jnp.array([0, 2]))[0].shape
        (2, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.EmbeddingBag.html
    """

    sharding_rules = rules({"weight": (("tensor", "fsdp"),)})
    weight: Any

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: jax.Array | np.ndarray | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row(self, padding_idx)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.mode, self.include_last_offset = mode, include_last_offset
        self.weight = _table(self, _weight, dtype)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        _start(self)

    def forward(
        self, input: jax.Array, offsets: jax.Array | None = None, per_sample_weights: jax.Array | None = None
    ) -> jax.Array:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def index_range(self, *inputs: jax.Array) -> IndexRange | None:
        """Return the ids and the range that they must lie in, so that `nn.checked` can check them."""
        return IndexRange("ids", inputs[0], self.num_embeddings) if inputs else None

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts += _options(self)
        parts.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: jax.Array | np.ndarray,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> "EmbeddingBag":
        """Return a layer whose table starts as the array `embeddings` (rows, row size). The table is frozen by default.

        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.EmbeddingBag.from_pretrained(jnp.ones((4, 2))).weight.requires_grad
        False
        """
        rows, columns = _shape(cls.__name__, embeddings)
        layer = cls(
            rows,
            columns,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        layer.weight.requires_grad = not freeze
        return layer


Either = Embedding | EmbeddingBag


def _row(layer: Either, padding_idx: int | None) -> int | None:
    """Return `padding_idx` as a non-negative row number, or None if there is no padding row. Raise ValueError if the
    table has no row of this number.
    """
    rows = layer.num_embeddings
    if padding_idx is None or -rows <= padding_idx < rows:
        return None if padding_idx is None else padding_idx % rows
    raise ValueError(
        f"{type(layer).__name__}: padding_idx is out of range for num_embeddings; expected {-rows} to {rows - 1}, got "
        f"{padding_idx}."
    )


def _table(layer: Either, weight: jax.Array | np.ndarray | None, dtype: DTypeLike | None) -> Parameter:
    shape = (layer.num_embeddings, layer.embedding_dim)
    name = type(layer).__name__
    if min(shape) < 0:
        raise ValueError(
            f"{name}: a size of the table is negative; expected num_embeddings and embedding_dim of at least 0, "
            f"got {shape}."
        )
    if weight is None:
        return Parameter(shape, dtype=dtype)
    if tuple(weight.shape) != shape:
        raise ValueError(
            f"{name}: the shape of weight does not match num_embeddings and embedding_dim; expected {shape}, got "
            f"{tuple(weight.shape)}. Use {name}.from_pretrained to infer both sizes."
        )
    return Parameter(weight)


def _start(layer: Either) -> None:
    init.normal_(layer.weight)
    if layer.padding_idx is not None:
        layer.weight[layer.padding_idx].zero_()


def _options(layer: Either) -> list[str]:
    """Return the text "name=value" for each of the options max_norm, norm_type and scale_grad_by_freq that differs from
    its default.
    """
    defaults = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
    given = {name: getattr(layer, name) for name in defaults}
    return [f"{name}={value}" for name, value in given.items() if value != defaults[name]]


def _shape(name: str, embeddings: jax.Array | np.ndarray) -> tuple[int, int]:
    if len(embeddings.shape) != 2:
        raise ValueError(
            f"{name}.from_pretrained: the table has the wrong rank; expected 2 dimensions, got "
            f"{tuple(embeddings.shape)}."
        )
    rows, columns = embeddings.shape
    return rows, columns
