"""Copies of attribute values, such as lists and lambdas, in which bound modules replace modules without arrays.

In torch, a constructor may store a registered module a second time: in a plain list, a tuple or a dict, in a
`functools.partial`, as a method, or in a lambda that refers to `self`. Inside `forward`, all of these values must lead
to the bound copies of the modules. So `apply` gives the bound copy of a module copies of these values, and the module
itself keeps the originals.
"""

import copy
import functools
import types
from collections.abc import Iterable, Mapping
from typing import Any

from funcnet.nn.core.inputs_and_outputs import CONTAINERS
from funcnet.nn.core.module_tree import Node

__all__ = ["REFERRING", "Rebinder"]

# The types of values that may refer to modules. Other objects are not searched.
REFERRING = (*CONTAINERS, tuple, functools.partial, types.FunctionType, types.MethodType)
_SIMPLE = frozenset((bool, int, float, str, bytes, type, types.NoneType))  # most items have these types
_KINDS = (Node, *REFERRING)


class Rebinder:
    """Copies attribute values, such as lists, and replaces the modules inside these values.

    Args:
        made: {id(description): its replacement}. The descriptions must stay alive as long as this object.

    A plain container is copied, because `forward` may add tracers to the container, and a tracer must not outlive the
    call. Any other value is copied only if it refers to a module in `made`. A value that several attributes share has
    one copy.
    """

    def __init__(self, made: Mapping[int, Any]):
        self.made = made
        self.copies: dict[int, Any] = {}  # {id(original): copy}

    def copied(self, value: object) -> Any:
        """Return a copy of a value, or the value itself if it is not a container and does not refer to a module of
        `made`.
        """
        if isinstance(value, Node) and id(value) in self.made:
            return self.made[id(value)]
        if id(value) in self.copies:
            return self.copies[id(value)]
        if isinstance(value, CONTAINERS):
            return self._container(value)
        if not isinstance(value, _KINDS) or not self.refers(value):
            return value
        if isinstance(value, types.FunctionType):
            return self._function(value)
        new: Any
        if isinstance(value, tuple):
            items = map(self._within, value)
            new = type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        elif isinstance(value, types.MethodType):
            new = types.MethodType(self._within(value.__func__), self._within(value.__self__))
        elif isinstance(value, functools.partial):
            keywords = {name: self._within(item) for name, item in value.keywords.items()}
            new = functools.partial(self._within(value.func), *map(self._within, value.args), **keywords)
        else:
            new = self._module(value)
        self.copies[id(value)] = new
        return new

    def refers(self, value: object) -> bool:
        """Return whether a value refers to a module of `made`."""
        todo, seen = _referring([value]), set()
        while todo:
            one = todo.pop()
            if isinstance(one, Node) and id(one) in self.made:
                return True
            if id(one) not in seen:
                seen.add(id(one))
                todo += _referring(_contents(one))
        return False

    def _within(self, value: object) -> Any:
        """Return a copy of a value that a tuple, a function or a module contains. A value that refers to no module of
        `made` is returned itself, even if it is a container.
        """
        return self.copied(value) if self.refers(value) else value

    def _container(self, value: Any) -> Any:
        new = self.copies[id(value)] = copy.copy(value)
        if isinstance(value, set):
            if any(map(self.refers, _referring(value))):
                new.clear()
                new.update(map(self._within, value))
        elif isinstance(value, dict):
            if any(map(self.refers, _referring(value))):
                new.clear()
                new.update((self._within(key), item) for key, item in value.items())
            if not _SIMPLE.issuperset(map(type, new.values())):
                new.update((key, self.copied(item)) for key, item in list(new.items()))
        elif not _SIMPLE.issuperset(map(type, value)):
            for place, item in enumerate(value):
                if not _is_simple(item):
                    new[place] = self.copied(item)
        return new

    def _function(self, value: types.FunctionType) -> Any:
        """Copy a function, with new cells for the variables of its closure that refer to modules."""
        cells, todo = [], []
        for cell in value.__closure__ or ():
            if id(cell) not in self.copies and _is_filled(cell) and self.refers(cell.cell_contents):
                self.copies[id(cell)] = types.CellType()
                todo.append(cell)
            cells.append(self.copies.get(id(cell), cell))
        new = types.FunctionType(value.__code__, value.__globals__, value.__name__, None, tuple(cells) or None)
        self.copies[id(value)] = new  # before the cells are filled, because a function may refer to itself
        for cell in todo:
            self.copies[id(cell)].cell_contents = self.copied(cell.cell_contents)
        new.__defaults__ = self._within(value.__defaults__)
        defaults = value.__kwdefaults__
        new.__kwdefaults__ = defaults and {name: self._within(item) for name, item in defaults.items()}
        new.__qualname__, new.__doc__, new.__module__ = value.__qualname__, value.__doc__, value.__module__
        new.__annotations__ = value.__annotations__
        vars(new).update(vars(value))
        return new

    def _module(self, value: object) -> Any:
        """Copy an unregistered module that refers to registered ones, such as [nn.Sequential(self.a, self.b)]."""
        new = self.copies[id(value)] = object.__new__(type(value))
        vars(new).update((name, self._within(item)) for name, item in vars(value).items())
        return new


def _referring(values: Iterable[Any]) -> list[Any]:
    """Return those of the given values that may refer to modules, judged by their types."""
    return [one for one in values if not _is_simple(one) and isinstance(one, _KINDS)]


def _is_simple(value: Any) -> bool:
    """Return whether a value is a number, a string or of another type in `_SIMPLE`, or is a tuple of such values."""
    kind = type(value)
    return kind in _SIMPLE or (kind is tuple and _SIMPLE.issuperset(map(type, value)))


def _contents(value: Any) -> Any:
    """Return the objects that a value contains, such as the items of a list or the closure variables of a function."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, Node):
        return list(vars(value).values())
    return () if _SIMPLE.issuperset(map(type, value)) else value


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # the variable has no value yet
        return False
