"""Changes in place of values about which nothing is known, in functions that the run does not reach."""

import pytest

from ..ported import module, port_text

FUNCTIONS = {
    "a parameter": ("def f(self, t):\n    t += 1\n    return t", True),
    "a second name": ("def f(self, t):\n    z = t\n    z += 1\n    return t", True),
    "a view": ("def f(self, t):\n    z = t.t()\n    z += 1\n    return t", True),
    "an item": ("def f(self, t):\n    z = t[0]\n    z *= 2\n    return t", True),
    "a loop": ("def f(self, t):\n    for one in t:\n        one += 1\n    return t", True),
    "a counter": ("def f(self, t):\n    n = 0\n    for one in t:\n        n += 1\n    return n", False),
    "a result": (
        "def f(self, t):\n    n = self.g(t)\n    n += 1\n    return n\ndef g(self, t):\n    return t.a",
        False,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_registered(name, tmp_path):
    more, expected = FUNCTIONS[name]
    lines = "return x if x.shape[0] == 2 else self.f(self.other)"
    ported = port_text(tmp_path, module(lines, more=more), "Net()", "torch.randn(2, 3)")
    assert any("changes in place" in one.why for one in ported.entries) is expected, ported.text
