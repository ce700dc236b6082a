"""What a file must be to be read, and what is said otherwise."""

import sys
import zipfile

import libcst as cst
import pytest

from funcnet.porting.errors import PortError
from funcnet.porting.reading.syntax import bound_name, is_command_line, parsed, root_of, walk


def says(path, *words):
    with pytest.raises(PortError) as caught:
        parsed(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_the_text_and_a_tree_with_metadata(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes(b"# -*- coding: latin-1 -*-\nname = 'caf\xe9'\n")
    text, wrapper = parsed(path)
    assert "café" in text
    assert wrapper.module.code == text


def test_a_missing_file_names_its_neighbours(tmp_path):
    (tmp_path / "model.py").write_text("")
    says(tmp_path / "modle.py", "there is no such file", "model.py")
    says(tmp_path, "this is a folder")


@pytest.mark.parametrize(
    ("code", "place", "words"), [("def f(:\n", ":1:", "syntax error"), ("x = 1\nprint 'a'\n", ":2:", "parentheses")]
)
def test_a_syntax_error_has_its_place(tmp_path, code, place, words):
    path = tmp_path / "a.py"
    path.write_text(code)
    says(path, place, words)


@pytest.mark.parametrize(
    ("version", "code", "feature"),
    [
        ((3, 12), "type Pair = tuple[int, int]\n", "a `type` statement"),
        ((3, 12), "def f[T](x: T) -> T:\n    return x\n", "a list of type parameters"),
        ((3, 12), "d = {}\nx = f'{d['a']}'\n", "an f-string"),
        ((3, 13), "class A[T = int]:\n    pass\n", "a type parameter with a default"),
        ((3, 14), "x = t'{1}'\n", "a t-string"),
        ((3, 14), "try:\n    pass\nexcept ValueError, TypeError:\n    pass\n", "several classes"),
    ],
)
def test_code_for_a_newer_python(tmp_path, version, code, feature):
    path = tmp_path / "a.py"
    path.write_text(code)
    if sys.version_info[:2] >= version:
        assert parsed(path)
    else:
        says(path, feature, f"needs Python {version[0]}.{version[1]}", f"{sys.version_info[0]}.{sys.version_info[1]}")


def test_what_is_no_python(tmp_path):
    (tmp_path / "model.ipynb").write_text("{}")
    says(tmp_path / "model.ipynb", "not a Python file")
    (tmp_path / "a.py").write_bytes(b"\x00\x01")
    says(tmp_path / "a.py", "binary")
    (tmp_path / "b.py").write_bytes(b"x = '\xff'\n")
    says(tmp_path / "b.py", "encoding")


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_torchscript(tmp_path):
    import torch

    scripted = torch.jit.script(torch.nn.Linear(2, 2))
    scripted.save(str(tmp_path / "model.pt"))
    says(tmp_path / "model.pt", "TorchScript archive")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "")
    says(tmp_path / "other.zip", "an archive")
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        name = next(one for one in archive.namelist() if one.endswith("linear.py"))
        (tmp_path / "code.py").write_bytes(archive.read(name))
    says(tmp_path / "code.py", "__torch__")
    (tmp_path / "c.py").write_text("import torch\nclass A(torch.jit.ScriptModule):\n    pass\n")
    says(tmp_path / "c.py", "A is a torch.jit.ScriptModule")


@pytest.mark.parametrize(
    "line", ["from funcnet import nn", "import funcnet.functional as F", "def f():\n    import funcnet"]
)
def test_a_port_is_not_ported(tmp_path, line):
    (tmp_path / "a.py").write_text(line + "\n")
    says(tmp_path / "a.py", "a port already")
    (tmp_path / "b.py").write_text("from .funcnet import nn\n")
    assert parsed(tmp_path / "b.py")


def test_small_questions_to_nodes():
    line = cst.parse_statement("import a.b, c as d").body[0]
    assert [bound_name(one) for one in line.names] == ["a", "d"]
    assert root_of(cst.parse_expression("a.b[0].c")).value == "a"
    assert is_command_line(cst.parse_statement('if __name__ == "__main__":\n    main()'))
    assert not is_command_line(cst.parse_statement("if name:\n    main()"))
    names = [one.value for one in walk(cst.parse_expression("f(a, b)")) if isinstance(one, cst.Name)]
    assert names == ["f", "a", "b"]
