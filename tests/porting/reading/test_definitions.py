"""Where names get their values."""

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider

from funcnet.porting.reading.definitions import Definitions
from funcnet.porting.reading.expressions import code
from funcnet.porting.reading.syntax import walk

TEXT = """
import os
scale = 2

class Base:
    kind = "base"

    def forward(self, x, *rest, k=1):
        self.w, (self.v, _) = x
        return x

class Net(Base):
    def __init__(self):
        self.w = 1
        self.register_buffer("mean", 0 + 0)

    @property
    def size(self):
        return 3

def f(a):
    b = c = a
    b += 1
    (d, *e), g = a, b
    for i, t in a:
        pass
    with open(a) as h:
        pass
    if (n := a):
        pass
    xs = [u for u in a]
    return scale
"""


def read(text: str) -> tuple[Definitions, dict]:
    wrapper = MetadataWrapper(cst.parse_module(text))
    parents = wrapper.resolve(ParentNodeProvider)
    return Definitions.of(wrapper.module, parents.get), {"tree": wrapper.module, "parent": parents.get}


def names(found: Definitions, scope: cst.CSTNode, name: str) -> list[tuple]:
    return [(one.how, code(one.node).strip(), one.path) for one in found.names[scope].get(name, [])]


def test_names_of_a_function():
    found, more = read(TEXT)
    (f,) = [node for node in walk(more["tree"]) if isinstance(node, cst.FunctionDef) and node.name.value == "f"]
    expected = {
        "a": [("parameter", "a", ())],
        "b": [("value", "a", ()), ("value", "1", ())],
        "c": [("value", "a", ())],
        "d": [("item", "a, b", (0, 0))],
        "e": [("item", "a, b", (0, None))],
        "g": [("item", "a, b", (1,))],
        "i": [("each", "a", (0,))],
        "t": [("each", "a", (1,))],
        "h": [("other", "open(a)", ())],
        "n": [("value", "a", ())],
        "u": [],
    }
    assert {name: names(found, f, name) for name in expected} == expected
    assert found.names[f]["b"][1].operator is not None
    assert [code(one) for one in found.returns[f]] == ["scale"]


def test_names_are_looked_up_outwards():
    found, more = read(TEXT)
    nodes = [node for node in walk(more["tree"]) if isinstance(node, cst.Name)]
    scale = [node for node in nodes if node.value == "scale"][-1]
    assert [code(one.node) for one in found.of_name(scale)] == ["2"]
    element = next(node for node in nodes if node.value == "u")
    assert [one.how for one in found.of_name(element)] == ["each"]
    assert found.of_name(next(node for node in nodes if node.value == "open")) == []


def test_attributes():
    found, _ = read(TEXT)
    net = found.classes["Net"]
    of = lambda name: [(one.how, code(one.node).strip(), one.path) for one in found.of_attribute(net, name)]
    assert of("w") == [("value", "1", ()), ("item", "x", (0,))] and of("v") == [("item", "x", (1, 0))]
    assert of("mean") == [("value", "0 + 0", ())] and of("kind") == [("value", '"base"', ())]
    assert of("size")[0][0] == "definition" and of("missing") == []
    assert found.method(net, "forward").name.value == "forward" and found.method(net, "missing") is None
    assert [one.name.value for one in found.bases(net)] == ["Base"]
