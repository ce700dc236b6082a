"""Templates: what a row's expression becomes for the arguments of a call."""

import pytest

from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.reading.expressions import code, parse
from funcnet.porting.rule_engine.rule import bind, rule
from funcnet.porting.rule_engine.template_filling import fill, reference, roots_of

from .test_rule import given

ROWS = {
    "sum": ("torch.sum(input, dim=None, keepdim=False, *, dtype=None)",
            "input.sum(axis=dim, keepdims=keepdim, dtype=dtype)"),
    "cat": ("torch.cat(tensors, dim=0)", "jnp.concatenate(tensors, axis=dim)"),
    "var": ("torch.var(input, dim=None, *, correction=1)", "input.var(axis=dim, ddof=correction)"),
    "view": ("Tensor.view(input, *shape)", "input.reshape(*shape)"),
    "zeros": ("torch.zeros(*shape, dtype=None)", "jnp.zeros(shape, dtype)"),
    "mul": ("torch.mul(input, other)", "input * other"),
    "square": ("torch.square(input)", "input * input"),
    "where": ("Tensor.masked_fill(input, mask, value)", "jnp.where(mask, value, input)"),
    "size": ("Tensor.size(input, dim)", "input.shape[dim]"),
    "item": ("torch.f(input, dims)", "input.transpose(tuple(dims))"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "call", "written"),
    [
        ("sum", "f(x)", "x.sum()"),
        ("sum", "f(x, 1)", "x.sum(axis=1)"),
        ("sum", "f(x, [0, 1], keepdim=True)", "x.sum(axis=(0, 1), keepdims=True)"),
        ("sum", "f(x + y, -1, dtype=d)", "(x + y).sum(axis=-1, dtype=d)"),
        ("sum", "f(x, keepdim=False)", "x.sum(keepdims=False)"),
        ("cat", "f([x, y])", "jnp.concatenate([x, y])"),
        ("cat", "f((x, y), dim=d + 1)", "jnp.concatenate((x, y), axis=d + 1)"),
        ("var", "f(x)", "x.var(ddof=1)"),
        ("var", "f(x, correction=0)", "x.var(ddof=0)"),
        ("view", "f(x, 2, -1)", "x.reshape(2, -1)"),
        ("view", "f(x, (2, -1))", "x.reshape((2, -1))"),
        ("view", "f(x, *s, 3)", "x.reshape(*s, 3)"),
        ("zeros", "f(2, 3)", "jnp.zeros((2, 3))"),
        ("zeros", "f(n, dtype=t)", "jnp.zeros(n, t)"),
        ("zeros", "f()", "jnp.zeros(())"),
        ("zeros", "f(*s, 2)", "jnp.zeros((*s, 2))"),
        ("mul", "f(x + 1, -y)", "(x + 1) * (-y)"),
        ("mul", "f(x.y, z[0])", "x.y * z[0]"),
        ("mul", "f(x if y else z, lambda: 1)", "(x if y else z) * (lambda: 1)"),
        ("square", "f(x)", "x * x"),
        ("square", "f(g(x))", False),
        ("where", "f(x, m, 0 if a else b)", "jnp.where(m, 0 if a else b, x)"),
        ("size", "f(x, i + 1)", "x.shape[i + 1]"),
        ("item", "f(x, [1, 0])", "x.transpose((1, 0))"),
    ],
)
def test_fill(row, call, written):
    (one,) = rule(*ROWS[row])
    filled = fill(one, bind(one.parameters, given(call)))
    assert (filled if filled is False else code(filled)) == written


def test_an_argument_without_a_place_means_another_row():
    (one,) = rule("torch.f(input, p=2, device=None)", "input.f()")
    fits = lambda call: fill(one, bind(one.parameters, given(call)))
    assert code(fits("f(x, 2)")) == "x.f()" and code(fits("f(x, device=d)")) == "x.f()"
    assert fits("f(x, 3)") is False and fits("f(x, p)") is False


def test_a_condition_of_a_row():
    (one,) = rule("torch.f(input)", "input", when="input.is_tensor")
    facts = {"x": Fact(frozenset({"tensor"})), "k": Fact(frozenset({"int"}))}
    results = [fill(one, bind(one.parameters, given(call, **facts))) for call in ("f(x)", "f(k)", "f(u)")]
    assert code(results[0]) == "x" and results[1:] == [False, None]


@pytest.mark.parametrize(
    ("signature", "template", "written"),
    [
        ("torch.tanh(input)", "jnp.tanh(input)", "jnp.tanh"),
        ("torch.add(input, other)", "input + other", "lambda input, other: input + other"),
        ("torch.sub(input, other)", "jnp.subtract(other, input)", "lambda input, other: jnp.subtract(other, input)"),
        ("torch.sum(input, dim=None)", "input.sum(axis=dim)", "lambda input: input.sum()"),
        ("torch.zeros(*shape)", "jnp.zeros(shape)", None),
        ("torch.pi", "jnp.pi", None),
    ],
)
def test_reference(signature, template, written):
    found = reference(rule(signature, template)[0])
    assert (None if found is None else code(found)) == written


def test_the_names_of_modules_in_an_expression():
    assert roots_of(parse("jnp.sum(x.F, np=1) + jax.lax.f(tl.g)")) == {"jnp", "jax", "tl"}
