"""Short texts that name a dataset."""

from __future__ import annotations

from typing import Any

from funcnet.data.dataset import ArrayDataset, TensorDataset
from funcnet.data.subset import Subset

__all__ = ["describe"]


def describe(dataset: Any) -> str:
    """Return a short text that names a dataset, for messages and saved positions. Items are not read.

    Example:
        >>> import numpy as np
        >>> describe(ArrayDataset({"x": np.zeros((10, 3), np.float32)})), describe([1, 2])
        ('ArrayDataset(x: float32[10, 3])', 'list (2 items)')
    """
    name = type(dataset).__name__
    if isinstance(dataset, ArrayDataset):
        return f"{name}({', '.join(f'{key}: {_shape(column)}' for key, column in dataset.columns.items())})"
    if isinstance(dataset, TensorDataset):
        return f"{name}({', '.join(_shape(tensor) for tensor in dataset.tensors)})"
    if isinstance(dataset, Subset):
        return f"{name} of {type(dataset.dataset).__name__} ({len(dataset)} items)"
    if hasattr(dataset, "dtype") and hasattr(dataset, "shape"):
        return f"{name}({_shape(dataset)})"
    try:
        count = dataset.num_rows if hasattr(dataset, "num_rows") else len(dataset)
    except Exception:  # an iterable dataset without a length
        return name
    return f"{name} ({count} items)"


def _shape(array: Any) -> str:
    return f"{getattr(array, 'dtype', type(array).__name__)}{list(getattr(array, 'shape', [len(array)]))}"
