"""funcnet: torch.nn as pure JAX functions."""

import importlib
import typing
from typing import Any

__all__ = ["compare"]

_PARTS = {
    *("bridges", "data", "export", "functional", "heads", "models", "nn", "optim"),
    *("parallel", "quantization", "random", "serving", "text", "train", "tree", "weights"),
}


def compare(
    torch_module: "TorchModule", net: "Module", params: "Params", state: "State", *inputs: "PyTree", **kwargs: Any
) -> "Comparison":
    """Run a torch module and its port, and name the first layer whose outputs differ.

    This is `comparison.compare`, which describes all arguments.

    Args:
        torch_module: a torch.nn.Module.
        net, params, state: its port, with the arrays that `net.load_state_dict(torch_module.state_dict())` returns.
        *inputs: the arguments of both forward methods.
        **kwargs: further arguments of `comparison.compare`, or keyword arguments of both forward methods.

    Returns:
        A `Comparison`.

    Raises:
        TypeError, ValueError: as `comparison.compare`.

    Example:
        >>> import numpy, torch, funcnet
        >>> from funcnet import nn
        >>> theirs = torch.nn.Linear(3, 2)
        >>> net = nn.Linear(3, 2)
        >>> params, state = net.load_state_dict(theirs.state_dict())
        >>> funcnet.compare(theirs, net, params, state, numpy.ones((4, 3), "float32")).ok
        True
    """
    from funcnet import comparison  # imported here, so that importing a part of funcnet does not import other parts

    return comparison.compare(torch_module, net, params, state, *inputs, **kwargs)


if typing.TYPE_CHECKING:
    from funcnet.comparison import Comparison
    from funcnet.comparison.torch_objects import TorchModule
    from funcnet.nn import Module
    from funcnet.tree import Params, PyTree, State
else:

    def __getattr__(name: str) -> Any:
        """Import a part of funcnet when it is first accessed, as in `import funcnet; funcnet.nn`."""
        if name in _PARTS:
            return importlib.import_module(f"funcnet.{name}")
        raise AttributeError(f"module 'funcnet' has no attribute {name!r}")
