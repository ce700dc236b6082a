"""What a description knows of a leaf: its shape, its dtype and how it starts. No array is made before `Module.init`.

`Parameter` is what an optimizer moves; `Buffer` is state (running statistics, counters, caches). Attributes and the
in-place initialisers that constructors written for torch use (`p.dim()`, `p.data.normal_(0, 0.02)`,
`p.data[0].zero_()`) work on descriptions: they replace the leaf's `init`.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.nn import init as initialisers

Init = Callable[[jax.Array, tuple[int, ...], Any], jax.Array]

__all__ = ["Buffer", "Init", "Parameter"]


def _fixed(key: jax.Array, shape: tuple[int, ...], dtype: Any, *, array: Any) -> jax.Array:
    return jnp.broadcast_to(jnp.array(array, dtype), shape)  # a copy: who donates params does not donate the start


def _in_part(key: jax.Array, shape: tuple[int, ...], dtype: Any, *, whole: Any, index: Any, part: Any) -> jax.Array:
    value = whole(key, shape, dtype)
    return value.at[index].set(part(jax.random.fold_in(key, 1), value[index].shape, dtype))


class _Initialised:
    """Something whose `init` the in-place initialisers replace: a leaf, or a part of one."""

    init: Init | None
    shape: tuple[int, ...] | None

    @property
    def data(self) -> "_Initialised":
        return self

    @data.setter
    def data(self, array: Any) -> None:
        self.copy_(array)

    @property
    def ndim(self) -> int:
        return len(self.size())

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        if self.shape is None:
            raise ValueError(
                f"{type(self).__name__}: its shape is not known before `init` sees an example input. "
                "Initialise lazy modules by their constructor's arguments, or use the module that is not lazy."
            )
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return math.prod(self.size())

    def __len__(self) -> int:
        return self.size(0)

    def __getitem__(self, index: Any) -> "_Part":
        return _Part(self, index)

    def __iter__(self) -> "Iterator[_Part]":
        return (self[i] for i in range(len(self)))

    def copy_(self, array: Any) -> "_Initialised":
        """The start becomes `array`, broadcast to the shape."""
        array = array if isinstance(array, jax.Array) else np.asarray(array)
        if any(n not in (1, m) for n, m in zip(reversed(array.shape), reversed(self.size()), strict=False)) or (
            array.ndim > self.ndim
        ):
            raise ValueError(f"{type(self).__name__}: expected an array of shape {self.size()}, got {array.shape}.")
        self.init = functools.partial(_fixed, array=array)
        return self

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> "_Initialised":
        return initialisers.normal_(self, mean, std)

    def uniform_(self, a: float = 0.0, b: float = 1.0) -> "_Initialised":
        return initialisers.uniform_(self, a, b)

    def fill_(self, value: float) -> "_Initialised":
        return initialisers.constant_(self, value)

    def zero_(self) -> "_Initialised":
        return initialisers.zeros_(self)


class _Leaf(_Initialised):
    def __init__(self, shape_or_array: Any, init: Init | None, dtype: Any):
        self.homes: dict[tuple[str, str], None] = {}  # for errors only: (name, net's class) of each net that shares it
        self.shape: tuple[int, ...] | None
        if shape_or_array is None:
            self.shape, self.init, self.dtype = None, init, dtype or jnp.float32
        elif isinstance(shape_or_array, int | np.integer):
            self.shape, self.init, self.dtype = (int(shape_or_array),), init, dtype or jnp.float32
        elif isinstance(shape_or_array, Sequence) and all(isinstance(n, int | np.integer) for n in shape_or_array):
            self.shape, self.init, self.dtype = tuple(map(int, shape_or_array)), init, dtype or jnp.float32
        elif hasattr(shape_or_array, "shape"):
            if init is not None:
                raise TypeError(f"{type(self).__name__}: an array is its own start; expected no init. Drop one.")
            array = shape_or_array if isinstance(shape_or_array, jax.Array) else np.asarray(shape_or_array)
            self.shape, self.dtype = tuple(array.shape), dtype or array.dtype
            self.init = functools.partial(_fixed, array=array)
        else:
            raise TypeError(
                f"{type(self).__name__}: expected a shape (a tuple of ints) or an array, got "
                f"{type(shape_or_array).__name__}."
            )

    def start(self, key: jax.Array, name: str, shape: tuple[int, ...] | None = None) -> jax.Array:
        """The array this leaf starts as."""
        shape = self.shape if self.shape is not None else shape
        if shape is None:
            raise ValueError(f"init: the shape of {name!r} is not known. Give init an example input: init(rng, x).")
        if self.init is None:
            raise ValueError(
                f"init: {name!r} has no init. Give {type(self).__name__}(shape, init) one, or set it with nn.init."
            )
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        value = jnp.asarray(self.init(key, shape, dtype), dtype)
        if value.shape != shape:
            raise ValueError(f"init: the init of {name!r} gave shape {value.shape}; expected {shape}.")
        return value

    def __repr__(self) -> str:
        shape = "lazy" if self.shape is None else self.shape
        return f"{type(self).__name__}({shape}, dtype={np.dtype(self.dtype).name})"


class Parameter(_Leaf):
    """A learned array, described: `Parameter(shape, init)`, or `Parameter(array)` for a fixed start.

    Args:
        data: the shape (ints), or the array to start from.
        init: called as ``init(key, shape, dtype)``; `nn.init` has torch's.
        dtype: float32 unless told.
        requires_grad: False marks it as frozen: its gradient is zero and costs nothing.

    Differs from torch: holds no array; a shape takes the place of `torch.empty(shape)`.

    Example:
        >>> from funcnet import nn
        >>> p = nn.Parameter((3, 4), nn.init.xavier_uniform())
        >>> p.shape, p.numel(), p.requires_grad
        ((3, 4), 12, True)
    """

    def __init__(self, data: Any, init: Init | None = None, *, dtype: Any = None, requires_grad: bool = True):
        super().__init__(data, init, dtype)
        self.requires_grad = requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> "Parameter":
        self.requires_grad = requires_grad
        return self


class Buffer(_Leaf):
    """State that no gradient moves, described: `Buffer(shape, init)` or `Buffer(array)`.

    Args:
        data: the shape (ints), or the array to start from.
        init: called as ``init(key, shape, dtype)``; zeros unless told.
        persistent: whether `state_dict` holds it.
        dtype: float32 unless told. int64 counters are int32 in JAX without x64 and are widened in `state_dict`.

    Example:
        >>> from funcnet import nn
        >>> nn.Buffer((3,)).persistent
        True
    """

    def __init__(self, data: Any, init: Init | None = None, *, persistent: bool = True, dtype: Any = None):
        if init is None and not hasattr(data, "shape"):
            init = initialisers.zeros()
        super().__init__(data, init, dtype)
        self.persistent = persistent


class _Part(_Initialised):
    """`leaf[index]` of a description: initialising it changes that part of the leaf's start alone."""

    def __init__(self, leaf: _Initialised, index: Any):
        self._leaf, self._index = leaf, index
        whole = jax.ShapeDtypeStruct(leaf.size(), jnp.float32)
        self.shape = jax.eval_shape(lambda a: a[index], whole).shape

    @property
    def init(self) -> Init | None:
        return self._leaf.init

    @init.setter
    def init(self, new: Any) -> None:
        if self._leaf.init is None:
            raise ValueError(
                "Parameter: give the whole an init before a part of it: nn.init.normal_(p), then p[0].zero_()."
            )
        self._leaf.init = functools.partial(_in_part, whole=self._leaf.init, index=self._index, part=new)
