"""Let `torch.utils.data.get_worker_info()` answer in the workers of funcnet.

Datasets of other libraries, such as the iterable datasets of Hugging Face, ask torch which worker reads them. The code
of torch's function is replaced, and not its name, because a module that has imported the function keeps the object.
Outside the workers of funcnet, the function still returns what torch has set. Nothing here imports torch.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

from funcnet.data.worker import WorkerInfo

__all__ = ["answer_torch"]

MODULE = "torch.utils.data._utils.worker"  # the module that defines torch's function
_worker_info: Any = None  # in torch's module, this is the worker of a loader of torch


def answer_torch() -> None:
    """Make torch's `get_worker_info` answer in the workers of funcnet, now or as soon as torch is imported."""
    module = sys.modules.get(MODULE)
    if module is not None:
        _replace(module)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _replace(module: types.ModuleType) -> None:
    function = getattr(module, "get_worker_info", None)  # None while another thread imports the module
    if function is not None:
        function.__code__ = _answer.__code__


def _answer() -> Any:
    """The new body of torch's function. It runs in torch's module, whose `_worker_info` and `WorkerInfo` it uses."""
    from funcnet.data.worker import get_worker_info

    info = get_worker_info()
    if info is None:
        return _worker_info
    return WorkerInfo(id=info.id, num_workers=info.num_workers, seed=info.seed, dataset=info.dataset)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds torch's module as Python does, and changes its function when the module has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader):
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        self._loader.exec_module(module)
        _replace(module)
