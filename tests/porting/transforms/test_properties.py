"""Properties that compute with parameters, asked in constructors whether they are None."""

from ..ported import check, module

MORE = """
@property
def proxy(self):
    \"\"\"What the weight stands for.\"\"\"
    if self.weight is None:
        return None
    if self.residual:
        return 1.0 + self.weight
    else:
        return self.weight

def reset(self):
    if self.proxy is not None:
        nn.init.constant_(self.weight, 0.5)
    if self.proxy is None:
        self.residual = False
"""


LINES = "return x if self.proxy is None else x * self.proxy"


def test_a_parameter(tmp_path):
    init = "self.residual, self.weight = True, nn.Parameter(torch.zeros(3)) if True else None\nself.reset()"
    with_run, _ = check(tmp_path, module(LINES, init, more=MORE))
    asked = "if self.weight is not None:", "if self.weight is None:\n            self"
    assert all(one in with_run.text for one in asked)
    assert "return x if self.proxy is None else" in with_run.text


def test_no_parameter(tmp_path):
    init = "self.residual, self.weight = True, None\nself.reset()"
    with_run, _ = check(tmp_path, module(LINES, init, more=MORE))
    assert "return x if self.proxy is None else" in with_run.text


def test_other_properties_are_left_alone(tmp_path):
    more = "@property\ndef whole(self):\n    if self.n is None:\n        return None\n    return self.n"
    init = "self.n = 3\nif self.whole is not None:\n    self.n = 2"
    with_run, _ = check(tmp_path, module("return x * self.whole", init, more=more))
    assert "if self.whole is not None:" in with_run.text
