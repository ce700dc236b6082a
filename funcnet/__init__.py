"""funcnet: torch.nn as pure JAX functions."""

import importlib
import typing
from typing import Any

__all__ = ["compare"]

_PARTS = {
    *("bridges", "data", "functional", "heads", "models", "nn", "optim"),
    *("parallel", "random", "serving", "text", "train", "tree", "weights"),
}


def compare(torch_module: Any, net: Any, params: Any, state: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Runs a torch module and its port layer by layer, and names the first that differs: see `comparison.compare`."""
    from funcnet import comparison  # here, so that importing a part of funcnet costs that part alone

    return comparison.compare(torch_module, net, params, state, *inputs, **kwargs)


if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """`import funcnet; funcnet.nn`, as `import torch; torch.nn`: a part is imported when it is first named."""
        if name in _PARTS:
            return importlib.import_module(f"funcnet.{name}")
        raise AttributeError(f"module 'funcnet' has no attribute {name!r}")
