"""The proof: a model that is made of parts of other files, and buffers that a constructor computes."""

import pytest

from funcnet.porting.port import port
from funcnet.porting.proving.proof import prove

from ..made_up import write
from ..ported import module, port_text

FILES = {
    "pkg/__init__.py": "",
    "pkg/layers/__init__.py": "from .norm import Norm\n",
    "pkg/layers/norm.py": "from torch import nn\n\n\nclass Norm(nn.LayerNorm):\n    pass\n",
    "pkg/net.py": """
        from torch import nn
        import pkg.layers as layers


        class Net(nn.Module):
            def __init__(self, norm):
                super().__init__()
                self.norm = norm

            def forward(self, x):
                return self.norm(x).relu()
        """,
}


def test_an_argument_from_an_imported_file(tmp_path):
    path = write(tmp_path, FILES) / "pkg/net.py"
    found = port(path, "Net", tmp_path / "out", construct="Net(layers.Norm(3))", example="torch.randn(2, 3)")
    assert found.proof is not None and found.proof.ok
    assert "from .norm import Norm" in (tmp_path / "out/__init__.py").read_text()


def test_an_import_inside_a_function(tmp_path):
    """Both files lie in one folder of the result, so `..layers.norm` is `.norm` there."""
    inner = (
        FILES["pkg/net.py"]
        .replace("import pkg.layers as layers\n", "")
        .replace("self.norm = norm", "from .layers.norm import Norm\n\n                self.norm = Norm(norm)")
    )
    path = write(tmp_path, {**FILES, "pkg/net.py": inner}) / "pkg/net.py"
    found = port(path, "Net", tmp_path / "out", construct="Net(3)", example="torch.randn(2, 3)")
    assert found.proof is not None and found.proof.ok
    assert "        from .norm import Norm\n" in (tmp_path / "out/net.py").read_text()


def test_an_argument_of_pythons_library(tmp_path):
    """The port itself does not need `partial`, so it does not import it."""
    lines = "self.norm = norm(3)"
    text = module("return self.norm(x)", lines, before="from functools import partial").replace(
        "(self)", "(self, norm)"
    )
    ported = port_text(tmp_path, text, "Net(partial(nn.LayerNorm, eps=0.1))", "torch.randn(2, 3)")
    assert "partial" not in ported.text
    assert prove(ported.source, "Net", ported.path, "Net(partial(nn.LayerNorm, eps=0.1))", "torch.randn(2, 3)").ok


@pytest.mark.slow
def test_statistics_that_a_constructor_changes(tmp_path):
    """BatchNorm's statistics after a run in float64 are no numbers of float32, which the port has."""
    lines = """
    self.norm = nn.BatchNorm1d(3, momentum=0.3)
    self.fc = nn.Linear(self.norm(torch.ones(4, 3)).shape[1], 2)
    """
    text = module("return self.fc(self.norm(x))", lines)
    ported = port_text(tmp_path, text, "Net()", "torch.randn(2, 3)")
    proof = prove(ported.source, "Net", ported.path, "Net()", "torch.randn(2, 3)")
    assert proof.ok, proof


def _proved(tmp_path, body, wrong, right):
    """The proof of a port in which a line was replaced."""
    lines = "self.fc = nn.Linear(3, 3)\nself.norm = nn.BatchNorm1d(3)"
    ported = port_text(tmp_path, module(body, lines), "Net()", "torch.randn(4, 3)")
    assert right in ported.text
    ported.path.write_text(ported.text.replace(right, wrong))
    return prove(ported.source, "Net", ported.path, "Net()", "torch.randn(4, 3)")


def test_layers_that_differ_where_the_result_does_not(tmp_path):
    """The rows of a sum in another order, as `topk` may take equal entries."""
    proof = _proved(tmp_path, "y = self.fc(x)\nreturn y.sum(0)", "y = self.fc(x[::-1])", "y = self.fc(x)")
    assert proof.ok and all("the output or a gradient of fc differs" in one.note for one in proof.checks[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        "self.norm(self.fc(x)) * 1.001",  # the output
        "self.norm(__import__('jax').lax.stop_gradient(self.fc(x)))",  # the gradients
        "0 * self.norm(self.fc(x)) + self.norm(self.fc(x))",  # the buffers
    ],
)
def test_results_that_differ(wrong, tmp_path):
    right = "self.norm(self.fc(x))"
    assert _proved(tmp_path, f"return {right} + 0 * torch.ones(3).sum()", right, right).ok
    proof = _proved(tmp_path / "wrong", f"return {right} + 0 * torch.ones(3).sum()", wrong, right)
    assert not proof.ok and not any("Error" in one.note for one in proof.checks)


def test_a_test_for_aliasing_that_could_not_run_is_named(tmp_path):
    text = module("y = x\nx.add_(1)\nassert y is x\nreturn x")
    ported = port_text(tmp_path, text, "Net()", "torch.randn(4, 3)")
    proof = prove(ported.source, "Net", ported.path, "Net()", "torch.randn(4, 3)")
    assert proof.unrun.startswith("AssertionError") and not proof.entries
    assert "The test for aliasing (`rebinding.py`) could not run: AssertionError" in proof.as_markdown("Net")


@pytest.mark.parametrize("other", ["(x, y)", "(x[0],)", "(x.long(),)"])
def test_aliasing_that_changes_the_kind_of_the_output(other, tmp_path):
    text = module(f"y = x\nx.add_(1)\nreturn (x,) if y is x else {other}")
    ported = port_text(tmp_path, text, "Net()", "torch.randn(4, 3)")
    proof = prove(ported.source, "Net", ported.path, "Net()", "torch.randn(4, 3)")
    assert not proof.ok and not proof.unrun
    assert [one.why.partition(":")[0] for one in proof.entries] == [
        "A tensor that is changed in place is read under another name (aliasing)"
    ]
