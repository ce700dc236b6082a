"""Which definitions and members a class needs."""

import pytest

from funcnet.porting.reading.needed_parts import Keeper
from funcnet.porting.reading.sources import read
from tests.porting.made_up import layer, write

HEAD = "import torch\nfrom torch import nn\n"


def search(folder, code, name="Net", **others):
    """What is kept of a file, the members that are not, and the keeper."""
    files = {"pkg/__init__.py": "", "pkg/net.py": HEAD + code}
    files |= {f"pkg/{one}.py": HEAD + text for one, text in others.items()}
    source = read(write(folder, files) / "pkg/net.py")
    keeper = Keeper()
    keeper.keep(source, name)
    keeper.finish(name)
    dropped = {f"{of.name}.{member}": why for of in keeper.classes.values() for member, why in of.dropped.items()}
    return keeper.names[source], dropped, keeper


@pytest.mark.parametrize(
    "code",
    [
        "def helper(x):\n    return x\n" + layer("Net", "helper(x)"),
        "SCALE = 2\ndef helper(x):\n    return x * SCALE\n" + layer("Net", "helper(x)"),
        layer("Part") + layer("Net", init="self.part = Part()"),
        layer("Part") + "class Net(Part):\n    pass\n",
        "def mark(cls):\n    return cls\n@mark\n" + layer("Net"),
        "class Config:\n    pass\nclass Net(nn.Module):\n    def __init__(self, config: Config):\n        pass\n",
        "SIZE = 3\nclass Net(nn.Module):\n    size = SIZE\n",
        layer("Part") + "PARTS = {'a': Part}\n" + layer("Net", init="self.part = PARTS['a']()"),
        "def helper(x):\n    return x\n" + layer("Net", "nn.Sequential(*map(lambda y: helper(y), [x]))"),
    ],
)
def test_all_that_it_reaches_is_kept(tmp_path, code):
    kept, dropped, keeper = search(tmp_path, code + "def other():\n    pass\n")
    names = {name for source in keeper.statements for name in source.bindings}
    assert kept == names - {"other", "torch", "nn"}
    assert dropped == {}


def test_methods_that_forward_calls_in_bases_and_subclasses(tmp_path):
    code = (
        "from .far import far\n"
        "class Base(nn.Module):\n    def forward(self, x):\n        return self.inner(x)\n"
        "    def helper(self, x):\n        return far(x)\n    def unused(self):\n        return self.gone()\n"
        "class Net(Base):\n    def inner(self, x):\n        return super().helper(x)\n"
    )
    _, dropped, keeper = search(tmp_path, code, far="def far(x):\n    return x\n")
    assert dropped == {}
    assert {one.module for one in keeper.statements} == {"pkg.net", "pkg.far"}


def test_other_methods_stay_if_they_need_nothing_of_further_files(tmp_path):
    more = """
        @property
        def size(self):
            return local(3)

        @classmethod
        def from_name(cls, name):
            return cls().second()

        def second(self):
            return torch.zeros(3)

        def decode(self):
            return far(self)

        def decode_twice(self):
            return self.decode()

        def plot(self):
            import matplotlib
            return matplotlib

        def save(self, path):
            torch.save(self, path)

        @classmethod
        def from_pretrained(cls, path):
            return cls()

        def parameters(self):
            return []
        """
    code = "from .far import far\ndef local(x):\n    return x\n" + layer("Net", more=more)
    kept, dropped, keeper = search(tmp_path, code, far="def far(x):\n    return x\n")
    assert kept == {"Net", "local"}
    assert dropped == {
        "Net.decode": "needs far from another file, far.py",
        "Net.decode_twice": "needs decode, which needs far from another file, far.py",
        "Net.plot": "needs matplotlib",
        "Net.save": "reads or writes files",
        "Net.from_pretrained": "loads weights",
        "Net.parameters": "funcnet never calls it",
    }
    assert [one.module for one in keeper.statements] == ["pkg.net"]


def test_functions_of_other_files_as_methods(tmp_path):
    code = "from .far import far as far_function\nclass Net(nn.Module):\n    use = True\n    far = far_function\n"
    _, dropped, _ = search(tmp_path, code, far="def far(x):\n    return x\n")
    assert dropped == {"Net.far": "needs far from another file, far.py"}
    code += "    def forward(self):\n        return self.far()\n"
    _, dropped, keeper = search(tmp_path, code, far="def far(x):\n    return x\n")
    assert dropped == {}
    assert len(keeper.statements) == 2


def test_methods_that_are_called_on_parts(tmp_path):
    code = (
        "from .far import far\n"
        + layer("Part", more="def step(self):\n    return far(self)\n")
        + layer("Net", "self.part.step()", "self.part = Part()")
    )
    _, dropped, keeper = search(tmp_path, code, far="def far(x):\n    return x\n")
    assert dropped == {}
    assert len(keeper.statements) == 2


def test_what_is_never_kept_is_missing(tmp_path):
    code = (
        "URLS = {'a': 'https://a.org/a.pth'}\n"
        "def load_weights(net):\n    net.load_state_dict(torch.hub.load_state_dict_from_url(URLS['a']))\n"
        + layer("Net", init="load_weights(self)")
    )
    kept, _, keeper = search(tmp_path, code)
    assert kept == {"Net"}
    [(reference, reason)] = keeper.missing
    assert (reference.name, reason) == ("load_weights", "loads weights")


def test_a_function_that_makes_a_layer_stays_though_it_can_load_weights(tmp_path):
    code = (
        layer("Part")
        + "def part(pretrained):\n    made = Part()\n    if pretrained:\n        load_weights(made)\n    return made\n"
        + "def load_weights(net):\n    net.load_state_dict(torch.load('a'))\n"
        + layer("Net", init="self.part = part(False)", more="@classmethod\ndef make(cls):\n    return part(True)\n")
    )
    kept, _, keeper = search(tmp_path, code)
    assert kept == {"Net", "Part", "part"}
    assert [one.name for one, _ in keeper.missing] == ["load_weights"]


def test_calls_that_only_report_the_use_are_removed(tmp_path):
    code = (
        "def log(x):\n    torch._C._log_api_usage_once(x)\n"
        "def f(x):\n    if not torch.jit.is_scripting():\n        log(f)\n    return x\n"
        + layer("Net", "f(x)", "log(self)")
    )
    kept, _, keeper = search(tmp_path, code)
    assert kept == {"Net", "f"}
    assert sorted(type(one).__name__ for one in keeper.removed) == ["If", "SimpleStatementLine"]
    assert keeper.missing == []


def test_effects_on_kept_definitions(tmp_path):
    code = (
        "import collections\n"
        "Args = collections.namedtuple('Args', ['a'])\nArgs.__new__.__defaults__ = (None,)\n"
        "TABLE = {}\nTABLE['b'] = abs\nMODELS = {}\n"
        "class Other:\n    pass\n"
        + layer("Net", "TABLE['b'](Args().a)")
        + "Net.scale = 2\nsetattr(Net, 'size', 3)\nTABLE.update(c=abs)\n"
        "for name in ('d', 'e'):\n    TABLE[name] = abs\n"
        "MODELS['net'] = Net\nOther.x = 1\ntorch.fx.wrap('f')\ntorch.manual_seed(0)\nmodel = Net()\n"
        "if __name__ == '__main__':\n    TABLE['z'] = 1\n"
    )
    kept, _, keeper = search(tmp_path, code)
    assert kept == {"Args", "TABLE", "Net", "name"}
    [source] = keeper.statements
    lines = {source.tree.code_for_node(one).strip().partition("\n")[0] for one in keeper.statements[source]}
    assert lines == {
        "import collections",
        "from torch import nn",
        "Args = collections.namedtuple('Args', ['a'])",
        "Args.__new__.__defaults__ = (None,)",
        "TABLE = {}",
        "TABLE['b'] = abs",
        "class Net(nn.Module):",
        "Net.scale = 2",
        "setattr(Net, 'size', 3)",
        "TABLE.update(c=abs)",
        "for name in ('d', 'e'):",
    }


def test_blocks_at_the_top_level_are_kept_whole(tmp_path):
    code = (
        "try:\n    from torch import f\n    READY = True\nexcept ImportError:\n    f = None\n    READY = False\n"
        "if hasattr(nn, 'SiLU'):\n    Act = nn.SiLU\nelse:\n    class Act(nn.Module):\n        def forward(self, x):\n"
        "            return local(x)\n"
        "def local(x):\n    return x\n" + layer("Net", "f(x) if READY else Act()(x)")
    )
    kept, _, _ = search(tmp_path, code)
    assert {"Act", "READY", "local", "Net"} <= kept


def test_names_for_types_alone_lead_nowhere(tmp_path):
    code = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .far import Far\n    from torch import Tensor\n"
        "class Net(nn.Module):\n    def forward(self, x: 'Far', y: 'Tensor'):\n        return x\n"
    )
    _, _, keeper = search(tmp_path, code, far="class Far:\n    pass\n")
    assert [one.module for one in keeper.statements] == ["pkg.net"]


def test_decorators_of_torchscript_are_removed(tmp_path):
    more = "@torch.jit.unused\ndef f(self):\n    return 1\n@torch.no_grad()\ndef g(self):\n    return 1\n"
    _, _, keeper = search(tmp_path, "@torch.jit.script\ndef h(x):\n    return x\n" + layer("Net", "h(x)", more=more))
    assert sorted(type(one).__name__ for one in keeper.removed) == ["Decorator", "Decorator"]


def test_a_module_named_as_a_whole(tmp_path):
    code = "from . import parts\n" + layer("Net", init="self.part = getattr(parts, 'A')()")
    _, _, keeper = search(tmp_path, code, parts=layer("A") + layer("B") + "from .far import C\n", far=layer("C"))
    assert {source.module: names for source, names in keeper.names.items()} == {
        "pkg.net": {"Net"},
        "pkg.parts": {"A", "B", "C", "torch", "nn"},
        "pkg.far": {"C"},
    }


def test_what_a_file_defines_and_finds_by_its_name(tmp_path):
    code = "class Norm(nn.Module):\n    pass\ngLN = Norm\ndef get(name):\n    return globals().get(name)\n"
    kept, _, _ = search(tmp_path, code + layer("Net", init="self.norm = get('gLN')()"))
    assert {"Norm", "gLN", "get"} <= kept


def test_tables_of_weights_that_are_filled_later(tmp_path):
    far = "def url_of(name):\n    return torch.hub.load_state_dict_from_url(name)\n"
    code = "from .far import url_of\nURLS = {}\nURLS['a'] = url_of('a')\n" + layer("Net", init="self.urls = URLS")
    _, _, keeper = search(tmp_path, code, far=far)
    assert not keeper.missing


def test_functions_that_a_kept_object_collects(tmp_path):
    code = (
        "class Factory:\n    def add(self, name):\n        return lambda function: setattr(self, name, function)\n"
        "NORMS = Factory()\n@NORMS.add('a')\ndef make():\n    return nn.Identity()\n"
    )
    _, _, keeper = search(tmp_path, code + layer("Net", init="self.norm = NORMS.a()"))
    statements = [one for found in keeper.statements.values() for one in found]
    assert any(getattr(getattr(one, "name", None), "value", "") == "make" for one in statements)


@pytest.mark.parametrize(
    ("more", "stays"),
    [
        ("self.url = URLS['a'] if 'a' in URLS else None", True),
        ("self.url = URLS.get('b')\nif self.url:\n    self.load_state_dict(torch.load(URLS['a']))", True),
        ("if len(URLS) > 1:\n    url = URLS['a']\n    self.load_state_dict(torch.load(url))", False),
        ("load_weights(self, URLS['a'])", False),
        ("self.load_pretrained(URLS['a'])", False),
    ],
)
def test_tables_of_weights_that_a_constructor_reads(tmp_path, more, stays):
    inside = more.replace("\n", "\n" + 8 * " ")
    load = "def load_weights(net, url):\n    net.load_state_dict(torch.hub.load_state_dict_from_url(url))\n"
    code = load + "URLS = {'a': 'https://a.org/a.pth'}\nURLS['b'] = URLS['a']\n" + layer("Net", init=inside)
    kept, _, keeper = search(tmp_path, code)
    assert ("URLS" in kept) == stays
    assert ("URLS" not in [one.name for one, _ in keeper.missing]) == stays


def test_what_funcnet_never_calls_is_left_out_of_bases_that_are_no_layers_too(tmp_path):
    code = (
        "class Mixin:\n    def load_state_dict(self, state_dict):\n        return super().load_state_dict(state_dict)\n"
        "    def size(self):\n        return 3\n"
        "class Plain:\n    def state_dict(self):\n        return {}\n"
        "class Net(Mixin, nn.Module):\n    def forward(self, x):\n        return x * len(Plain().state_dict())\n"
    )
    _, dropped, _ = search(tmp_path, code)
    assert dropped == {"Mixin.load_state_dict": "funcnet never calls it"}
