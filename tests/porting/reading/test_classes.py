"""Classes and their bases."""

import pytest

from funcnet.porting.reading.classes import KeptClass, ancestors, class_at, is_layer, target_of
from funcnet.porting.reading.sources import Target, read
from tests.porting.made_up import write

FILES = {
    "pkg/__init__.py": "",
    "pkg/base.py": "from torch import nn\nModule = nn.Module\nclass Base(Module):\n    pass\n",
    "pkg/net.py": """
        import enum
        import lightning
        import torch
        from torch import nn
        from torch.utils.data import Dataset
        from .base import Base
        class Net(Base):
            pass
        class Plain:
            def forward(self):
                pass
        class Mode(enum.Enum):
            A = 1
        class Function(torch.autograd.Function):
            def forward(ctx):
                pass
        class Foreign(lightning.LightningModule):
            def forward(self):
                pass
        class Config(lightning.Config):
            pass
        class Conv(nn.Conv2d):
            pass
        class Own(object):
            def forward(self):
                pass
        class Data(Dataset):
            def forward(self):
                pass
        """,
}


@pytest.fixture
def source(tmp_path):
    return read(write(tmp_path, FILES) / "pkg/net.py")


def test_layers(source):
    assert [name for name in source.bindings if is_layer(source, name)] == ["Net", "Foreign", "Conv"]


def test_ancestors_through_files_and_aliases(source):
    node = class_at(Target(source, "Net"))
    assert [one.full_name for one in ancestors(source, node)] == ["pkg.base.Base", "torch.nn.Module"]


def test_targets(source):
    node = class_at(Target(source, "Own"))
    assert target_of(source, node.bases[0].value) == Target(None, "builtins.object")
    assert target_of(source, None) is None
    assert class_at(Target(None, "torch.nn.Module")) is None


def test_relations(source):
    base = KeptClass(source, class_at(Target(source, "Own")))
    below = KeptClass(source, class_at(Target(source, "Plain")), [base])
    assert below.is_of(base) and below.is_of(below) and not base.is_of(below)
    assert below.name == "Plain"
