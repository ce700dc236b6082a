"""Torch's in-place initialisation of a parameter, applied to its description.

Torch's in-place initialisers and operations (`p.data.normal_(0, 0.02)`, `p.data[0].zero_()`, `p.data *= 2`,
`nn.init.orthogonal_(p.view(8, -1))`) replace the `init` of the leaf, a function `init(key, shape, dtype)`.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.nn.init import initialisers
from funcnet.nn.init.composed import (
    Same,
    bernoulli,
    changed,
    clamped,
    filled,
    fixed,
    in_part,
    in_place,
    named,
    operated,
    parts_in,
    reshaped,
)
from funcnet.nn.init.initialisers import Init

__all__ = ["Clone", "Initialised"]


class Initialised:
    """A leaf (such as a parameter) or a part of it. Torch's in-place initialisers replace the `init` of the leaf."""

    init: Init | None
    shape: tuple[int, ...] | None
    dtype: Any
    can_be_copied = True  # whether the initial value is what `init` draws, so that a copy can draw it again

    @property
    def data(self) -> "Initialised":
        return self

    @data.setter
    def data(self, array: "jax.typing.ArrayLike | Initialised") -> None:
        if array is self:  # as after p.data *= 2
            return
        if isinstance(array, Initialised):
            if array.origin is not self and not isinstance(array.origin, Clone):
                raise shares(type(self).__name__, array)
            init = Same(array)
            self._resize(array.size(), array.dtype)
            self.init = init
            return
        self._resize(jnp.shape(array), None)
        self.copy_(array)

    def _resize(self, shape: tuple[int, ...], dtype: jax.typing.DTypeLike | None) -> None:
        """Set the shape of this leaf to that of an array that is assigned to `data`, and also the dtype unless `dtype`
        is None. If this object is only a part of a leaf, nothing changes.
        """

    @property
    def origin(self) -> "Initialised":
        """Return this object if it is a leaf, else the leaf of which it is a part or a view."""
        return self

    def within(self, whole: jax.Array) -> jax.Array:
        """Return the value of this part, given `whole`, the value of the entire leaf."""
        return whole

    def put(self, whole: jax.Array, value: jax.Array) -> jax.Array:
        """Return `whole`, the value of the entire leaf, with `value` in place of this part."""
        return value

    def clone(self, *, memory_format: object = None) -> "Clone":
        """Return a copy with the same initial value, which can become a separate parameter or buffer."""
        return Clone(self)

    def detach(self) -> "Initialised":
        """Return the leaf itself. A description has no gradient to detach."""
        return self

    @property
    def ndim(self) -> int:
        return len(self.size())

    @property
    def aval(self) -> Any:
        """Raise TypeError. JAX reads this attribute when a description is used as an array."""
        raise TypeError(
            f"{self!r} is a description and has no values; expected an array. The arrays are in the params and state "
            "that net.init returns. Inside forward, they are attributes of the modules. Parameters in a plain list "
            "are not replaced by arrays: use nn.ParameterList."
        )

    def __jax_array__(self) -> Any:
        return self.aval

    def __repr__(self) -> str:
        shape = "lazy" if self.shape is None else self.shape
        return f"{type(self).__name__.strip('_')}({shape}, dtype={np.dtype(self.dtype).name})"

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        if self.shape is None:
            raise ValueError(
                f"{type(self).__name__}: the shape is not known before `init` gets an example input. Initialise the "
                "parameter with a function of nn.init, or use the module class that is not lazy."
            )
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return math.prod(self.size())

    nelement = numel

    def __len__(self) -> int:
        return self.size(0)

    def __getitem__(self, index: int | slice | tuple[Any, ...] | jax.Array | None) -> "_Part":
        return _Part(self, index)

    def __setitem__(self, index: int | slice | tuple[Any, ...] | jax.Array | None, value: Any) -> None:
        if not (isinstance(value, _Part) and value.is_at(self, index)):  # as after p.data[0] *= 2
            self[index].copy_(value)

    def view(self, *shape: Any) -> "_View":
        """Return a view of the leaf in another shape, which torch's initialisers can initialise."""
        return _View(self, shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape)

    reshape = view

    def flatten(self) -> "_View":
        return self.view(-1)

    def chunk(self, chunks: int, dim: int = 0) -> "tuple[_Part, ...]":
        """Split the leaf along dimension `dim` into `chunks` parts, which can be initialised separately."""
        return self.split(-(-self.size(dim) // chunks), dim)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> "tuple[_Part, ...]":
        """Split the leaf along dimension `dim` into parts of the given sizes, which can be initialised separately."""
        whole = self.size(dim)
        if not isinstance(split_size, Sequence):
            split_size = [min(split_size, whole - start) for start in range(0, whole, split_size)]
        if sum(split_size) != whole:
            raise ValueError(
                f"{type(self).__name__}.split: the sizes do not fill dimension {dim}; expected a sum of {whole}, got "
                f"{list(split_size)}."
            )
        starts = itertools.accumulate(split_size, initial=0)
        return tuple(self.narrow(dim, start, size) for start, size in zip(starts, split_size, strict=False))

    def narrow(self, dim: int, start: int, length: int) -> "_Part":
        """Return the part from `start` to `start + length` along dimension `dim`, for separate initialisation."""
        return self[(slice(None),) * (dim % self.ndim) + (slice(start, start + length),)]

    def __iter__(self) -> "Iterator[_Part]":
        return (self[i] for i in range(len(self)))

    def copy_(self, array: "jax.typing.ArrayLike | Initialised") -> "Initialised":
        """Set the initial value to `array`, broadcast to the shape of this leaf. If `array` is a leaf or a part of a
        leaf, copy the initial value that `array` has at the time of this call.
        """
        if not isinstance(array, jax.Array | Initialised):
            array = np.asarray(array)
        shape = array.size() if isinstance(array, Initialised) else array.shape
        if any(n not in (1, m) for n, m in zip(reversed(shape), reversed(self.size()), strict=False)) or (
            len(shape) > self.ndim
        ):
            raise ValueError(
                f"{type(self).__name__}: expected an array that broadcasts to shape {self.size()}, got shape {shape}."
            )
        if not isinstance(array, Initialised):
            self.init = functools.partial(fixed, array=array)
        elif array.origin is self.origin:
            self.origin.change(functools.partial(_moved, source=array, target=self))
        else:
            self.init = Same(array)
        return self

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: object = None) -> "Initialised":
        return initialisers.normal_(self, mean, std, generator)

    def uniform_(self, a: float = 0.0, to: float = 1.0, *, generator: object = None) -> "Initialised":
        return initialisers.uniform_(self, a, to, generator)

    def bernoulli_(self, p: float = 0.5, *, generator: object = None) -> "Initialised":
        self.init = functools.partial(bernoulli, p=p)
        return self

    def fill_(self, value: float) -> "Initialised":
        return initialisers.constant_(self, value)

    def zero_(self) -> "Initialised":
        return initialisers.zeros_(self)

    def change(self, function: Callable[[jax.Array], jax.Array]) -> "Initialised":
        """Apply `function` to the initial value of the leaf."""
        if self.init is None:
            raise ValueError(f"{type(self).__name__}: there is no init to change. Call nn.init.normal_(p) first.")
        self.init = functools.partial(changed, before=self.init, function=function)
        return self

    def mul_(self, other: jax.typing.ArrayLike) -> "Initialised":
        return self._operate(operator.mul, other)

    def div_(self, other: jax.typing.ArrayLike) -> "Initialised":
        return self._operate(operator.truediv, other)

    def add_(self, other: jax.typing.ArrayLike, *, alpha: float = 1) -> "Initialised":
        return self._operate(operator.add, other, alpha=alpha)

    def sub_(self, other: jax.typing.ArrayLike, *, alpha: float = 1) -> "Initialised":
        return self._operate(operator.sub, other, alpha=alpha)

    def clamp_(self, min: jax.typing.ArrayLike | None = None, max: jax.typing.ArrayLike | None = None) -> "Initialised":
        return self.change(functools.partial(clamped, min=min, max=max))

    clip_ = clamp_

    def clamp_min_(self, min: jax.typing.ArrayLike) -> "Initialised":
        return self.clamp_(min)

    def clamp_max_(self, max: jax.typing.ArrayLike) -> "Initialised":
        return self.clamp_(max=max)

    def pow_(self, exponent: jax.typing.ArrayLike) -> "Initialised":
        return self._apply("power", exponent)

    def abs_(self) -> "Initialised":
        return self._apply("abs")

    def neg_(self) -> "Initialised":
        return self._apply("negative")

    def sign_(self) -> "Initialised":
        return self._apply("sign")

    def round_(self) -> "Initialised":
        return self._apply("round")

    def floor_(self) -> "Initialised":
        return self._apply("floor")

    def ceil_(self) -> "Initialised":
        return self._apply("ceil")

    def square_(self) -> "Initialised":
        return self._apply("square")

    def sqrt_(self) -> "Initialised":
        return self._apply("sqrt")

    def reciprocal_(self) -> "Initialised":
        return self._apply("reciprocal")

    def exp_(self) -> "Initialised":
        return self._apply("exp")

    def log_(self) -> "Initialised":
        return self._apply("log")

    def tanh_(self) -> "Initialised":
        return self._apply("tanh")

    def erfinv_(self) -> "Initialised":
        return self.change(jax.scipy.special.erfinv)

    def triu_(self, diagonal: int = 0) -> "Initialised":
        return self._apply("triu", diagonal)

    def tril_(self, diagonal: int = 0) -> "Initialised":
        return self._apply("tril", diagonal)

    def masked_fill_(self, mask: jax.typing.ArrayLike, value: jax.typing.ArrayLike) -> "Initialised":
        return self.change(functools.partial(filled, mask=mask, value=value))

    def _operate(self, operate: Callable[..., Any], other: jax.typing.ArrayLike, alpha: float = 1) -> "Initialised":
        if isinstance(other, Initialised):
            raise _no_values(self, other)
        return self.change(functools.partial(operated, operate=operate, other=other, alpha=alpha))

    def _apply(self, name: str, *args: jax.typing.ArrayLike) -> "Initialised":
        return self.change(functools.partial(named, name=name, args=args))

    __imul__, __itruediv__, __iadd__, __isub__ = mul_, div_, add_, sub_


def _moved(whole: jax.Array, *, source: Initialised, target: Initialised) -> jax.Array:
    return target.put(whole, jnp.broadcast_to(source.within(whole), target.size()))


def _no_values(target: object, source: Initialised) -> TypeError:
    return TypeError(
        f"{type(target).__name__}: a {type(source).__name__.strip('_')} describes an array and has no values here; "
        f"expected an array, got a description of shape {source.size()}. Compute with the arrays in params, after "
        "init: params['a'] = 0.5 * params['b']."
    )


def shares(where: str, source: Initialised) -> TypeError:
    """Return the error for an assignment that would let two parameters or buffers share their values."""
    return TypeError(
        f"{where}: two leaves cannot share their values; expected an array or a copy, got a description of shape "
        f"{source.size()}. Copy it with p.data.clone(), or assign the parameter itself to tie the two."
    )


class Clone(Initialised):
    """The copy that `p.data.clone()` makes of a leaf or of a part of one. The copy does not belong to a net.

    `nn.Parameter`, `nn.Buffer`, `register_buffer`, `copy_` and `data = …` accept a `Clone` in place of an array.
    """

    def __init__(self, source: Initialised):
        self.init: Init | None = Same(source)
        self.shape, self.dtype = source.size(), source.dtype


class _Portion(Initialised):
    """The base class for a part of a leaf and for a view of a leaf in another shape."""

    _leaf: Initialised

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        return self._leaf.dtype

    @property
    def origin(self) -> Initialised:
        return self._leaf.origin


class _Part(_Portion):
    """The part `leaf[index]` of a leaf. Initialising this part leaves the rest of the leaf unchanged."""

    def __init__(self, leaf: Initialised, index: int | slice | tuple[Any, ...] | jax.Array | None):
        self._leaf, self._index = leaf, index
        whole = jax.ShapeDtypeStruct(leaf.size(), jnp.float32)
        self.shape = jax.eval_shape(lambda a: a[index], whole).shape

    def within(self, whole: jax.Array) -> jax.Array:
        return self._leaf.within(whole)[self._index]

    def put(self, whole: jax.Array, value: jax.Array) -> jax.Array:
        return self._leaf.put(whole, self._leaf.within(whole).at[self._index].set(value))

    def is_at(self, leaf: Initialised, index: int | slice | tuple[Any, ...] | jax.Array | None) -> bool:
        return self._leaf is leaf and self._index is index

    @property
    def init(self) -> Init | None:
        return self._leaf.init

    @init.setter
    def init(self, new: Any) -> None:
        if self._leaf.init is None and self.shape != self._leaf.size():
            raise ValueError(
                "Parameter: the entire parameter must have an init before a part of it is initialised. For example, "
                "call nn.init.normal_(p) before p[0].zero_()."
            )
        whole = self._leaf.init or initialisers.zeros()
        self._leaf.init = functools.partial(
            in_part, whole=whole, index=self._index, part=new, place=1 + parts_in(whole)
        )

    def change(self, function: Callable[[jax.Array], jax.Array]) -> "Initialised":
        self._leaf.change(functools.partial(in_place, index=self._index, function=function))
        return self


class _View(_Portion):
    """The view `leaf.view(shape)` of a leaf. Initialising this view initialises the entire leaf."""

    def __init__(self, leaf: Initialised, shape: Sequence[int]):
        whole = jax.ShapeDtypeStruct(leaf.size(), jnp.float32)
        self._leaf, self.shape = leaf, jax.eval_shape(lambda a: a.reshape(shape), whole).shape

    def within(self, whole: jax.Array) -> jax.Array:
        return self._leaf.within(whole).reshape(self.size())

    def put(self, whole: jax.Array, value: jax.Array) -> jax.Array:
        return self._leaf.put(whole, value.reshape(self._leaf.size()))

    @property
    def init(self) -> Init | None:
        return self._leaf.init and functools.partial(reshaped, init=self._leaf.init, drawn=self._leaf.size())

    @init.setter
    def init(self, new: Any) -> None:
        self._leaf.init = functools.partial(reshaped, init=new, drawn=self.size())
