"""The register, as text and as JSON."""

import json

from funcnet.porting.errors.unported_lines import (
    BLOCKS,
    EAGER_ONLY,
    START_DIFFERS,
    RegisterEntry,
    as_json,
    as_text,
    summary,
)

ENTRIES = [
    RegisterEntry("b.py", 2, EAGER_ONLY, "if x:\n    pass", "x is a tensor."),
    RegisterEntry("a.py", 10, BLOCKS, "x.foo()", "foo is unknown.", "Write bar."),
    RegisterEntry("a.py", 9, BLOCKS, "  y.foo()  ", "foo is unknown.", "Write bar."),
    RegisterEntry("a.py", 9, BLOCKS, "  y.foo()  ", "foo is unknown.", "Write bar."),
]


def test_message():
    assert (
        ENTRIES[1].message == "a.py:10: foo is unknown. Write bar." and ENTRIES[0].message == "b.py:2: x is a tensor."
    )


def test_text():
    assert as_text(ENTRIES) == (
        "blocks (2)\n  a.py:9: y.foo()\n    foo is unknown. Write bar.\n"
        "  a.py:10: x.foo()\n    foo is unknown. Write bar.\n"
        "eager only (1)\n  b.py:2: if x:\n    x is a tensor."
    )
    assert as_text([]) == ""


def test_json():
    found = json.loads(as_json(ENTRIES))
    assert [one["line"] for one in found] == [9, 10, 2] and RegisterEntry(**found[1]) == ENTRIES[1]
    assert as_json([]) == "[]\n"


def test_summary():
    assert summary(ENTRIES) == {BLOCKS: 2, START_DIFFERS: 0, EAGER_ONLY: 1}
