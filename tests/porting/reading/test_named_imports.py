"""Imports that are written as calls, and the port of a layer that uses one."""

import libcst as cst
import pytest

from funcnet.porting.reading.named_imports import with_plain_imports

from ..ported import check, module


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ('np, _ = optional_import("numpy")', "import numpy as np"),
        ('F = importlib.import_module("torch.nn.functional")', "import torch.nn.functional as F"),
        ('rearrange, found = optional_import("einops", name="rearrange")',
         "from einops import rearrange; found = True"),
        ('R = optional_import("einops.layers.torch", "0.6", name="Rearrange")[0]  # why',
         "from einops.layers.torch import Rearrange as R  # why"),
        *((same, same) for same in (
            'xops, found = optional_import("xformers.ops")', "np, _ = optional_import(name)", "x, y = f('numpy')",
            'found = optional_import("numpy")[1]', 'a = optional_import("numpy")', 'a[0] = import_module("numpy")',
            'np, _ = optional_import("numpy", name=name)')),
    ],
)  # fmt: skip
def test_read_as(line, plain):
    assert with_plain_imports(cst.parse_module(line)).code == plain


def test_a_layer_of_einops(tmp_path):
    before = """
    from importlib import import_module

    def optional_import(module, name=""):
        found = import_module(module)
        return (getattr(found, name) if name else found), True

    Rearrange, found = optional_import("einops.layers.torch", name="Rearrange")
    """
    init = 'self.turn = Rearrange("a b -> b a")\nself.flag = found'
    ported, _ = check(
        tmp_path, module("return self.turn(x) if self.flag else x", init, before=before), training=(False,)
    )
    assert "from funcnet.nn.einops import Rearrange" in ported.text and "optional_import" not in ported.text
