"""Which methods run layers, by their names."""

import textwrap

import libcst as cst
import pytest

from funcnet.porting.analysis.layer_calls import layer_runners
from funcnet.porting.reading.syntax import walk

RUNS = [
    "return self.conv(x)",
    "return self.layers[0](x)",
    "for layer in self.layers:\n    x = layer(x)\nreturn x",
    "for i, (one, other) in enumerate(zip(self.a, self.b)):\n    x = other(x)",
    "return [layer(x) for layer in self.layers]",
    "return super().forward(x)",
    "return self.conv.forward(x)",
    "return self.deep(x)",
]
OTHERS = [
    "return x.relu()",
    "return self.size(x)",
    "self.register_buffer('x', x)",
    "for p in self.parameters():\n    print(p)",
    "for f in (abs, min):\n    x = f(x)",
    "self.n = len(self.layers)",
]


@pytest.mark.parametrize(("body", "expected"), [*((one, True) for one in RUNS), *((one, False) for one in OTHERS)])
def test_a_method(body, expected):
    text = f"""
class Net:
    def deep(self, x):
        return self.deeper(x)

    def deeper(self, x):
        return self.conv(x)

    def size(self, x):
        return x.shape

    def asked(self, x):
{textwrap.indent(body, " " * 8)}
"""
    methods = [one for one in walk(cst.parse_module(text)) if isinstance(one, cst.FunctionDef)]
    found = {one.name.value for one in layer_runners(methods)}
    assert found == {"deep", "deeper", *(["asked"] if expected else [])}
