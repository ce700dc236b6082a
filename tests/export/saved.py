"""A small model that is exported and saved, for the tests of files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from funcnet import export, nn

__all__ = ["X", "saved"]

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def saved(convert: Callable[..., Any], path: Path, seed: int = 0, **settings: Any) -> tuple[Callable[..., Any], Any]:
    """Export a model by `to_stablehlo` or `to_onnx`, for any batch size, and save it: (its function, its weights)."""
    module = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 2))
    params, state = module.init(jax.random.key(seed))
    run = export.inference_of(module, params, state)
    convert(run, X, dynamic="batch, _", params=params, **settings).save(path)
    return run, params
