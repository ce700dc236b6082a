"""Puts funcnet.data in the place of torch.utils.data before torch's test file is imported, in every Python process.

A Python process imports this file at its start if its folder is in PYTHONPATH.
"""

import importlib.abc
import sys


class InstallFirst(importlib.abc.MetaPathFinder):
    """Installs the shim when `test_dataloader` is imported."""

    def find_spec(self, name, path, target=None):
        if name == "test_dataloader":
            from tests.data.torch_tests import shim

            shim.install()


sys.meta_path.insert(0, InstallFirst())
