"""Imports of sources that lie in a package, beside other files, or name what is not installed."""

import sys
import textwrap

import pytest

from funcnet.porting.errors import PortError
from funcnet.porting.running.loading import load


@pytest.fixture
def written(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__init__", "INIT").replace("__", "/").replace("INIT", "__init__") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return tmp_path

    return write


def test_a_package_is_entered_without_running_its_init(written):
    root = written(
        pkg____init__="raise SystemError('must not run')",
        pkg__sub____init__="raise SystemError('must not run')",
        pkg__sub__model="from ..layers import width\nfrom . import other\nimport pkg.layers as again\n",
        pkg__sub__other="here = __name__",
        pkg__layers="width = 3",
    )
    loaded = load(root / "pkg" / "sub" / "model.py")
    assert loaded.module.__name__ == "pkg.sub.model" and loaded.module.width == 3
    assert loaded.module.other.here == "pkg.sub.other" and loaded.module.again.width == 3
    assert set(loaded.modules) == {"pkg", "pkg.sub", "pkg.sub.model", "pkg.sub.other", "pkg.layers"}
    assert not [name for name in sys.modules if name.partition(".")[0] == "pkg"]
    assert not any(type(one).__name__ == "PrivateModules" for one in sys.meta_path)


def test_a_name_of_the_package_is_found_as_python_finds_it(written):
    root = written(
        pkg____init__="""
            from .absent_part import nothing
            from .resnet import resnet, Block as Renamed
            from .stars import *
            from . import folder
            LIMIT = 3
            def above(x):
                return x > LIMIT
            """,
        pkg__resnet="def resnet(): return 'function'\nclass Block: pass",
        pkg__stars="starred = 7",
        pkg__folder____init__="",
        pkg__folder__part="value = 1",
        pkg__model="""
            import pkg, pkg.resnet
            from pkg import resnet, Renamed, starred, above, folder, LIMIT, nothing
            from pkg.folder import part
            chain = pkg.folder.part.value
            """,
    )
    module = load(root / "pkg" / "model.py").module
    assert module.resnet() == "function", "the name belongs to what __init__.py binds, not to the submodule"
    assert module.Renamed.__name__ == "Block" and module.starred == 7 and module.above(4) and module.LIMIT == 3
    assert module.part.value == module.chain == 1
    assert "placeholder" in repr(module.nothing)


def test_a_compiled_part_is_a_placeholder(written):
    root = written(
        pkg____init__="",
        pkg__model="""
            from . import _C
            from pkg._C import op
            try:
                from . import _C as D
            except ImportError:
                D = None
            """,
    )
    (root / "pkg" / "_C.cpython-311-x86_64-linux-gnu.so").write_bytes(b"not a library")
    loaded = load(root / "pkg" / "model.py")
    assert loaded.module.D is None, "the source goes on without it, if it says so"
    for use in (loaded.module._C.f, loaded.module.op):
        with loaded.running(), pytest.raises(PortError, match=r"pkg\._C"):
            use()


def test_a_missing_import_is_a_placeholder_unless_the_source_expects_it(written):
    root = written(
        model="""
            import absent_one.part as part
            from absent_two import Base, decorate
            from torch import no_such_function
            from torch.no_such_module import thing
            try:
                import absent_three
            except ImportError:
                absent_three = None
            try:
                from inner import value
            except ImportError:
                value = "fallback"
            try:
                import absent_four
            except ImportError:
                raise RuntimeError("install absent_four")
            class Child(Base):
                pass
            @decorate(level=2)
            def kept():
                return 1
            """,
        inner="import absent_five\nvalue = absent_five.value",
    )
    loaded = load(root / "model.py")
    module = loaded.module
    assert module.absent_three is None and module.value == "fallback" and module.kept() == 1
    for name, said in {
        "part": "pip install absent_one",
        "absent_four": "pip install absent_four",
        "no_such_function": "torch has no no_such_function",
        "thing": "No module named 'torch.no_such_module'",
    }.items():
        with loaded.running(), pytest.raises(PortError, match=said):
            getattr(module, name)()
    assert not any(name.startswith("absent") for name in sys.modules)


def test_files_beside_a_script_and_above_it(written):
    root = written(
        repo__models__net="""
            from blocks import width
            from layers.norm import eps
            from layers.lost import Part
            import json
            """,
        repo__models__blocks="width = 5",
        repo__layers__norm="eps = 1e-3",
        repo__setup="",
        repo__models__json="raise SystemError('not the standard library')",
    )
    module = load(root / "repo" / "models" / "net.py").module
    assert (module.width, module.eps) == (5, 1e-3) and hasattr(module.json, "loads")
    assert "placeholder" in repr(module.Part), "the repository was not kept whole"
    assert "blocks" not in sys.modules and "layers" not in sys.modules


def test_relative_imports_without_an_init(written):
    root = written(folder__model="from .part import value", folder__part="value = 2")
    assert load(root / "folder" / "model.py").module.value == 2


def test_late_imports_find_the_same_modules(written, monkeypatch):
    root = written(
        pkg____init__="",
        pkg__model="""
            import importlib
            def late():
                from . import part
                import pkg.other
                return part.counted, pkg.other
            def by_name():
                return importlib.import_module("." + "part", __package__)
            """,
        pkg__part="counted = object()",
        pkg__other="",
    )
    users = type(sys)("pkg")
    monkeypatch.setitem(sys.modules, "pkg", users)
    one, two = load(root / "pkg" / "model.py"), load(root / "pkg" / "model.py")
    assert one.module.late()[0] is one.module.late()[0] is not two.module.late()[0]
    with one.running():
        assert one.module.by_name() is one.modules.get("pkg.part", sys.modules["pkg.part"])
        assert one.module.by_name().counted is one.module.late()[0]
    assert sys.modules["pkg"] is users and "pkg.part" not in sys.modules


def test_another_package_can_be_treated_as_the_sources_own(written):
    root = written(
        a__pkg__model="from other import Part\n",
        b__other____init__="from .part import Part",
        b__other__part="class Part: pass",
    )
    loaded = load(root / "a" / "pkg" / "model.py", also=[root / "b" / "other"])
    assert loaded.module.Part.__module__ == "other.part" and "other" not in sys.modules


def test_a_gpu_is_not_asked_for(written):
    root = written(model="import torch\nassert torch.cuda.is_available(), 'no GPU'\nwidth = 3\n")
    assert load(root / "model.py").module.width == 3


def test_what_an_init_defines_comes_before_what_it_imports_with_a_star(written):
    root = written(
        pkg____init__="",
        pkg__utils____init__="from math import *\ndef sqrt(x):\n    return 'own'\n",
        pkg__model="from .utils import sqrt\nvalue = sqrt(4)\n",
    )
    assert load(root / "pkg" / "model.py").module.value == "own"
