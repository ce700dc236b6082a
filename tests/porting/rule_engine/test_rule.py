"""Rows of the table: their signatures, what binds to them, and their conditions."""

import ast

import libcst as cst
import pytest

from funcnet.porting.expression_facts.fact import UNKNOWN, Fact
from funcnet.porting.rule_engine.rule import MISSING, Argument, Given, TorchParameter, bind, holds, rule, table

TENSOR = Fact(frozenset({"tensor"}), "float32", (2, 3))


def given(call: str, **facts: Fact) -> list[Given]:
    """The arguments of a call's text."""
    node = cst.parse_expression(call)
    return [
        Given("" if arg.keyword is None else arg.keyword.value, arg.star, arg.value,
              facts.get(getattr(arg.value, "value", ""), UNKNOWN))
        for arg in node.args
    ]  # fmt: skip


def test_signature():
    (one,) = rule("torch.f(input, dim=None, *rest, keepdim=False, out)", "input")
    assert one.parameters == (
        TorchParameter("input"), TorchParameter("dim", None), TorchParameter("rest", star=True),
        TorchParameter("keepdim", False, keyword_only=True), TorchParameter("out", keyword_only=True),
    )  # fmt: skip
    assert rule("torch.pi", "jnp.pi")[0].parameters is None
    assert [one.name for one in rule("both.sum(input)", "input.sum()")] == ["torch.sum", "Tensor.sum"]
    assert rule("torch.f(x)", kind="register")[0].level == "blocks"
    assert rule("torch.f(x)", kind="register", level="eager only")[0].level == "eager only"


def test_table_keeps_the_order():
    rows = [rule("torch.f(x)", "1"), rule("torch.g(x)", "2"), rule("torch.f(x, y)", "3")]
    assert [one.template for one in table(rows)["torch.f"]] == ["1", "3"]


@pytest.mark.parametrize(
    ("signature", "call", "bound"),
    [
        ("f(input, dim=None)", "f(x, 1)", {"input": ["x"], "dim": ["1"]}),
        ("f(input, dim=None)", "f(dim=1, input=x)", {"input": ["x"], "dim": ["1"]}),
        ("f(input, dim=None)", "f(x, axis=1)", {"input": ["x"], "dim": ["1"]}),
        ("f(input, keepdim=False)", "f(x, keepdims=True)", {"input": ["x"], "keepdim": ["True"]}),
        ("f(input, *shape)", "f(x, 2, 3)", {"input": ["x"], "shape": ["2", "3"]}),
        ("f(input, *shape)", "f(x, *s, 3)", {"input": ["x"], "shape": ["s", "3"]}),
        ("f(input)", "f(x, device=d, non_blocking=True)", {"input": ["x"]}),
        ("f(input, *, dtype)", "f(x, dtype=t)", {"input": ["x"], "dtype": ["t"]}),
        ("f(input, *, dtype)", "f(x, t)", None),
        ("f(input)", "f(x, 1)", None),
        ("f(input)", "f(x, other=1)", None),
        ("f(input, dim)", "f(x)", None),
        ("f(input, dim)", "f(x, 1, dim=2)", None),
        ("f(input, dim)", "f(*args)", None),
        ("f(input, dim=None)", "f(x, **options)", None),
    ],
)
def test_bind(signature, call, bound):
    found = bind(rule(f"torch.{signature}", "input")[0].parameters, given(call))
    if bound is None:
        assert found is None
        return
    text = {
        name: [cst.Module([]).code_for_node(one.node) for one in argument.given] for name, argument in found.items()
    }
    assert {name: texts for name, texts in text.items() if texts} == bound


@pytest.mark.parametrize(
    ("when", "value"),
    [
        ("", True), ("x.is_given", True), ("y.is_given", False), ("x.is_tensor", True), ("z.is_tensor", None),
        ("x.is_tensor and z.is_tensor", None), ("y.is_given and z.is_tensor", False),
        ("x.is_tensor or z.is_tensor", True), ("not z.is_tensor", None), ("known(z.is_tensor)", False),
        ("not known(z.is_tensor)", True), ("x.ndim == 2", True), ("x.ndim > 2", False), ("z.ndim > 2", None),
        ("k.equals(1, 2)", True), ("k.equals(1.0)", False), ("z.equals(1)", None), ("y.equals(None)", True),
        ("k.value == 1", True), ("z.value == 1", None), ("y.is_only('none')", True),
        ("x.dtype in ('float32',)", True), ("0 in x.shape", False), ("0 in z.shape", None), ("s.count == 2", True),
        ("'-1' in s.text", True), ("k.is_axis", True), ("z.is_axis", False),
    ],
)  # fmt: skip
def test_holds(when, value):
    (one,) = rule("torch.f(x, z, k, *s, y=None)", "x")
    assert holds(when, bind(one.parameters, given("f(x, z, 1, 2, -1)", x=TENSOR))) is value


@pytest.mark.parametrize(
    ("text", "fact", "axis"),
    [
        ("1", UNKNOWN, True), ("-1", UNKNOWN, True), ("(0, 1)", UNKNOWN, True), ("()", UNKNOWN, False),
        ("[0]", UNKNOWN, True), ("d", UNKNOWN, False), ("d", Fact(frozenset({"int"})), True),
        ("d", Fact(frozenset({"tuple"})), False), ("d", Fact(frozenset({"tuple"}), items=(Fact(),)), True),
        ("True", UNKNOWN, False),
    ],
)  # fmt: skip
def test_axis(text, fact, axis):
    assert Argument(TorchParameter("dim"), (Given("", "", cst.parse_expression(text), fact),)).is_axis is axis


def test_values():
    assert Argument(TorchParameter("p", 0.5)).value == 0.5 and Argument(TorchParameter("p")).value is MISSING
    for text in ("1", "'a'", "(1, 2)", "None", "-2.5"):
        node = cst.parse_expression(text)
        assert Argument(TorchParameter("p"), (Given("", "", node),)).value == ast.literal_eval(text)
