"""Sources are executed as they stand: real packages give what the same package gives when it is imported."""

import importlib
import socket
import sys
import textwrap

import pytest
import torch

from funcnet.porting.errors import PortError
from funcnet.porting.running.loading import construct, example, forward, load
from tests.porting.packages import package

SOURCE = """
    import torch
    from torch import nn
    from helpers import scaled

    class Net(nn.Module):
        def __init__(self, width, depth=1, *, bias):
            super().__init__()
            if depth < 1:
                raise ValueError("depth must be positive")
            self.fc = nn.Linear(width, width, bias=bias)

        def forward(self, x, scale=None):
            y = self.fc(x)
            return y if scale is None else scaled(y, scale)

    class Plain(Net):
        def __init__(self):
            super().__init__(2, bias=True)

    def helper():
        return 3
    """


@pytest.fixture
def net(tmp_path):
    (tmp_path / "helpers.py").write_text("WIDTH = 6\n\ndef scaled(y, scale):\n    return y * scale\n")
    (tmp_path / "net.py").write_text(textwrap.dedent(SOURCE))
    return tmp_path / "net.py"


def written(tmp_path, text):
    (tmp_path / "source.py").write_text(textwrap.dedent(text))
    return tmp_path / "source.py"


def test_the_model_is_built_and_called(net):
    loaded = load(net, "Net")
    model = construct(loaded, "Net(WIDTH, bias=False)")
    assert model.fc.weight.shape == (6, 6) and model.fc.bias is None
    args, kwargs = example(loaded, "dict(x=torch.ones(2, 6), scale=2.0)")
    expected = 2 * torch.ones(2, 6) @ model.fc.weight.T
    torch.testing.assert_close(forward(loaded, model, args, kwargs), expected)
    assert construct(load(net, "Plain")).fc.weight.shape == (2, 2)


def test_forms_of_the_example(net):
    loaded = load(net, "Net")
    args, kwargs = example(loaded, "torch.ones(2, 3)")
    assert len(args) == 1 and args[0].shape == (2, 3) and not kwargs
    assert len(example(loaded, "(torch.ones(2), np.ones(3), math.pi)")[0]) == 3
    assert [type(one) for one in example(loaded, "[torch.ones(2), torch.ones(2)]")[0]] == [list]
    assert set(example(loaded, "{'x': F.relu(torch.ones(2))}")[1]) == {"x"}


def test_errors_say_what_to_do(net):
    loaded = load(net, "Net")
    model = construct(loaded, "Net(6, bias=True)")
    cases = {
        r"--construct: Net has arguments.*expected values for width, bias.*Net\(width=\.\.\., bias=\.\.\.\)": lambda: (
            construct(loaded)
        ),
        r"net\.py:10 \(raise ValueError.*depth must be positive": lambda: construct(loaded, "Net(6, 0, bias=True)"),
        r"missing 1 required keyword-only argument: 'bias'": lambda: construct(loaded, "Net(6)"),
        r"helper\(\) is not a model; expected an instance of nn.Module, got int": lambda: construct(loaded, "helper()"),
        r"name 'Nett' is not defined": lambda: construct(loaded, "Nett()"),
        r"--example: this is not a Python expression": lambda: example(loaded, "x = 3"),
        r"net\.py:14 \(y = self\.fc\(x\)\).*float32\[2, 5\].*mat1 and mat2": lambda: forward(
            loaded, model, (torch.ones(2, 5),), {}
        ),
        r"no class Nat; expected one of Net": lambda: load(net, "Nat"),
        r"helper, which is not a class": lambda: load(net, "helper"),
        r"is not a file": lambda: load(net.with_name("absent.py")),
        r"no class was named; expected one of Net, Plain": lambda: construct(load(net)),
    }
    for message, call in cases.items():
        with pytest.raises(PortError, match=message):
            call()


def test_a_file_that_cannot_be_executed(tmp_path):
    for text, message in {
        "def f(:\n": r"source\.py:1: is not valid Python",
        "import torch\nx = 1 / 0\n": r"source\.py:2 \(x = 1 / 0\): the import of the file failed.*ZeroDivisionError",
        "import sys\nsys.exit(2)\n": r"source\.py:2",
        "import absent_one\nx = absent_one.LIMIT + 1\n": r"The line uses absent_one.*pip install absent_one",
    }.items():
        with pytest.raises(PortError, match=message):
            load(written(tmp_path, text))


def test_a_constructor_that_downloads(tmp_path):
    text = """
        import torch, urllib.request
        class Net(torch.nn.Module):
            def __init__(self, url="http://weights.example.org/x.pt"):
                super().__init__()
                urllib.request.urlopen(url)
            def forward(self, x):
                return x
        """
    connect, lookup = socket.socket.connect, socket.getaddrinfo
    loaded = load(written(tmp_path, text), "Net")
    with pytest.raises(
        PortError, match=r"source\.py:6 \(urllib.*weights\.example\.org.*--construct with pretrained=False"
    ):
        construct(loaded)
    assert (socket.socket.connect, socket.getaddrinfo) == (connect, lookup)
    with socket.create_server(("127.0.0.1", 0)) as server, loaded.running():
        socket.create_connection(server.getsockname()).close()


def test_compiled_functions_are_plain(tmp_path):
    text = """
        import torch
        @torch.jit.script
        def one(x):
            return x + 1
        @torch.compile(mode="max-autotune")
        def two(x):
            return x + 2
        three = torch.jit.script(one)
        """
    script = torch.jit.script
    module = load(written(tmp_path, text)).module
    assert {type(one) for one in (module.one, module.two, module.three)} == {type(written)}
    assert torch.jit.script is script


def test_loads_with_different_transforms_coexist(net):
    import ast

    def renamed(path, tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value == 6:
                node.value = 8
        return tree

    plain, changed = load(net, "Net"), load(net, "Net", transform=renamed)
    assert construct(changed, "Net(WIDTH, bias=True)").fc.in_features == 8
    assert construct(plain, "Net(WIDTH, bias=True)").fc.in_features == 6
    assert plain.cls is not changed.cls and plain.cls.__module__ == changed.cls.__module__ == "net"
    assert not {"net", "helpers"} & set(sys.modules)


MODELS = {
    "segformer-pytorch": (
        "segformer_pytorch/segformer_pytorch.py",
        "Segformer(dims=(16, 16, 16, 16), heads=(1, 2, 2, 2), num_layers=1)",
        "torch.randn(1, 3, 64, 64)",
    ),
    "mambapy": ("mambapy/mamba.py", "Mamba(MambaConfig(d_model=16, n_layers=2))", "torch.randn(2, 10, 16)"),
    "pytorch-tcn": ("pytorch_tcn/tcn.py", "TCN(4, [8, 8])", "torch.randn(2, 4, 20)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_real_package_gives_what_its_import_gives(name, monkeypatch):
    file, build, inputs = MODELS[name]
    root = package(name)
    loaded = load(root / file)
    torch.manual_seed(0)
    model = construct(loaded, build).eval()
    args, kwargs = example(loaded, inputs)
    top = file.partition("/")[0]
    assert not [one for one in sys.modules if one.partition(".")[0] == top]
    monkeypatch.syspath_prepend(root)
    try:
        module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
        torch.manual_seed(0)
        expected = eval(build, vars(module)).eval()
    finally:
        for one in [one for one in sys.modules if one.partition(".")[0] == top]:
            del sys.modules[one]
    assert type(expected) is not type(model)
    assert torch.equal(forward(loaded, model, args, kwargs), expected(*args))


@pytest.mark.slow
def test_a_package_that_cannot_be_imported_here():
    """torchvision's __init__.py needs its compiled extension, and easyocr's needs OpenCV; their models do not."""
    torchvision, easyocr = package("torchvision") / "torchvision", package("easyocr") / "easyocr"
    loaded = load(torchvision / "models" / "resnet.py", "ResNet")
    model = construct(loaded, "ResNet(BasicBlock, [1, 1, 1, 1])").eval()
    assert forward(loaded, model, (torch.ones(1, 3, 64, 64),), {}).shape == (1, 1000)
    craft = load(easyocr / "craft.py", "CRAFT", also=[torchvision])
    assert forward(craft, construct(craft, "CRAFT()").eval(), (torch.ones(1, 3, 64, 64),), {})[0].shape == (
        1,
        32,
        32,
        2,
    )
    with pytest.raises(PortError, match=r"--construct with pretrained=False"):
        construct(loaded, "resnet18(weights=ResNet18_Weights.IMAGENET1K_V1)")
