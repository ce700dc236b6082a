"""Names that statements bind, beside what the doctests show. What Python itself binds is the truth."""

import ast

import pytest

from funcnet.porting.reading.bindings import binding_import, bound_names, guarded_lines, star_imports

STATEMENTS = [
    "import os.path",
    "import os.path as p",
    "from math import sin, cos as c",
    "a = b = (c, d) = 1, 2",
    "def f(x):\n    y = 1",
    "class A:\n    y = 1",
    "for i in range(2):\n    k = i",
    "if True:\n    m = 1\nelse:\n    n = 1",
    "try:\n    import absent_module_x\nexcept ImportError:\n    absent_module_x = None",
    "with open('/dev/null') as file:\n    z = 1",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_bound_names_hold_what_python_binds(text):
    names: dict = {}
    exec(text, names)
    found = bound_names(ast.parse(text).body[0])
    assert set(names) - {"__builtins__"} <= found
    assert found - set(names) <= {"n"}, "the branch that did not run"


@pytest.mark.parametrize(
    "handler", ["ImportError", "(ImportError, OSError)", "Exception", "builtins.ModuleNotFoundError", ""]
)
def test_imports_that_may_fail(handler):
    text = f"try:\n    import a\n    from b import (\n        c,\n    )\nexcept {handler}:\n    a = None\nimport d\n"
    assert guarded_lines(ast.parse(text)) == {2, 3}


def test_imports_that_must_not_fail():
    assert not guarded_lines(ast.parse("try:\n    import a\nexcept KeyError:\n    pass"))
    assert not guarded_lines(ast.parse("with open('x'):\n    import a"))
    assert guarded_lines(ast.parse("with contextlib.suppress(ImportError):\n    import a")) == {2}


def test_a_name_from_the_package_itself_is_a_submodule():
    for text in ("from . import a", "from pkg import a"):
        assert binding_import(ast.parse(text).body[0], "a", "pkg") is None
    nested = ast.parse("try:\n    from .x import a\nexcept ImportError:\n    pass").body[0]
    assert ast.unparse(binding_import(nested, "a", "pkg")) == "from .x import a"
    assert star_imports(ast.parse("from .x import *").body[0])
