"""Methods that JAX's caches tell apart when the description they belong to has changed.

`jax.jit(net.apply)` looks for an earlier program of an equal function, and Python's methods of one object are always
equal. Those marked here are equal as long as the description is what it was: the same modules, leaves and attributes,
and the same items in its plain lists, dicts and sets.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.core.parts import Node, description_of

__all__ = ["compared_by_description"]

Method = TypeVar("Method", bound=Callable[..., Any])


def compared_by_description(method: Method) -> Method:
    """The method, equal to itself only while the description it is taken from has not changed.

    >>> from funcnet import nn
    >>> net = nn.Sequential(nn.ReLU())
    >>> before = net.apply
    >>> before == net.apply
    True
    >>> net[0] = nn.Tanh()
    >>> before == net.apply
    False
    """
    return cast(Method, _Descriptor(method))


class _Descriptor:
    def __init__(self, function: Callable[..., Any]):
        self.function, self.__doc__ = function, function.__doc__

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        return self.function if module is None else types.MethodType(_Function(self.function, module), module)


class _Function:
    """The function beneath a method: equal to one whose description held the very same things when first compared."""

    def __init__(self, function: Callable[..., Any], module: Any):
        functools.update_wrapper(self, function)
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]

    @functools.cached_property
    def held(self) -> list[Any]:
        """Kept, not only numbered: the memory of what is swapped out may go to what is swapped in."""
        return _held(description_of(self.module))

    @functools.cached_property
    def key(self) -> tuple[int, tuple[int, ...]]:
        ids = tuple(map(id, self.held))
        return hash(ids), ids

    def __hash__(self) -> int:
        return self.key[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Function) and self.__wrapped__ is other.__wrapped__ and self.key == other.key  # type: ignore[attr-defined]


def _held(module: Any) -> list[Any]:
    """The names and values of all attributes of the modules and leaves, in the order of a walk."""
    held: list[Any] = []
    seen = {id(module)}
    todo = [module]
    while todo:
        own = vars(todo.pop())
        held += own
        held += own.values()
        for value in own.values():
            if type(value) in _SIMPLE:
                continue
            if isinstance(value, (Parameter, Buffer)):
                held += vars(value).values()
            elif isinstance(value, Computed):
                held += vars(value).values()
                held += vars(value.source).values()
            elif isinstance(value, Node):
                if id(value) not in seen:
                    seen.add(id(value))
                    todo.append(value)
            elif isinstance(value, (list, set)):
                held += value
            elif isinstance(value, dict):
                held += value
                held += value.values()
    return held


_SIMPLE = {bool, int, float, str, tuple, types.NoneType}  # most values by far: passed over first
