"""Questions about types, which would have other answers in JAX without an error."""

import pytest

from ..ported import check, module, port_text

EQUAL = """
n = (x > 0).long()
if isinstance(x, torch.Tensor) and torch.is_tensor(x) and not isinstance(x, (list, tuple)):
    x = x * 2
if type(x) == torch.Tensor:
    x = x * 3
if type(x) is not Tensor:
    x = x + 1
if x.dtype is torch.float32 or x.dtype is torch.float64:
    x = x * 5
if n.dtype is not torch.int64:
    x = x * 7
if x.dtype in {torch.float32, torch.float64}:
    x = x * 11
if x.dtype in (torch.float16, torch.bfloat16) or x.dtype == n.dtype:
    x = x * 13
if x.type() == "torch.cuda.HalfTensor" or (x + 1).type() != "torch.HalfTensor":
    x = x * 19
if x is None or hasattr(x, "foo") or not callable(self.forward):
    x = x * 17
return x
"""


def test_equal(tmp_path):
    with_run, _ = check(tmp_path, module(EQUAL))
    assert "if isinstance(x, jax.Array):" in with_run.text and "if not isinstance(x, jax.Array):" in with_run.text


@pytest.mark.parametrize(
    "question",
    [
        "isinstance(x, torch.LongTensor)",
        "isinstance(x, (torch.FloatTensor, torch.cuda.FloatTensor))",
        "isinstance(self.scale, nn.Parameter)",
        "type(x) in (torch.Tensor, list)",
        "type(x) == torch.FloatTensor",
        "x.type() == 'torch.LongTensor'",
    ],
)
def test_not_decided(question, tmp_path):
    ported = port_text(tmp_path, module(f"if {question}:\n    x = x * 2\nreturn x"), "Net()", "torch.randn(2, 3)")
    assert ported.levels == {"blocks"}


def test_parameters_are_known_in_constructors(tmp_path):
    init = "self.flag = isinstance(self.scale, nn.Parameter)"
    check(tmp_path, module("return x * 2 if self.flag else x", init))


DEVICES = """
if x.device.type == "cuda" or str(x.device).startswith("cuda") or x.device == torch.device("cuda:0"):
    x = x * 2
if x.device.type in ("cpu", "mps") and x.device != torch.device("cuda"):
    x = x * 3
if x.get_device() >= 0 or x.device.index is not None or x.device != self.scale.device:
    x = x * 5
return x
"""


def test_questions_about_devices_are_answered_as_on_a_cpu(tmp_path):
    check(tmp_path, module(DEVICES), training=(False,))


SCRIPTED = """
n = torch.ones(2).long()
if torch.jit.isinstance([x, n], List[Tensor]):
    x = x * 2
pairs = {"a": [x], "b": [x, x]}
if torch.jit.isinstance(pairs, Dict[str, List[torch.Tensor]]):
    x = x * 3
if torch.jit.isinstance(pairs, PAIRS) or torch.jit.isinstance(pairs, Dict[int, List[Tensor]]):
    x = x * 5
names = ["a", "b"]
if torch.jit.isinstance(names, List[str]) and not torch.jit.isinstance(names, List[List[str]]):
    x = x * 7
if torch.jit.isinstance(x, Optional[Tensor]) and torch.jit.isinstance(None, Optional[Tensor]):
    x = x * 11
two = (x, 1)
if torch.jit.isinstance(two, Tuple[Tensor, int]) and not torch.jit.isinstance(two, Tuple[Tensor, Tensor]):
    x = x * 13
if torch.jit.isinstance(two, Tuple[Tensor]) or torch.jit.isinstance(x, (str, List[Tensor])):
    x = x * 17
return x
"""
TYPES = "from typing import Dict, List, Optional, Tuple\nPAIRS = Dict[str, Tensor]"


def test_scripted(tmp_path):
    with_run, _ = check(tmp_path, module(SCRIPTED.replace("[x, n], ", "both, ").replace("n = ", "both = [x, x]\nn = "),
                                         before=TYPES))  # fmt: skip
    assert "if isinstance(both, list) and all(isinstance(one, jax.Array) for one in both):" in with_run.text
    assert "if not (isinstance" not in with_run.text and "x is None or isinstance(x, jax.Array)" in with_run.text


@pytest.mark.parametrize("question", ["[x, x + 1], List[Tensor]", "x, Tuple[Tensor, ...]"])
def test_scripted_not_decided(question, tmp_path):
    lines = f"if torch.jit.isinstance({question}):\n    x = x * 2\nreturn x"
    assert port_text(tmp_path, module(lines, before=TYPES)).levels == {"blocks"}


def test_the_type_of_a_tensor(tmp_path):
    body = "y = 2 * x\nassert isinstance(y, type(x)) and not isinstance(y, type('a'))\nreturn y"
    _, with_run = check(tmp_path, module(body))
    assert "isinstance(y, jax.Array) and not isinstance(y, type('a'))" in with_run.text
