"""What constructors written for torch do to a parameter, applied to its description.

Torch's in-place initialisers and operations (`p.data.normal_(0, 0.02)`, `p.data[0].zero_()`, `p.data *= 2`,
`nn.init.orthogonal_(p.view(8, -1))`) replace the `init` of the leaf, a function `init(key, shape, dtype)`.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.nn import init as initialisers

Init = Callable[[jax.Array, tuple[int, ...], Any], jax.Array]

__all__ = ["Init", "Initialised", "copied", "fixed"]


def copied(value: Any, dtype: Any) -> jax.Array:
    """Return a copy of `value`, cast to `dtype` as torch's `copy_` does. Without x64, int64 becomes int32.

    Raises:
        OverflowError: if a number fits `dtype` but not the dtype that JAX uses for it.
    """
    narrow = jax.dtypes.canonicalize_dtype(dtype)
    if narrow != dtype and np.issubdtype(narrow, np.integer) and not isinstance(value, jax.core.Tracer):
        wide, most = np.asarray(value).astype(dtype), np.iinfo(narrow)
        if (outside := wide[(wide < most.min) | (wide > most.max)]).size:
            raise OverflowError(
                f"holds {outside[0]}; expected integers from {most.min} to {most.max}, because JAX has no "
                f"{np.dtype(dtype).name} without x64. Enable x64: jax.config.update('jax_enable_x64', True)."
            )
        value = wide
    return jnp.array(value, narrow)


def fixed(key: jax.Array, shape: tuple[int, ...], dtype: Any, *, array: Any) -> jax.Array:
    wide = array.dtype if jax.dtypes.canonicalize_dtype(array.dtype) == dtype else dtype
    return jnp.broadcast_to(copied(array, wide), shape)  # a copy: donated params must not take the start with them


def _in_part(key: jax.Array, shape: tuple[int, ...], dtype: Any, *, whole: Any, index: Any, part: Any) -> jax.Array:
    value = whole(key, shape, dtype)
    return value.at[index].set(part(jax.random.fold_in(key, 1), value[index].shape, dtype))


class Initialised:
    """A leaf or a part of a leaf. The in-place initialisers replace its `init`."""

    init: Init | None
    shape: tuple[int, ...] | None

    @property
    def data(self) -> "Initialised":
        return self

    @data.setter
    def data(self, array: Any) -> None:
        if array is not self:  # as after p.data *= 2
            self.copy_(array)

    @property
    def ndim(self) -> int:
        return len(self.size())

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

    def __len__(self) -> int:
        return self.size(0)

    def __getitem__(self, index: Any) -> "_Part":
        return _Part(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, _Part):  # a part is assigned to itself after p.data[0] *= 2
            self[index].copy_(value)

    def view(self, *shape: Any) -> "_View":
        """Return the leaf in another shape, as a target for initialisers."""
        return _View(self, shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape)

    reshape = view

    def __iter__(self) -> "Iterator[_Part]":
        return (self[i] for i in range(len(self)))

    def copy_(self, array: Any) -> "Initialised":
        """Set the initial value to `array`, broadcast to the shape."""
        array = array if isinstance(array, jax.Array) else np.asarray(array)
        if any(n not in (1, m) for n, m in zip(reversed(array.shape), reversed(self.size()), strict=False)) or (
            array.ndim > self.ndim
        ):
            raise ValueError(f"{type(self).__name__}: expected an array of shape {self.size()}, got {array.shape}.")
        self.init = functools.partial(fixed, array=array)
        return self

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> "Initialised":
        return initialisers.normal_(self, mean, std)

    def uniform_(self, a: float = 0.0, b: float = 1.0) -> "Initialised":
        return initialisers.uniform_(self, a, b)

    def fill_(self, value: float) -> "Initialised":
        return initialisers.constant_(self, value)

    def zero_(self) -> "Initialised":
        return initialisers.zeros_(self)

    def change(self, function: Callable[[jax.Array], jax.Array]) -> "Initialised":
        """Apply a function to the initial value."""
        if self.init is None:
            raise ValueError(f"{type(self).__name__}: there is no init to change. Call nn.init.normal_(p) first.")
        self.init = functools.partial(_changed, before=self.init, function=function)
        return self

    def mul_(self, other: Any) -> "Initialised":
        return self.change(functools.partial(_operated, operate=operator.mul, other=other))

    def div_(self, other: Any) -> "Initialised":
        return self.change(functools.partial(_operated, operate=operator.truediv, other=other))

    def add_(self, other: Any, *, alpha: float = 1) -> "Initialised":
        return self.change(functools.partial(_operated, operate=operator.add, other=other, alpha=alpha))

    def sub_(self, other: Any, *, alpha: float = 1) -> "Initialised":
        return self.change(functools.partial(_operated, operate=operator.sub, other=other, alpha=alpha))

    def clamp_(self, min: Any = None, max: Any = None) -> "Initialised":
        return self.change(functools.partial(_clamped, min=min, max=max))

    __imul__, __itruediv__, __iadd__, __isub__ = mul_, div_, add_, sub_


def _changed(key: jax.Array, shape: tuple[int, ...], dtype: Any, *, before: Init, function: Any) -> jax.Array:
    return function(before(key, shape, dtype)).astype(dtype)


def _clamped(value: jax.Array, *, min: Any, max: Any) -> jax.Array:
    return jnp.clip(value, min, max)


def _operated(value: jax.Array, *, operate: Any, other: Any, alpha: float = 1) -> jax.Array:
    return operate(value, jnp.asarray(other, value.dtype) * jnp.asarray(alpha, value.dtype))


class _Part(Initialised):
    """`leaf[index]` of a description. Initialising it changes only that part of the leaf's initial value."""

    def __init__(self, leaf: Initialised, index: Any):
        self._leaf, self._index = leaf, index
        whole = jax.ShapeDtypeStruct(leaf.size(), jnp.float32)
        self.shape = jax.eval_shape(lambda a: a[index], whole).shape

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
        self._leaf.init = functools.partial(
            _in_part, whole=self._leaf.init or initialisers.zeros(), index=self._index, part=new
        )

    def change(self, function: Callable[[jax.Array], jax.Array]) -> "Initialised":
        self._leaf.change(functools.partial(_in_place, index=self._index, function=function))
        return self


def _in_place(whole: jax.Array, *, index: Any, function: Any) -> jax.Array:
    return whole.at[index].set(function(whole[index]))


class _View(Initialised):
    """`leaf.view(shape)` of a description. Initialising it initialises the leaf."""

    def __init__(self, leaf: Initialised, shape: Sequence[int]):
        whole = jax.ShapeDtypeStruct(leaf.size(), jnp.float32)
        self._leaf, self.shape = leaf, jax.eval_shape(lambda a: a.reshape(shape), whole).shape

    @property
    def init(self) -> Init | None:
        return self._leaf.init and functools.partial(_reshaped, init=self._leaf.init, drawn=self._leaf.size())

    @init.setter
    def init(self, new: Any) -> None:
        self._leaf.init = functools.partial(_reshaped, init=new, drawn=self.size())


def _reshaped(key: jax.Array, shape: tuple[int, ...], dtype: Any, *, init: Init, drawn: tuple[int, ...]) -> jax.Array:
    return init(key, drawn, dtype).reshape(shape)
