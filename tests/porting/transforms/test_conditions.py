"""Values of tensors that Python asks for: registered as eager only, and equal to torch's when they run so."""

import pytest

from ..ported import check, module, port_text

LINES = {
    "if": "if x.sum() > 0:\n    x = x * 2\nreturn x",
    "not and or": "if not x.sum() > 1000 and self.training or x.mean() > 1000:\n    x = x * 2\nreturn x",
    "while": "while (x.abs() > 1).any():\n    x = x / 2\nreturn x",
    "a choice": "return x if x.mean() > 100 else -x",
    "assert": "assert not torch.isnan(x).any(), 'nan'\nreturn x",
    "numbers": "return x * int(x.argmax()) + float(x.sum()) + math.sqrt(x.var() + 1) + bool(x[0, 0] > 0)",
    "range": "for i in range(x.argmax() + 1):\n    x = x + i\nreturn x",
    "a comprehension": "return torch.stack([t for t in x if t.sum() > -100])",
    "a value": "flag = not x.any()\nreturn x * 2 if flag else x",
    "item": "return x * x.max().item() + x[:, x[0].argmax().item()].tolist()[0]",
    "where": "i, = torch.where(x[0] > -100)\nreturn x[:, i], (x > 0).nonzero(), torch.argwhere(x > 0)",
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.filterwarnings("ignore:Converting a tensor")
def test_eager_only(name, tmp_path):
    check(tmp_path, module(LINES[name]), levels={"eager only"}, training=(False,))


STATIC = {
    "sizes": "n = torch.tensor(x.shape[0])\nif n > 1:\n    x = x * int(n * 2)\nreturn x",
    "settings": "if self.flag and x.shape[1] == 3 and x.dim() > 1 and not self.training:\n    x = x * 2\nreturn x",
    "kinds": "if x is not None and isinstance(x, torch.Tensor) and x.dtype.is_floating_point:\n    x = x * 2\nreturn x",
    "loops": "for i in range(int(x.shape[0] / 2)):\n    x = x * float(i + 2)\nreturn x * math.sqrt(x.size(-1))",
}


@pytest.mark.parametrize("name", STATIC)
def test_static(name, tmp_path):
    check(tmp_path, module(STATIC[name], "self.flag = True"))


def test_constructors_are_eager(tmp_path):
    init = "t = torch.arange(3.0)\nif t.sum() > 2:\n    self.n = int(t.max())"
    assert not port_text(tmp_path, module("return x * self.n", init)).entries


def test_checks_of_torch_become_assertions(tmp_path):
    lines = """
    torch._assert(x.dim() == 2, f"got {x.shape}")
    torch._assert(
        x.shape[0] == 2
        and x.shape[1] == 3,
        "another "
        "shape",
    )
    torch._check(x.dim() == 2, lambda: "another number")
    return x
    """
    with_run, _ = check(tmp_path, module(lines))
    assert with_run.text.count("assert ") == 3 and "lambda" not in with_run.text


def test_a_comparison_with_a_string_is_python(tmp_path):
    lines = "if kind is None:\n    return x\nif kind == 'a':\n    return x * 2\nreturn x"
    check(tmp_path, module(lines, arguments="x, kind=None"), training=(False,))
