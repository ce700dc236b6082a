"""A slice of a package: what a person would keep."""

import ast
import builtins
import functools
import textwrap

import libcst as cst
import pytest

from funcnet.porting.errors import PortError
from funcnet.porting.reading.slicing import module_tree, slice_of, sliced_text
from funcnet.porting.reading.sources import qualified, read
from funcnet.porting.reading.syntax import walk
from tests.porting.made_up import layer, write
from tests.porting.packages import package

HEAD = "import torch\nfrom torch import nn\n"


def sliced(folder, files, name=None, start="pkg/net.py"):
    return slice_of(read(write(folder, {"pkg/__init__.py": "", **files}) / start), name)


def texts(found):
    return {found.output_names[one.source]: sliced_text(found, one.source) for one in found.files}


# ------------------------------------------------------------------------------------------------ which class


@pytest.mark.parametrize(
    ("code", "roots"),
    [
        (layer("Part") + layer("Net", init="self.part = Part()"), ("Net",)),
        (layer("A") + layer("B"), ("A", "B")),
        (layer("A") + layer("_B"), ("A",)),
        (layer("A") + "def make():\n    return A()\n" + layer("B", init="self.a = make()"), ("B",)),
        (layer("Block") + layer("Net") + "def net():\n    return build(Block)\n", ("Net",)),
        (layer("Head") + layer("Net") + "def net():\n    head = Head()\n    return Net(head=head)\n", ("Net",)),
        (
            layer("Head") + layer("Net") + "def net():\n    net = Net(Head())\n    return check(net)\n",
            ("Net",),
        ),
        (layer("A") + "class B(A):\n    pass\nclass Config:\n    pass\n", ("B",)),
        (layer("Net") + "if __name__ == '__main__':\n    class Test(nn.Module):\n        net = Net()\n", ("Net",)),
    ],
)
def test_the_roots_of_a_file(tmp_path, code, roots):
    found = sliced(tmp_path, {"pkg/net.py": HEAD + code})
    assert found.roots == roots
    assert found.root == roots[0]


def test_layers_that_functions_pass_on_are_kept_too(tmp_path):
    code = layer("BlockV2") + layer("Net") + "def net_v2():\n    return build(block=BlockV2)\n"
    assert "class BlockV2" in texts(sliced(tmp_path, {"pkg/net.py": HEAD + code}))["net.py"]
    assert "class BlockV2" not in texts(sliced(tmp_path, {"pkg/net.py": HEAD + code}, "Net"))["net.py"]


def test_a_class_that_is_not_there(tmp_path):
    with pytest.raises(PortError, match=r"no class 'Uet'.*expected one of Unet, Other.*Nearest: Unet\."):
        sliced(tmp_path, {"pkg/net.py": HEAD + layer("Unet") + layer("Other")}, "Uet")
    with pytest.raises(PortError, match="no class 'torch'"):
        sliced(tmp_path, {"pkg/net.py": HEAD + layer("Unet")}, "torch")
    with pytest.raises(PortError, match=r"no torch.nn.Module.*Config"):
        sliced(tmp_path, {"pkg/net.py": HEAD + "class Config:\n    pass\n"})


def test_a_class_of_another_file(tmp_path):
    files = {"pkg/__init__.py": "from .net import Net\n", "pkg/net.py": HEAD + layer("Net")}
    found = slice_of(read(write(tmp_path, files) / "pkg/__init__.py"), "Net")
    assert list(texts(found)) == ["net.py"]


# ------------------------------------------------------------------------------------------------ files


def test_names_of_files(tmp_path):
    files = {
        "pkg/models/__init__.py": "",
        "pkg/models/misc.py": "def a(x):\n    return x\n",
        "pkg/ops/__init__.py": "def b(x):\n    return x\n",
        "pkg/ops/misc.py": "def c(x):\n    return x\n",
        "pkg/models/net.py": HEAD
        + "from .misc import a\nfrom ..ops import b\nfrom ..ops.misc import c\n"
        + layer("Net", "a(b(c(x)))"),
    }
    found = sliced(tmp_path, files, "Net", "pkg/models/net.py")
    assert list(found.output_names.values()) == ["net.py", "misc.py", "ops.py", "ops_misc.py"]
    assert [one.source.module for one in found.files] == [
        "pkg.models.net",
        "pkg.models.misc",
        "pkg.ops",
        "pkg.ops.misc",
    ]


def test_circular_files(tmp_path):
    files = {
        "pkg/net.py": HEAD + "from . import parts\n" + layer("Net", init="self.part = parts.Part()") + "SIZE = 3\n",
        "pkg/parts.py": HEAD + "from .net import SIZE, Net\n" + layer("Part", "SIZE"),
    }
    result = texts(sliced(tmp_path, files, "Net"))
    assert set(result) == {"net.py", "parts.py"}
    assert "from .net import SIZE\n" in result["parts.py"]
    assert "SIZE = 3" in result["net.py"]


# ------------------------------------------------------------------------------------------------ text and nodes


def test_text(tmp_path):
    code = '''
        # Copyright of a library

        """A net."""

        # Written by hand
        import os
        import math, torch
        from torch import (
            nn,  # layers
            Tensor,
        )

        __all__ = [
            "Net",
            "other",
        ]

        """
        A note on Net.
        """

        # The net.
        @torch.jit.script
        class Net(nn.Module):
            def __init__(self):  # made once
                super().__init__()
                report(self)

            # Saves it.
            def save(self):
                open("a")

            # Runs it.
            def forward(self, x):
                # as ever

                return torch.relu(x)


        """A note on other."""

        def other():
            pass

        def report(x):
            torch._C._log_api_usage_once(x)
        # the end
        '''
    expected = '''
        # Copyright of a library

        """A net."""

        # Written by hand

        import torch
        from torch import (
            nn,
        )

        __all__ = [
            "Net",
        ]

        """
        A note on Net.
        """

        # The net.
        class Net(nn.Module):
            def __init__(self):  # made once
                super().__init__()

            # Runs it.
            def forward(self, x):
                # as ever

                return torch.relu(x)
        '''
    found = sliced(tmp_path, {"pkg/net.py": code}, "Net")
    assert texts(found)["net.py"] == textwrap.dedent(expected).lstrip("\n")
    assert found.files[0].members_out == {"Net": ("save",)}
    assert dict(found.left_out) == {
        "Net.save": "reads or writes files",
        "other": "Net does not need it",
        "report": "reports the use of the library",
    }


def test_a_file_as_it_stands_is_kept_as_it_stands(tmp_path):
    code = f"#!/usr/bin/env python\n# head\n\n{HEAD}\n\n# Net\n{layer('Net', 'torch.relu(x)')}\n# end\n"
    assert texts(sliced(tmp_path, {"pkg/net.py": code}))["net.py"] == code


def test_nodes_keep_their_identity_and_metadata(tmp_path):
    code = f"import os\nimport torch.nn.functional as F\n{HEAD}{layer('Net', 'F.relu(x)')}def other():\n    pass\n"
    found = sliced(tmp_path, {"pkg/net.py": code}, "Net")
    [file] = found.files
    tree = module_tree(found, file.source)
    assert tree.body == file.statements
    original = set(walk(file.source.tree))
    assert all(one in original for statement in tree.body for one in walk(statement))
    call = next(one for one in walk(tree) if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute))
    relu = [one for one in walk(tree) if isinstance(one, cst.Attribute) and one.attr.value == "relu"]
    assert qualified(file.source, relu[0]) == "torch.nn.functional.relu"
    assert file.source.span(call)[0] > 4
    assert file is found.file(file.source)


def test_missing_lines(tmp_path):
    code = "def load_pretrained(x):\n    torch.load(x)\n" + layer("Net", init="load_pretrained(self)")
    found = sliced(tmp_path, {"pkg/net.py": HEAD + code}, "Net")
    [(node, reason)] = found.files[0].missing.items()
    assert (found.files[0].source.tree.code_for_node(node), reason) == ("load_pretrained", "loads weights")


# ------------------------------------------------------------------------------------------------ real packages

REAL = {
    "torchvision torchvision/models/resnet.py": ("ResNet", {"resnet.py"}),
    "torchvision torchvision/models/swin_transformer.py": (
        "SwinTransformer",
        {"swin_transformer.py", "misc.py", "stochastic_depth.py"},
    ),
    "efficientnet-pytorch efficientnet_pytorch/model.py": ("EfficientNet", {"model.py", "utils.py"}),
    "vit-pytorch vit_pytorch/vit.py": ("ViT", {"vit.py"}),
    "easyocr easyocr/model/vgg_model.py": ("Model", {"vgg_model.py", "modules.py"}),
    "openai-whisper whisper/model.py": ("Whisper", {"model.py"}),
    "hifi-gan hifi_gan/models.py": ("Generator", {"models.py", "utils.py"}),
    "denoising-diffusion-pytorch denoising_diffusion_pytorch/denoising_diffusion_pytorch.py": (
        "Unet",
        {"denoising_diffusion_pytorch.py", "attend.py"},
    ),
    "unet unet/unet.py": ("UNet3D", {"unet.py", "conv.py", "encoding.py", "decoding.py"}),
    "segformer-pytorch segformer_pytorch/segformer_pytorch.py": ("Segformer", {"segformer_pytorch.py"}),
    "pytorch-tcn pytorch_tcn/tcn.py": ("TCN", {"tcn.py", "conv.py", "pad.py", "buffer.py"}),
    "mambapy mambapy/mamba.py": ("Mamba", {"mamba.py", "pscan.py"}),
}
KEPT = {  # top-level definitions, where a person would not keep all
    "resnet.py": {"conv3x3", "conv1x1", "BasicBlock", "Bottleneck", "ResNet"},
    "misc.py": {"MLP", "Permute"},
    "stochastic_depth.py": {"stochastic_depth", "StochasticDepth"},
    "vgg_model.py": {"Model"},
    "modules.py": {"BidirectionalLSTM", "VGG_FeatureExtractor"},
    "models.py": {"ResBlock1", "ResBlock2", "Generator"},
    "attend.py": {"exists", "default", "once", "Attend"},
    "conv.py": {"TemporalConv1d"},
    "unet.py": {"UNet", "UNet3D"},
}


@functools.cache
def real(key):
    name, path = key.split(" ")
    return slice_of(read(package(name) / path), REAL[key][0])


def unbound(text):
    """Names that a file reads and neither binds nor imports, by the syntax alone: no scopes."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [one for one in nodes if isinstance(one, ast.Name)]
    bound = {one.id for one in names if isinstance(one.ctx, ast.Store)} | {
        one.arg for one in nodes if hasattr(one, "arg")
    }
    bound |= {one.name for one in nodes if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    bound |= {(one.asname or one.name).partition(".")[0] for one in nodes if isinstance(one, ast.alias)}
    return {one.id for one in names if isinstance(one.ctx, ast.Load)} - bound - set(vars(builtins))


@pytest.mark.slow
@pytest.mark.parametrize("key", REAL, ids=lambda key: REAL[key][0])
def test_real_packages(key):
    found = real(key)
    result = texts(found)
    assert set(result) == REAL[key][1]
    for name, text in result.items():
        assert unbound(text) == set()
        code = ast.parse(text)
        kept = {one.name for one in code.body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
        if name in KEPT and not (name == "conv.py" and key.startswith("unet")):
            assert kept == KEPT[name]
        imported = [alias for one in code.body if isinstance(one, ast.ImportFrom) and one.level for alias in one.names]
        everywhere = [one for other in result.values() for one in ast.walk(ast.parse(other))]
        defined = {one.name for one in everywhere if isinstance(one, ast.FunctionDef | ast.ClassDef)}
        defined |= {one.id for one in everywhere if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        assert {one.name for one in imported} <= defined
        reads = {one.id for one in ast.walk(code) if isinstance(one, ast.Name)}
        assert {one.asname or one.name for one in imported} <= reads  # and no import is left over
    assert all(not file.missing for file in found.files)


@pytest.mark.slow
def test_efficientnet_keeps_from_name_and_what_sets_defaults():
    result = texts(real("efficientnet-pytorch efficientnet_pytorch/model.py"))
    assert "def from_name" in result["model.py"] and "def set_swish" in result["model.py"]
    assert "from_pretrained(cls" not in result["model.py"]
    assert "GlobalParams.__new__.__defaults__ = " in result["utils.py"]
    assert "hasattr(nn, 'SiLU')" in result["utils.py"]
    assert not any(word in result["utils.py"] for word in ("releases/download", "model_zoo", "class MaxPool2d"))
    assert result["utils.py"].startswith('"""utils.py')


@pytest.mark.slow
def test_whisper_goes_without_its_decoding():
    found = real("openai-whisper whisper/model.py")
    assert found.files[0].members_out == {"Whisper": ("detect_language", "transcribe", "decode")}
    text = texts(found)["model.py"]
    assert "SDPA_AVAILABLE = False" in text and "def set_alignment_heads" in text and "class ModelDimensions" in text
    assert "from ." not in text


@pytest.mark.slow
def test_torchvision_goes_without_registries_and_reports():
    found = real("torchvision torchvision/models/swin_transformer.py")
    for text in texts(found).values():
        unwanted = ("_log_api_usage_once", "torch.fx", "register_model", "_Weights", "WeightsEnum")
        assert not any(word in text for word in unwanted)
    reasons = dict(found.left_out)
    assert reasons["Swin_T_Weights"] == "a table of weights"
    assert reasons["swin_t"] == "an entry of a registry"
    assert reasons["_swin_transformer"] == "loads weights"


@pytest.mark.slow
def test_mamba_and_vit_stay_as_they_are():
    for key in ("mambapy mambapy/mamba.py", "vit-pytorch vit_pytorch/vit.py"):
        for file in (found := real(key)).files:
            assert sliced_text(found, file.source) == file.source.text
