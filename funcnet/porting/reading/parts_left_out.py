"""Decides which parts of a torch source a port leaves out (weights, files, training, registries), and gives reasons.

A reason is a text that can follow the name of the part: "load_pretrained_weights: loads weights".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import libcst as cst

from funcnet.porting.reading.name_uses import Uses
from funcnet.porting.reading.syntax import dotted, root_of, walk

__all__ = [
    "ABSENT_METHODS",
    "is_dropped_decorator",
    "is_plain_data",
    "is_registration",
    "is_telemetry",
    "loads_by_name",
    "reason_for_class",
    "reason_for_function",
    "reason_for_method",
    "reason_for_module",
    "reason_for_value",
]

# Modules and functions. A qualified name belongs to a group if it begins with one of these names.
_WEIGHTS = (
    "torch.hub", "torch.utils.model_zoo", "torch.load", "torch.jit.load", "urllib", "requests", "huggingface_hub",
    "safetensors", "gdown", "wget", "tensorflow", "timm.models.load_checkpoint",
)  # fmt: skip
_FILES = (
    "builtins.open", "builtins.input", "torch.save", "torch.onnx", "torch.jit.save", "torch.jit.trace",
    "torch.jit.script", "numpy.load", "numpy.save", "numpy.savez", "numpy.loadtxt", "numpy.fromfile", "pickle",
    "joblib", "json.load", "json.dump", "os.makedirs", "os.mkdir", "os.remove", "os.listdir", "os.walk", "shutil",
    "tempfile", "glob", "zipfile", "tarfile", "subprocess", "pathlib",
)  # fmt: skip
_TRAINING = ("torch.optim", "torch.utils.data", "torch.cuda.amp.GradScaler", "accelerate", "ema_pytorch")
_COMMANDS = ("argparse", "click", "fire", "tyro", "sys.argv", "absl", "typer", "optparse")
_TELEMETRY = ("torch._C._log_api_usage_once", "torch._C._log_api_usage_metadata")
# Modules that a method may use and still be kept: funcnet supports them, Python has them, or they are small helpers.
_KNOWN = frozenset({"torch", "numpy", "einops", "builtins", "tqdm", "packaging", "typing_extensions"})
_KNOWN |= sys.stdlib_module_names

_LOADER = re.compile(r"load_state_dict_from|load_url$|download|hf_hub|urlretrieve|from_pretrained$|load_pretrained")
_WEIGHTS_ATTRIBUTES = frozenset({"load_state_dict", "load_state_dict_from_url", "from_pretrained", "get_state_dict"})
_TRAINING_ATTRIBUTES = frozenset({"backward", "zero_grad"})
_TRAINING_METHODS = frozenset({"configure_optimizers", "training_step", "validation_step", "test_step", "fit"})
_WEIGHTS_METHODS = frozenset({"from_pretrained", "save_pretrained", "push_to_hub"})
_REGISTRY = re.compile(r"regist|entry_?points?$|model_zoo|^(.*_)?MODELS$|(?i:_factory$)|BUILDERS?$")

# Methods of torch.nn.Module whose overrides are left out, because funcnet never calls them.
ABSENT_METHODS = frozenset({
    "state_dict", "load_state_dict", "_save_to_state_dict", "_load_from_state_dict", "named_parameters", "parameters",
    "named_buffers", "buffers", "_apply", "__getstate__", "__setstate__", "__reduce__",
})  # fmt: skip


def reason_for_function(name: str, uses: Uses) -> str | None:
    """Return why the port leaves out a function that the model calls (for example, it loads weights), or None."""
    if _among(uses.outside, _WEIGHTS) or uses.attributes & _WEIGHTS_ATTRIBUTES or _LOADER.search(name):
        return "loads weights"
    if any(_LOADER.search(one.target.name) for one in uses.references):
        return "loads weights"
    if is_telemetry(uses):
        return "reports the use of the library"
    return "reads a command line" if _among(uses.outside, _COMMANDS) else None


def loads_by_name(names: Iterable[str]) -> bool:
    """Return whether one of these names belongs to a method that loads weights, such as "load_pretrained"."""
    return any(name in _WEIGHTS_ATTRIBUTES or _LOADER.search(name) for name in names)


def reason_for_class(bases: Iterable[str]) -> str | None:
    """Return why the port leaves out a class (for example, it supplies training data), or None if it keeps the class.

    Args:
        bases: qualified names of the bases of the class.
    """
    for base in bases:
        if base.rpartition(".")[2] == "WeightsEnum":
            return "a table of weights"
        if base.startswith("torch.utils.data."):
            return "a dataset"
        if base.startswith("torch.optim"):
            return "an optimizer"
    return None


def reason_for_value(value: cst.CSTNode | None) -> str | None:
    """Return "a table of weights" for a constant that contains addresses of files, and None for any other constant.

    >>> reason_for_value(cst.parse_expression('{"b0": "https://example.org/b0.pth"}'))
    'a table of weights'
    """
    strings = (one for one in walk(value) if isinstance(one, cst.SimpleString)) if value is not None else ()
    return "a table of weights" if any(_address(one.evaluated_value) for one in strings) else None


def is_plain_data(value: cst.CSTNode | None) -> bool:
    """Return whether the value of a constant consists of literals, so that the constant calls nothing and needs no
    other names.

    >>> is_plain_data(cst.parse_expression('{"b0": ["https://example.org/b0.pth", None]}'))
    True
    """
    plain = (cst.Dict, cst.List, cst.Tuple, cst.Set, cst.BaseString, cst.BaseNumber, cst.UnaryOperation)
    inside = [one for one in walk(value) if isinstance(one, cst.BaseExpression)] if value is not None else []
    words = ("None", "True", "False")
    return bool(inside) and all(
        one.value in words if isinstance(one, cst.Name) else isinstance(one, plain) for one in inside
    )


def reason_for_module(module: str) -> str | None:
    """Return why the port leaves out a method that uses a certain module: "needs scipy".

    The result is None for torch, NumPy, einops, Python's own modules and a few others.
    """
    top = module.partition(".")[0]
    return None if top in _KNOWN else f"needs {top}"


def reason_for_method(name: str, uses: Uses) -> str | None:
    """Return why the port leaves out a method that `forward` and the constructor do not call, or None if it stays."""
    if name in _WEIGHTS_METHODS or reason_for_function("", uses) == "loads weights":
        return "loads weights"
    if _among(uses.outside, _FILES):
        return "reads or writes files"
    if _among(uses.outside, _TRAINING) or name in _TRAINING_METHODS or uses.attributes & _TRAINING_ATTRIBUTES:
        return "trains the model"
    return reason_for_function(name, uses)


def is_telemetry(uses: Uses) -> bool:
    return _among(uses.outside, _TELEMETRY)


def is_dropped_decorator(name: str) -> bool:
    """Return whether a decorator is left out.

    This is so for decorators of torch.jit, torch.fx and torch.compile, and for those that add an entry to a registry.

    Args:
        name: the qualified name of the decorator.

    >>> is_dropped_decorator("torch.jit.unused"), is_dropped_decorator("torch.no_grad")
    (True, False)
    """
    outside = ("torch.jit", "torch.fx", "torch.compile", "torch.compiler", "torch._dynamo")
    return (
        _among([name], outside) or bool(_REGISTRY.search(name.rpartition(".")[2])) or _REGISTRY.search(name) is not None
    )


def is_registration(node: cst.CSTNode) -> bool:
    """Return whether an assignment or a call adds an entry to a registry: `MODELS["a"] = A`, `registry.register(A)`.

    Args:
        node: the target of the assignment, or the called function.
    """
    chain = dotted(root_of(node)) or ()
    last = node.attr.value if isinstance(node, cst.Attribute) else ""
    return any(_REGISTRY.search(part) for part in (*chain, last))


def _address(text: object) -> bool:
    return isinstance(text, str) and re.match(r"(https?|s3|gs)://\S+$", text) is not None


def _among(names: Iterable[str], beginnings: tuple[str, ...]) -> bool:
    return any(f"{name}.".startswith(f"{one}.") for name in names for one in beginnings)
