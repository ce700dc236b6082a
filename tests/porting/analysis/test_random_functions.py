"""Functions that draw random numbers, that only constructors run, and that are methods of modules."""

import libcst as cst
import pytest

from funcnet.porting.analysis.random_functions import Functions
from funcnet.porting.reading.sources import read
from funcnet.porting.reading.syntax import walk
from funcnet.porting.rules import RULES

from ..made_up import write

TEXT = """
import torch
from torch import nn
import torch.nn.functional as F
from other import Thing

def noise(x):
    return x + torch.randn_like(x)

def through(x):
    return noise(x)

def filled(x):
    return x.new_empty(3).uniform_()

def dropped(x, training):
    return F.dropout(x, 0.5, training)

def plain(x):
    return F.dropout(x, training=False) + x.uniform

def start(w):
    return w.data.normal_()

class Mixed:
    def mixed(self, x):
        return x

class Plain:
    def method(self, x):
        return torch.rand(3)

    @staticmethod
    def free(x):
        return torch.rand(3)

class Net(Mixed, nn.Module):
    def __init__(self):
        self.fill(2)
        start(self.w)

    def fill(self, n):
        self.helper()

    def helper(self):
        pass

    def both(self):
        pass

    def forward(self, x):
        self.both()
        def inner():
            return torch.rand(3)
        return through(x) + self.stat(x) + Net.stat(x)

    @staticmethod
    def stat(x):
        return torch.rand(3)

class Sub(Net):
    def more(self):
        return self.stat(1) + self.plain(1)

class Foreign(Thing):
    def work(self):
        pass
"""


@pytest.fixture
def found(tmp_path):
    source = read(write(tmp_path, {"net.py": TEXT}) / "net.py")
    functions = {node.name.value: node for node in walk(source.tree) if isinstance(node, cst.FunctionDef)}
    return source, functions, Functions([source], RULES)


def test_drawers(found):
    _, nodes, functions = found
    drawers = {name for name, node in nodes.items() if functions.is_drawer(node)}
    assert drawers == {"noise", "through", "filled", "dropped", "free", "stat"}


def test_calls_of_drawers(found):
    source, _, functions = found
    calls = [
        node for node in walk(source.tree) if isinstance(node, cst.Call) and functions.is_drawer_call(source, node)
    ]
    assert [source.tree.code_for_node(one) for one in calls] == [
        "noise(x)", "through(x)", "self.stat(x)", "Net.stat(x)", "self.stat(1)",
    ]  # fmt: skip


OVERRIDDEN = """
class First:
    @staticmethod
    def draw(x):
        return torch.rand(3)

class Second(nn.Module):
    @staticmethod
    def draw(x):
        return x

    def forward(self, x):
        return self.draw(x)

class Third(Second):
    def draw(self, x):
        return x

    def forward(self, x):
        return self.draw(x) + First.draw(x)
"""


def test_methods_are_those_of_the_class_that_contains_the_call(tmp_path):
    head = TEXT.split("def noise", maxsplit=1)[0]
    source = read(write(tmp_path, {"net.py": head + OVERRIDDEN}) / "net.py")
    functions = Functions([source], RULES)
    calls = [node for node in walk(source.tree) if functions.is_drawer_call(source, node)]
    assert [source.tree.code_for_node(one) for one in calls] == ["First.draw(x)"]


def test_methods_of_modules(found):
    _, nodes, functions = found
    methods = {name for name, node in nodes.items() if functions.is_module_method(node)}
    assert methods == {"__init__", "fill", "helper", "both", "forward", "more", "mixed", "work"}


def test_what_only_constructors_run(found):
    source, nodes, functions = found
    assert {name for name, node in nodes.items() if functions.starts(source, node)} == {
        "__init__",
        "fill",
        "helper",
        "start",
    }
    assert functions.starts(source, source.tree.body[0])


def test_a_run_says_more(tmp_path):
    source = read(write(tmp_path, {"net.py": TEXT}) / "net.py")
    ran = {"construct": {"both"}, "forward": {"fill"}}
    functions = Functions([source], RULES, lambda _, node, phase: node.name.value in ran[phase])
    nodes = {node.name.value: node for node in walk(source.tree) if isinstance(node, cst.FunctionDef)}
    assert functions.starts(source, nodes["both"]) and not functions.starts(source, nodes["fill"])
    assert functions.starts(source, nodes["__init__"]) and not functions.starts(source, nodes["forward"])
