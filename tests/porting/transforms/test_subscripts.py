"""Reading parts of tensors: what is written, and that it is torch's."""

import pytest

from funcnet.porting.expression_facts.fact import UNKNOWN, Fact
from funcnet.porting.rewriting.rewriter import port_expression

from ..ported import check, module

FACTS = {
    "x": Fact(frozenset({"tensor"}), "float32", (3, 4, 5)),
    "i": Fact(frozenset({"tensor"}), "int64", (2,)),
    "n": Fact(frozenset({"tensor"}), "int64", ()),
    "k": Fact(frozenset({"int"})),
    "u": UNKNOWN,
    "a": Fact(frozenset({"array"}), "float32", (3, 4, 5)),
    "xs": Fact(frozenset({"list"})),
}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x[0, :, None, ..., 1:]", "x[0, :, None, ..., 1:]"),
        ("x[i, i]", "x[i, i]"),
        ("x[:, i, 0]", "x[:, i, 0]"),
        ("x[0, :, i]", "tl.get_item(x, (0, slice(None, None), i))"),
        ("x[i, :, k]", "tl.get_item(x, (i, slice(None, None), k))"),
        ("x[i, 1:3, i]", "x[i, 1:3, i]"),
        ("x[n, :, i]", "tl.get_item(x, (n, slice(None, None), i))"),
        ("x[0, :, u]", "tl.get_item(x, (0, slice(None, None), u))"),
        ("u[0, :, i]", "tl.get_item(u, (0, slice(None, None), i))"),
        ("u[0, 1:, 2]", "u[0, 1:, 2]"),
        ("u[k]", "u[k]"),
        ("x[[0, 2]]", "x[np.array([0, 2])]"),
        ("u[[0, -1]]", "u[np.array([0, -1])]"),
        ("x[[k, 1]]", "x[jnp.asarray([k, 1])]"),
        ("x[:, [0, 2]]", "x[:, [0, 2]]"),
        ("a[0, :, i]", "a[0, :, i]"),
        ("xs[0]", "xs[0]"),
    ],
)
def test_written(text, written):
    ported, undecided = port_expression(text, FACTS)
    assert ported == written and not undecided


EQUAL = {
    "plain": "return x[0], x[:, None, :], x[..., None], x[-1, 1:], x[None][0], x[:, :2, 0]",
    "arrays": "i = torch.tensor([0, 2])\nreturn x[i], x[:, i], x[i, i], x[i[:, None], i], x[0, :, i], x[i, :, 1]",
    "lists": "return x[[0, 2]], x[:, [1, 0]], x[0, :, [1, 2]], x[[0, 1], :, 1]",
    "several steps": "i = torch.tensor([0, 2])\nreturn x[0][:, i], x[i][0, :, 1], x[:, 0][..., i]",
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name, tmp_path):
    check(tmp_path, module(EQUAL[name]), "torch.randn(3, 4, 5)", training=(False,))


def test_masks_are_eager(tmp_path):
    lines = "m = x > 0\nreturn x[m], x[0, m[0]], x[(x > 0).byte()]"
    check(tmp_path, module(lines), "torch.randn(3, 4)", levels={"eager only"}, training=(False,))
