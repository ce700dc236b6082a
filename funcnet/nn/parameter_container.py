"""ParameterList and ParameterDict, as in torch/nn/modules/container.py.

ParameterList stores parameters by position, and ParameterDict stores them by key. Both containers turn an array into a
Parameter with this array as its initial value, and store all other values unchanged.
"""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any

import jax
import numpy as np

from funcnet.nn.container import pairs
from funcnet.nn.core.module_tree import frame_of
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module

__all__ = ["ParameterDict", "ParameterList"]

# names of tensor types that torch shows for the parameters of a ParameterDict
_TENSORS = {
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "complex64": "ComplexFloatTensor",
    "complex128": "ComplexDoubleTensor",
    "uint8": "ByteTensor",
    "int8": "CharTensor",
    "int16": "ShortTensor",
    "int32": "IntTensor",
    "int64": "LongTensor",
    "bool": "BoolTensor",
}


class _Holder(Module):
    """Base class of ParameterList and ParameterDict, which registers arrays and Parameters as parameters."""

    def _put(self, name: str, value: object) -> None:
        if isinstance(value, jax.Array | np.ndarray):
            value = Parameter(value)
        if hasattr(type(self), name):
            raise KeyError(f"{type(self).__name__}: the key {name!r} is an attribute of the class. Choose another key.")
        if isinstance(value, Parameter) and not hasattr(self, name):
            self.register_parameter(name, value)
        else:
            setattr(self, name, value)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise TypeError(
            f"{type(self).__name__}: a container of parameters has no forward and cannot be called. Use its values."
        )

    def _rows(self, entries: Iterable[tuple[Any, Any]], tensors: Mapping[str, str] | None = None) -> str:
        """Return the text of `extra_repr` in torch's format, with one line for each entry of the container."""
        rows = []
        for key, value in entries:
            if isinstance(value, Parameter | jax.Array):
                dtype = np.dtype(value.dtype).name
                dtype = tensors[dtype] if tensors else dtype
                size = "lazy" if value.shape is None else "x".join(map(str, value.shape))
                rows.append(f"  ({key}): Parameter containing: [torch.{dtype} of size {size}]")
            else:
                rows.append(f"  ({key}): Object of type: {type(value).__name__}")
        return "\n".join(rows)


class ParameterList(_Holder):
    """A list of parameters that can be indexed, sliced, iterated over and extended.

    Args:
        values: parameters, arrays or other values. Arrays become parameters, and other values are stored unchanged.

    Inside forward, the entries of a ParameterList are arrays, and a slice of a ParameterList is a plain list of arrays.

    Example:
        >>> import jax
        >>> from funcnet import nn
        >>> class Polynomial(nn.Module):
        ...     def __init__(self, degree):
        ...         super().__init__()
        ...         self.factors = nn.ParameterList(nn.Parameter((), nn.init.ones()) for _ in range(degree + 1))
        ...     def forward(self, x):
        ...         return sum(factor * x**power for power, factor in enumerate(self.factors))
        >>> net = Polynomial(2)
        >>> params, state = net.init(jax.random.key(0))
        >>> float(net.apply(params, state, 3.0)[0]), sorted(params["factors"])
        (13.0, ['0', '1', '2'])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ParameterList.html
    """

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name(self, index: int) -> str:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"{type(self).__name__}: index {index} is out of range for {len(self)} values.")
        return str(position % len(self))

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return getattr(self, self._name(index))
        values = [self[i] for i in range(len(self))[index]]
        return values if frame_of(self) is not None else type(self)(values)

    def __setitem__(self, index: int, value: object) -> None:
        self._put(self._name(index), value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> Any:
        return self.extend(values)

    def append(self, value: object) -> Any:
        """Append a value and return this container."""
        self._put(str(len(self)), value)
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Any:
        """Append several values and return this container."""
        if not isinstance(values, Iterable) or isinstance(values, jax.Array | np.ndarray | Parameter):
            raise TypeError(
                f"{type(self).__name__}.extend: expected an iterable of parameters, got {type(values).__name__}."
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return self._rows(enumerate(self))


class ParameterDict(_Holder):
    """A dict of parameters.

    Args:
        parameters: a mapping, another ParameterDict, or an iterable of (key, value) pairs. The keys of a plain dict are
            sorted, as in torch. The keys of an OrderedDict keep their order.

    Inside forward, the values of a ParameterDict are arrays, and `copy()` returns a plain dict of arrays.

    Example:
        >>> import jax
        >>> from funcnet import nn
        >>> scales = nn.ParameterDict({"left": nn.Parameter((2,), nn.init.ones()), "right": jax.numpy.zeros(3)})
        >>> list(scales), scales["right"].shape
        (['left', 'right'], (3,))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ParameterDict.html
    """

    def __init__(self, parameters: "Mapping[str, Any] | Iterable[tuple[str, Any]] | ParameterDict | None" = None):
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: object) -> None:
        if not isinstance(key, str):
            raise TypeError(
                f"{type(self).__name__}: a key has the wrong type; expected a string, got {type(key).__name__}."
            )
        self._put(key, value)
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)
        del self._keys[key]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> KeysView[str]:
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: object = None) -> Any:
        """Return the value of `key`, or `default` if the key is missing."""
        return dict(self.items()).get(key, default)

    def setdefault(self, key: str, default: object = None) -> Any:
        """Set `key` to `default` if the key is missing. Return the value of `key`."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove a key and return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last (key, value) pair."""
        if not self._keys:
            raise KeyError(f"{type(self).__name__}: popitem was called on an empty container.")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all keys and values."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> Any:
        """Return a new ParameterDict with the same parameters. Inside forward, return a plain dict."""
        return dict(self.items()) if frame_of(self) is not None else ParameterDict(self)

    def fromkeys(self, keys: Iterable[str], default: object = None) -> "ParameterDict":
        """Return a ParameterDict in which every key has the value `default`."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters: "Mapping[str, Any] | Iterable[tuple[str, Any]] | ParameterDict") -> None:
        """Add the values of a mapping, another ParameterDict, or an iterable of (key, value) pairs."""
        taken = pairs(f"{type(self).__name__}.update", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            taken.sort(key=lambda pair: pair[0])
        for key, value in taken:
            self[key] = value

    def __or__(self, other: "Mapping[str, Any] | ParameterDict") -> Any:
        copy = self.copy()
        copy.update(other)
        return copy

    def __ror__(self, other: Any) -> Any:
        copy = other.copy()
        copy.update(self)
        return copy

    def __ior__(self, other: "Mapping[str, Any] | ParameterDict") -> Any:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return self._rows(self.items(), _TENSORS)
