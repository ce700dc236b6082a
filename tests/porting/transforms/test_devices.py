"""The argument `device`."""

import pytest

from funcnet.porting.expression_facts.fact import UNKNOWN
from funcnet.porting.rewriting.rewriter import port_expression


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("nn.Linear(3, 4, device=d)", "nn.Linear(3, 4)"),
        ("dict(device=d, dtype=t)", "dict(dtype=t)"),
        ("dict(dtype=t, device=d)", "dict(dtype=t)"),
        ("dict(device=d)", "dict()"),
        ("dict(device=d, size=3)", "dict(device=d, size=3)"),
        ("{'device': d, 'dtype': t}", "{'dtype': t}"),
        ("{'device': d, 'size': 3}", "{'device': d, 'size': 3}"),
        ("d.to(d.device)", "d"),
        ("d.to(device=d.device)", "d"),
        ("d.to(t.device)", "d.to(None)"),
    ],
)
def test_written(text, written):
    assert port_expression(text, {"d": UNKNOWN, "t": UNKNOWN})[0] == written
