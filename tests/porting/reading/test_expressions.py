"""Expressions: when they need parentheses, and when they can be evaluated twice."""

from funcnet.porting.reading.expressions import code, is_atom, is_simple, parenthesized, parse


def test_expressions():
    atoms = {
        text: is_atom(parse(text))
        for text in ("x", "x.y", "f(x)", "x[0]", "[1]", "(a + b)", "a + b", "-a", "lambda: 1")
    }
    assert [text for text, atom in atoms.items() if not atom] == ["a + b", "-a", "lambda: 1"]
    assert [is_simple(parse(text)) for text in ("x", "x.y[0]", "(1, -2)", "f(x)", "x + 1")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert code(parenthesized(parse("a + b"))) == "(a + b)" and code(parenthesized(parse("f(a)"))) == "f(a)"
