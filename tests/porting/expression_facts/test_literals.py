"""Facts of literals."""

import libcst as cst
import pytest

from funcnet.porting.expression_facts.literals import literal


@pytest.mark.parametrize(
    ("text", "kind"),
    [("3", "int"), ("3.0", "float"), ("3j", "complex"), ("'a' 'b'", "str"), ("f'{a}'", "str"), ("None", "none"),
     ("True", "bool"), ("{1: 2}", "dict"), ("[a for a in b]", "list"), ("{1}", "set"), ("...", "ellipsis"),
     ("lambda: 1", "function"), ("a", None), ("a + 1", None)],
)  # fmt: skip
def test_kinds(text, kind):
    fact = literal(cst.parse_expression(text))
    assert (None if fact is None else set(fact.kinds)) == (None if kind is None else {kind})
