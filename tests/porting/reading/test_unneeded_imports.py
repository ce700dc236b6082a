"""What stays of imports and `__all__`, and what is said of the rest."""

from funcnet.porting.reading.needed_parts import Keeper
from funcnet.porting.reading.sources import read
from funcnet.porting.reading.unneeded_imports import left_out, thin_exports, thin_imports
from tests.porting.made_up import layer, write


def leftovers(folder, code, **others):
    files = {"pkg/__init__.py": "", "pkg/net.py": code, **{f"pkg/{name}.py": text for name, text in others.items()}}
    source = read(write(folder, files) / "pkg/net.py")
    keeper = Keeper()
    keeper.keep(source, "Net")
    keeper.finish("Net")
    thin_imports(keeper)
    thin_exports(keeper)
    removed = {source.tree.code_for_node(one).strip(" \n,") for one in keeper.removed}
    kept = {source.tree.code_for_node(one).strip().partition("\n")[0] for one in keeper.statements[source]}
    return removed, kept, left_out(keeper, source, "Net")


def test_parts_of_imports(tmp_path):
    code = (
        "from __future__ import annotations\nimport os, math; import sys\nimport torch, re\n"
        "from torch import nn, Tensor\nfrom .far import near, far\n" + layer("Net", "torch.relu(near(math.pi))")
    )
    removed, kept, _ = leftovers(tmp_path, code, far="def near(x):\n    return x\ndef far(x):\n    return x\n")
    assert removed == {"os", "import sys", "re", "Tensor", "far"}
    assert kept >= {"from __future__ import annotations", "import os, math; import sys", "import torch, re"}


def test_a_line_without_needed_names_goes(tmp_path):
    _, kept, _ = leftovers(tmp_path, "import os, sys\nfrom torch import nn\n" + layer("Net"))
    assert kept == {"from torch import nn", "class Net(nn.Module):"}


def test_exports(tmp_path):
    code = "from torch import nn\n__all__ = ['Net', 'other', 'nn']\ndef other():\n    pass\n" + layer("Net")
    removed, kept, _ = leftovers(tmp_path, code)
    assert removed == {"'other'"}
    assert "__all__ = ['Net', 'other', 'nn']" in kept
    _, kept, _ = leftovers(tmp_path, code.replace("'Net', 'other', 'nn'", "'other'"))
    assert "__all__ = ['other']" not in kept


def test_imports_for_types(tmp_path):
    block = "if TYPE_CHECKING:\n    from .far import Far\n    from torch import Tensor\n"
    head = "from typing import TYPE_CHECKING\nfrom torch import nn\n"
    code = head + block + "class Net(nn.Module):\n    def forward(self, x: 'Far', y: 'Tensor'):\n        return x\n"
    removed, kept, _ = leftovers(tmp_path, code, far="class Far:\n    pass\n")
    assert "from .far import Far" in removed
    assert "if TYPE_CHECKING:" in kept


def test_star_imports(tmp_path):
    code = "from torch.nn import *\nfrom .near import *\nfrom .far import *\nclass Net(Module):\n    a = near(1)\n"
    files = {"near": "def near(x):\n    return x\n", "far": "def far(x):\n    return x\n"}
    _, kept, _ = leftovers(tmp_path, code, **files)
    assert kept == {"from torch.nn import *", "from .near import *", "class Net(Module):"}


def test_reasons(tmp_path):
    code = (
        "from torch import nn, hub\nfrom .far import load_weights, near\nfrom .registry import register_model\n"
        "class WeightsEnum:\n    pass\nclass A_Weights(WeightsEnum):\n    URL = 'https://a.org'\n"
        "URLS = ['https://a.org/b.pth']\n"
        "@register_model()\ndef net_small():\n    return Net()\n"
        "def fetch():\n    hub.load('a')\n"
        "def other():\n    pass\n"
        + layer("Net", "near(x)", "load_weights(self)", "def save(self):\n    open('a')\n")
        + "if __name__ == '__main__':\n    other()\n"
    )
    far = "import torch\ndef load_weights(net):\n    torch.load('a')\ndef near(x):\n    return x\nA = B = 1\n"
    _, _, said = leftovers(tmp_path, code, far=far, registry="def register_model():\n    pass\n")
    assert said == {
        "Net.save": "reads or writes files",
        "pkg/far.py: load_weights": "loads weights",
        "WeightsEnum": "Net does not need it",
        "A_Weights": "a table of weights",
        "URLS": "a table of weights",
        "net_small": "an entry of a registry",
        "fetch": "loads weights",
        "other": "Net does not need it",
        'if __name__ == "__main__"': "a command line",
        "pkg/far.py: 3 more": "Net does not need them",
    }
