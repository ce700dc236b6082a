"""Signatures of operators beside torch's own."""

import functools
import importlib.resources
import re

import pytest
import torch

from funcnet import operators


def test_the_signatures_of_torch_come_back():
    texts = [str(schema) for schema in torch._C._jit_get_all_schemas()]
    assert len(texts) > 4000
    assert [text for text in texts if str(operators.parse(text)) != text] == []


@functools.cache
def declared():
    """The signatures as torch's developers write them, of which torch prints some in another form."""
    file = importlib.resources.files("torchgen") / "packaged/ATen/native/native_functions.yaml"
    return re.findall("^- func: (.*)$", file.read_text(), re.MULTILINE)


def test_declarations_have_the_form_that_torch_prints():
    assert len(declared()) > 2000
    different = [text for text in declared() if str(operators.parse(text)) != str(torch._C.parse_schema(text))]
    assert different == []


@pytest.mark.parametrize(
    "text",
    [
        "f(int[2] x=1, int[] y=[1,2], *, float z=1e-5, MemoryFormat? m=contiguous_format, int r=Mean) -> Tensor(a!)[]",
        "f(str s='ab\"c\\n', complex c=1j, float e=3, float g=-0.25) -> Any",
        "space::f.over(Tensor(a -> *) x, Dict(str, Tensor) y, ...) -> ...",
        "f(float[2] x=0.5, bool[3] m=True, Layout l=strided, ScalarType t=long) -> (Tensor[] a, Tensor?[] b)",
        "f(Tensor(a) x, Scalar y=1, Scalar z=1.5) -> (Tensor(a), (int, str)[])",
        "f() -> ()",
    ],
)
def test_the_form_is_torchs(text):
    found = operators.parse(text)
    assert str(found) == str(torch._C.parse_schema(text)) and operators.parse(str(found)) == found


def test_the_parts_of_a_signature():
    found = operators.parse("a::f.b(Tensor(a!)? x, int[2] y=3, *, str z='q') -> (Tensor(a!) out, Tensor[] rest)")
    assert (found.namespace, found.name, found.overload, found.full_name) == ("a", "f", "b", "a::f.b")
    assert [one.name for one in found.arguments] == ["x", "y", "z"]
    assert [one.default for one in found.arguments] == [(), ([3, 3],), ("q",)]
    assert [one.is_keyword for one in found.arguments] == [False, False, True]
    assert [one.type.is_tensor for one in (*found.arguments, *found.returns)] == [True, False, False, True, True]
    assert found.arguments[0].type.inner[0].alias == operators.Alias(("a",), None, is_write=True)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "the name of the operator, got the end"),
        ("1f() -> int", 1, "the name of the operator, got '1'"),
        ("f", 2, r"'\(', got the end"),
        ("f(", 3, "a type, got the end"),
        ("f(Tensor", 9, "the name of the argument, got the end"),
        ("f(Tensor x", 11, r"',' or '\)', got the end"),
        ("f(Tensor x,)", 12, r"a type, got '\)'"),
        ("f(Tensor x) Tensor", 13, "'->', got 'Tensor'"),
        ("f(Tensor x) -> ", 16, "a type, got the end"),
        ("f(Tensor x) -> Tensor y z", 25, "the end, got 'z'"),
        ("f(int x=a) -> int", 9, "a default value, got 'a'"),
        ("f(int x=1.5) -> int", 9, "a default value of the type int, got '1.5'"),
        ("f(int[] x=1) -> int", 11, r"'\[', got '1'"),
        ("f(Tensor[a] x) -> int", 10, "']', got 'a'"),
        ("f(Tensor(a x) -> int", 12, r"'\)', got 'x'"),
        ("f(Tensor x, ..., int y) -> int", 18, "no argument after '...', got 'int'"),
        ("f(Ten$or x) -> int", 6, "a name, a number or a sign, got '\\$'"),
    ],
)
def test_the_error_shows_the_place(text, column, problem):
    with pytest.raises(ValueError, match=f"wrong at column {column}; expected {problem}") as error:
        operators.parse(text)
    *_, shown, mark = str(error.value).splitlines()
    assert shown == f"    {text}" and mark.index("^") == 4 + column - 1
