"""`functools.partial` of torch's functions."""

import pytest

from ..ported import check, module, port_text


def test_equal(tmp_path):
    forward = """
    cat, soft = partial(torch.cat, dim=-1), functools.partial(F.softmax, dim=-1)
    return cat([x, x]), soft(x), partial(torch.sum, dim=1, keepdim=True)(x), partial(torch.add, x)(x), self.act(x)
    """
    init = "self.act = partial(torch.clamp, min=0.0)"
    check(tmp_path, module(forward, init, before="import functools\nfrom functools import partial"), training=(False,))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("partial(torch.cat, dim=-1)", "lambda tensors: jnp.concatenate(tensors, axis=-1)"),
        ("partial(F.softmax, dim=-1)", "partial(F.softmax, dim=-1)"),
        ("partial(nn.LayerNorm, eps=1e-6)", "partial(nn.LayerNorm, eps=1e-6)"),
    ],
)
def test_written(text, written, tmp_path):
    before = "from functools import partial"
    assert f"f = {written}\n" in port_text(tmp_path, module(f"f = {text}\nreturn x", before=before)).text


def test_methods_are_not_guessed(tmp_path):
    text = module("return partial(torch.Tensor.view, x)(-1)", before="from functools import partial")
    assert port_text(tmp_path, text).levels == {"blocks"}
