"""Expressions whose values are known when JAX traces, and the tensors that become NumPy's."""

import libcst as cst
import pytest

from funcnet.porting.analysis.static_tensors import Static
from funcnet.porting.reading.sources import read
from funcnet.porting.rewriting.rewritten_file import inference_of

from ..made_up import write
from ..ported import HEAD, check, module, port_text


def static(tmp_path, expression: str, lines: str = "", arguments: str = "x, flag=True, n: int = 2") -> bool:
    text = HEAD + module(f"{lines}\nfound = {expression}", "self.depth = 3", arguments)
    source = read(write(tmp_path, {"net.py": text}) / "net.py")
    inference = inference_of(source, None)
    known = Static(source.tree, inference.definitions, inference.fact, inference.qualified)
    net = next(one for one in source.tree.body if isinstance(one, cst.ClassDef))
    return known.is_static(net.body.body[1].body.body[-1].body[0].value)


@pytest.mark.parametrize(
    ("expression", "known"),
    [
        ("1", True), ("x", False), ("x.shape", True), ("x.shape[0] * 2", True), ("x.size(0)", True),
        ("x.dim() > 1", True), ("x.dtype", True), ("x.sum()", False), ("x[0]", False), ("n", True), ("flag", True),
        ("self.depth", True), ("self.training and n > 1", True), ("-n", True), ("n if flag else 3", True),
        ("len(x.shape)", True), ("int(x.shape[0] / 2)", True), ("math.sqrt(n)", True),
        ("torch.tensor(x.shape)", True), ("torch.arange(n).sum()", True), ("torch.tensor([1, n])[0]", True),
        ("torch.tensor(x)", False), ("torch.rand(3)", False), ("[n, x]", False), ("unknown", False),
        ("F.relu(torch.ones(2))", False), ("n < x.sum()", False), ("(x.shape[0], n)[:1]", True),
    ],
)  # fmt: skip
def test_expressions(expression, known, tmp_path):
    assert static(tmp_path, expression) is known


def test_names(tmp_path):
    assert static(tmp_path, "b", "a = x.shape[0]\nb = a * 2") and not static(tmp_path, "b", "a = x.sum()\nb = a * 2")
    assert not static(tmp_path, "a", "a = 1\na = x.sum()") and not static(tmp_path, "a", "a = a")


def test_tensors_whose_values_are_needed_are_numpys(tmp_path):
    lines = """
    sizes = torch.tensor(x.shape[-2:])
    doubled = (sizes * 2).tolist()
    n = int(torch.tensor(x.shape[1]) * 2)
    if torch.tensor(n) > 1:
        x = x * n
    return x.new_zeros(doubled) + x[:1, :1], torch.arange(3) * x
    """
    with_run, _ = check(tmp_path, module(lines), training=(False,))
    assert "np.array(x.shape[-2:])" in with_run.text and "jnp.arange(3) * x" in with_run.text


def test_what_numpy_lacks_is_eager(tmp_path):
    ported = port_text(tmp_path, module("n = int(torch.logsumexp(torch.ones(3), 0))\nreturn x * n"))
    assert ported.levels == {"eager only"} and "NumPy has no" in ported.entries[0].why
