"""One file, rewritten: the whole text of the result."""

import pytest

from funcnet.porting.port import ported_files
from funcnet.porting.reading.slicing import slice_of
from funcnet.porting.reading.sources import read

from .. import made_up
from ..ported import HEAD, check, module, port_text

SOURCE = '''
class Net(nn.Module):
    """A net."""

    def __init__(self, width: int):
        super().__init__()
        self.fc = nn.Linear(width, width)  # full
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Flatten.
        x = x.view(x.size(0), -1)
        with torch.no_grad():
            self.mean.lerp_(x.mean(0), 0.1)
        x[:, 0] = 0
        return F.relu(self.fc(x)).permute(1, 0)
'''
RESULT = '''import jax
import jax.numpy as jnp
from funcnet import functional as F, nn

class Net(nn.Module):
    """A net."""

    def __init__(self, width: int):
        super().__init__()
        self.fc = nn.Linear(width, width)  # full
        self.register_buffer("mean", jnp.zeros(width))

    def forward(self, x: jax.Array) -> jax.Array:
        # Flatten.
        x = x.reshape(x.shape[0], -1)
        self.mean = jax.lax.stop_gradient(self.mean + 0.1 * (x.mean(axis=0) - self.mean))
        x = x.at[:, 0].set(0)
        return F.relu(self.fc(x)).transpose(1, 0)
'''


@pytest.mark.parametrize("run", [False, True])
def test_a_file(run, tmp_path):
    ported = port_text(tmp_path, SOURCE, "Net(3)" if run else None, "torch.randn(2, 3)" if run else None)
    text = "\n".join(line for line in ported.text.splitlines() if line.strip())
    assert text == "\n".join(line for line in RESULT.splitlines() if line.strip())
    assert not ported.entries


def test_entries_have_the_lines_of_the_source(tmp_path):
    ported = port_text(tmp_path, module("y = x * 1\nz = y.stride()\nreturn x"))
    (entry,) = ported.entries
    lines = (HEAD + module("y = x * 1\nz = y.stride()\nreturn x")).splitlines()
    assert lines[entry.line - 1].strip() == entry.text == "z = y.stride()" and entry.file == "net.py"


@pytest.mark.parametrize(
    ("lines", "rebound"),
    [
        ("y = x.add_(1)\nreturn y", False),
        ("y = x.add_(1)\nx = y * 2\nreturn x", True),  # the last line reads the name again
        ("y = x.add_(1)\nreturn y, x", True),
        ("return x.add_(1), x", True),
        ("return x, x.add_(1)", False),
        ("for _ in range(2):\n    y = x.add_(1)\nreturn y", True),
        ("y = x.add_(1)\ndef later():\n    return x\nreturn y, later()", True),
        ("y = x.add_(1)\nx = 3\nreturn y", False),
    ],
)
def test_reads_that_follow(lines, rebound, tmp_path):
    assert ("(x := x + 1)" in port_text(tmp_path, module(lines)).text) is rebound


def test_names_of_the_package_that_a_file_imports_itself(tmp_path):
    files = {
        "pkg/__init__.py": "from .sizes import *\n",
        "pkg/sizes.py": "WIDTH = 3\n",
        "pkg/net.py": "import pkg\nfrom torch import nn\n" + made_up.layer("Net", init="self.n = pkg.WIDTH"),
    }
    sliced = slice_of(read(made_up.write(tmp_path, files) / "pkg/net.py"), "Net")
    text = next(one.text for one in ported_files(sliced) if one.name == "net.py")
    assert "from .sizes import WIDTH\n" in text and "self.n = WIDTH" in text and "import pkg" not in text


def test_a_class_that_has_the_name_of_an_import_that_is_tried(tmp_path):
    before = """
    try:
        from a_package_that_is_missing.layers import Part
        Base = Part
    except ModuleNotFoundError:
        Base = nn.Module

    class Part(Base):
        def forward(self, x):
            return x * 2
    """
    ported, _ = check(tmp_path, module("return self.part(x)", "self.part = Part()", before=before))
    assert "from a_package_that_is_missing.layers import Part" in ported.text


@pytest.mark.parametrize("name", ["jnp", "tl", "other"])
def test_names_that_hide_an_import_of_the_result(name, tmp_path):
    lines = f"{name} = torch.stack([x, x])\nreturn torch.chunk({name}, 2)"
    ported = port_text(tmp_path, module(lines), "Net()", "torch.randn(2, 3)")
    assert ["hides" in one.why for one in ported.entries] == [True] * (name != "other")
