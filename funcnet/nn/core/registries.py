"""torch's dicts of a module's own parts: `_modules`, `_parameters` and `_buffers`.

The attributes of a module are the only registry here. `_modules`, `_parameters` and `_buffers` are views of the
attributes, for code written for torch that reads or changes torch's dicts: `self._modules[name](x)`,
`net._modules["fc"] = nn.Identity()`.
"""

from collections.abc import Iterator, MutableMapping
from typing import Any

from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.core.parts import Node, description_of, reserved

__all__ = ["Registry"]


class Registry(MutableMapping[str, Any]):
    """A view of the parameters, the buffers or the children of one module as a dict, in the order of registration. A
    name that is registered as None has the value None.

    Args:
        module: a description, or a bound copy, whose leaves are arrays and whose children are bound.
        kind: `Node`, `Parameter` or `Buffer`.

    >>> from funcnet import nn
    >>> layer = nn.Linear(2, 2, bias=False)
    >>> list(layer._parameters), layer._parameters["bias"]
    (['weight', 'bias'], None)
    """

    def __init__(self, module: Node, kind: type):
        self.module, self.kind = module, kind

    def _names(self) -> list[str]:
        kept = {name for name, (kind, _) in reserved(self.module).items() if issubclass(kind, self.kind)}
        own = vars(description_of(self.module)).items()
        return [name for name, value in own if isinstance(value, self.kind) or name in kept]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return vars(self.module)[name]

    def __setitem__(self, name: str, value: object) -> None:
        if value is not None and name in self._names():
            setattr(self.module, name, value)
        elif self.kind is Node:
            self.module.add_module(name, value)
        elif self.kind is Parameter:
            self.module.register_parameter(name, value)
        elif self.kind is Buffer:
            self.module.register_buffer(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self.module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))
