"""What code uses: references and attributes."""

from funcnet.porting.reading.name_uses import uses_of
from funcnet.porting.reading.sources import read
from tests.porting.made_up import write

HEAD = "from torch import Tensor, nn\nimport torch.nn.functional as F\n"


def uses(folder, code, skip=lambda node: False):
    source = read(write(folder, {"model.py": HEAD + code}) / "model.py")
    return uses_of(source, source.tree.body[-1], skip)


def names(found):
    return {one.target.full_name for one in found.references}


def test_names_through_functions_lambdas_and_comprehensions(tmp_path):
    code = (
        "a = b = 1\ndef f(x, y=a):\n    z = b\n    def g():\n        return z, F.relu(x), [F for F in (1, 2)]\n"
        "    return lambda a: g\n"
    )
    assert names(uses(tmp_path, code)) == {"model.a", "model.b", "torch.nn.functional.relu"}


def test_what_is_no_reference(tmp_path):
    code = "dim = name = 1\ndef f(dim):\n    return F.softmax(dim, name=2).dim.name\n"
    assert names(uses(tmp_path, code)) == {"torch.nn.functional.softmax"}
    code = "a = b = 1\ndef f(x):\n    global a\n    match x:\n        case Tensor(b=2):\n            return 1\n"
    assert names(uses(tmp_path, code)) == {"torch.Tensor"}


def test_imports_inside_functions_and_builtins(tmp_path):
    write(tmp_path, {"layers.py": "def g():\n    pass\n"})
    found = uses(tmp_path, "def f():\n    from layers import g\n    import os.path\n    g(os.path)\n    open('a')\n")
    assert names(found) == {"layers.g", "os", "builtins.open"}
    assert found.outside == {"os", "builtins.open"}


def test_annotations_in_quotes_are_lazy(tmp_path):
    code = "class A:\n    pass\ndef f(x: 'list[A]', y: A) -> 'Tensor':\n    'A'\n"
    found = uses(tmp_path, code)
    leads = {(one.target.full_name, one.lazy) for one in found.references}
    assert leads == {("model.A", True), ("model.A", False), ("torch.Tensor", True)}


def test_attributes(tmp_path):
    code = (
        "class A(nn.Module):\n    def f(self, block):\n        super().forward(block.run(self.layers.first))\n"
        "        self.blocks[0].step()\n        return F.relu(self.norm)\n"
    )
    found = uses(tmp_path, code)
    assert found.own == {"forward", "layers", "blocks", "norm"}
    assert found.attributes == {"run", "first", "step"}


def test_skipped_nodes_are_not_looked_into(tmp_path):
    code = "a = b = 1\ndef f():\n    a\n    b\n"
    found = uses(tmp_path, code, lambda node: getattr(node, "value", None) == "a")
    assert names(found) == {"model.b"}
