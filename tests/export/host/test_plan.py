"""The order of instantiation, and what is called through trampolines."""

import itertools

import pytest

from funcnet.export.host.binary import read
from funcnet.export.host.plan import components, make_plan
from tests.export.host.cases import wasm

FUNCTION, GLOBAL = "func", "global i32"


def _plan(needs: dict[str, dict[str, str]]):
    """The plan of modules that each export a function and a global, and import {module: kind}."""
    modules = {
        name: read(
            wasm(
                " ".join(f'(import "{other}" "{kind[0]}" ({kind}))' for other, kind in found.items())
                + ' (func (export "f")) (global (export "g") i32 (i32.const 1))'
            )
        )
        for name, found in needs.items()
    }
    return make_plan(modules, {}, None)


def test_what_is_imported_comes_first_and_else_the_order_stays():
    plan = _plan({"a": {"c": FUNCTION}, "b": {}, "c": {"d": GLOBAL}, "d": {}})
    assert plan.groups == (("d",), ("c",), ("a",), ("b",))
    assert not any(plan.circular) and plan.late == ()


def test_a_circle_of_functions_needs_trampolines_only():
    plan = _plan({"a": {"b": FUNCTION}, "b": {"a": FUNCTION}})
    assert plan.groups == (("a",), ("b",)) and not any(plan.circular)
    assert plan.late == (("b", "f"),)


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_circle_is_opened_at_a_function(first):
    """`b` needs a global of `a`, and `a` only a function of `b`, so `a` comes first, whatever the mapping's order."""
    needs = {"a": {"b": FUNCTION}, "b": {"a": GLOBAL}}
    plan = _plan({name: needs[name] for name in (first, *({"a", "b"} - {first}))})
    assert plan.groups == (("a",), ("b",)) and not any(plan.circular)
    assert plan.late == (("b", "f"),)


def test_a_circle_of_globals_is_split():
    plan = _plan({"x": {"b": GLOBAL}, "a": {"b": GLOBAL}, "b": {"a": GLOBAL}, "self": {"self": GLOBAL}})
    assert plan.groups == (("a", "b"), ("x",), ("self",))
    assert plan.circular == (True, False, True)


def test_a_chain_of_re_exports_is_followed():
    modules = {
        "user": '(import "middle" "again" (func))',
        "middle": '(import "first" "f" (func $f)) (export "again" (func $f))',
        "first": '(func (export "f"))',
    }
    plan = make_plan({name: read(wasm(text)) for name, text in modules.items()}, {}, None)
    assert plan.sources["user", 0] == ("first", "f")


def test_every_graph_of_three_is_ordered():
    """Of all 512 graphs: each group comes after what it needs, and groups are what needs each other."""
    names = ["a", "b", "c"]
    edges = list(itertools.product(names, names))
    for chosen in itertools.product([False, True], repeat=len(edges)):
        needs = {name: [b for (a, b), on in zip(edges, chosen, strict=True) if on and a == name] for name in names}
        reach = {name: _reach(name, needs) for name in names}
        groups = components(names, needs)
        assert sorted(itertools.chain(*groups)) == names
        place = {name: i for i, group in enumerate(groups) for name in group}
        for a, b in itertools.permutations(names, 2):
            assert (place[a] == place[b]) == (b in reach[a] and a in reach[b])
            assert place[b] <= place[a] or b not in reach[a]


def _reach(name: str, needs: dict[str, list[str]]) -> set[str]:
    found, todo = set(), [name]
    while todo:
        todo += [other for other in needs[todo.pop()] if other not in found and not found.add(other)]
    return found
