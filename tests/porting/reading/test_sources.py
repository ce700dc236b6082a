"""Files, packages, and where names lead."""

import pytest

from funcnet.porting.errors import PortError
from funcnet.porting.reading.sources import qualified, read
from tests.porting.made_up import find, write
from tests.porting.packages import package

HEAD = "import numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor, einsum, nn\n"


def source_of(folder, code, name="model.py"):
    return read(write(folder, {name: code}) / name)


def name_of(folder, code, expression, index=0):
    source = source_of(folder, code)
    return qualified(source, find(source, expression, index))


# ------------------------------------------------------------------------------------------------ the file


def test_a_lone_file(tmp_path):
    source = source_of(tmp_path, "x = 1\n")
    assert (source.module, source.root, source.text, source.is_init) == ("model", tmp_path, "x = 1\n", False)
    assert source.span(source.tree.body[0]) == (1, 0, 1, 5)


def test_the_package_is_found_by_its_init_files(tmp_path):
    write(tmp_path, {"pkg/__init__.py": "", "pkg/models/__init__.py": "", "pkg/models/net.py": ""})
    source = read(tmp_path / "pkg/models/net.py")
    assert (source.module, source.root) == ("pkg.models.net", tmp_path)
    assert read(tmp_path / "pkg/models/__init__.py").module == "pkg.models"


def test_a_relative_import_makes_a_folder_a_package(tmp_path):
    write(tmp_path, {"pkg/models/net.py": "from ..layers import f\n", "pkg/layers.py": "def f():\n    pass\n"})
    source = read(tmp_path / "pkg/models/net.py")
    assert (source.module, source.root) == ("pkg.models.net", tmp_path)
    assert source.package.follow(source, "f").source.path == tmp_path / "pkg/layers.py"


def test_an_absolute_import_makes_folders_without_init_files_a_package(tmp_path):
    files = {"pkg/__init__.py": "", "pkg/a/b/net.py": "from pkg.layers import f\n", "pkg/layers.py": "def f(): pass\n"}
    source = read(write(tmp_path, files) / "pkg/a/b/net.py")
    assert (source.module, source.root) == ("pkg.a.b.net", tmp_path)
    assert source.package.follow(source, "f").source.path == tmp_path / "pkg/layers.py"


@pytest.mark.parametrize("line", ["from pkg import layers", "from pkg.layers import f", "from pkg.parts import layers"])
def test_an_installed_package_needs_no_init_file(line, tmp_path):
    files = {"pkg/net.py": f"{line}\n", "pkg/layers.py": "f = 1\n", "pkg/parts/layers.py": "f = 1\n"}
    source = read(write(tmp_path, {**files, "pkg-1.0.dist-info/METADATA": ""}) / "pkg/net.py")
    found = source.package.follow(source, line.rpartition(" ")[2])
    assert source.module == "pkg.net" and found.source.path.name == "layers.py"


def test_errors_come_through(tmp_path):
    with pytest.raises(PortError, match="no such file"):
        read(tmp_path / "absent.py")


# ------------------------------------------------------------------------------------------------ qualified names


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("F.relu", "torch.nn.functional.relu"),
        ("nn.Linear", "torch.nn.Linear"),
        ("Tensor", "torch.Tensor"),
        ("einsum", "torch.einsum"),
        ("np.log", "numpy.log"),
        ("torch.nn.init.zeros_", "torch.nn.init.zeros_"),
        ("nn", "torch.nn"),
        ("unknown.relu", None),
        ("len", None),
    ],
)
def test_names_of_imports(tmp_path, expression, name):
    assert name_of(tmp_path, HEAD + f"y = [{expression}]\n", expression) == name


def test_expressions_that_are_no_names(tmp_path):
    source = source_of(tmp_path, HEAD + "y = nn.Linear(2, 3).weight\n")
    assert qualified(source, find(source, "nn.Linear(2, 3).weight")) is None
    assert qualified(source, find(source, "nn.Linear(2, 3)")) is None


def test_local_names_hide_imports(tmp_path):
    code = HEAD + (
        "def f(F):\n    return F.relu\ndef g():\n    F = 1\n    return F.elu\ndef h(x):\n    return F.gelu(x)\n"
        "k = [F.silu for F in ()]\n"
        "class A:\n    Tensor = 1\n    def m(self):\n        return Tensor.abs\n"
    )
    source = source_of(tmp_path, code)
    assert [qualified(source, find(source, f"F.{name}")) for name in ("relu", "elu", "silu")] == [None] * 3
    assert qualified(source, find(source, "F.gelu")) == "torch.nn.functional.gelu"
    assert qualified(source, find(source, "Tensor.abs")) == "torch.Tensor.abs"  # methods do not see the class's names


def test_imports_inside_functions(tmp_path):
    code = "def f(x):\n    import torch.nn.functional as G\n    from torch import nn\n    return G.relu(nn.Linear)\n"
    source = source_of(tmp_path, code)
    assert qualified(source, find(source, "G.relu")) == "torch.nn.functional.relu"
    assert qualified(source, find(source, "nn.Linear")) == "torch.nn.Linear"


@pytest.mark.parametrize(
    ("code", "expression", "name"),
    [
        ("Module = nn.Module\nclass A(Module):\n    pass\n", "Module", "torch.nn.Module"),
        ("conv = F.conv2d\ny = conv(x)\n", "conv", "torch.nn.functional.conv2d"),
        ("conv = F.conv2d\nother = conv\ny = other(x)\n", "other", "torch.nn.functional.conv2d"),
        ("conv = F.conv2d\nconv = F.conv1d\ny = conv(x)\n", "conv", None),
        ("try:\n    from torch import f\nexcept ImportError:\n    f = None\ny = f(x)\n", "f", "torch.f"),
        ("try:\n    from a import f\nexcept ImportError:\n    from b import f\ny = f(x)\n", "f", "a.f"),
        ("if x:\n    from a import f\nelse:\n    from b import f\ny = f(x)\n", "f", None),
        ("if hasattr(nn, 'SiLU'):\n    S = nn.SiLU\nelse:\n    class S:\n        pass\ny = S()\n", "S", None),
        ("from torch.nn import *\ny = Linear(2, 2)\n", "Linear", "torch.nn.Linear"),
        ("from torch.nn import *\nfrom math import *\ny = Linear(2, 2)\n", "Linear", None),
    ],
)
def test_aliases_and_alternatives(tmp_path, code, expression, name):
    source = source_of(tmp_path, HEAD + code)
    calls = [one for one in (f"{expression}(x)", f"{expression}(2, 2)", f"{expression}()") if one in code]
    node = find(source, calls[0]).func if calls else source.tree.body[-1].bases[0].value
    assert qualified(source, node) == name


# ------------------------------------------------------------------------------------------------ packages


@pytest.mark.parametrize(
    "line",
    [
        "from .layers import Block",
        "from pkg.layers import Block",
        "from . import layers\nBlock = layers.Block",
        "import pkg.layers as layers\nBlock = layers.Block",
        "import pkg.layers\nBlock = pkg.layers.Block",
        "from . import Block",  # re-exported
        "from .layers import *",
        "from .more import Block",  # re-exported by a star import
        "from .more import Again as Block",  # an alias in another file
    ],
)
def test_imports_lead_to_the_file_that_defines_the_name(tmp_path, line):
    files = {
        "pkg/__init__.py": "from .layers import Block\n",
        "pkg/layers.py": "class Block:\n    pass\n",
        "pkg/more.py": "from .layers import *\nAgain = Block\n",
        "pkg/net.py": f"{line}\ny = [Block]\n",
    }
    source = read(write(tmp_path, files) / "pkg/net.py")
    target = source.package.follow(source, "Block", aliases=True)
    assert (target.source.path.name, target.name) == ("layers.py", "Block")
    assert target.full_name == "pkg.layers.Block"
    assert qualified(source, find(source, "[Block]").elements[0].value) == "pkg.layers.Block"
    assert source.package.follow(source, "Block", aliases=True).source is target.source  # read once


def test_names_of_torch_through_the_package(tmp_path):
    files = {"pkg/__init__.py": "", "pkg/compat.py": "from torch import nn\nAct = nn.SiLU\n", "pkg/net.py": ""}
    files["pkg/net.py"] = "from .compat import Act, nn\ny = [Act, nn.Linear]\n"
    source = read(write(tmp_path, files) / "pkg/net.py")
    names = [qualified(source, one.value) for one in find(source, "[Act, nn.Linear]").elements]
    assert names == ["torch.nn.SiLU", "torch.nn.Linear"]


def test_circular_imports_end(tmp_path):
    files = {
        "pkg/__init__.py": "from .a import f\nfrom .b import g\n",
        "pkg/a.py": "from .b import g\nfrom .b import missing\ndef f():\n    g()\n",
        "pkg/b.py": "from .a import f, missing\nfrom . import f as again\ndef g():\n    f()\n",
    }
    source = read(write(tmp_path, files) / "pkg/a.py")
    assert source.package.follow(source, "g").full_name == "pkg.b.g"
    b = source.package.source("pkg.b")
    assert source.package.follow(b, "again").full_name == "pkg.a.f"
    assert source.package.follow(source, "missing") is not None


def test_neighbours_of_a_script_belong_to_it_but_installed_ones_do_not(tmp_path):
    files = {"tool/net.py": "from layers import f\nimport numpy as np\n", "tool/layers.py": "def f():\n    pass\n"}
    write(tmp_path, {**files, "tool/numpy.py": ""})
    source = read(tmp_path / "tool/net.py")
    assert source.package.follow(source, "f").source.path.name == "layers.py"
    assert source.package.follow(source, "np").source is None
    write(tmp_path, {"site/pkg/__init__.py": "from other import f\n", "site/other/__init__.py": "f = 1\n"})
    (tmp_path / "site/other-1.dist-info").mkdir()
    source = read(tmp_path / "site/pkg/__init__.py")
    assert source.package.follow(source, "f").source is None


def test_what_is_compiled_or_absent_is_outside(tmp_path):
    write(tmp_path, {"pkg/__init__.py": "", "pkg/net.py": "from ._C import f\nfrom .absent import g\n"})
    source = read(tmp_path / "pkg/net.py")
    assert [source.package.follow(source, name).full_name for name in "fg"] == ["pkg._C.f", "pkg.absent.g"]
    assert source.package.source("pkg.absent") is None


@pytest.mark.slow
def test_a_package_of_whisper():
    source = read(package("openai-whisper") / "whisper" / "model.py")
    assert source.module == "whisper.model"
    code = {
        "scaled_dot_product_attention": "torch.nn.functional.scaled_dot_product_attention",
        "np.log": "numpy.log",
        "decode_function": "whisper.decoding.decode",
        "F.gelu": "torch.nn.functional.gelu",
    }
    assert {text: qualified(source, find(source, text, -1)) for text in code} == code


@pytest.mark.slow
def test_an_alias_of_mamba():
    source = read(package("mambapy") / "mambapy" / "mamba.py")
    assert qualified(source, find(source, "pscan(deltaA, BX)").func) == "mambapy.pscan.PScan.apply"
