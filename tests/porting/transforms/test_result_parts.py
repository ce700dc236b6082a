"""Parts of results: what is written, and that it is torch's value."""

import pytest

from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.rewriting.rewriter import port_expression

FACTS = {
    "x": Fact(frozenset({"tensor"}), "float32", (2, 3)),
    "n": Fact(frozenset({"tensor"}), "int64", (2, 3)),
    "y": Fact(frozenset({"tensor"}), "float32", (2, 3)),
    "t": Fact(frozenset({"tuple"})),
    "r": Fact(frozenset({"other"})),
}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x.max(1)[1]", "x.argmax(axis=1)"),
        ("x.max(dim=-1, keepdim=True).indices", "x.argmax(axis=-1, keepdims=True)"),
        ("torch.min(x, 0).indices", "x.argmin(axis=0)"),
        ("n.max(1).values", "n.max(axis=1)"),
        ("x.max(1).values", "tl.max(x, 1).values"),  # equal entries: torch's gradient goes to one of them
        ("x.max(1)[0] + 1", "tl.max(x, 1)[0] + 1"),
        ("x.max(y)[0]", "jnp.maximum(x, y)[0]"),
        ("x.max(1)[0][1]", "tl.max(x, 1)[0][1]"),
        ("x.max(1)[n]", "tl.max(x, 1)[n]"),
        ("x.sort(1)[0]", "jnp.sort(x, axis=1)"),
        ("x.sort(dim=1, descending=True).indices", "jnp.argsort(x, axis=1, descending=True)"),
        ("torch.sort(x, 0)[1]", "jnp.argsort(x, axis=0)"),
        ("x.shape.numel()", "math.prod(x.shape)"),
        ("x.size().numel()", "math.prod(x.shape)"),
        ("t.numel()", "math.prod(t)"),
        ("x.numel()", "x.size"),
        ("r.max(1)[0]", "r.max(1)[0]"),
    ],
)
def test_part(text, written):
    ported, undecided = port_expression(text, FACTS)
    assert ported == written and not undecided


def test_a_receiver_of_unknown_kind_is_not_guessed():
    ported, undecided = port_expression("u.sort()[0]", {"u": Fact()})
    assert ported == "u.sort()[0]" and "whether u is a tensor" in undecided[0].why
