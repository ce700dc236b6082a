"""One expression, ported: names, facts, parentheses, and what was not decided."""

import pytest

from funcnet.porting.expression_facts.fact import UNKNOWN, Fact
from funcnet.porting.rewriting.rewriter import HANDLERS, port_expression
from funcnet.porting.rule_engine.rule import rule, table

TENSOR = Fact(frozenset({"tensor"}), "float32", (2, 3))
FACTS = {"x": TENSOR, "y": TENSOR, "u": UNKNOWN}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x + y", "x + y"),
        ("x.add(y).mul(2)", "(x + y) * 2"),
        ("x.add(y) * 2", "(x + y) * 2"),
        ("2 * x.add(y)", "2 * (x + y)"),
        ("f(x.add(y))", "f(x + y)"),
        ("[x.add(y), (x.mul(y),)]", "[x + y, (x * y,)]"),
        ("{'a': x.add(y)}", "{'a': x + y}"),
        ("x[u.add_one()]", "x[u.add_one()]"),
        ("-x.add(y)", "-(x + y)"),
        ("x.add(y).shape", "(x + y).shape"),
        ("x.add(y)[0]", "(x + y)[0]"),
        ("x.add(y) if u else x.mul(y)", "(x + y) if u else (x * y)"),
        ("lambda t: x.add(t)", "lambda t: (x + t)"),
        ("x.view(-1, 3)", "x.reshape(-1, 3)"),
        ("torch.cat([x, y], dim=1)", "jnp.concatenate([x, y], axis=1)"),
        ("torch.cat(\n    [x, y],\n    dim=1,\n)", "jnp.concatenate([x, y], axis=1)"),
        ("x.permute(*dims)", "x.transpose(*dims)"),
        ("x.sum(-1, keepdim=True)", "x.sum(axis=-1, keepdims=True)"),
        ("torch.zeros(2, 3, device=x.device)", "jnp.zeros((2, 3))"),
        ("[t.relu() for t in x]", "[F.relu(t) for t in x]"),
        ("nn.Linear(3, 4)", "nn.Linear(3, 4)"),
        ("f'{x.numel()}'", "f'{x.size}'"),
        ("u.foo(x)", "u.foo(x)"),
    ],
)
def test_written(text, written):
    ported, undecided = port_expression(text, FACTS)
    assert ported == written and not undecided


def test_names_with_facts_are_not_torchs():
    assert port_expression("torch.cat(1)", {"torch": UNKNOWN}) == ("torch.cat(1)", [])


def test_rules_may_be_given():
    rules = table([rule("torch.f(input)", "g(input)", level="eager only", note="Look.")])
    ported, undecided = port_expression("torch.f(x)", FACTS, rules)
    assert ported == "g(x)" and [(one.why, one.level) for one in undecided] == [("Look.", "eager only")]


def test_rows_are_tried_in_their_order_and_an_unknown_condition_is_not_skipped():
    rows = [rule("torch.f(input)", "one(input)", when="input.is_tensor"), rule("torch.f(input)", "two(input)")]
    assert port_expression("torch.f(x)", FACTS, table(rows))[0] == "one(x)"
    assert port_expression("torch.f(1)", FACTS, table(rows))[0] == "two(1)"
    ported, undecided = port_expression("torch.f(u)", FACTS, table(rows))
    why = "It is not known what type u has (the argument input of torch.f)."
    assert ported == "torch.f(u)" and undecided[0].why == why


def test_handlers_are_functions_of_three_arguments():
    for handlers in HANDLERS.values():
        assert handlers and len(set(handlers)) == len(handlers) and all(map(callable, handlers))
