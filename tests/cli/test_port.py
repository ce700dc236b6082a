"""`funcnet port`: what it writes and prints, and what it says about input that cannot be ported."""

import ast
import json
import re
import textwrap

import pytest

from funcnet.cli import main

MODEL = """
    import torch
    from torch import nn


    class Net(nn.Module):
        # A comment that stays.
        def __init__(self, width=4):
            super().__init__()
            self.fc = nn.Linear(3, width)

        def forward(self, x):
            x = self.fc(x)
            return torch.cat([x, x.relu()], dim=-1)  # twice as wide
"""


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main(["port", *map(str, arguments)])
    return left.value.code


@pytest.fixture
def source(tmp_path):
    def write(text, name="net.py"):
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path / name

    return write


def test_a_model_is_ported_and_proved(source, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(f"{source(MODEL)}:Net", "--out", out, "--example", "torch.randn(2, 3)") == 0
    said = capsys.readouterr().out
    assert "The port equals torch's model on this example." in said and str(out / "PROOF.md") in said
    text = (out / "net.py").read_text("utf-8")
    assert "# A comment that stays." in text and "jnp.concatenate([x, F.relu(x)], axis=-1)  # twice as wide" in text
    assert "torch" not in {alias.name for node in ast.walk(ast.parse(text)) for alias in getattr(node, "names", [])}
    assert "| float64, train, perturbed | yes |" in (out / "PROOF.md").read_text("utf-8")
    assert json.loads((out / "register.json").read_text("utf-8")) == []


def test_without_an_example_nothing_is_run(source, tmp_path, capsys):
    assert run(source(MODEL), "--out", tmp_path / "out") == 0
    assert "There was no --example" in capsys.readouterr().out
    assert not (tmp_path / "out" / "PROOF.md").exists()


def test_a_line_that_is_not_decided_raises_with_the_words_of_the_register(source, tmp_path, capsys):
    text = MODEL.replace("x = self.fc(x)", "x = torch.distributed.all_gather_into_tensor(x, x)")
    out = tmp_path / "out"
    assert run(f"{source(text)}:Net", "--out", out) == 0
    entry = next(one for one in json.loads((out / "register.json").read_text("utf-8")) if one["level"] == "blocks")
    assert entry["line"] == 13 and "all_gather" in entry["text"]
    ported = (out / "net.py").read_text("utf-8")
    assert "# x = torch.distributed.all_gather_into_tensor(x, x)" in ported
    assert f"raise NotImplementedError({entry['file'] + ':13: ' + entry['why']!r}"[:60] in ported
    assert "blocks (1)" in (out / "REGISTER.txt").read_text("utf-8")


BAD = {
    "no such file": ("missing.py", None, r"missing\.py"),
    "does not parse": ("def f(:", None, r"net\.py:1"),
    "no such class": (MODEL, "Nett", r"no class 'Nett'.*Nearest: Net"),
    "a port of a port": ("from funcnet import nn\n\n\nclass Net(nn.Module):\n    pass\n", None, r"funcnet"),
    "TorchScript": ("import torch\n\n\nclass Net(torch.jit.ScriptModule):\n    pass\n", None, r"jit|TorchScript"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_source_that_cannot_be_read(name, source, tmp_path, capsys):
    text, cls, message = BAD[name]
    path = tmp_path / text if text.endswith(".py") else source(text)
    assert run(f"{path}:{cls}" if cls else path, "--out", tmp_path / "out") == 2
    assert_says(capsys, message)


URL = "http://example.invalid/weights.pt"
RUNS = {
    "an example that does not fit": (MODEL, {"--example": "torch.randn(2, 5)"}, r"net\.py:13|forward"),
    "an example that is no expression": (MODEL, {"--example": "torch.randn(2,"}, r"example"),
    "arguments of the constructor": (MODEL.replace("width=4", "width"), {"--example": "torch.randn(2, 3)"}, r"width"),
    "a compiled extension": (
        MODEL.replace("import torch\n", "import torch\n    import selective_scan_cuda\n", 1).replace(
            "x = self.fc(x)", "x = selective_scan_cuda.fwd(self.fc(x))"
        ),
        {"--example": "torch.randn(2, 3)"},
        r"selective_scan_cuda",
    ),
    "a constructor that downloads": (
        MODEL.replace("self.fc =", f'torch.hub.load_state_dict_from_url("{URL}")\n{" " * 12}self.fc ='),
        {"--example": "torch.randn(2, 3)"},
        r"download|network|net\.py:10",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_model_that_cannot_be_run(name, source, tmp_path, capsys):
    text, options, message = RUNS[name]
    flags = [part for pair in options.items() for part in pair]
    assert run(f"{source(text)}:Net", "--out", tmp_path / "out", *flags) == 2
    assert_says(capsys, message)


@pytest.mark.slow
def test_control_flow_on_the_value_of_a_tensor_is_registered(source, tmp_path):
    text = MODEL.replace("x = self.fc(x)", "x = self.fc(x)\n            if x.sum() > 0:\n                x = -x")
    out = tmp_path / "out"
    run(f"{source(text)}:Net", "--out", out, "--example", "torch.randn(2, 3)")
    entry = next(one for one in json.loads((out / "register.json").read_text("utf-8")) if one["level"] == "eager only")
    assert entry["line"] == 14 and "jnp.where" in entry["write"]


def test_a_folder_that_exists(source, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(source(MODEL), "--out", out) == 0
    assert run(source(MODEL), "--out", out) == 2
    assert_says(capsys, r"--replace")
    assert run(source(MODEL), "--out", out, "--replace") == 0
    other = tmp_path / "mine"
    other.mkdir()
    (other / "notes.txt").write_text("mine", encoding="utf-8")
    assert run(source(MODEL), "--out", other, "--replace") == 2
    assert (other / "notes.txt").exists()


def assert_says(capsys, message):
    said = capsys.readouterr().err
    assert re.search(message, said), said
    assert "Traceback" not in said
