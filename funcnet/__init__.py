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
    """Run a torch module and its port, and name the first layer whose outputs differ. See `comparison.compare`."""
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
