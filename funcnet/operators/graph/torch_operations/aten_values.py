"""The values of torch's operations, in NumPy. A view in torch is a view here too, so the strides are the same."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

__all__ = ["VALUES"]

Array = NDArray[Any]
Sizes = Sequence[int]


def _wide(x: Array) -> Array:
    """Return `x` in a dtype with which NumPy can compute: numbers of 16 bits become float32."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def _narrow(found: Array, like: Array) -> Array:
    return found.astype(like.dtype) if found.dtype != like.dtype else found


def _same(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in at least float32 and return the dtype of the first array."""

    def run(x: Array, *others: ArrayLike | None, **settings: Any) -> Array:
        with np.errstate(all="ignore"):
            others = tuple(_wide(np.asarray(one, x.dtype)) if one is not None else None for one in others)
            return _narrow(np.asarray(function(_wide(x), *others, **settings)), x)

    return run


def _binary(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def run(self: Array, other: Array | float | None = None, **_: object) -> Array:
        if not hasattr(self, "dtype"):  # a number and an array
            return _same(lambda b, a: function(a, b))(other, self)
        return _same(function)(self, other)

    return run


def _unary(function: Callable[[Array], Array]) -> Callable[..., Array]:
    return lambda self, **_: _same(function)(self)


def _softmax(self: Array, dim: int) -> Array:
    shifted = np.exp(self - self.max(dim, keepdims=True))
    return np.ascontiguousarray(shifted / shifted.sum(dim, keepdims=True))


def _safe_softmax(self: Array, dim: int) -> Array:
    """Rows of scores that are all -inf become 0."""
    with np.errstate(all="ignore"):
        found = _softmax(self, dim)
    return np.where(np.all(np.isneginf(self), axis=dim, keepdims=True), 0, found)


def _log_softmax(self: Array, dim: int) -> Array:
    shifted = self - self.max(dim, keepdims=True)
    return np.ascontiguousarray(shifted - np.log(np.exp(shifted).sum(dim, keepdims=True)))


def _log_sigmoid(x: Array) -> Array:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: Array) -> Array:
    return np.exp(_log_sigmoid(x))


def _norm(self: Array, dim: Sizes, ord: float, keepdim: bool = False) -> Array:
    size = np.abs(self)
    axes = tuple(dim)
    if np.isinf(ord):
        return size.max(axes, keepdims=keepdim)
    return (size**ord).sum(axes, keepdims=keepdim) ** (1 / ord)


def _select(self: Array, dim: int, index: int) -> Array:
    return self[(slice(None),) * (dim % self.ndim) + (index,)]


def _slice(self: Array, dim: int, start: int, end: int, step: int = 1) -> Array:
    return self[(slice(None),) * (dim % self.ndim) + (slice(start, end, step),)]


def _squeeze(self: Array, dim: int) -> Array:
    return self.squeeze(dim) if self.shape[dim] == 1 else self


def _parts(self: Array, sizes: Sizes, dim: int) -> tuple[Array, ...]:
    return tuple(np.split(self, np.cumsum(sizes)[:-1], dim))


def _split(self: Array, split_size: int, dim: int) -> tuple[Array, ...]:
    return _parts(self, [split_size] * (self.shape[dim] // split_size), dim)


def _pad(self: Array, pad: Sizes, value: float = 0.0) -> Array:
    """Pad the last dimensions, those with the lowest numbers last, as torch does."""
    pairs = [(0, 0)] * (self.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    return np.pad(self, pairs, constant_values=value)


def _pool(self: Array, kernel_size: Sizes, stride: Sizes, **_: object) -> Array:
    """Mean over windows that fit, without padding."""
    count = len(kernel_size)
    windows = np.lib.stride_tricks.sliding_window_view(self, tuple(kernel_size), tuple(range(-count, 0)))
    steps = tuple(slice(None, None, step) for step in stride)
    chosen: tuple[Any, ...] = (..., *steps, *(slice(None),) * count)
    return windows[chosen].mean(tuple(range(-count, 0)))


def _index_copy(self: Array, index: Array, source: Array, dim: int) -> Array:
    found = self.copy()
    found[(slice(None),) * dim + (index,)] = source
    return found


def _gather(self: Array, index: Array, dim: int, **_: object) -> Array:
    return np.take_along_axis(self, index, dim)


def _product(a: Array, b: Array, **_: object) -> Array:
    return _narrow(np.matmul(_wide(a), _wide(b)), a)


def _addmm(self: Array, mat1: Array, mat2: Array, **_: object) -> Array:
    return np.ascontiguousarray(_narrow(_wide(self) + np.matmul(_wide(mat1), _wide(mat2)), mat1))


def _transpose(self: Array, dim0: int, dim1: int) -> Array:
    return self.swapaxes(dim0, dim1)


def _where(condition: Array, self: Array | float, other: Array | float) -> Array:
    like = self if hasattr(self, "dtype") else other
    return np.where(condition, self, other).astype(like.dtype)


def _power(self: Array, exponent: float) -> Array:
    return _same(lambda x: x**exponent)(self)


def _reduced(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(self: Array, dim: Sizes | None = None, keepdim: bool = False) -> Array:
        axes = None if dim is None else tuple(dim)
        return _same(lambda x: function(x, axis=axes, keepdims=keepdim))(self)

    return run


VALUES: dict[str, Callable[..., Any]] = {
    "relu": _unary(lambda x: np.maximum(x, 0)),
    "tanh": _unary(np.tanh),
    "sigmoid": _unary(_sigmoid),
    "log_sigmoid_forward": _unary(_log_sigmoid),
    "exp": _unary(np.exp),
    "log": _unary(np.log),
    "sqrt": _unary(np.sqrt),
    "rsqrt": _unary(lambda x: 1 / np.sqrt(x)),
    "abs": _unary(np.abs),
    "sign": _unary(np.sign),
    "neg": _unary(np.negative),
    "clone": lambda self, **_: np.ascontiguousarray(self).copy(),
    "add.Tensor": _binary(np.add),
    "add.Scalar": _binary(np.add),
    "sub.Tensor": _binary(np.subtract),
    "sub.Scalar": _binary(np.subtract),
    "rsub.Scalar": lambda self, other, **_: _same(lambda x: other - x)(self),
    "mul.Tensor": _binary(np.multiply),
    "mul.Scalar": lambda self, other: _same(lambda x: x * other)(self),
    "div.Scalar": lambda self, other: _same(lambda x: x / other)(self),
    "div.Tensor": _binary(np.divide),
    "minimum": _binary(np.minimum),
    "xlogy.Tensor": _binary(lambda a, b: np.where(a == 0, 0, a * np.log(np.where(a == 0, 1, b)))),
    "pow.Tensor_Scalar": _power,
    "clamp_min": lambda self, min: np.maximum(self, np.asarray(min, self.dtype)),
    "_softmax": lambda self, dim: _same(lambda x: _softmax(x, dim))(self),
    "_safe_softmax": lambda self, dim: _same(lambda x: _safe_softmax(x, dim))(self),
    "_log_softmax": lambda self, dim: _same(lambda x: _log_softmax(x, dim))(self),
    "masked_fill.Scalar": lambda self, mask, value: np.where(mask, np.asarray(value, self.dtype), self),
    "where.self": _where,
    "sum": _reduced(np.sum),
    "sum.dim_IntList": _reduced(np.sum),
    "mean": _reduced(np.mean),
    "mean.dim": _reduced(np.mean),
    "norm.ScalarOpt_dim": lambda self, p, dim, keepdim: _same(lambda x: _norm(x, dim, p, keepdim))(self),
    "linalg_vector_norm": lambda self, ord, dim, keepdim: _same(lambda x: _norm(x, dim, ord, keepdim))(self),
    "view": lambda self, size: self.reshape(size),
    "_unsafe_view": lambda self, size: self.reshape(size),
    "expand": lambda self, size: np.broadcast_to(self, size),
    "t": lambda self: self.T,
    "transpose.int": _transpose,
    "permute": lambda self, dims: self.transpose(dims),
    "select.int": _select,
    "slice.Tensor": _slice,
    "squeeze.dim": _squeeze,
    "squeeze_.dim": _squeeze,
    "_reshape_alias": lambda self, size: self.reshape(size),
    "squeeze": lambda self: self.squeeze(),
    "unsqueeze": lambda self, dim: np.expand_dims(self, dim),
    "repeat": lambda self, repeats: np.tile(self, repeats),
    "split.Tensor": _split,
    "unsafe_split.Tensor": _split,
    "split_with_sizes": lambda self, split_sizes, dim: _parts(self, split_sizes, dim),
    "unbind.int": lambda self, dim: tuple(np.moveaxis(self, dim, 0)),
    "cat": lambda tensors, dim: np.concatenate(tensors, dim),
    "stack": lambda tensors, dim: np.stack(tensors, dim),
    "mm": _product,
    "bmm": _product,
    "mv": _product,
    "dot": _product,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "gather": _gather,
    "index_select": lambda self, index, dim: np.take(self, index, dim),
    "index_copy": _index_copy,
    "constant_pad_nd": _pad,
    "avg_pool2d": _pool,
    "avg_pool3d": _pool,
}
