"""Attributes that are computed from leaves of their own module, such as `weight` from `weight_g` and `weight_v`.

torch's older weight norm and spectral norm and torch's pruning store a computed weight in this way. In the state_dict,
these leaves are next to the other leaves of the module.
"""

from typing import Any

from funcnet.nn.core.module_tree import Node, leaves
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.module.module import Module

__all__ = ["Renamed", "own_leaf", "rename"]


class Renamed(Computed):
    """A computed attribute whose leaves belong to its own module. `names` lists the leaves."""

    names: tuple[str, ...] = ()

    def take_out(self, module: Node) -> Any:
        for name in self.names:
            delattr(module, name)
        return super().take_out(module)


def rename(module: Node, old: str, new: str) -> Any:
    """Rename the leaf `old` of a module to `new`, move the leaf to the end of the module's attributes, and return it.
    The leaf keeps its initial value.
    """
    leaf = getattr(module, old)
    delattr(module, old)
    setattr(module, new, leaf)
    leaf.formerly = (new, old)
    return leaf


def own_leaf(where: str, module: Module, tensor_name: str) -> Any:
    """Return the parameter or buffer `tensor_name`. Raise ValueError if there is no such leaf, or its shape is not
    known.
    """
    leaf = getattr(module, tensor_name, None)
    if not isinstance(leaf, (Parameter, Buffer)):
        names = [name for name, _ in leaves(module)]
        raise ValueError(
            f"{where}: {type(module).__name__} has no parameter or buffer {tensor_name!r}; expected one of {names}, "
            f"got {type(leaf).__name__}."
        )
    if leaf.shape is None:
        raise ValueError(
            f"{where}: the shape of {tensor_name!r} is not known; expected a module that is not lazy, got "
            f"{type(module).__name__}. Use the module class that is not lazy, and pass the sizes to its constructor."
        )
    return leaf
