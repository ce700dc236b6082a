"""Global names of a file."""

import libcst as cst

from funcnet.porting.reading.global_names import aliases_of, bindings_of, global_names


def names_of(code):
    return global_names(cst.parse_module(code))


def test_every_kind_of_binding():
    known = names_of(
        "import a.b, c as d\nfrom e import f as g\nh = i = 1\nj, (k, *l) = x\nm: int = 1\nfor n in x:\n    o = 1\n"
        "with x as p:\n    q = 1\nclass R:\n    inside = 1\ndef s():\n    inside = 1\nt += 1\nwhile x:\n    u = 1\n"
    )
    assert set(known) == set("adghijklmnopqRstu")


def test_fallbacks_and_types():
    known = names_of(
        "try:\n    from a import b\nexcept ImportError:\n    b = None\n"
        "if TYPE_CHECKING:\n    from c import d\nelse:\n    d = None\nif typing.TYPE_CHECKING:\n    import e\n"
    )
    assert [one.fallback for one in known["b"]] == [False, True]
    assert [one.typing_only for one in known["d"]] == [True, False]
    assert known["e"][0].typing_only


def test_only_a_plain_assignment_is_an_alias():
    known = names_of("a = b.c\nd = e = f\n(g, h) = i\nj: type = k\n")
    assert [known[name][0].value is not None for name in "adgj"] == [True, False, False, True]


def test_what_runs_as_a_script_binds_nothing():
    assert set(names_of('a = 1\nif __name__ == "__main__":\n    b = 1\n')) == {"a"}


def test_parts_of_imports():
    node = cst.parse_statement("from a import b as c, d").body[0]
    assert aliases_of(node, "c") == [node.names[0]]
    assert aliases_of(node, "b") == []
    assert [one.name for one in bindings_of(cst.parse_statement("from a import b as c, d"))] == ["c", "d"]
