"""Methods, such as `net.apply`, that `jax.jit` treats as new functions after the net has changed.

`jax.jit` reuses a compiled program if the function that it gets is equal to an earlier one. In Python, `net.apply` is
always equal to itself. A method that is decorated with `compared_by_description` is equal to itself only while the
description has the same modules, leaves and attributes, and the same items in its plain lists, dicts and sets.
"""

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from funcnet.nn.core.module_tree import Node, description_of
from funcnet.nn.core.parameter import Buffer, Computed, Parameter

__all__ = ["compared_by_description"]

Method = TypeVar("Method", bound=Callable[..., Any])


def compared_by_description(method: Method) -> Method:
    """Make a method of a module, such as `apply`, equal to itself only while the module is unchanged.

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

    def __get__(self, module: Node | None, owner: type | None = None) -> Any:
        return self.function if module is None else types.MethodType(_Function(self.function, module), module)


class _Function:
    """The function behind a method such as `net.apply`. Two such functions are equal if their modules had the same
    contents when the functions were first compared.
    """

    def __init__(self, function: Callable[..., Any], module: Node):
        functools.update_wrapper(self, function)
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]

    @functools.cached_property
    def contents(self) -> list[Any]:
        """The names and values of all attributes of the net. This list keeps the objects alive, because Python may
        reuse the ids of deleted objects.
        """
        return _contents(description_of(self.module))

    @functools.cached_property
    def key(self) -> tuple[int, tuple[int, ...]]:
        ids = tuple(map(id, self.contents))
        return hash(ids), ids

    def __hash__(self) -> int:
        return self.key[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Function) and self.__wrapped__ is other.__wrapped__ and self.key == other.key  # type: ignore[attr-defined]


def _contents(module: Node) -> list[Any]:
    """Return a list of the names and values of all attributes of a net: those of its modules and leaves, and the items
    of plain lists, sets and dicts.
    """
    found: list[Any] = []
    seen = {id(module)}
    todo = [module]
    while todo:
        own = vars(todo.pop())
        found += own
        found += own.values()
        for value in own.values():
            if type(value) in _SIMPLE:
                continue
            if isinstance(value, (Parameter, Buffer)):
                found += value.fields()
            elif isinstance(value, Computed):
                found += vars(value).values()
                found += value.source.fields()
            elif isinstance(value, Node):
                if id(value) not in seen:
                    seen.add(id(value))
                    todo.append(value)
            elif isinstance(value, (list, set)):
                found += value
            elif isinstance(value, dict):
                found += value
                found += value.values()
    return found


_SIMPLE = {bool, int, float, str, tuple, types.NoneType}  # most values have these types, so they are skipped first
