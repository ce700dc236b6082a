"""Names and nested dicts. The matcher is held against a slow one of another kind, which reads the definition aloud."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet import tree

# ------------------------------------------------------------------------------------------------- the matcher


def slow_segment(pattern: str, segment: str) -> bool:
    """`*` stands for any run of characters of one segment."""
    if not pattern:
        return not segment
    if pattern[0] == "*":
        return any(slow_segment(pattern[1:], segment[i:]) for i in range(len(segment) + 1))
    return bool(segment) and pattern[0] == segment[0] and slow_segment(pattern[1:], segment[1:])


def slow_match(pattern: list[str], name: list[str], covers: bool) -> bool:
    """`**` stands for any run of segments; a pattern that covers may leave segments over."""
    if not pattern:
        return covers or not name
    if pattern[0] == "**":
        return any(slow_match(pattern[1:], name[i:], covers) for i in range(len(name) + 1))
    return bool(name) and slow_segment(pattern[0], name[0]) and slow_match(pattern[1:], name[1:], covers)


segments = st.text("ab1", min_size=1, max_size=3)
dotted = st.lists(segments, min_size=1, max_size=4).map(".".join)
pattern_segments = st.one_of(st.just("**"), st.just("*"), st.text("ab1*", min_size=1, max_size=3))
patterns = st.lists(pattern_segments, max_size=4).map(".".join)


@given(patterns, st.lists(dotted, min_size=1, max_size=8, unique=True), st.booleans())
def test_select_is_the_definition(pattern, names, covers):
    split = [s for s in pattern.split(".") if s]
    expected = [name for name in names if slow_match(split, name.split("."), covers)]
    if expected:
        assert tree.select(pattern, names, covers=covers) == expected
    else:
        with pytest.raises(ValueError, match="matches nothing"):
            tree.select(pattern, names, covers=covers)


NAMES = ["", "encoder", "encoder.0", "encoder.0.weight", "encoder.10.weight", "head.weight", "head.bias"]


@pytest.mark.parametrize(
    ("pattern", "covers", "expected"),
    [
        ("", False, [""]),
        ("", True, NAMES),
        ("**", False, NAMES),
        ("*", False, ["encoder"]),
        ("encoder", False, ["encoder"]),
        ("encoder", True, NAMES[1:5]),
        ("encoder.1*", True, ["encoder.10.weight"]),
        ("**.weight", True, ["encoder.0.weight", "encoder.10.weight", "head.weight"]),
        ("*.weight", True, ["head.weight"]),
        ("encoder.**.weight", False, ["encoder.0.weight", "encoder.10.weight"]),
        (["head.bias", "encoder.0"], False, ["encoder.0", "head.bias"]),
        ([], True, []),
    ],
)
def test_select(pattern, covers, expected):
    assert tree.select(pattern, NAMES, covers=covers) == expected


def test_select_reads_other_characters_as_themselves():
    assert tree.select("a+b", ["a+b", "aab"]) == ["a+b"]
    assert tree.select("LayerNorm_1", ["LayerNorm_1", "LayerNormx1"]) == ["LayerNorm_1"]


def test_nothing_matches_shows_the_nearest_names():
    with pytest.raises(
        ValueError, match=r"freeze: pattern 'encodr\.0' matches nothing\. Nearest names: .*'encoder\.0'"
    ):
        tree.select("encodr.0", NAMES, where="freeze")
    with pytest.raises(ValueError, match="none, because there are no names"):
        tree.select("a", [])
    with pytest.raises(
        TypeError, match=r"a pattern is not a string; expected a string such as 'encoder\.\*\.weight', got int"
    ):
        tree.select([3], NAMES)


STACKED = ["layer.*", "layer.*.fc.weight", "layer.*.fc.bias", "head.weight"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("layer", STACKED[:3]),
        ("layer.*", STACKED[:3]),
        ("**.weight", [STACKED[1], STACKED[3]]),
        ("layer.**.fc", STACKED[1:3]),
    ],
)
def test_a_stack_is_taken_whole(pattern, expected):
    assert tree.select(pattern, STACKED) == expected


@pytest.mark.parametrize("pattern", ["layer.0", "layer.3.fc", "layer.1*.fc.weight", "**.2.fc", "layer.0.**"])
def test_single_layers_of_a_stack_are_refused(pattern):
    with pytest.raises(ValueError, match=r"selects single layers of the stack 'layer\.\*.*' .* net\.unstack\(params\)"):
        tree.select(pattern, STACKED)


def test_single_layers_of_stacks_in_stacks_are_refused():
    for pattern in ("a.0.b.1.weight", "a.*.b.1.weight", "a.0.b.*"):
        with pytest.raises(ValueError, match="selects single layers"):
            tree.select(pattern, ["a.*.b.*.weight"])


def test_a_name_that_is_simply_wrong_is_not_taken_for_a_layer():
    with pytest.raises(ValueError, match="matches nothing"):
        tree.select("layer.weight", STACKED)


def test_a_pattern_of_a_shell_is_told_what_is_wild():
    names = ["encoder.layer.0", "encoder.layer.1"]
    for pattern in ("encoder.layer.[0-2]", "encoder.layer.{0,1}", "encoder.layer.?"):
        said = r"matches nothing\. .*\. The only wildcards are '\*' and '\*\*'\. For several names, use a tuple"
        with pytest.raises(ValueError, match=said):
            tree.select(pattern, names)
    with pytest.raises(ValueError, match=r"Nearest names: 'encoder\.layer\.1', [^:]*\.$"):
        tree.select("encoder.layer.2", names)


def test_assign_the_last_match_wins():
    values = {"**": 1, "encoder": 2, "encoder.0": 3, "head.bias": 4}
    assert list(tree.assign(values, NAMES, 0).values()) == [1, 2, 3, 3, 2, 1, 4]
    assert tree.assign({"head": 1}, NAMES, 0, covers=True)["encoder"] == 0
    with pytest.raises(ValueError, match=r"decay: pattern 'x\.y' matches nothing"):
        tree.assign({"x.y": 1}, NAMES, 0, where="decay")


# ------------------------------------------------------------------------------------------------- whole trees

leaves = st.integers()
trees = st.recursive(
    st.dictionaries(segments, leaves, max_size=3), lambda t: st.dictionaries(segments, leaves | t, max_size=3)
)
nested = trees


@given(nested, st.data())
def test_partition_and_merge_are_inverse(values, data):
    names = list(tree.flatten(values))
    chosen = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    first, second = tree.partition(values, chosen)
    assert tree.merge(first, second) == values
    assert sorted(tree.flatten(first)) == sorted(chosen)
    assert set(tree.flatten(first)).isdisjoint(tree.flatten(second))
    mask = tree.mask(values, chosen)
    assert [name for name, wanted in tree.flatten(mask).items() if wanted] == list(tree.flatten(first))


@given(nested)
def test_flatten_and_unflatten_are_inverse_but_for_empty_dicts(values):
    flat = tree.flatten(values)
    assert tree.flatten(tree.unflatten(flat)) == {name: flat[name] for name in tree.flatten(tree.unflatten(flat))}
    assert set(tree.flatten(tree.unflatten(flat))) == set(flat)


@pytest.mark.parametrize("flat", [{"a": 1, "a.b": 2}, {"a.b": 2, "a": 1}, {"a.b": 1, "a.b.c.d": 2}])
def test_unflatten_refuses_a_leaf_that_is_a_subtree(flat):
    with pytest.raises(ValueError, match="would be both a leaf and a subtree"):
        tree.unflatten(flat)


def test_merge_refuses_a_leaf_that_both_hold():
    with pytest.raises(ValueError, match=r"both trees have 'a\.b'"):
        tree.merge({"a": {"b": 1}}, {"a": {"b": 2}})
    with pytest.raises(ValueError, match="both trees have 'a'"):
        tree.merge({"a": {"b": 1}}, {"a": 2})


def test_partition_keeps_the_dicts_and_works_under_jit():
    params = {"body": {"weight": jnp.ones(2)}, "act": {}, "head": {"weight": jnp.ones(2)}}
    first, second = jax.jit(lambda p: tree.partition(p, "head"))(params)
    assert list(first) == list(second) == sorted(params)
    assert first["body"] == {} and second["head"] == {}


def test_cast_takes_floating_leaves_alone():
    out = tree.cast({"w": jnp.ones(2), "n": jnp.array(3), "b": jnp.array(True), "k": jax.random.key(0)}, jnp.bfloat16)
    assert {name: str(a.dtype) for name, a in out.items()} == {
        "w": "bfloat16",
        "n": "int32",
        "b": "bool",
        "k": "key<fry>",
    }
