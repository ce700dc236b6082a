"""Imports of a ported file: source text in, source text out."""

import libcst as cst
import pytest

from funcnet.porting.rewriting.imports import names_in, rewritten


def written(
    text: str, roots: set[str], kept: dict[str, str] | None = None, homes: dict[str, tuple[str, str]] | None = None
) -> str:
    """The text with its imports written anew."""
    return rewritten(cst.parse_module(text), roots, kept or {}, lambda node, name: (homes or {}).get(name)).code


@pytest.mark.parametrize(
    ("text", "roots", "result"),
    [
        ("import torch\nx = jnp.ones(2)\n", {"jnp"}, "import jax.numpy as jnp\nx = jnp.ones(2)\n"),
        (
            "import os\nimport torch\nx = jnp.ones(os.x)\n",
            {"jnp"},
            "import os\nimport jax.numpy as jnp\nx = jnp.ones(os.x)\n",
        ),
        (
            "import torch\nimport torch.nn as nn\nx = nn.f(F.g)\n",
            {"F", "nn"},
            "from funcnet import functional as F, nn\nx = nn.f(F.g)\n",
        ),
        (
            "import torch\nx = tl.f(jax.g)\n",
            {"jax", "np", "tl"},
            "import jax\nimport funcnet.torchlike as tl\nx = tl.f(jax.g)\n",
        ),
        ("import math, sys\nx = math.pi\n", set(), "import math\nx = math.pi\n"),
        ("import numpy as np\nx = np.pi\n", {"np"}, "import numpy as np\nx = np.pi\n"),
        ("from os import (path,\n    sep)\nx = sep\n", set(), "from os import sep\nx = sep\n"),
        (
            "from os import (\n    path,\n    sep,\n)\nx = sep + path\n",
            set(),
            "from os import (\n    path,\n    sep,\n)\nx = sep + path\n",
        ),
        (
            '"""Doc."""\nfrom __future__ import annotations\nx = jnp.pi\n',
            {"jnp"},
            '"""Doc."""\nfrom __future__ import annotations\nimport jax.numpy as jnp\nx = jnp.pi\n',
        ),
        ("# head\nimport torch\nx = jnp.pi\n", {"jnp"}, "# head\nimport jax.numpy as jnp\nx = jnp.pi\n"),
        ("import torch\nx = 1\n", set(), "x = 1\n"),
        (
            "def f():\n    import torch\n    return jnp.pi\n",
            {"jnp"},
            "import jax.numpy as jnp\ndef f():\n    return jnp.pi\n",
        ),
        (
            "from einops.layers.torch import Rearrange\nx = Rearrange\n",
            set(),
            "from funcnet.nn.einops import Rearrange\nx = Rearrange\n",
        ),
        (
            "try:\n    from apex import Norm\nexcept ImportError:\n    from torch.nn import LayerNorm as Norm, Fold\n"
            "x = Norm(3)\n",
            set(),
            "try:\n    from apex import Norm\nexcept ImportError:\n    from funcnet.nn import LayerNorm as Norm\n"
            "x = Norm(3)\n",
        ),
        ("from torch import *\nfrom x import *\ny = 1\n", set(), "from x import *\ny = 1\n"),
    ],
)
def test_written(text, roots, result):
    assert written(text, roots) == result


def test_names_that_keep_their_spelling():
    text = "from torch.nn import Linear, Module as M\nx = M(Linear)\n"
    kept = {"Linear": "funcnet.nn.Linear", "M": "funcnet.nn.Module", "Unused": "funcnet.nn.Unused"}
    assert written(text, set(), kept) == "from funcnet.nn import Linear, Module as M\nx = M(Linear)\n"


def test_imports_of_the_package_follow_the_files():
    text = (
        "from ..layers import Block, helper as h\nfrom . import ops\nimport pkg.util as util\nx = Block(h, ops, util)\n"
    )
    homes = {"Block": ("layers", "Block"), "h": ("other", "helper"), "ops": ("", "ops"), "util": ("", "pkg_util")}
    found = written(text, set(), homes=homes)
    assert "from .layers import Block\n" in found and "from .other import helper as h\n" in found
    assert "from . import ops\n" in found and "from . import pkg_util as util\n" in found


def test_names():
    tree = cst.parse_module("import a\nx: 'Net' = b.c(d=e)\n__all__ = ['g']\n")
    assert names_in(tree) == {"x", "Net", "b", "e", "__all__", "g"}


def test_star_imports_of_the_package_name_what_is_used():
    homes = {"size": ("utils", "size"), "Net": ("net", "Net"), "far": ("far", "far")}
    for line in ("from ..utils import *", "from pkg.utils import *"):
        tree = cst.parse_module(f"{line}\nfrom os import *\nclass Net:\n    x = size(far)\n")
        result = rewritten(tree, set(), {}, lambda node, name: homes.get(name), ("net", "pkg")).code
        lines = ["from .far import far", "from .utils import size", "from os import *"]
        assert result.splitlines()[:3] == lines
