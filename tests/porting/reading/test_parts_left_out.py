"""What a port never keeps."""

import libcst as cst
import pytest

from funcnet.porting.reading.name_uses import uses_of
from funcnet.porting.reading.parts_left_out import (
    is_dropped_decorator,
    is_registration,
    is_telemetry,
    reason_for_class,
    reason_for_function,
    reason_for_method,
    reason_for_module,
    reason_for_value,
)
from funcnet.porting.reading.sources import read
from tests.porting.made_up import write

HEAD = (
    "import argparse, json, os, pickle, torch\nfrom torch.hub import load_state_dict_from_url\nfrom torch import nn\n"
)


def uses(folder, body):
    source = read(write(folder, {"model.py": f"{HEAD}def f(self, x):\n    {body}\n"}) / "model.py")
    return uses_of(source, source.tree.body[-1])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return torch.load(x)", "loads weights"),
        ("load_state_dict_from_url(x)", "loads weights"),
        ("import huggingface_hub", "loads weights"),
        ("x.load_state_dict({})", "loads weights"),
        ("torch._C._log_api_usage_once(x)", "reports the use of the library"),
        ("argparse.ArgumentParser()", "reads a command line"),
        ("json.load(open(x))", None),
        ("return torch.relu(x)", None),
    ],
)
def test_functions(tmp_path, body, reason):
    assert reason_for_function("f", uses(tmp_path, body)) == reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("torch.save(x, 'a')", "reads or writes files"),
        ("open(x)", "reads or writes files"),
        ("pickle.dumps(x)", "reads or writes files"),
        ("torch.optim.Adam(x)", "trains the model"),
        ("x.backward()", "trains the model"),
        ("torch.load(x)", "loads weights"),
        ("return os.environ, torch.relu(x)", None),
    ],
)
def test_methods(tmp_path, body, reason):
    assert reason_for_method("f", uses(tmp_path, body)) == reason


def test_names_that_say_it(tmp_path):
    plain = uses(tmp_path, "return x")
    assert reason_for_function("load_pretrained_weights", plain) == "loads weights"
    assert reason_for_method("from_pretrained", plain) == "loads weights"
    assert reason_for_method("training_step", plain) == "trains the model"
    assert reason_for_method("step", plain) is None
    assert not is_telemetry(plain)


def test_classes_values_and_modules():
    assert reason_for_class(["torchvision.models._api.WeightsEnum", "enum.Enum"]) == "a table of weights"
    assert reason_for_class(["torch.utils.data.Dataset"]) == "a dataset"
    assert reason_for_class(["torch.optim.Optimizer"]) == "an optimizer"
    assert reason_for_class(["torch.nn.Module"]) is None
    assert reason_for_value(cst.parse_expression('["https://a.org/b.pth"]')) == "a table of weights"
    assert reason_for_value(cst.parse_expression('["see https://a.org for more"]')) is None
    assert reason_for_value(None) is None
    assert reason_for_module("cv2.dnn") == "needs cv2"
    assert [reason_for_module(name) for name in ("torch.nn", "numpy", "einops.layers", "math", "os.path")] == [None] * 5


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        ("torch.jit.script", True),
        ("torch.jit.unused", True),
        ("torch.compile", True),
        ("pkg._api.register_model", True),
        ("MODELS.register_module", True),
        ("torch.no_grad", False),
        ("staticmethod", False),
        ("functools.cache", False),
    ],
)
def test_decorators(name, dropped):
    assert is_dropped_decorator(name) is dropped


@pytest.mark.parametrize(
    ("code", "registers"),
    [
        ("MODELS['a']", True),
        ("registry.add", True),
        ("_model_registry['a']", True),
        ("layers.register", True),
        ("Args.__new__.__defaults__", False),
        ("ACTIVATIONS['a']", False),
    ],
)
def test_registrations(code, registers):
    assert is_registration(cst.parse_expression(code)) is registers
