"""Facts of a recorded run, against torch's forward hooks and the plain run of the same model."""

import textwrap

import libcst
import libcst.matchers as m
import pytest
import torch
from libcst.metadata import MetadataWrapper, PositionProvider

from funcnet.porting.errors import PortError
from funcnet.porting.expression_facts.fact import UNKNOWN
from funcnet.porting.running.loading import construct, example, forward, load
from funcnet.porting.running.recording import record
from tests.porting.packages import package

# package: (file, class, constructor, example)
MODELS = {
    "torchvision": (
        "torchvision/models/resnet.py",
        "ResNet",
        "ResNet(BasicBlock, [1, 1, 1, 1])",
        "torch.ones(2, 3, 64, 64)",
    ),
    "swin": (
        "torchvision/models/swin_transformer.py",
        "SwinTransformer",
        "SwinTransformer([4, 4], 16, [1, 1], [2, 2], [4, 4], num_classes=10)",
        "torch.ones(2, 3, 64, 64)",
    ),
    "vit-pytorch": (
        "vit_pytorch/vit.py",
        "ViT",
        "ViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=2, mlp_dim=64)",
        "torch.ones(2, 3, 32, 32)",
    ),
    "openai-whisper": (
        "whisper/model.py",
        "Whisper",
        "Whisper(ModelDimensions(80, 100, 32, 2, 2, 1000, 50, 32, 2, 2))",
        "(torch.ones(1, 80, 200), torch.arange(7)[None])",
    ),
    "mambapy": ("mambapy/mamba.py", "Mamba", "Mamba(MambaConfig(d_model=16, n_layers=2))", "torch.ones(2, 10, 16)"),
    "pytorch-tcn": ("pytorch_tcn/tcn.py", "TCN", "TCN(4, [8, 8])", "torch.ones(2, 4, 20)"),
}
SOURCE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width: int = 4):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(width))
            self.fc = nn.Linear(width, width)
            kept = self.weight

        def forward(self, x: torch.Tensor, mask=None):
            shape = (x.size(0), x.shape[1])
            if mask is not None:
                x = x.masked_fill(mask, 0.0)
            for step in range(2):
                x = self.fc(x) * self.weight
            if self.training:
                x = x.double()
            x += 1
            return x

        def unused(self):
            return 3
    """


@pytest.fixture
def net(tmp_path):
    (tmp_path / "net.py").write_text(textwrap.dedent(SOURCE))
    return tmp_path / "net.py"


def parsed(path):
    """A function from a node of libcst, and a pattern, to the places of what matches in it; and the file's root."""
    wrapper = MetadataWrapper(libcst.parse_module(path.read_text()), unsafe_skip_copy=True)
    ranges = wrapper.resolve(PositionProvider)

    def within(node, pattern):
        found = [ranges[one] for one in m.findall(node, pattern)]
        return [(one.start.line, one.start.column, one.end.line, one.end.column) for one in found]

    return within, wrapper.module


def places(path, pattern):
    within, module = parsed(path)
    return within(module, pattern)


def test_facts_by_place_and_phase(net):
    recording = record(net, "Net", None, ["torch.ones(2, 4)", "(torch.ones(3, 4), torch.zeros(3, 4, dtype=bool))"])

    def fact(matcher, phase=None, index=0):
        return recording.fact(net, places(net, matcher)[index], phase)

    weight = m.Attribute(m.Name("self"), m.Name("weight"))
    assert fact(weight, "construct", 1).kinds == {"parameter"} and fact(weight, "forward", 1) == UNKNOWN
    assert fact(weight, "forward", 2).shape == (4,)
    mask = recording.fact(net, places(net, m.Name("mask"))[0])
    assert mask.kinds == {"none", "tensor"} and mask.dtype == "bool" and mask.shape == (3, 4)
    call = fact(m.Call(m.Attribute(m.Name("self"), m.Name("fc"))))
    assert call.kinds == {"tensor"} and call.dtype == "float32" and call.shape == (None, 4)
    assert fact(m.Attribute(m.Name("self"), m.Name("fc")), "forward", 1).name == "torch.nn.modules.linear.Linear"
    shape = fact(m.Tuple())
    assert [item.kinds for item in shape.items] == [{"int"}, {"int"}]
    assert fact(m.Comparison()).kinds == {"bool"} and fact(m.Name("range"), "forward").kinds == {"class"}
    line, column, *_ = places(net, m.AugAssign())[0]
    target = recording.fact(net, (line, column, line, column + 1))
    assert target.kinds == {"tensor"} and target.dtype == "", "float32 in eval mode, float64 in train mode"
    assert fact(m.Integer("3")) == UNKNOWN and recording.skipped == ""


def test_functions_that_ran(net):
    recording = record(net, "Net", None, "torch.ones(2, 4)")
    build, run, unused = places(net, m.FunctionDef())
    assert recording.ran(net, build, "construct") and not recording.ran(net, build, "forward")
    assert recording.ran(net, run, "forward") and recording.ran(net, run) and not recording.ran(net, run, "construct")
    assert not recording.ran(net, unused)


def test_a_run_in_train_mode_may_fail(net):
    net.write_text(net.read_text().replace("x = x.double()", "raise RuntimeError('no training')"))
    recording = record(net, "Net", None, "torch.ones(2, 4)")
    assert "no training" in recording.skipped
    with pytest.raises(PortError, match=r"net\.py:17.*forward failed"):
        record(net, "Net", None, "torch.ones(2, 5)")


def test_the_users_random_numbers_stay(net):
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    record(net, "Net", None, "torch.rand(2, 4)")
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.slow
def test_the_backward_of_a_function_is_recorded(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(
        textwrap.dedent("""
        import torch
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, grad):
                return grad * 2
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(3))
            def forward(self, x):
                return Double.apply(x * self.weight)
        """)
    )
    recording = record(file, "Net", None, "torch.ones(2, 3)")
    assert recording.fact(file, places(file, m.Name("grad"))[1], "forward").shape == (2, 3)
    assert recording.model.weight.grad is None


@pytest.mark.slow  # reads packages that only the verification fetches
@pytest.mark.parametrize("name", MODELS)
def test_a_recorded_model_computes_the_same(name):
    """Outputs are equal bit for bit, and the facts of `self.layer(x)` are what forward hooks see."""
    file, cls, build, inputs = MODELS[name]
    path = package("torchvision" if name == "swin" else name) / file
    recording = record(path, cls, build, inputs)
    assert recording.skipped == ""
    loaded = load(path, cls)
    model = construct(loaded, build).eval()
    with torch.no_grad():
        # Whisper leaves a parameter as the memory was; and names are the same, so each state fits the other.
        for parameter in recording.model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
        model.load_state_dict(recording.model.state_dict())
    args, kwargs = example(loaded, inputs)
    seen: dict = {}
    for parent in model.modules():
        for name, layer in parent.named_children():
            shapes = seen.setdefault((type(parent).__name__, name), set())
            layer.register_forward_hook(lambda _, __, out, shapes=shapes: shapes.add(getattr(out, "shape", None)))
    with torch.no_grad():
        found = forward(recording.loaded, recording.model, args, kwargs)
        assert torch.equal(found, forward(loaded, model, args, kwargs)) and not found.isnan().any()
    within, module = parsed(path)
    compared = 0
    for (cls, attribute), shapes in seen.items():
        bodies = m.findall(module, m.ClassDef(m.Name(cls)))
        pattern = m.Call(m.Attribute(m.Name("self"), m.Name(attribute)))
        spans = [span for body in bodies for span in within(body, pattern)]
        if len(spans) == 1 and len({shape and len(shape) for shape in shapes}) == 1 and None not in shapes:
            sizes = tuple(one[0] if len(set(one)) == 1 else None for one in zip(*shapes, strict=True))
            fact = recording.fact(path, spans[0], "forward")
            assert (fact.kinds, fact.dtype, fact.shape) == ({"tensor"}, "float32", sizes), (cls, attribute)
            compared += 1
    assert compared
