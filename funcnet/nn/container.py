"""Sequential, ModuleList and ModuleDict, as in torch/nn/modules/container.py.

ParameterList and ParameterDict are in `parameter_container.py`. A container may contain None in place of a module. A
None counts in the positions and in the length of its container.
"""

import operator
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from funcnet.nn.core.description import Description, is_torchs
from funcnet.nn.core.module_tree import frame_of, set_frame, slots, with_children
from funcnet.nn.module.module import Module
from funcnet.tree import PyTree

__all__ = ["ModuleDict", "ModuleList", "Numbered", "Sequential", "pairs"]


def pairs(where: str, given: object) -> list[tuple[str, Any]]:
    """Return `given` as a list of (name, value) pairs. `given` may be a mapping, another object with `items()`, or an
    iterable of pairs.
    """
    if hasattr(given, "items"):
        return list(given.items())
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{where}: the argument has no names; expected a mapping or an iterable of (name, value) pairs, got "
            f"{type(given).__name__}."
        )
    found = [tuple(pair) if isinstance(pair, Iterable) else (pair,) for pair in given]
    for number, pair in enumerate(found):
        if len(pair) != 2:
            raise ValueError(
                f"{where}: element {number} is not a pair; expected (name, value), got {len(pair)} entries."
            )
    return found


class _Container(Module):
    """Base class of containers, whose children are accessible by position or key as well as by attribute."""

    def __len__(self) -> int:
        return len(slots(self))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Numbered(_Container):
    """A container with the interface of a list, whose children are named "0", "1", …."""

    def _set(self, modules: Iterable[Any]) -> None:
        """Replace all children with `modules`, named "0", "1", … in their order."""
        self.require_singles()
        modules = list(modules)
        for module in modules:
            if module is not None and not isinstance(module, Description):
                advice = "Import it from funcnet instead of torch." if is_torchs(module) else "Wrap it in a Module."
                raise TypeError(
                    f"{type(self).__name__}: an entry is not a module; expected a Module or None, got "
                    f"{type(module).__name__}. {advice}"
                )
        for name, _ in slots(self):
            delattr(self, name)
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def require_singles(self) -> None:
        """Do nothing. Subclasses in which one child represents several modules, such as a stacked `Repeat`, raise an
        error here. Every method that accesses a single module calls this method first.
        """

    def __iter__(self) -> Iterator[Any]:
        self.require_singles()
        return iter([child for _, child in slots(self)])

    def _position(self, index: int, end: int) -> int:
        self.require_singles()
        position = operator.index(index)
        if not -end <= position < end:
            raise IndexError(f"{type(self).__name__}: index {index} is out of range for {len(self)} modules.")
        return position % end if end else 0

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._slice(index)
        return list(self)[self._position(index, len(self))]

    def _slice(self, index: slice) -> Any:
        """Return a container with the modules that `index` selects and all other attributes of this container. If this
        container is bound to arrays (inside forward), the new container is bound to the same arrays.
        """
        part, frame = with_children(self, self._sliced(slots(self)[index])), frame_of(self)
        if frame is not None:
            name = f"{frame.name}[{index.start}:{index.stop}]"
            set_frame(part, frame.slice(frame.description._slice(index), name))
        return part

    def _sliced(self, entries: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the modules of a slice by name, renumbered from "0". `Sequential` keeps their names instead."""
        return {str(i): child for i, (_, child) in enumerate(entries)}

    def __setitem__(self, index: int, module: Module | None) -> None:
        name = slots(self)[self._position(index, len(self))][0]
        setattr(self, name, module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index if isinstance(index, slice) else self._position(index, len(self))]
        self._set(modules)

    def append(self, module: Module | None) -> Any:
        """Append a module."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Any]) -> Any:
        """Append several modules, in order."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend: expected an iterable of modules, got {type(modules).__name__}."
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module | None) -> Any:
        """Insert a module at position `index`, and renumber the modules after it."""
        modules = list(self)
        n, names = len(modules), [name for name, _ in slots(self)]
        if not -n <= operator.index(index) <= n:
            raise IndexError(f"{type(self).__name__}: index {index} is out of range for {n} modules.")
        at = index + n if index < 0 else index
        if names[at:] != [str(i) for i in range(at, n)]:
            raise KeyError(
                f"{type(self).__name__}.insert: the modules are not named by position; expected the names '0', '1', …, "
                f"got {names}. Create a new container with the modules in the desired order."
            )
        modules.insert(at, module)
        for i in range(at, n + 1):
            self.add_module(str(i), modules[i])
        return self

    def pop(self, key: int | slice = -1) -> Any:
        """Remove and return the module at position `key`, or the modules of the slice `key`. Renumber the remaining
        modules.
        """
        module = self[key]
        del self[key]
        return module

    def __iadd__(self, other: Iterable[Any]) -> Any:
        return self.extend(other)


class Sequential(Numbered):
    """Runs its modules one after another, each on the output of the previous module.

    Args:
        *args: modules, or a single mapping from names to modules.

    A slice of a Sequential keeps the names of its modules, as in torch: the modules of `net[1:]` are named "1", "2", ….
    If `a` and `b` are Sequentials, `a + b` runs the modules of `a` and then those of `b`. `a * 3` runs the modules of
    `a` three times, with the same parameters and buffers each time.

    Differs from torch: any mapping from names to modules is accepted, not only an OrderedDict.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> params, state = net.init(jax.random.key(0))
        >>> net.apply(params, state, jnp.ones((5, 3)))[0].shape
        (5, 2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Sequential.html
    """

    def __init__(self, *args: Module | Mapping[str, Module]):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self._set(args)

    def _sliced(self, entries: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(entries)

    def forward(self, input: PyTree) -> Any:
        for module in self:
            input = module(input)
        return input

    def __add__(self, other: Iterable[Any]) -> "Sequential":
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: Iterable[Any]) -> Any:
        return self.extend(_sequential(other))

    def __mul__(self, times: int) -> "Sequential":
        return Sequential(*(list(self) * _repeats(times)))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Any:
        return self.extend(list(self) * (_repeats(times) - 1))


def _sequential(other: object) -> Sequential:
    if not isinstance(other, Sequential):
        raise TypeError(
            f"Sequential: only a Sequential can be added; expected a Sequential, got {type(other).__name__}. "
            "Use extend, or wrap the modules in nn.Sequential."
        )
    return other


def _repeats(times: object) -> int:
    if not isinstance(times, int):
        raise TypeError(
            f"Sequential: the number of repetitions is not an int; expected an int, got {type(times).__name__}."
        )
    if times <= 0:
        raise ValueError(f"Sequential: the number of repetitions is too small; expected at least 1, got {times}.")
    return times


class ModuleList(Numbered):
    """A list of modules that can be indexed, sliced, iterated over and extended. A ModuleList has no `forward`.

    Args:
        modules: iterable of modules to append.

    Example:
        >>> from funcnet import nn
        >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        >>> len(layers), [name for name, _ in layers.named_parameters()][:2]
        (3, ['0.weight', '0.bias'])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
    """

    merges_equal_rows = True

    def __init__(self, modules: Iterable[Any] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def insert(self, index: int, module: Module | None) -> Any:
        """Insert a module at position `index`, or at the end if `index` is too large. Renumber the modules after it."""
        return super().insert(min(index, len(self)), module)

    def __add__(self, other: Iterable[Any]) -> "ModuleList":
        return ModuleList([*self, *other])


class ModuleDict(_Container):
    """A dict of modules. A ModuleDict has no `forward`.

    Args:
        modules: mapping from names to modules, or iterable of (name, module) pairs.

    Example:
        >>> from funcnet import nn
        >>> heads = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 3)})
        >>> list(heads), "a" in heads
        (['a', 'b'], True)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleDict.html
    """

    def __init__(self, modules: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add the modules of a mapping, another ModuleDict, or an iterable of (name, module) pairs."""
        for name, module in pairs(f"{type(self).__name__}.update", modules):
            self[name] = module

    def __getitem__(self, key: str) -> Any:
        return dict(slots(self))[key]

    def __setitem__(self, key: str, module: Module | None) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: str) -> bool:
        return key in self.keys()

    def keys(self) -> KeysView[str]:
        return dict(slots(self)).keys()

    def values(self) -> ValuesView[Any]:
        return dict(slots(self)).values()

    def items(self) -> ItemsView[str, Any]:
        return dict(slots(self)).items()

    def pop(self, key: str) -> Any:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Remove all modules."""
        for key in self.keys():
            del self[key]
