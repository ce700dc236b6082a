"""Sequential, ModuleList and ModuleDict, as in torch/nn/modules/container.py."""

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from funcnet.nn.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Numbered(Module):
    """Children named "0", "1", … that read as a list does."""

    def _set(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        for name, _ in self._children():
            delattr(self, name)
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def _list(self) -> list[Module]:
        return [child for _, child in self._children()]

    def __len__(self) -> int:
        return len(self._children())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._list())

    def _position(self, index: int, end: int) -> int:
        position = operator.index(index)
        if not -end <= position < end:
            raise IndexError(f"{type(self).__name__}: index {index} is out of range for {len(self)} modules.")
        return position % end if end else 0

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._slice(index)
        return self._list()[self._position(index, len(self))]

    def _slice(self, index: slice) -> Any:
        """A container of some of the modules, with its other attributes; inside forward, of the bound ones."""
        frame, names = vars(self).get("_frame"), dict(self._children())
        part = object.__new__(type(self))
        vars(part).update({k: v for k, v in vars(self).items() if k not in names})
        vars(part).update({str(i): child for i, child in enumerate(self._list()[index])})
        if frame is not None:
            name = f"{frame.name}[{index.start}:{index.stop}]"
            vars(part)["_frame"] = frame.slice(frame.description._slice(index), name)
        return part

    def __setitem__(self, index: int, module: Module) -> None:
        name = self._children()[self._position(index, len(self))][0]
        setattr(self, name, module)

    def __delitem__(self, index: int | slice) -> None:
        modules = self._list()
        del modules[index]
        self._set(modules)

    def append(self, module: Module) -> Any:
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        modules = self._list()
        modules.insert(index, module)
        self._set(modules)
        return self

    def pop(self, index: int = -1) -> Module:
        module = self[index]
        del self[index]
        return module

    def __add__(self, other: Iterable[Module]) -> Any:
        kind: Any = type(self)
        return kind(*self, *other) if isinstance(self, Sequential) else kind([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> Any:
        return self.extend(other)


class Sequential(_Numbered):
    """Runs its modules one after the other.

    Args:
        *args: modules, or one mapping from names to modules.

    Differs from torch: the modules may be shared, and then share their leaves, as in torch; nothing else differs.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> params, state = net.init(jax.random.key(0))
        >>> net.apply(params, state, jnp.ones((5, 3)))[0].shape
        (5, 2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Sequential.html
    """

    def __init__(self, *args: Any):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self._set(args)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """Modules in a list: indexed, sliced, iterated, appended to. Has no forward of its own.

    Example:
        >>> from funcnet import nn
        >>> layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        >>> len(layers), [name for name, _ in layers.named_parameters()][:2]
        (3, ['0.weight', '0.bias'])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
    """

    merges_equal_rows = True

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        self._set(modules or [])


class ModuleDict(Module):
    """Modules in a dict. Has no forward of its own.

    Example:
        >>> from funcnet import nn
        >>> heads = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 3)})
        >>> list(heads), "a" in heads
        (['a', 'b'], True)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleDict.html
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None):
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        return dict(self._children())[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._children())

    def __iter__(self) -> Iterator[str]:
        return iter(name for name, _ in self._children())

    def __contains__(self, name: str) -> bool:
        return name in dict(self._children())

    def keys(self) -> Iterable[str]:
        return [name for name, _ in self._children()]

    def values(self) -> Iterable[Module]:
        return [child for _, child in self._children()]

    def items(self) -> Iterable[tuple[str, Module]]:
        return self._children()

    def pop(self, name: str) -> Module:
        module = self[name]
        del self[name]
        return module

    def clear(self) -> None:
        for name in self.keys():
            del self[name]
